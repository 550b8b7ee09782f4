"""What goes on, and what is said, on a file system that is read-only: ``write_nothing.py DISK CORPUS ELSEWHERE``.

Run by test_read_only.py. Prints what was said, as a JSON object.
"""

from __future__ import annotations

import io
import json
import shutil
import sys
from collections.abc import Callable
from contextlib import redirect_stdout
from pathlib import Path

import torch
from finetune_toys import make_finetuning, write_checkpoint, write_task
from run_numbers import killed_after, numbers, sentence_of
from small_disk import make_read_only
from small_runs import small_pretraining

from bertlab.config import PretrainConfig
from bertlab.training.evaluate import evaluate
from bertlab.training.finetune import finetune
from bertlab.training.pretrain import pretrain


def refusal(act: Callable[[], object]) -> str:
    try:
        act()
    except Exception as error:
        return sentence_of(error)
    raise AssertionError("it was not refused")


def main(disk: Path, corpus: Path, elsewhere: Path) -> None:
    torch.set_num_threads(1)

    def config(runs: Path, cache: Path, **changes: object) -> PretrainConfig:
        return small_pretraining(corpus, cache, runs, **{"budget.steps": 12, **changes})

    cache = disk / "cache"
    finished = pretrain(config(disk / "finished", cache))
    begun = killed_after(7, lambda: pretrain(config(disk / "begun", cache)), disk / "begun")
    (disk / "empty").mkdir()
    task, checkpoint = write_task(disk / "task", "classification"), write_checkpoint(disk / "model")
    as_written = {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()}
    make_read_only(disk)

    # Reading is enough for what is done, and for what a prepared cache is there for.
    assert pretrain(config(disk / "finished", cache)) == finished
    with redirect_stdout(io.StringIO()):
        evaluate(finished, config(disk / "finished", cache))
    assert numbers(pretrain(config(elsewhere / "runs", cache))) == numbers(finished)
    tuned = [
        make_finetuning(elsewhere / name, task, checkpoint, **{"paths.cache": str(place)})
        for name, place in (("a", cache), ("b", elsewhere))
    ]
    first, second = (numbers(finetune(each)) for each in tuned)
    assert first == second
    said = {
        "new run": refusal(lambda: pretrain(config(disk / "empty", cache))),
        "begun run": refusal(lambda: pretrain(config(disk / "begun", cache))),
        "new store": refusal(lambda: pretrain(config(elsewhere / "runs", cache, **{"tokenizer.vocab_size": 150}))),
    }
    assert {path: path.read_bytes() for path in disk.rglob("*") if path.is_file()} == as_written

    # Moved to where it can be written, what was begun goes on.
    shutil.copytree(disk / "begun", elsewhere / "begun")
    assert numbers(pretrain(config(elsewhere / "begun", cache))) == numbers(finished)
    said["folder"] = begun.name
    print(json.dumps(said))


main(*(Path(word) for word in sys.argv[1:4]))
