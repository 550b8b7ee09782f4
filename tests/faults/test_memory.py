"""Memory that runs out: a sentence with what to lower, which helps; a grid goes on."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from finetune_toys import make_finetuning, write_checkpoint, write_task
from processes import _train, context
from run_numbers import numbers, only_run, sentence_of
from small_runs import MakeConfig

from bertlab.ablation.failures import reason_of
from bertlab.config import PretrainConfig
from bertlab.errors import UserError
from bertlab.models.bert import Bert
from bertlab.training.finetune import finetune
from bertlab.training.memory import AtOnce, memory_told
from bertlab.training.metrics import read_rows
from bertlab.training.pretrain import pretrain

MEGABYTES = 100  # more than importing and a small step take, less than the large batch


def train_in_little_memory(config: PretrainConfig, log: Path, megabytes: int) -> None:
    """A training in this process, which from its first step on gets no more memory than so much more than it has."""
    import resource

    import psutil

    from bertlab.training.bookkeeping import Bookkeeping

    begin = Bookkeeping.on_train_start

    def limited(self: Bookkeeping, *arguments: Any) -> None:
        begin(self, *arguments)
        limit = psutil.Process().memory_info().vms + megabytes * 2**20
        resource.setrlimit(resource.RLIMIT_AS, (limit, limit))

    Bookkeeping.on_train_start = limited
    _train(config, log, {})


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux keeps a process to so much address space")
def test_what_is_said_helps(make_config: MakeConfig, tmp_path: Path) -> None:
    """Halving what is worked on at once, as often as the run says so, lets it come to its end, with the same result but for rounding."""
    changes = {"budget.steps": 2, "batch.sequences": 1024, "batch.length": 48, "model.hidden": 64, "trainer.log_every": 1}
    changes |= {"model.dropout": 0.0, "model.attention_dropout": 0.0}  # else its noise follows the cut
    micros: list[int | None] = [None]
    while True:
        config, log = make_config(**changes, **{"batch.micro": micros[-1]}), tmp_path / f"log{len(micros)}"
        process = context.Process(target=train_in_little_memory, args=(config, log, MEGABYTES))
        process.start()
        process.join()
        said = log.read_text()
        if process.exitcode == 0:
            break
        assert "Traceback" not in said
        found = re.search(r"The memory ran out \(.+\): batch\.micro=(\d+) halves the sequences that a device works on at once", said)
        assert found, said
        micros.append(int(found[1]))
        assert micros == [None, *(1024 >> halvings for halvings in range(1, len(micros)))]
    assert len(micros) > 1, "there was memory enough"
    whole = make_config(**changes, **{"paths.runs": str(tmp_path / "whole")})
    expected = read_rows(pretrain(whole) / "metrics.jsonl")
    for ours, theirs in zip(read_rows(only_run(config.paths.runs) / "metrics.jsonl"), expected, strict=True):
        assert ours["loss"] == pytest.approx(theirs["loss"], rel=1e-4)


CUDA = "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 8 GiB\nand a word on fragmentation."


def run_out(*_: Any, **__: Any) -> None:
    raise torch.OutOfMemoryError(CUDA)


def test_a_gpu_s_memory(make_config: MakeConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = numbers(pretrain(make_config(**{"paths.runs": str(tmp_path / "whole")})))
    with monkeypatch.context() as patch:
        patch.setattr(Bert, "forward", run_out)
        with pytest.raises(UserError) as caught:
            pretrain(make_config())
    said = sentence_of(caught.value)
    assert said.startswith(f"The memory ran out ({CUDA.splitlines()[0]}): batch.micro=4 halves the sequences ")
    grid = reason_of(1, f"step 1 (3%) · loss 5.000\nbertlab: {said}\n", "pretrain")
    assert grid == f"{said}\nFewer runs at once (--jobs) leave more memory to each."
    assert numbers(pretrain(make_config())) == expected


def test_of_a_finetuning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    task, checkpoint = write_task(tmp_path / "task", "classification"), write_checkpoint(tmp_path / "model")
    monkeypatch.setattr("bertlab.models.task_model.TaskModel.loss", run_out)
    with pytest.raises(UserError, match=r"tuning\.micro=4 halves the examples"):
        finetune(make_finetuning(tmp_path, task, checkpoint))
    with pytest.raises(UserError, match=r"The memory ran out .*: choose a smaller checkpoint or a shorter task\.max_length"):
        finetune(make_finetuning(tmp_path, task, checkpoint, **{"tuning.micro": 1}))


@pytest.mark.parametrize(
    "error",
    [
        MemoryError(),
        RuntimeError("[enforce fail at alloc_cpu.cpp:127] . DefaultCPUAllocator: can't allocate memory: you tried to allocate 9 bytes."),
        RuntimeError("std::bad_alloc"),
        RuntimeError("could not create a primitive"),
        OSError(12, "Cannot allocate memory"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_however_it_is_said(error: Exception) -> None:
    with pytest.raises(UserError, match="The memory ran out") as caught, memory_told(AtOnce("batch.micro", 8, "sequences", False, "less")):
        raise ValueError("something that came of it") from error
    assert sentence_of(caught.value)


def test_other_errors_and_batch_normalisation() -> None:
    with pytest.raises(ValueError, match="another"), memory_told(AtOnce("batch.micro", 8, "sequences", False, "less")):
        raise ValueError("another")
    with pytest.raises(UserError, match=r"\): choose less\.$"), memory_told(AtOnce("batch.micro", 8, "sequences", True, "less")):
        raise MemoryError
