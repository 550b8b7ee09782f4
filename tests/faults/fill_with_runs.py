"""Train on a disk with ever more room, from none to enough, and each time once more with room: ``fill_with_runs.py DISK CORPUS CACHE``.

Run by test_disk_full.py. Prints a JSON object: how often the disk was full, and at which files.
"""

from __future__ import annotations

import json
import re
import shutil
import sys
from pathlib import Path

import torch
from run_numbers import numbers, sentence_of
from small_disk import leave_free, make_room
from small_runs import small_pretraining

from bertlab.training.pretrain import pretrain

PAGE = 4096
FINE = 25 * PAGE  # up to here room grows by a page, then by some


def main(disk: Path, corpus: Path, cache: Path) -> None:
    torch.set_num_threads(1)
    config = small_pretraining(corpus, cache, disk / "runs", **{"budget.steps": 6, "trainer.log_every": 2, "checkpointing.keep_every": 3})
    leave_free(disk, 0)
    make_room(disk)
    expected, free, times, where = numbers(pretrain(config)), 0, 0, set()
    while True:
        shutil.rmtree(disk / "runs")
        leave_free(disk, free)
        try:
            folder = pretrain(config)
        except Exception as error:
            said = sentence_of(error)
        else:
            break
        finally:
            make_room(disk)
        full = re.fullmatch(rf"{disk}/runs(?:/[^/]+)?(?:/(.*))?: No space left on device: make room, or write to another disk; .*", said)
        assert full, said
        times, where = times + 1, where | {re.sub(r"\d{3,}", "N", full[1] or "the folder")}
        assert not list(disk.glob("runs/*/result.json"))
        assert numbers(pretrain(config)) == expected, free
        free += PAGE if free < FINE else 5 * PAGE
    assert numbers(folder) == expected
    print(json.dumps({"times": times, "where": sorted(where)}))


main(*(Path(word) for word in sys.argv[1:4]))
