"""Which numbers may stand in one comparison. Perplexities look alike and often measure different things."""

from __future__ import annotations

from dataclasses import dataclass

# Per-token quantities of a language model: what a token is and what the model sees of its surroundings are part of what they measure.
_OF_A_LANGUAGE_MODEL = ("perplexity", "loss", "bits", "pseudo_perplexity", "token_accuracy")


@dataclass(frozen=True)
class Quantity:
    """What a number measures. None: not known, or without a meaning for it."""

    metric: str
    data: str | None = None  # fingerprint of what it was measured on
    objective: str | None = None
    vocabulary: str | None = None  # fingerprint
    protocol: str | None = None  # anything else that changes the quantity, in words: "15% masked, length 128"
    read: str | None = None  # of all that the run has read; counts where ``data`` of one of two numbers is not known

    @property
    def of_a_language_model(self) -> bool:
        """Whether the number is a perplexity or one of its kin."""
        return any(word in self.metric for word in _OF_A_LANGUAGE_MODEL)


def comparable(first: Quantity, second: Quantity) -> str | None:
    """Why the two may not be compared, as a sentence; None where they may."""
    if first.metric != second.metric:
        return f"{first.metric} and {second.metric} are different metrics."
    if first.of_a_language_model and (reason := _language_models_differ(first, second)):
        return reason
    known = first.data is not None and second.data is not None
    if _differ(first.data, second.data) if known else _differ(first.read, second.read):
        return f"The two values of {first.metric} were measured on different data."
    return None


def _language_models_differ(first: Quantity, second: Quantity) -> str | None:
    if first.objective != second.objective:
        return (
            f"A {first.metric} under objective={first.objective} and one under objective={second.objective} measure different things: "
            "each predicts different words from different context."
        )
    if first.vocabulary != second.vocabulary:
        return f"A {first.metric} is per token, and the two models have different vocabularies, so their tokens are different units."
    if _differ(first.protocol, second.protocol):
        return f"The two values of {first.metric} were measured differently ({first.protocol}; {second.protocol})."
    return None


def _differ(first: str | None, second: str | None) -> bool:
    return first is not None and second is not None and first != second
