"""What Lightning, logging and the rest of the command cost over a bare loop on the same batches, model and optimizer.

    python benchmarks/overhead.py [--steps 150] [--rounds 5] [--sequences 32] [--length 32]

The command and the loop run alternately in this process, and the medians of their times a step are compared. The default is the
laptop's step, of 1,024 positions: the smallest one, where a fixed cost weighs most. On a machine that does other things too,
--clock cpu counts the time that this process had (give it --threads 1, or waiting threads count twice).
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from typing import Any
from unittest import mock

from bertlab.allocator import tune_allocator
from bertlab.config import (
    BudgetConfig,
    CheckpointConfig,
    LoggerConfig,
    ModelConfig,
    PathsConfig,
    PretrainConfig,
    TrainerConfig,
    ValidationConfig,
)

SKIPPED = 20  # first steps of a round that are not timed
CLOCKS = {"wall": time.perf_counter, "cpu": time.process_time}


def configuration(arguments: argparse.Namespace, runs: str) -> PretrainConfig:
    config = PretrainConfig(
        model=ModelConfig(name="tiny", layers=2, hidden=128, heads=2),
        budget=BudgetConfig(steps=arguments.steps),
        validation=ValidationConfig(every=10**9, sequences=8),
        checkpointing=CheckpointConfig(every=10**9),
        trainer=TrainerConfig(accelerator="cpu", threads=arguments.threads),
        logger=LoggerConfig(kind=arguments.logger),
        paths=PathsConfig(runs=runs),
    )
    config.tokenizer.vocab_size = 8192
    config.batch.sequences, config.batch.length = arguments.sequences, arguments.length
    return config


def seconds_a_step(times: list[float]) -> float:
    steps = [later - earlier for earlier, later in zip(times[SKIPPED:], times[SKIPPED + 1 :], strict=False)]
    return statistics.median(steps)


def the_command(config: PretrainConfig, clock: Callable[[], float]) -> float:
    from bertlab.training.bookkeeping import Bookkeeping
    from bertlab.training.pretrain import pretrain

    times: list[float] = []
    original = Bookkeeping.on_train_batch_end

    def timed(self: Bookkeeping, *arguments: Any) -> None:
        times.append(clock())
        original(self, *arguments)

    with mock.patch.object(Bookkeeping, "on_train_batch_end", timed):
        pretrain(config)
    return seconds_a_step(times)


def bare_loop(config: PretrainConfig, clock: Callable[[], float]) -> float:
    import torch

    from bertlab.data.assembly import PretrainingData
    from bertlab.models.bert import Bert
    from bertlab.models.dropout import seed_dropout
    from bertlab.training.optimizers import clip, make_optimizer
    from bertlab.training.pretrain import prepare_ingredients

    ingredients = prepare_ingredients(config)
    objective = ingredients.objective
    data = PretrainingData(ingredients.store, config, ingredients.plan, predict=objective.predict, pair=objective.pair)
    torch.manual_seed(config.seed)
    model = Bert(ingredients.architecture)
    optimizer = make_optimizer(model, config.optimizer)
    parameters = list(model.parameters())
    times = []
    for step in range(len(data)):
        (batch,) = data.step_batch(step).micro_batches
        seed_dropout(config.seed, step, 0, 0)
        objective.loss(model, batch).loss.backward()
        clip(optimizer, parameters, config.optimizer.clip)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        times.append(clock())
    return seconds_a_step(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--length", type=int, default=32)
    parser.add_argument("--threads", type=int)
    parser.add_argument("--logger", choices=["wandb", "none"], default="wandb")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    arguments = parser.parse_args()
    clock = CLOCKS[arguments.clock]
    tune_allocator()
    from bertlab.training.machine import set_up_process

    ours, bare = [], []
    for round_number in range(arguments.rounds):
        with tempfile.TemporaryDirectory() as runs:
            config = configuration(arguments, runs)
            set_up_process(config.trainer, config.backbone.kind)
            bare.append(bare_loop(config, clock))
            ours.append(the_command(config, clock))
        print(f"round {round_number + 1}: loop {1e3 * bare[-1]:.2f} ms a step, command {1e3 * ours[-1]:.2f} ms", flush=True)
    loop, command = statistics.median(bare), statistics.median(ours)
    print(f"medians: loop {1e3 * loop:.2f} ms, command {1e3 * command:.2f} ms: {command / loop - 1:+.1%}")


if __name__ == "__main__":
    main()
