"""When a training no longer makes sense: a number that is not finite, or a loss far worse than knowing nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

# A model that has learnt nothing gives every token the same probability, for a loss of ln V nats. One that stays a whole nat
# above that, over several logged windows, has been thrown out of where learning happens and does not come back.
MARGIN = 1.0
PATIENCE = 3


@dataclass
class Health:
    """Watches the logged windows of one run over a vocabulary of ``vocabulary`` tokens."""

    vocabulary: int
    bad_windows: int = 0  # the last so many, without a break, were worse than knowing nothing

    def complaint(self, loss: float, language_loss: float, gradient_norm: float) -> str | None:
        """What is wrong after one more window with these means, as the end of a sentence; None when all is well."""
        for what, value in (("loss", loss), ("gradient norm", gradient_norm)):
            if not math.isfinite(value):
                return f"the {what} became {value}"
        ignorance = math.log(self.vocabulary)
        self.bad_windows = self.bad_windows + 1 if language_loss > ignorance + MARGIN else 0
        if self.bad_windows < PATIENCE:
            return None
        return f"the loss diverged: {language_loss:.2f} nats a token over {PATIENCE} windows, where guessing evenly gives {ignorance:.2f}"
