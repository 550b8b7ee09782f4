"""Why a job waits, in words: of SLURM's reasons those that do not pass as other jobs end, so that nobody waits for ever."""

from __future__ import annotations

import re

_LESS = "ask for less (trainer.nodes, trainer.devices, launcher.cpus, launcher.memory), or another launcher.partition"
_SHORTER = "lower it: a longer run is queued again"
_OTHERWISE = "leave one of them out"
_ACCOUNT = "set launcher.account or launcher.qos"
_ANEW = (_LESS, _SHORTER, _OTHERWISE, _ACCOUNT)  # what is to be asked for by another job
# As squeue has them, what is wrong, and what to do; of several that fit the first counts.
_REASONS = (
    (r"PartitionConfig", "the partition does not have what the job asks for", _LESS),
    (r"PartitionNodeLimit", "the job asks for more nodes than the partition gives to a job", _LESS),
    (r"PartitionTimeLimit", "launcher.time is longer than the partition's limit", _SHORTER),
    (r"PartitionDown|PartitionInactive", "the partition is closed", "choose another launcher.partition, or wait"),
    (r"BadConstraints", "no node has what launcher.constraint and launcher.options ask for together", _OTHERWISE),
    (r"ReqNodeNotAvail", "nodes that the job needs are down, drained or reserved", "choose others, or wait"),
    (r"(Assoc|QOS)\w*WallDuration\w*", "launcher.time is longer than the account's limit", _SHORTER),
    (r"(Assoc|QOS)Max\w*PerJob\w*", "the job asks for more than the account may have in a job", _LESS),
    (r"(Assoc|QOS)(Max|Grp)\w*", "the account has reached a limit on all its jobs", "wait for them to end, or ask for less"),
    (r"Invalid(Account|QOS)|(Account|QOS)NotAllowed", "the job's account or QOS is not accepted", _ACCOUNT),
    (r"JobHeld(User|Admin)", "the job is held", "release it with scontrol release, or ask the cluster's administrators"),
)


def explained(reason: str) -> str:
    """What a reason means and what to do about it, as the end of a sentence; nothing for one that passes by itself."""
    for pattern, wrong, remedy in _REASONS:
        if re.match(rf"\(?({pattern})\b", reason):
            return f": {wrong}; {'scancel it, and ' if remedy in _ANEW else ''}{remedy}"
    return ""
