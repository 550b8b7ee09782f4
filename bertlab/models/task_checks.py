"""What heads, features and ways of training can be combined. Needs no PyTorch, so that a mistake is told before anything is loaded."""

from __future__ import annotations

from bertlab.counting import counted
from bertlab.errors import UserError, unknown
from bertlab.finetune_config import FeaturesConfig, HeadConfig, TuningConfig
from bertlab.models.architecture import Architecture
from bertlab.task_config import KINDS

OF_A_SEQUENCE = ("classification", "regression", "choice")  # kinds whose examples are judged by a whole sequence
POOLINGS = ("auto", "first", "last", "ends", "mean", "max", "mean_max")
FEATURES = ("none", "embeddings", "second_to_last", "last", "weighted_sum_last_4", "concat_last_4", "weighted_sum_all", "concat_all")
FOUR_LAYERS = ("weighted_sum_last_4", "concat_last_4")  # the features that need as many
FREEZES = ("none", "embeddings", "encoder")


def layers_of(architecture: Architecture) -> int:
    """L, how many layers' states there are; a bag of words has one whatever ``layers`` says."""
    return 1 if architecture.backbone == "cbow" else architecture.layers


def reads_one_state(kind: str, head: HeadConfig, architecture: Architecture) -> bool:
    """Whether a head on weights that are trained reads one state of each sequence and no other."""
    pooling = architecture.pooling if head.pooling == "auto" else head.pooling
    plain = head.layers == 1 and head.convolution is None and not head.bilstm
    return kind in OF_A_SEQUENCE and plain and pooling in ("first", "last")


def check_head(kind: str, head: HeadConfig, features: FeaturesConfig, architecture: Architecture | None = None) -> None:
    """Refuse a head that a task of ``kind`` can't have, or that the model (where it is known) can't feed. Raises ``UserError``."""
    for what, value, known in (("kind of task", kind, KINDS), ("pooling", head.pooling, POOLINGS), ("features", features.kind, FEATURES)):
        if value not in known:
            raise unknown(what, value, known)
    _check_values(head, features)
    if head.crf and kind != "tagging":
        raise UserError(f"head.crf=true is for tagging, and this task is {kind}: leave it out.")
    if head.pooling != "auto" and kind not in OF_A_SEQUENCE:
        raise UserError(
            f"head.pooling={head.pooling} is for tasks that judge a whole sequence; {kind} reads every token: leave it out, or the head="
            " that sets it."
        )
    if features.kind != "none":
        _check_features(head)
    if architecture is not None and features.kind == "none" and not head.bilstm and head.convolution is None:
        _check_pooled_token(head, architecture)
    if architecture is not None and head.layers > layers_of(architecture):
        raise UserError(f"head.layers={head.layers} asks for more states than there are: the model has {_layers_in_words(architecture)}.")
    if architecture is not None:
        check_depth(features.kind, architecture)


def check_depth(features: str, architecture: Architecture) -> None:
    """Refuse features of more layers than the model has. Raises ``UserError``."""
    if features in FOUR_LAYERS and layers_of(architecture) < 4:
        raise UserError(
            f"features={features} takes the states of four layers, and the model has {_layers_in_words(architecture)}: choose"
            f" features={features.replace('last_4', 'all')}, which takes all there are."
        )


def _layers_in_words(architecture: Architecture) -> str:
    return counted(layers_of(architecture), "layer")


def _check_pooled_token(head: HeadConfig, architecture: Architecture) -> None:
    """A model that reads in one direction alone has seen nothing but [CLS] at its first token, or nothing but [SEP] at its last."""
    if architecture.backbone == "bilstm":  # under mlm, too, it may have one LSTM that reads one way
        blind = {"forward": "first", "backward": "last"}.get(architecture.directions)
    else:
        blind = {"causal": "first", "anticausal": "last"}.get(architecture.attention)
    if head.pooling == blind:
        raise UserError(
            f"head.pooling={blind} takes a state that has seen no word, since this model reads in one direction: leave it out, or set"
            f" head.pooling={architecture.pooling}."
        )


