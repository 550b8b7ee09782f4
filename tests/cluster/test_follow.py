"""What is shown of jobs: their logs as they grow, why they wait, and their ends, by their own word or SLURM's."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bertlab.cluster import queue, submission
from bertlab.cluster.follow import Follower, follow
from bertlab.cluster.queue import JobState, QueueSilent, states
from bertlab.cluster.submission import Element, End, write_end


def element(folder: Path, job: str = "7") -> Element:
    return Element(folder, 0, job)


def test_the_log_is_shown_in_whole_lines_as_it_grows(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    follower = Follower(element(tmp_path), "[7] ")
    follower.look()
    with (tmp_path / "0.log").open("w") as log:
        for said, shown in (("one\ntw", "[7] one\n"), ("o\n", "[7] two\n"), ("end", "")):
            log.write(said)
            log.flush()
            follower.look()
            assert capsys.readouterr().err == shown
    write_end(tmp_path, 0, End(0, ""))
    follower.look()
    assert capsys.readouterr().err == "[7] end\n"
    assert follower.ended


def test_of_what_was_said_before_the_last_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "0.log").write_text("".join(f"line {number}\n" for number in range(1000)))
    Follower(element(tmp_path), begun=True).look()
    shown = capsys.readouterr().err.splitlines()
    assert shown[-1] == "line 999"
    assert 100 < len(shown) < 300
    assert shown == [f"line {number}" for number in range(1000 - len(shown), 1000)]


def test_queue_says_twice_that_it_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    follower = Follower(element(tmp_path))
    for _ in range(2):
        follower.note(JobState("PENDING", "Priority", "n"))
    assert capsys.readouterr().err == "bertlab: job 7 waits (Priority)\n"
    follower.note(JobState("CANCELLED", "None", "n"))
    assert not follower.ended
    follower.note(JobState("COMPLETING", "None", "n"))  # it was put back in between
    follower.note(None)
    follower.note(None)
    assert follower.ended
    assert (follower.end, follower.how) == (None, "gone from the queue")


@pytest.mark.parametrize(
    ("reason", "said"),
    [
        (
            "PartitionConfig",
            "the partition does not have what the job asks for; scancel it, and ask for less (trainer.nodes, ",
        ),
        ("(PartitionNodeLimit)", "the job asks for more nodes than the partition gives to a job"),
        ("PartitionTimeLimit", "launcher.time is longer than the partition's limit; scancel it, and lower it"),
        ("BadConstraints", "launcher.constraint"),
        ("ReqNodeNotAvail, UnavailableNodes:n[1-2]", "nodes that the job needs are down, drained or reserved"),
        ("AssocMaxCpuPerJobLimit", "the job asks for more than the account may have in a job"),
        ("QOSMaxWallDurationPerJobLimit", "launcher.time is longer than the account's limit"),
        ("AssocGrpCpuLimit", "the account has reached a limit on all its jobs"),
        ("QOSMaxJobsPerUserLimit", "the account has reached a limit on all its jobs"),
        ("InvalidAccount", "launcher.account"),
        ("Priority", "job 7 waits (Priority)\n"),
        ("Resources", "job 7 waits (Resources)\n"),
    ],
)
def test_reasons_that_do_not_pass_by_themselves_are_explained(
    reason: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    Follower(element(tmp_path)).note(JobState("PENDING", reason, "n"))
    told = capsys.readouterr().err
    assert said in told
    assert told.count("\n") == 1


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("echo 'squeue: error: fetch_config: DNS' >&2; echo 'squeue: fatal: No configuration.' >&2; exit 1", "(No configuration)"),
        ("exit 3", "(squeue ended with exit code 3)"),
        ("exec sleep 9", "(squeue said nothing in 0 seconds)"),
    ],
)
def test_what_slurm_complains_of_is_told_in_short(program: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "squeue").write_text(f"#!/bin/sh\n{program}\n")
    (tmp_path / "squeue").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(QueueSilent) as caught:
        queue.check_answers(0.4 if "sleep" in program else 20.0)
    told = str(caught.value.as_user_error())
    assert said in told
    assert "login node" in told
    assert "SLURM_CONF" in told


def test_a_silent_queue_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter([QueueSilent("busy"), QueueSilent("busy"), {}, {}])

    def answer() -> dict[str, JobState]:
        if isinstance(each := next(answers), QueueSilent):
            raise each
        return each

    monkeypatch.setattr(queue, "states", answer)
    monkeypatch.setattr("bertlab.cluster.follow.QUEUE_SECONDS", 0.0)
    monkeypatch.setattr("bertlab.cluster.follow.LOOK_SECONDS", 0.01)
    follow([follower := Follower(element(tmp_path))])
    assert follower.ended
    assert next(answers, None) is None


def test_states_are_read_off_squeue(monkeypatch: pytest.MonkeyPatch) -> None:
    said = "12|RUNNING|None|bertlab-a\n13_0|PENDING|(Resources)|bertlab-b\n13_1|COMPLETED|None|odd|name\n"
    monkeypatch.setattr(queue, "_asked", lambda command: said)
    found = states()
    assert (found["12"].waits, found["12"].ended) == (False, False)
    assert (found["13_0"].waits, found["13_0"].reason) == (True, "(Resources)")
    assert (found["13_1"].ended, found["13_1"].name) == (True, "odd|name")


def test_the_newest_job_of_a_command_counts(tmp_path: Path) -> None:
    """Also of a submission whose id was never noted, when the queue knows its name."""
    for number, (name, noted) in enumerate((("first", '{"job": "3"}'), ("second", None))):
        folder = tmp_path / "slurm" / name
        folder.mkdir(parents=True)
        (folder / submission.COMMANDS).write_text('{"requeues": 1, "commands": [{"key": "a"}, {"key": "b"}]}')
        if noted:
            (folder / "job.json").write_text(noted)
        os.utime(folder / submission.COMMANDS, (number, number))
    assert {key: each.job for key, each in submission.find(tmp_path, {}).items()} == {"a": "3_0", "b": "3_1"}
    (tmp_path / "slurm" / "second" / "1.log").touch()  # it has begun, and the queue has forgotten it
    assert {key: each.job for key, each in submission.find(tmp_path, {}).items()} == {"a": "3_0", "b": None}
    known = submission.find(tmp_path, {"8_1": JobState("RUNNING", "", "second")})
    assert {key: each.job for key, each in known.items()} == {"a": "8_0", "b": "8_1"}
