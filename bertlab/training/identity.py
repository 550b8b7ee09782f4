"""Who a run is: everything that can change one of its numbers, and nothing else, hashed.

Two configurations that mean the same training have one identity however they were written: the size by name or by its layers, a
budget in steps or in tokens, 12e6 or 12000000, a masking rate that the objective does not use. Left out is what only says where,
how fast and how visibly: logger, paths, launcher, how often a run logs, evaluates and saves. Left out too is how a batch is cut, by devices
and micro-batches: with dropout the noise follows the cut, but what it is drawn from is the same, and a run can go on with fewer devices or
less memory. result.json records it. Under batch normalisation a cut into several micro-batches counts, with the number of devices (see
``cut_of_statistics``). The corpus counts by its content, not by its path.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from bertlab.config import PretrainConfig
from bertlab.errors import UserError
from bertlab.files import write_json
from bertlab.run_files.folder import RunFolder

if TYPE_CHECKING:
    from bertlab.data.schedule import TrainingPlan
    from bertlab.data.store import TokenStore
    from bertlab.models.architecture import Architecture

# To be raised when a change of the code changes what a configuration computes, other than by rounding and by another draw of its noise.
FORMAT = 1

Identity = dict[str, Any]


def pretraining_identity(
    config: PretrainConfig,
    architecture: Architecture,
    plan: TrainingPlan,
    *,
    pair: bool,
    masked: bool,
    store: TokenStore,
    init: str | None = None,
) -> Identity:
    """All that the numbers of a pre-training depend on, as plain values. ``init`` is the fingerprint of the weights it starts from."""
    masking = asdict(config.masking)
    if config.masking.noise == 0:
        del masking["noise_std"]
    return {
        **({} if init is None else {"init": init}),
        "format": FORMAT,
        "kind": "pretrain",
        "architecture": described_architecture(architecture),
        "objective": {"kind": config.objective.kind, "pair": pair},
        "masking": masking if masked else None,
        "corpus": {
            "content": store.fingerprint,
            "held_out": config.corpus.held_out,
            "sources": [[source.first_document, source.end_document, source.weight] for source in store.sources],
        },
        "vocabulary": store.vocabulary.fingerprint,
        "budget": _budget(config, plan),
        "batch": {
            "short_probability": config.batch.short_probability,
            "micro": _cut_of_statistics(config, plan) if config.norm.kind == "batch" else None,
        },
        "optimizer": asdict(config.optimizer),
        "validation": {"sequences": config.validation.sequences, "lengths": config.validation.lengths},
        "precision": config.trainer.precision,
        "compile": config.trainer.compile,
        "seed": config.seed,
    }


def _cut_of_statistics(config: PretrainConfig, plan: TrainingPlan) -> int | list[int] | None:
    return cut_of_statistics(config.batch.micro, config.trainer.world, max(stage.sequences for stage in plan.stages))


def cut_of_statistics(micro: int | None, world: int, largest: int) -> int | list[int] | None:
    """What decides which sequences batch normalisation takes its statistics of together, of batches of ``largest`` sequences or fewer.

    Those are what all ``world`` devices work on at once, at most ``micro`` on each. Where that is every batch as a whole, nothing is to be
    decided, whatever the number of devices: None. Otherwise the number of devices says how many are taken together, and which.
    """
    if micro is None or micro * world >= largest:
        return None
    return micro if world == 1 else [micro, world]


def described_architecture(architecture: Architecture) -> dict[str, Any]:
    """The architecture without the values that its backbone and norm have no use for."""
    unused = [*architecture.unused, "noise_std"]  # which stands with the masking
    return {key: value for key, value in architecture.to_dict().items() if key not in unused}


def _budget(config: PretrainConfig, plan: TrainingPlan) -> dict[str, Any]:
    """The stages as they will be run: by steps, or by shares of the minutes."""
    stages = [[stage.share if stage.steps is None else stage.steps, stage.length, stage.sequences] for stage in plan.stages]
    return {"steps": plan.total_steps, "minutes": config.budget.minutes, "stages": stages}


def canonical(value: Any) -> Any:
    """The same value with whole floats as integers and the keys of dictionaries in order, all through."""
    if isinstance(value, dict):
        return {key: canonical(value[key]) for key in sorted(value)}
    if isinstance(value, list | tuple):
        return [canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        return int(value)
    return value


def hash8(identity: Identity) -> str:
    """The first eight hexadecimal digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(json.dumps(canonical(identity), separators=(",", ":")).encode()).hexdigest()[:8]


def readable_name(config: PretrainConfig) -> str:
    """What a person sees of the identity: ``pretrain-tiny-mlm_nsp``, with backbone and norm where they are not the usual ones."""
    parts = ["pretrain", config.model.name, config.objective.kind]
    if config.backbone.kind != "transformer":
        parts.append(config.backbone.kind)
    if config.norm.kind != "layer":
        parts.append(config.norm.kind)
    return "-".join(parts)


def run_folder_of(config: PretrainConfig, identity: Identity) -> RunFolder:
    """Where this identity's run is, or will be: a folder with its hash is found under whatever readable name it was begun."""
    return begun_or_new(config.paths.runs_folder, readable_name(config), identity)


def begun_or_new(runs: Path, name: str, identity: Identity) -> RunFolder:
    """The folder in ``runs`` of a run of this kind and identity; where there is none, one of this readable ``name``.

    Raises:
        UserError: the folder that has this hash is another run's.
    """
    digest = hash8(identity)
    begun = [RunFolder(path) for path in sorted(runs.glob(f"{identity['kind']}-*-{digest}"))]
    if not begun:
        return RunFolder(runs / f"{name}-{digest}")
    own = [run for run in begun if read_identity(run) in (None, canonical(identity))]
    if not own:
        raise UserError(
            f"{begun[0].path} is another run whose identity happens to have the same eight digits (in {begun[0].identity.name} there):"
            " put this one into another folder of runs with paths.runs=DIR, or use another seed."
        )
    return own[0]


def write_identity(run: RunFolder, identity: Identity) -> None:
    """Keep the whole identity in the run's folder, from its beginning."""
    write_json(run.identity, canonical(identity))


def read_identity(run: RunFolder) -> Identity | None:
    """What ``write_identity`` has kept, or the result of a run that was made before there was such a file; None where neither tells it."""
    for path, key in ((run.identity, None), (run.result, "identity")):
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
            found = found if key is None else found[key]
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if isinstance(found, dict):
            return cast(Identity, canonical(found))
    return None
