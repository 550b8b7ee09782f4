from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from bertlab.training.evaluate import in_words
from bertlab.training.metrics import RowFile, Sums, losses, perplexity, read_rows


def lines(steps: list[int]) -> list[bytes]:
    return [json.dumps({"step": step, "loss": step / 7}).encode() + b"\n" for step in steps]


@given(st.lists(st.integers(1, 40), max_size=12).map(sorted), st.integers(0, 41), st.data())
def test_cutting_at_a_step_and_going_on_gives_the_same_bytes(
    tmp_path_factory: pytest.TempPathFactory, steps: list[int], step: int, data: st.DataObject
) -> None:
    whole = b"".join(lines(steps))
    until = len(b"".join(line for number, line in zip(steps, lines(steps), strict=True) if number <= step))
    # A kill leaves any prefix that has the rows up to the saved step: the last line may be torn.
    left = data.draw(st.integers(until, len(whole)))
    path = tmp_path_factory.mktemp("rows") / "metrics.jsonl"
    path.write_bytes(whole[:left])
    file = RowFile(path, keep_until=step)
    assert path.read_bytes() == whole[:until]
    for number in steps:
        if number > step:
            file.append({"step": number, "loss": number / 7})
    file.close()
    assert path.read_bytes() == whole
    assert [row["step"] for row in read_rows(path)] == steps


def test_a_fresh_start_drops_everything(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_bytes(b"".join(lines([1, 2])))
    RowFile(path, keep_until=0).close()
    assert path.read_bytes() == b""


def test_sums_are_sums_whatever_the_order_of_the_keys() -> None:
    sums = Sums()
    sums.add({"correct": torch.tensor(3), "predicted": torch.tensor(10), "language_loss": torch.tensor(25.0)})
    sums.add({"language_loss": torch.tensor(5.0), "correct": torch.tensor(1), "predicted": torch.tensor(5)})
    sums.add_update(torch.tensor(2.0))
    sums.add_update(torch.tensor(4.0))
    taken = sums.take()
    assert losses(taken) == {"loss": 2.0, "language_loss": 2.0, "accuracy": 4 / 15}
    assert (taken["gradient_norm"], taken["updates"]) == (6.0, 2.0)
    assert not sums.values.any()


def test_the_loss_adds_up_what_was_minimised() -> None:
    sums = Sums()
    counted = {"language_loss": 30.0, "correct": 5, "predicted": 10, "nsp_loss": 4.0, "nsp_correct": 6, "sequences": 8}
    sums.add({name: torch.tensor(value) for name, value in counted.items()})
    row = losses(sums.take())
    assert row == {"loss": 3.5, "language_loss": 3.0, "accuracy": 0.5, "nsp_loss": 0.5, "nsp_accuracy": 0.75}
    counted = {"language_loss": 30.0, "correct": 5, "predicted": 10, "opposite_loss": 20.0, "opposite_correct": 1}
    sums.add({name: torch.tensor(value) for name, value in counted.items()})
    row = losses(sums.take())
    assert (row["loss"], row["opposite_loss"], row["opposite_accuracy"]) == (5.0, 2.0, 0.1)


def test_what_is_no_number_is_null_in_the_file_and_never_hidden(tmp_path: Path) -> None:
    sums = dict.fromkeys(Sums().names, 0.0) | {"predicted": 2.0, "opposite_loss": math.nan}
    assert math.isnan(losses(sums)["opposite_loss"])
    assert math.isnan(losses(sums)["loss"])
    file = RowFile(tmp_path / "metrics.jsonl", keep_until=0)
    file.append({"step": 1, "perplexity": math.inf, "loss": math.nan, "accuracy": 0.5, "split": "train"})
    file.close()
    (row,) = [json.loads(line, parse_constant=pytest.fail) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert row == {"step": 1, "perplexity": None, "loss": None, "accuracy": 0.5, "split": "train"}
    assert "perplexity infinite" in in_words(row)


def test_perplexity() -> None:
    assert perplexity(math.log(50)) == pytest.approx(50)
    assert perplexity(1e5) == math.inf


@pytest.mark.parametrize(("saved_by", "world"), [(1, 1), (2, 2), (2, 1), (1, 2), (3, 2)])
def test_sums_are_gone_on_with_by_another_number_of_ranks(saved_by: int, world: int) -> None:
    """What was counted is counted once, and the mean norm of the updates is that of all."""
    saved = []
    for _ in range(saved_by):
        sums = Sums()
        sums.add({"predicted": torch.tensor(3.0)})
        for norm in (2.0, 4.0):  # every rank counts every update
            sums.add_update(torch.tensor(norm))
        saved.append(sums.values)
    total = torch.zeros_like(saved[0])
    for rank in range(world):
        sums = Sums()
        sums.restore(torch.stack(saved), rank, world)
        sums.add_update(torch.tensor(9.0))  # after going on
        total += sums.values
    total[-2:] /= world  # as ``take`` does over ranks
    found = dict(zip(sums.names, total.tolist(), strict=True))
    assert found["predicted"] == 3 * saved_by
    assert (found["gradient_norm"], found["updates"]) == (15, 3)
