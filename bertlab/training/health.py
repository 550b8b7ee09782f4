"""When a training no longer makes sense: a number that is not finite, or a loss far worse than knowing nothing."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass

from bertlab.run_files.states import State

# A model that has learnt nothing gives every token the same probability, for a loss of ln V nats. One that stays a whole nat
# above that, over several stretches of updates, has been thrown out of where learning happens and does not come back.
MARGIN = 1.0
STRETCH = 50  # updates whose mean loss is judged as one; of the run's own, so that how often it logs decides nothing
PATIENCE = 3


@dataclass
class Health:
    """Watches the losses of one run over a vocabulary of ``vocabulary`` tokens.

    Large initial weights may begin far above ln V, which is no harm as long as the loss falls: above the bound counts what was below it
    before, and what reaches no new low. The first update is judged by itself, since it tells where the run begins.
    """

    vocabulary: int
    # Nats and predictions since the beginning: of all rows, and of all that has been judged.
    nats: float = 0.0
    predicted: float = 0.0
    judged_nats: float = 0.0
    judged_predicted: float = 0.0
    lowest: float = math.inf  # mean of a stretch so far
    bad_stretches: int = 0  # the last so many, without a break, were worse than knowing nothing

    @staticmethod
    def is_due(step: int) -> bool:
        """Whether a stretch ends with the update that is the ``step``th, from 1."""
        return step == 1 or step % STRETCH == 0

    def add(self, nats: float, predicted: float) -> None:
        """Count the sums of a row."""
        self.nats += nats
        self.predicted += predicted

    def judge(self, nats: float, predicted: float, *, warming_up: bool) -> str | None:
        """What is wrong at the end of a stretch, as the end of a sentence; None when all is well.

        Args:
            nats: the sum of losses since the last row.
            predicted: how many predictions these are of.
            warming_up: whether the learning rate still rises, so that a loss which begins high cannot be expected to fall yet.
        """
        loss = (self.nats + nats - self.judged_nats) / max(1.0, self.predicted + predicted - self.judged_predicted)
        self.judged_nats, self.judged_predicted = self.nats + nats, self.predicted + predicted
        if complaint := not_finite("loss", loss):
            return complaint
        ignorance = math.log(self.vocabulary)
        bound = ignorance + MARGIN
        coming_down = self.lowest > bound and (warming_up or loss < self.lowest)
        self.bad_stretches = self.bad_stretches + 1 if loss > bound and not coming_down else 0
        self.lowest = min(self.lowest, loss)
        if self.bad_stretches < PATIENCE:
            return None
        return (
            f"the loss diverged: {loss:.2f} nats a token, and as much for {PATIENCE * STRETCH} updates, where guessing evenly gives"
            f" {ignorance:.2f}"
        )

    def state(self) -> State:
        """What a resumed run has to know, for ``Health(vocabulary, **state)``."""
        return {name: value for name, value in asdict(self).items() if name != "vocabulary"}


def not_finite(what: str, value: float) -> str | None:
    """That ``value`` is no finite number, as the end of a sentence; None where it is one."""
    return None if math.isfinite(value) else f"the {what} became {value}"
