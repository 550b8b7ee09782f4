"""Rows of parted tensors on the disk: found by their numbers, recognised when damaged, deleted with their states."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from bertlab.run_files.parted_rows import Rows, are_whole, delete_parts, in_memory, put_back, write_part


def written(folder: Path, whole: Tensor, sizes: list[int], step: int = 7) -> tuple[Rows, list[str]]:
    """The rows of ``whole`` in a file from each of as many processes as there are sizes."""
    parts = whole.split(sizes)
    names = [write_part(folder, step, rank, len(sizes), {"000000": part.contiguous()}) for rank, part in enumerate(parts)]
    return Rows("000000", tuple(folder / name for name in names), len(whole)), names


@pytest.mark.parametrize("sizes", [[11], [4, 4, 3], [6, 5, 0, 0], [1] * 11])
@pytest.mark.parametrize("shape", [(11,), (11, 3)])
def test_any_rows_are_read_from_the_files_that_hold_them(sizes: list[int], shape: tuple[int, ...], tmp_path: Path) -> None:
    whole = torch.randn(shape)
    rows, _ = written(tmp_path, whole, sizes)
    assert len(rows) == 11
    for first in range(12):
        for end in range(first, 12):
            assert torch.equal(rows.between(first, end), whole[first:end]), (first, end)


@pytest.mark.parametrize("damage", ["changed", "cut", "missing", "another's"])
def test_a_damaged_part_is_recognised(damage: str, tmp_path: Path) -> None:
    _, names = written(tmp_path, torch.randn(8, 2), [4, 4])
    assert are_whole(tmp_path, names)
    path = tmp_path / names[1]
    content = bytearray(path.read_bytes())
    if damage == "changed":
        content[-1] ^= 1
    elif damage == "cut":
        del content[-3:]
    elif damage == "another's":
        content = bytearray((tmp_path / names[0]).read_bytes())
    path.write_bytes(content)
    if damage == "missing":
        path.unlink()
    assert not are_whole(tmp_path, names)
    assert not are_whole(tmp_path, ["../" + names[0]])


def test_marks_become_whole_tensors_and_the_rest_stays(tmp_path: Path) -> None:
    whole = torch.randn(5, 2)
    _, names = written(tmp_path, whole, [3, 2])
    state = {
        "parts": names,
        "weights": {"table": {"parted": "000000", "rows": 5}, "bias": torch.ones(2)},
        "groups": [{"betas": (0.9, 0.999)}],
    }
    found = in_memory(put_back(state, tmp_path))
    assert torch.equal(found["weights"]["table"], whole)
    assert torch.equal(found["weights"]["bias"], torch.ones(2))
    assert found["groups"] == [{"betas": (0.9, 0.999)}]


def test_parts_go_with_their_states(tmp_path: Path) -> None:
    kept, older = (written(tmp_path, torch.randn(4), [2, 2], step)[1] for step in (20, 10))
    (tmp_path / "part-of-something.safetensors").write_text("not ours")
    delete_parts(tmp_path, {20})
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted([*kept, "part-of-something.safetensors"])
    assert not (tmp_path / older[0]).exists()
