"""How much of a plan is done, and how long the rest will take by what was seen of it.

Runs are weighed by their FLOPs, of each kind by its own rate: a fine-tuning spends more of its time on other things.
"""

from __future__ import annotations

from collections.abc import Sequence

from bertlab.ablation.run_states import ENDED, RunState, State, count

_LEAST_SHARE = 0.02  # of a run that must be done before it says anything about the rest


def share_done(runs: Sequence[RunState]) -> float:
    """0 to 1. What has failed, or will not be run, is done with."""
    weights = [_weight(run, runs) for run in runs]
    done = sum(weight * (1.0 if run.state in ENDED else run.progress.share) for weight, run in zip(weights, runs, strict=True))
    return done / sum(weights) if runs else 1.0


def seconds_left_of(run: RunState) -> float | None:
    """Of a run that goes on, by its own rate so far; None where that is not known yet."""
    begun, share = run.first_share or 0.0, run.progress.share
    if run.begun_at is None or share - begun < _LEAST_SHARE:
        return None
    return run.elapsed * (1.0 - share) / (share - begun)


def seconds_left(runs: Sequence[RunState]) -> float | None:
    """Until all have ended, when as many go on side by side as now; None where too little was seen to tell."""
    rates = {kind: _seconds_per_weight(kind, runs) for kind in {run.node.kind for run in runs}}
    known = [rate for rate in rates.values() if rate is not None]
    if not known:
        return None if any(run.state not in ENDED for run in runs) else 0.0
    left = []
    for run in runs:
        if run.state in ENDED:
            continue
        rate = rates[run.node.kind]
        by_weight = (known[0] if rate is None else rate) * _weight(run, runs) * (1.0 - run.progress.share)
        own = seconds_left_of(run)
        left.append(by_weight if own is None else own)
    side_by_side = max(1, count(list(runs), State.RUNNING, State.ELSEWHERE))
    return max(sum(left) / side_by_side, max(left, default=0.0))


def _weight(run: RunState, runs: Sequence[RunState]) -> float:
    """A run's FLOPs; where none are given, as much as the mean of the others, or all alike."""
    if run.node.flops > 0:
        return run.node.flops
    given = [other.node.flops for other in runs if other.node.flops > 0]
    return sum(given) / len(given) if given else 1.0


def _seconds_per_weight(kind: str, runs: Sequence[RunState]) -> float | None:
    """By the runs of a kind that this command has had, whole or in part."""
    seconds = weight = 0.0
    for run in runs:
        if run.node.kind != kind or run.begun_at is None or (run.state is not State.DONE and run.state is not State.RUNNING):
            continue
        begun = run.first_share or 0.0
        part = (1.0 if run.state is State.DONE else run.progress.share) - begun
        if (run.state is State.DONE and not run.progress.begun) or part < _LEAST_SHARE:
            continue  # a run that was found finished says nothing about the others
        seconds += run.elapsed if run.seconds is None else run.seconds
        weight += part * _weight(run, runs)
    return seconds / weight if weight else None
