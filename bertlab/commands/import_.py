"""``bertlab import``: a Hugging Face folder in our own layout."""

from __future__ import annotations

from pathlib import Path

from bertlab.commands.words import parse_words
from bertlab.config import PathsConfig
from bertlab.errors import UserError
from bertlab.messages import say
from bertlab.run_files.locating import located


def run(words: list[str]) -> int:
    """Read the folder that the words name and write it in our layout. Returns the exit code."""
    parsed = parse_words(words, ("paths.runs",), {"--to": "folder"})
    if parsed.help:
        from bertlab.arguments import Arguments
        from bertlab.help import show_help

        return show_help("import", Arguments())
    if len(parsed.texts) != 1:
        raise UserError("import needs one folder: bertlab import DIR.")
    runs = PathsConfig(parsed.values.get("paths.runs", PathsConfig().runs)).runs_folder
    located(parsed.texts[0], runs)  # before anything heavy is imported
    from bertlab.interop.exporting import save_own
    from bertlab.interop.pretrained import load_pretrained

    pretrained = load_pretrained(parsed.texts[0], runs)
    folder = Path(parsed.values["folder"]).expanduser() if "folder" in parsed.values else runs / pretrained.name
    save_own(pretrained, folder)
    for sentence in about(pretrained.fresh, pretrained.ignored):
        say(sentence)
    print(folder)
    return 0


def about(fresh: list[str], ignored: list[str]) -> list[str]:
    """What a reader of the folder should know of heads that it lacks or that were left behind."""
    said = []
    if fresh:
        said.append(f"It holds no {' and no '.join(fresh)}: fine-tuning needs none of these, further pre-training initialises them anew.")
    if ignored:
        shown = ", ".join(ignored[:3]) + (f" and {len(ignored) - 3} more" if len(ignored) > 3 else "")
        said.append(f"Weights of another task's head are not imported: {shown}.")
    return said
