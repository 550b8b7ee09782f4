"""What a scale means for grids: the words that every pretraining and fine-tuning gets, the size of probes, how many seeds.

The files are ``conf/_grid/<scale>.yaml``, or ``DIR/_grid/<scale>.yaml`` of a --config-dir; each goes with the ``scale`` of pretraining.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bertlab.ablation.words import key_of_word
from bertlab.ablation.yaml_values import Values, load_yaml
from bertlab.errors import unknown
from bertlab.resources import conf_folder
from bertlab.schemas import FINETUNE, PRETRAIN
from bertlab.task_config import KINDS

_FOLDER = "_grid"
_KEYS = ("pretrain", "finetune", "probe", "kinds", "labelled", "seeds", "most_seeds", "minutes", "keep")
_PROBE = ("train", "dev", "test")


@dataclass(frozen=True)
class GridScale:
    """One size of everything."""

    name: str
    pretrain: tuple[str, ...]
    finetune: tuple[str, ...]
    probe: Mapping[str, int]  # split → examples
    seeds: int  # where neither the command nor the table says how many
    minutes: float  # of a pretraining under --budget minutes
    kinds: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # kind of a task → words for its fine-tunings
    labelled: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # the same of tasks that are no probes
    most_seeds: int | None = None  # of tables that ask for more
    keep: tuple[float, ...] = ()  # shares of every pretraining after which its weights are kept


def load_scale(name: str, config_dir: Path | None = None) -> GridScale:
    """The scale of this name.

    Raises:
        UserError: there is none, or something in its file cannot be meant.
    """
    folders = [*([config_dir] if config_dir else []), conf_folder()]
    found: dict[str, Path] = {}
    for folder in folders:
        for path in sorted((folder / _FOLDER).glob("*.yaml")):
            found.setdefault(path.stem, path)
    if name not in found:
        raise unknown("scale", name, found)
    return _read(found[name], config_dir)


def _read(path: Path, config_dir: Path | None) -> GridScale:
    values = Values(path, config_dir)
    top = values.mapping(load_yaml(path), "", _KEYS)
    probe = values.mapping(top.get("probe") or {}, "probe", _PROBE)
    for key in ("seeds", "minutes", "probe"):
        if key not in top:
            raise values.error(key, "is missing")
    pretrain = values.words(top, "pretrain", "pretrain", PRETRAIN, decided=())
    _check_scale(values, pretrain)
    return GridScale(
        name=path.stem,
        pretrain=pretrain,
        finetune=values.words(top, "finetune", "finetune", FINETUNE, decided=()),
        probe={split: _count(values, probe, split, f"probe.{split}") for split in _PROBE},
        seeds=_count(values, top, "seeds", "seeds"),
        minutes=values.positive(top, "minutes", "minutes", 1.0),
        kinds=_by_kind(values, top, "kinds"),
        labelled=_by_kind(values, top, "labelled"),
        most_seeds=_count(values, top, "most_seeds", "most_seeds") if "most_seeds" in top else None,
        keep=_shares(values, top),
    )


def _check_scale(values: Values, pretrain: Sequence[str]) -> None:
    """A file that was copied from another scale's names that one, which is no scale of its own."""
    name = values.path.stem
    named = [word for word in pretrain if key_of_word(word) == "scale"]
    if named and named[-1] != f"scale={name}" and name in values.groups.get("scale", {}):
        raise values.error("pretrain", f"{named[-1]} leaves the file of scale={name} unread: write scale={name}")


def _by_kind(values: Values, top: Mapping[str, Any], key: str) -> dict[str, tuple[str, ...]]:
    found = values.mapping(top.get(key) or {}, key, KINDS)
    return {kind: values.words(found, kind, f"{key}.{kind}", FINETUNE) for kind in found}


def _count(values: Values, found: Mapping[str, Any], key: str, where: str) -> int:
    value = found.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise values.error(where, f"takes a whole number from 1, not {value!r}")
    return value


def _shares(values: Values, top: Mapping[str, Any]) -> tuple[float, ...]:
    value = top.get("keep") or []
    if not isinstance(value, list) or not all(isinstance(each, int | float) and 0 < each <= 1 for each in value):
        raise values.error("keep", "takes a list of shares of the pre-training, each more than 0 and at most 1")
    return tuple(float(each) for each in value)
