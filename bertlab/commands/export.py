"""``bertlab export``: a trained model as a folder for others."""

from __future__ import annotations

from pathlib import Path

from bertlab.commands.words import parse_words
from bertlab.config import PathsConfig
from bertlab.errors import UserError
from bertlab.messages import say
from bertlab.run_files.locating import located


def run(words: list[str]) -> int:
    """Write the model that the words name to the folder that they name. Returns the exit code."""
    parsed = parse_words(words, ("checkpoint", "paths.runs"), {"--to": "folder", "--as": "parts"})
    if parsed.help:
        from bertlab.arguments import Arguments
        from bertlab.help import show_help

        return show_help("export", Arguments())
    checkpoints = [*parsed.texts, *([parsed.values["checkpoint"]] if "checkpoint" in parsed.values else [])]
    if len(checkpoints) != 1 or "folder" not in parsed.values:
        raise UserError("export needs one checkpoint and a folder to write to: bertlab export RUN --to DIR.")
    runs = PathsConfig(parsed.values.get("paths.runs", PathsConfig().runs)).runs_folder
    located(checkpoints[0], runs)  # before anything heavy is imported
    from bertlab.interop.exporting import export
    from bertlab.interop.pretrained import load_pretrained

    pretrained = load_pretrained(checkpoints[0], runs)
    folder, parts = Path(parsed.values["folder"]).expanduser(), parsed.values.get("parts")
    if parts is None and pretrained.run is not None and pretrained.run.task.is_file():
        from bertlab.interop.exporting_tasks import export_task

        said = export_task(pretrained.run, folder)
    else:
        said = export(pretrained, folder, parts)
    for sentence in said:
        say(sentence)
    print(folder)
    return 0
