"""What a model is made of, as plain values: enough to build it, to count it and to tell it from others."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from bertlab.config import PretrainConfig
from bertlab.errors import UserError, unknown

ACTIVATIONS = ("gelu", "gelu_tanh", "relu")
BACKBONES = ("transformer", "bilstm", "cbow")
NORMS = ("layer", "batch")
PLACEMENTS = ("post", "pre")

# What a position may look at. "bidirectional" sees the whole sequence, "causal" itself and what precedes, "anticausal" itself and
# what follows.
ATTENTION_OF_OBJECTIVE = {"mlm_nsp": "bidirectional", "mlm": "bidirectional", "ltr": "causal", "rtl": "anticausal"}

# Whole numbers, and far more than any model has.
_AT_MOST = {
    "vocab_size": 10**8,
    "layers": 10**4,
    "hidden": 10**6,
    "heads": 10**6,
    "intermediate": 10**7,
    "positions": 10**8,
    "segments": 10**4,
    "window": 10**9,
}
_LARGEST = 1e30  # of the others

# The values that not every backbone has a use for, with those that do.
_USED_BY = {
    "layers": ("transformer", "bilstm"),
    "segments": ("transformer", "bilstm"),
    "heads": ("transformer",),
    "intermediate": ("transformer",),
    "positions": ("transformer",),
    "attention_dropout": ("transformer",),
    "directions": ("bilstm",),
    "window": ("cbow",),
}


@dataclass(frozen=True)
class Architecture:
    """The shape of a model. The defaults are BERT-base as released, with its next-sentence head."""

    vocab_size: int = 30522
    layers: int = 12
    hidden: int = 768
    heads: int = 12
    intermediate: int = 3072
    positions: int = 512
    segments: int = 2
    activation: str = "gelu"  # gelu | gelu_tanh | relu
    dropout: float = 0.1
    attention_dropout: float = 0.1
    epsilon: float = 1e-12
    initializer_range: float = 0.02
    backbone: str = "transformer"  # transformer | bilstm | cbow
    directions: str = "both"  # of a bilstm: both (exchanging) | forward | backward | pair (two that never exchange)
    window: int | None = None  # of a cbow: words on either side that are averaged; None is the whole sequence
    norm: str = "layer"  # layer | batch
    placement: str = "post"  # post | pre
    momentum: float = 0.1  # of batch norm: the share of the newest batch in the running statistics
    attention: str = "bidirectional"  # bidirectional | causal | anticausal: what a position may look at, for every backbone
    next_sentence: bool = True  # a head that tells whether segment B follows A, and the pooler under it
    noise_std: float = 1.0  # of noised positions, in standard deviations of the word table

    def __post_init__(self) -> None:
        """Refuse what cannot be built. Raises ``UserError``."""
        self._check_values()
        for what, value, known in (
            ("activation", self.activation, ACTIVATIONS),
            ("backbone", self.backbone, BACKBONES),
            ("norm", self.norm, NORMS),
            ("norm placement", self.placement, PLACEMENTS),
            ("LSTM direction", self.directions, ("both", "forward", "backward", "pair")),
            ("attention", self.attention, ("bidirectional", "causal", "anticausal")),
        ):
            if value not in known:
                raise unknown(what, value, known)
        if self.backbone == "transformer" and self.hidden % self.heads:
            raise UserError(
                f"model.hidden={self.hidden} cannot be split over model.heads={self.heads}: choose a width that is a multiple of the heads."
            )
        if self.backbone == "bilstm":
            self._check_directions()

    def _check_values(self) -> None:
        """Each of its type and of an extent that a machine may have: foreign files, too, say what a model is."""
        for each in fields(self):
            value, at_most = getattr(self, each.name), _AT_MOST.get(each.name)
            if each.name == "window" and value is None:
                continue
            if at_most is not None:
                if type(value) is not int or not 0 <= value <= at_most:
                    raise UserError(f"{each.name}={value!r} cannot be: it takes a whole number from 0 to {at_most:,}.")
            elif isinstance(each.default, float):
                if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= _LARGEST:
                    raise UserError(f"{each.name}={value!r} cannot be: it takes a number.")
            elif type(value) is not type(each.default):
                raise UserError(
                    f"{each.name}={value!r} cannot be: it takes {'text' if isinstance(each.default, str) else 'true or false'}."
                )
        if not self.heads or not self.hidden:
            raise UserError("A model takes at least one head and a width above 0.")

    def _check_directions(self) -> None:
        if self.directions in ("both", "pair") and self.hidden % 2:
            raise UserError(f"model.hidden={self.hidden} is odd: a bilstm needs an even width, half of it for each direction.")
        reads_the_answer = {"bidirectional": (), "causal": ("both", "backward"), "anticausal": ("both", "forward")}[self.attention]
        if self.directions in reads_the_answer:
            raise UserError(
                f"backbone.directions={self.directions} would read the very words that a {self.attention} objective predicts: use auto."
            )

    @property
    def pooling(self) -> str:
        """Which state stands for a sequence: the ``first`` token's, the ``last`` one's, or both ``ends`` (each half's own last).

        It is the state that has seen the whole sequence; under full attention it is [CLS], as in the paper. With a ``window`` no state
        has seen more than that.
        """
        if self.backbone == "bilstm":
            return {"both": "first", "forward": "last", "backward": "first", "pair": "ends"}[self.directions]
        return "last" if self.attention == "causal" else "first"

    @property
    def unused(self) -> list[str]:
        """The values that say nothing about this model, as its backbone or its norm has no use for them."""
        of_norm = [] if self.norm == "batch" else ["momentum"]
        return [name for name, backbones in _USED_BY.items() if self.backbone not in backbones] + of_norm

    @property
    def language_width(self) -> int:
        """Width of the states that the language head reads: half of ``hidden`` where two directions predict apart."""
        return self.hidden // 2 if self.backbone == "bilstm" and self.directions == "pair" else self.hidden

    @classmethod
    def of(cls, config: PretrainConfig, vocab_size: int) -> Self:
        """The architecture that ``config`` describes, over a vocabulary of ``vocab_size`` entries. Raises ``UserError``."""
        model, norm, backbone = config.model, config.norm, config.backbone
        objective = config.objective.kind
        if objective not in ATTENTION_OF_OBJECTIVE:
            raise unknown("objective", objective, ATTENTION_OF_OBJECTIVE)
        return cls(
            vocab_size=vocab_size,
            layers=model.layers,
            hidden=model.hidden,
            heads=model.heads,
            intermediate=4 * model.hidden if model.intermediate is None else model.intermediate,
            positions=model.positions,
            segments=model.segments,
            activation=model.activation,
            dropout=model.dropout,
            attention_dropout=model.attention_dropout,
            epsilon=model.epsilon,
            initializer_range=model.initializer_range,
            backbone=backbone.kind,
            directions=resolved_directions(backbone.directions, objective),
            window=backbone.window,
            norm=norm.kind,
            placement=norm.placement,
            momentum=norm.momentum,
            attention=ATTENTION_OF_OBJECTIVE[objective],
            next_sentence=objective == "mlm_nsp",
            noise_std=config.masking.noise_std,
        )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON and for checkpoints."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of ``to_dict``. Raises ``UserError`` for keys that no architecture has."""
        known = {f.name for f in fields(cls)}
        for key in values:
            if key not in known:
                raise unknown("key of a saved architecture", key, known)
        return cls(**values)


def resolved_directions(directions: str, objective: str) -> str:
    """What ``backbone.directions`` means under ``objective``.

    Masked words may be read from both sides. A left-to-right model in two directions is ELMo's: a forward and a backward language
    model that never exchange information ("pair"). A right-to-left one is backward only unless both are asked for.
    """
    automatic = {"ltr": "pair", "rtl": "backward"}
    resolved = automatic.get(objective, "both") if directions == "auto" else directions
    return "pair" if resolved == "both" and objective in automatic else resolved
