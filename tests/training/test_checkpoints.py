from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from bertlab.errors import UserError
from bertlab.run_files import states
from bertlab.run_files.states import keep_newest, load_newest
from bertlab.training.checkpoints import save_state, save_weights


def state(step: int) -> dict[str, object]:
    return {"step": step, "weights": {"a": torch.full((50, 50), float(step))}, "fed": {"seconds": 1.5}}


def test_the_newest_of_the_last_two_is_loaded(tmp_path: Path) -> None:
    for step in (5, 10, 1000000000):
        save_state(tmp_path, step, state(step))
    assert len(list(tmp_path.iterdir())) == 2
    loaded = load_newest(tmp_path, pytest.fail)
    assert loaded is not None
    assert loaded["step"] == 1000000000
    assert torch.equal(loaded["weights"]["a"], torch.full((50, 50), 1e9))
    keep_newest(tmp_path, 1)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("size", [0, 1, 1000])
def test_a_cut_file_is_told_and_passed_over(tmp_path: Path, size: int) -> None:
    save_state(tmp_path, 1, state(1))
    newest = save_state(tmp_path, 2, state(2))
    newest.write_bytes(newest.read_bytes()[:size])
    said: list[str] = []
    loaded = load_newest(tmp_path, said.append)
    assert loaded is not None
    assert loaded["step"] == 1
    assert len(said) == 1
    assert str(newest) in said[0]


def test_every_single_bit_counts(tmp_path: Path) -> None:
    path = save_state(tmp_path, 2, state(2))
    whole = path.read_bytes()
    for place in range(0, len(whole), len(whole) // 40):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        assert load_newest(tmp_path, lambda line: None) is None


def damage(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def test_damaged_states_give_way_to_new_ones(tmp_path: Path) -> None:
    for step in (100, 105):
        damage(save_state(tmp_path, step, state(step)))
    said: list[str] = []
    assert load_newest(tmp_path, said.append, put_aside=True) is None
    assert len(said) == 2
    assert len(list(tmp_path.glob("damaged-last-*.ckpt"))) == 2
    save_state(tmp_path, 3, state(3))  # begun anew, the run is at a lower step
    loaded = load_newest(tmp_path, pytest.fail, put_aside=True)
    assert loaded is not None
    assert loaded["step"] == 3


def test_a_damaged_state_takes_no_place(tmp_path: Path) -> None:
    save_state(tmp_path, 5, state(5))
    newest = save_state(tmp_path, 100, state(100))
    damage(newest)
    load_newest(tmp_path, lambda line: None)
    assert newest.exists()  # whoever only reads leaves everything as it is
    load_newest(tmp_path, lambda line: None, put_aside=True)
    for step in (10, 15):
        save_state(tmp_path, step, state(step))
    assert [path.name[:14] for path in sorted(tmp_path.glob("last-*"))] == ["last-000000010", "last-000000015"]


def test_of_several_processes_the_first_alone_speaks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_state(tmp_path, 1, state(1))
    newest = save_state(tmp_path, 2, state(2))
    assert newest is not None
    damage(newest)
    monkeypatch.setenv("LOCAL_RANK", "1")
    loaded = load_newest(tmp_path, pytest.fail)
    assert loaded is not None
    assert loaded["step"] == 1


@pytest.mark.parametrize("moment", ["hashed", "read"])
def test_a_state_that_another_process_puts_aside_meanwhile_is_passed_over(
    moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between this process's look at the folder and its reading of the file, or between hashing it and finding a part damaged."""
    save_state(tmp_path, 1, state(1))
    newest = save_state(tmp_path, 2, state(2))
    assert newest is not None
    name, where = {"hashed": ("_is_whole", states), "read": ("load", torch)}[moment]
    honest = getattr(where, name)

    def late(path: Path, **options: Any) -> Any:
        if path == newest and newest.exists():
            newest.rename(tmp_path / f"damaged-{newest.name}")
        return honest(path, **options)

    monkeypatch.setattr(where, name, late)
    loaded = load_newest(tmp_path, pytest.fail)
    assert loaded is not None
    assert loaded["step"] == 1


def test_another_version_s_state_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_state(tmp_path, 5, state(5))
    monkeypatch.setattr(states, "FORMAT", states.FORMAT + 1)
    with pytest.raises(UserError, match="another version"):
        load_newest(tmp_path, pytest.fail)


def test_what_was_being_written_is_no_checkpoint(tmp_path: Path) -> None:
    (tmp_path / ".last.part").write_bytes(b"half")
    assert load_newest(tmp_path, pytest.fail) is None
    save_state(tmp_path, 3, state(3))
    assert not (tmp_path / ".last.part").exists()


def test_kept_weights(tmp_path: Path) -> None:
    table = torch.randn(4, 3)
    path = save_weights(tmp_path, 7, {"table": table, "column": table.t()})
    assert path.name == "step-000000007.safetensors"
    loaded = load_file(path)
    assert torch.equal(loaded["table"], table)
    assert torch.equal(loaded["column"], table.t())
