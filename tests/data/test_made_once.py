"""One process makes what several want; the others are told, wait and find it."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from bertlab.data.made_once import to_be_made


def test_it_is_made_once_and_whoever_waits_finds_it(tmp_path: Path) -> None:
    path, said, found = tmp_path / "folder" / "thing", [], []
    entered, waiting = threading.Event(), threading.Event()

    def say(line: str) -> None:
        said.append(line)
        waiting.set()

    def second() -> None:
        entered.wait()
        with to_be_made(path, say) as missing:
            found.append(missing)

    thread = threading.Thread(target=second)
    thread.start()
    with to_be_made(path, say) as missing:
        assert missing
        entered.set()
        assert waiting.wait(30)  # it is told before it waits
        path.write_text("whole")
    thread.join(30)
    assert found == [False]
    assert said == [f"Another process is making {path}: waiting for it."]
    with to_be_made(path, say) as missing:
        assert not missing


def test_whoever_waits_says_so_again_and_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("bertlab.data.made_once.FIRST_REPORT", 0.01)
    path, said, enough = tmp_path / "thing", [], threading.Event()

    def say(line: str) -> None:
        said.append(line)
        if len(said) == 3:
            enough.set()

    def second() -> None:
        with to_be_made(path, say, lambda: "two of nine"):
            pass

    with to_be_made(path, say):
        thread = threading.Thread(target=second)
        thread.start()
        assert enough.wait(30)
        path.write_text("whole")
    thread.join(30)
    assert said[0] == f"Another process is making {path}: waiting for it."
    assert all(line == f"Still waiting for {path}, 0.0 minutes so far: two of nine." for line in said[1:3])


def test_what_was_not_made_is_still_to_be_made(tmp_path: Path) -> None:
    def fail() -> None:
        with to_be_made(tmp_path / "thing", print) as missing:
            assert missing
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with to_be_made(tmp_path / "thing", print) as missing:
        assert missing
