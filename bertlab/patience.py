"""How long a process waits for a lock that another one may still have.

None at all, as a rule: who has it trains the very same run. But a job that a queue begins anew after its node was lost finds the locks
of that node held until the file server misses it. Such a job is told to wait, by an environment variable.
"""

from __future__ import annotations

import os

LOCK_SECONDS = "BERTLAB_LOCK_SECONDS"


def lock_seconds(usual: float = 0.0) -> float:
    """The seconds to wait: ``usual``, or more where the environment says so."""
    return max(usual, float(os.environ.get(LOCK_SECONDS) or 0.0))