def _check_values(head: HeadConfig, features: FeaturesConfig) -> None:
    counts = {
        "head.layers": head.layers,
        "head.convolution": head.convolution,
        "head.filters": head.filters,
        "head.bilstm_hidden": head.bilstm_hidden,
        "head.bilstm_layers": head.bilstm_layers,
        "features.layers": features.layers,
    }
    for key, count in counts.items():
        if count is not None and count < 1:
            raise UserError(f"{key}={count} must be at least 1.")
    if not 0 <= head.dropout < 1:
        raise UserError(f"head.dropout={head.dropout} must lie in [0, 1): it is the probability of dropping a feature.")
    if features.hidden < 2 or features.hidden % 2:
        raise UserError(f"features.hidden={features.hidden} must be even: half of it reads each way.")
    if head.filters is not None and head.convolution is None:
        raise UserError(f"head.filters={head.filters} has no convolution to be the filters of: add head.convolution=3, a width in tokens.")
    if (head.bilstm_hidden is not None or head.bilstm_layers != 1) and not head.bilstm:
        raise UserError("head.bilstm_hidden and head.bilstm_layers have no effect without head.bilstm=true: add it, or leave them out.")


def _check_features(head: HeadConfig) -> None:
    for key, given in (("layers", head.layers != 1), ("bilstm", head.bilstm), ("convolution", head.convolution is not None)):
        if given:
            raise UserError(
                f"head.{key} does not go with features: these say themselves which layers are read, and bring a BiLSTM of their own "
                "(features.hidden, features.layers). Leave one of the two out."
            )


def check_length(max_length: int, architecture: Architecture, whose: str) -> None:
    """Refuse sequences that are longer than the position table of ``whose`` model. Raises ``UserError``."""
    if architecture.backbone == "transformer" and max_length > architecture.positions:
        raise UserError(
            f"task.max_length={max_length} is longer than the position table of {whose}"
            f" ({counted(architecture.positions, 'row')}): set task.max_length={architecture.positions} or less."
        )


def check_tuning(tuning: TuningConfig, features: FeaturesConfig, architecture: Architecture | None = None) -> None:
    """Refuse ways of training that contradict each other, or the model's depth where it is known. Raises ``UserError``."""
    if tuning.freeze not in FREEZES:
        raise unknown("value of tuning.freeze", tuning.freeze, FREEZES)
    if not 0 < tuning.layer_decay <= 1:
        raise UserError(f"tuning.layer_decay={tuning.layer_decay} must lie in (0, 1]: each layer's rate is that of the one above times it.")
    given = _choices_on_layers(tuning)
    for key in given:
        if features.kind != "none":
            raise UserError(f"tuning.{key} has no effect with features={features.kind}, where the whole model is frozen: leave it out.")
        if tuning.freeze == "encoder" and key != "freeze":
            raise UserError(f"tuning.{key} contradicts tuning.freeze=encoder, where no layer is trained: leave one of the two out.")
    for key in ("frozen_layers", "reinit_layers"):
        _check_layers(key, getattr(tuning, key), architecture)
    if architecture is not None and tuning.reinit_layers and tuning.frozen_layers + tuning.reinit_layers > layers_of(architecture):
        raise UserError(
            f"tuning.frozen_layers={tuning.frozen_layers} and tuning.reinit_layers={tuning.reinit_layers} overlap in a model of "
            f"{_layers_in_words(architecture)}: a layer that starts anew must be trained."
        )


def _choices_on_layers(tuning: TuningConfig) -> list[str]:
    """The keys of ``tuning`` that are not at their default and are about the model's layers."""
    neutral = TuningConfig()
    return [
        key
        for key in ("freeze", "frozen_layers", "gradual", "layer_decay", "reinit_layers")
        if getattr(tuning, key) != getattr(neutral, key)
    ]


def _check_layers(key: str, count: int, architecture: Architecture | None) -> None:
    if count < 0:
        raise UserError(f"tuning.{key}={count} must not be negative.")
    if architecture is not None and count > layers_of(architecture):
        raise UserError(f"tuning.{key}={count} is too many: the model has {_layers_in_words(architecture)}.")
