"""``bertlab params``: what a model costs, before it is trained."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from bertlab.arguments import parse_arguments
from bertlab.config import PretrainConfig
from bertlab.interop.initial import take_over
from bertlab.schemas import PRETRAIN
from bertlab.training.devices import sequences_at_once
from bertlab.validation import is_masked, validate_training

if TYPE_CHECKING:
    from rich.table import Table

PUBLISHED_VOCABULARY = 30522
_LEAST_WIDTH = 80  # columns of text that the tables need; a narrower terminal breaks their lines and drops nothing


def run(words: list[str]) -> int:
    """Print the costs of what the words describe. Returns the exit code."""
    arguments = parse_arguments(words, json=True)
    if arguments.help:
        from bertlab.help import show_help

        return show_help("params", arguments)
    from bertlab.composition import compose

    jobs = compose(PRETRAIN, arguments)
    for job in jobs:
        take_over(job.config, job.overrides)
    costs = [costs_of(job.config) for job in jobs]
    if arguments.json:
        print(json.dumps(costs[0] if len(costs) == 1 else costs, indent=2))
    elif costs:
        _print(costs)
    return 0


def costs_of(config: PretrainConfig) -> dict[str, Any]:
    """Parameters part by part, and training FLOPs and memory at every length of the schedule; plain values.

    Raises:
        UserError: the configuration cannot be meant.
    """
    validate_training(config)
    from bertlab.data.schedule import plan_training
    from bertlab.models.architecture import Architecture
    from bertlab.models.size import flops_per_token, memory_estimate, parameter_table

    architecture = Architecture.of(config, config.tokenizer.vocab_size)
    table = parameter_table(architecture)
    predicted = config.masking.rate if is_masked(config) else 1.0
    training = []
    for stage in plan_training(config).stages:
        sequences = sequences_at_once(config, stage.sequences)
        memory = memory_estimate(
            architecture,
            stage.length,
            sequences,
            precision=config.trainer.precision,
            attention_weights_kept=_keeps_attention_weights(config),
            recomputed=config.trainer.checkpoint_activations,
            parted_among=config.trainer.world if config.trainer.strategy == "fsdp" else None,
        )
        flops = flops_per_token(architecture, stage.length, predicted)
        bytes_needed = {**asdict(memory), "total": memory.total}
        training.append({"length": stage.length, "sequences": sequences, "flops_per_token": flops, "bytes": bytes_needed})
    return {
        "model": f"model={config.model.name} backbone={config.backbone.kind} norm={config.norm.kind} objective={config.objective.kind}",
        "vocabulary": architecture.vocab_size,
        "parameters": table.parts,
        "total": table.total,
        "encoder_with_pooler": table.encoder_with_pooler,
        "encoder_with_pooler_at_30522": parameter_table(replace(architecture, vocab_size=PUBLISHED_VOCABULARY)).encoder_with_pooler,
        "predicted_share": predicted,
        "attention_weights_kept": _keeps_attention_weights(config),
        "devices": config.trainer.world,
        "parted": config.trainer.strategy == "fsdp",
        "recomputed": config.trainer.checkpoint_activations,
        "training": training,
    }


def _keeps_attention_weights(config: PretrainConfig) -> bool:
    """As on a CPU, unless a GPU is asked for by name: whether there is one, only PyTorch could tell."""
    return config.trainer.accelerator != "gpu"


def _memory_in_words(cost: dict[str, Any]) -> Iterator[str]:
    """What the estimate counts, as lines."""
    yield "Memory is estimated. The optimizer holds Adam's two moments; activations are those of the sequences at once,"
    if cost["attention_weights_kept"]:
        yield "with attention weights, as on a CPU; trainer=gpu counts without them."
    else:
        yield "without attention weights, as on a GPU."
    if cost["recomputed"]:
        yield "Only the input of each layer is kept (trainer.checkpoint_activations=true)."
    if cost["parted"]:
        yield f"Weights, gradients and optimizer are divided among {cost['devices']} devices; gathered is what each holds whole at a time:"
        yield "embeddings and heads, and two layers."


def _print(costs: list[dict[str, Any]]) -> None:
    from rich.console import Console

    console = Console(highlight=False)
    console.width = max(console.width, _LEAST_WIDTH)
    for cost in costs:
        console.print(f"{cost['model']} tokenizer.vocab_size={cost['vocabulary']}", soft_wrap=True)
        console.print(_parameter_table(cost))
        console.print(f"Embeddings, backbone and pooler, as publications count: {cost['encoder_with_pooler']:,}", soft_wrap=True)
        if cost["vocabulary"] != PUBLISHED_VOCABULARY:
            console.print(f"With the published vocabulary of 30,522: {cost['encoder_with_pooler_at_30522']:,}", soft_wrap=True)
        console.print(f"\nTraining, {cost['predicted_share']:.0%} of the words predicted", soft_wrap=True)
        console.print(_training_table(cost))
        for line in _memory_in_words(cost):
            console.print(line, soft_wrap=True)
        console.print()


def _parameter_table(cost: dict[str, Any]) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table("part", box=SIMPLE_HEAD)
    table.add_column("parameters", justify="right")
    table.add_column("share", justify="right")
    for part, count in cost["parameters"].items():
        table.add_row(part, f"{count:,}", f"{count / cost['total']:.1%}")
    table.add_section()
    table.add_row("total", f"{cost['total']:,}", "100.0%")
    return table


def _training_table(cost: dict[str, Any]) -> Table:
    """A column for each length, for many columns do not fit into a narrow terminal."""
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    stages = cost["training"]
    table = Table("sequences of length", box=SIMPLE_HEAD)
    for stage in stages:
        table.add_column(str(stage["length"]), justify="right", no_wrap=True)
    table.add_row("sequences at once", *(str(stage["sequences"]) for stage in stages))
    table.add_row("FLOPs a token", *(_in_flops(stage["flops_per_token"]) for stage in stages))
    table.add_section()
    for name in ("weights", "gradients", "optimizer", *(["gathered"] if cost["parted"] else []), "activations"):
        table.add_row(name, *(_in_bytes(stage["bytes"][name]) for stage in stages))
    table.add_section()
    table.add_row("memory of a device", *(_in_bytes(stage["bytes"]["total"]) for stage in stages))
    return table


def _in_bytes(size: int) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def _in_flops(count: float) -> str:
    return f"{count / 1e9:.2f} G" if count >= 1e9 else f"{count / 1e6:.2f} M"
