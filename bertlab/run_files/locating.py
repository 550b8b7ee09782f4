"""Where a checkpoint lies that a command names: asked before anything heavy is imported, so that a name of nothing is refused at once."""

from __future__ import annotations

from pathlib import Path

from bertlab.errors import UserError
from bertlab.run_files.folder import find_run

_OWN = ("config.yaml", "architecture.json")
_HUGGING_FACE = ("config.json", "bert_config.json")  # the second as Google's releases have it


def located(checkpoint: str, runs: Path) -> Path:
    """The file or folder that ``checkpoint`` means.

    It is a run's id inside ``runs`` or the eight characters at its end, a run's folder, a file RUN/checkpoints/step-….safetensors, a
    folder that ``bertlab export`` or ``import`` has written, or a folder in the Hugging Face layout.

    Raises:
        UserError: there is nothing of the kind.
    """
    if not checkpoint:
        raise UserError("The checkpoint's name is empty: give a run's id or its folder, an exported or a Hugging Face folder.")
    path = Path(checkpoint).expanduser()
    if path.is_file() or (path.is_dir() and is_checkpoint(path)):
        return path
    if is_checkpoint(runs / checkpoint):
        return runs / checkpoint
    _refuse_path(checkpoint, path)
    return find_run(checkpoint, runs).path


def is_checkpoint(folder: Path) -> bool:
    """Whether a folder holds a model, as far as the names of its files tell."""
    return any((folder / name).is_file() for name in _OWN) or config_path(folder) is not None


def config_path(folder: Path) -> Path | None:
    """The configuration of a Hugging Face folder; None where it has none."""
    return next((folder / name for name in _HUGGING_FACE if (folder / name).is_file()), None)


def _refuse_path(checkpoint: str, path: Path) -> None:
    """Refuse what is clearly meant as a path, and is none of a model."""
    if path.is_dir() and (path.name != checkpoint or any(path.iterdir())):
        inside = sorted(child for child in path.iterdir() if child.is_dir() and is_checkpoint(child))
        hint = f"do you mean {inside[0]}?" if inside else "give a run's folder, or one with config.json and weights."
        raise UserError(f"{checkpoint} is a folder that holds no model (no config.yaml, architecture.json or config.json): {hint}")
    if "/" not in checkpoint or path.exists():
        return
    if checkpoint.count("/") == 1 and not path.parent.is_dir() and checkpoint[0] not in "/.~":
        raise UserError(
            f"There is no folder {checkpoint}: if it is a model of the Hugging Face Hub, download it first"
            f" (hf download {checkpoint} --local-dir DIR) and give checkpoint=DIR."
        )
    raise UserError(f"There is no folder or file {checkpoint} (seen from {Path.cwd()}): give the folder of a run or of a model.")
