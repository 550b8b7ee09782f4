"""What the runs of a grid ask a cluster for: the command's ``launcher`` words, and those on the machine of the runs themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache

from bertlab.ablation.graph import Node
from bertlab.ablation.request import Request
from bertlab.ablation.words import key_of_word, section_of
from bertlab.cluster.resources import Resources
from bertlab.composition import compose_all
from bertlab.config import LauncherConfig, PretrainConfig
from bertlab.launcher_validation import check_launcher
from bertlab.schemas import PRETRAIN
from bertlab.validation import validate_training


def launcher_of(request: Request) -> LauncherConfig:
    """The launcher of pre-trainings, whose kind and ``follow`` hold for all. Raises ``UserError``."""
    return _config(request, "pretrain", ()).launcher


def resources_of(request: Request, has_gpus: Callable[[str | None], bool]) -> Callable[[Node], Resources]:
    """What the job of a node asks for.

    Args:
        request: the command.
        has_gpus: whether the nodes of a partition have GPUs.
    """
    known = cache(has_gpus)

    @cache
    def resources(kind: str, words: tuple[str, ...]) -> Resources:
        config = _config(request, kind, words)
        return Resources.of(config.launcher, config.trainer, known)

    return lambda node: resources(node.kind, tuple(word for word in node.overrides if section_of(word) in ("trainer", "scale")))


def _config(request: Request, kind: str, words: Sequence[str]) -> PretrainConfig:
    """A pre-training with the launcher and the trainer of a run of a ``kind``: these sections are the same in both."""
    machine = [word for word in request.settings.machine if section_of(word) == "trainer" and key_of_word(word) != "trainer"]
    command = [f"launcher={request.launcher}", *words, *request.launching.get(kind, ()), *machine]
    (config,) = compose_all(PRETRAIN, [command], request.settings.config_dir)
    validate_training(config)
    check_launcher(config.launcher)
    return config
