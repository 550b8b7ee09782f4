"""How large a model is, in closed form: parameters, training FLOPs a token, memory. Builds nothing and needs no PyTorch."""

from __future__ import annotations

from dataclasses import dataclass

from bertlab.models.architecture import Architecture


@dataclass(frozen=True)
class ParameterTable:
    """Trained numbers by part of the model. The language head shares the word table, which counts once, with the embeddings."""

    parts: dict[str, int]  # in the order of the data's way through the model
    encoder_with_pooler: int  # what publications call the size of a model: embeddings, backbone and pooler, no other head

    @property
    def total(self) -> int:
        """All that this model trains."""
        return sum(self.parts.values())


@dataclass(frozen=True)
class Memory:
    """Bytes that a training step needs on a device, estimated."""

    weights: int  # under bf16 with their copy in it
    gradients: int
    optimizer: int  # Adam's two moments
    activations: int  # what the forward pass keeps for the backward pass
    gathered: int = 0  # of weights that are parted among devices: what is whole at a time, and under bf16 its copy

    @property
    def total(self) -> int:
        """All of it."""
        return self.weights + self.gradients + self.optimizer + self.activations + self.gathered


def parameter_table(architecture: Architecture) -> ParameterTable:
    """Count the parameters of every part."""
    a, hidden = architecture, architecture.hidden
    tables = {"word embeddings": a.vocab_size * hidden}
    if a.backbone == "transformer":
        tables["position embeddings"] = a.positions * hidden
    if a.backbone != "cbow":
        tables["segment embeddings"] = a.segments * hidden
    if a.placement == "post":
        tables["embedding norm"] = 2 * hidden
    pooler = _dense(hidden, hidden)
    parts = tables | _backbone(a)
    if a.next_sentence:
        parts["pooler"] = pooler
    parts["language head"] = _dense(a.language_width, hidden) + 2 * hidden + a.vocab_size
    if a.next_sentence:
        parts["next-sentence head"] = _dense(hidden, 2)
    return ParameterTable(parts, sum(tables.values()) + sum(_backbone(a).values()) + pooler)


def _dense(inputs: int, outputs: int) -> int:
    return inputs * outputs + outputs


def _backbone(a: Architecture) -> dict[str, int]:
    final_norm = {"final norm": 2 * a.hidden} if a.placement == "pre" and a.backbone != "cbow" else {}
    if a.backbone == "cbow":
        return {"norm": 2 * a.hidden}
    if a.backbone == "bilstm":
        gates = sum(4 * each.width * (each.inputs + each.width + 2) for each in _lstms(a))
        # A layer that reads both ways has one norm: over its inputs, or over the states of both.
        normed = sum(each.inputs / _ways_of_a_layer(a) if a.placement == "pre" else each.width for each in _lstms(a))
        return {"lstms": gates, "norms": 2 * int(normed)} | final_norm
    feed_forward = _dense(a.hidden, a.intermediate) + _dense(a.intermediate, a.hidden)
    return {
        "attention": a.layers * 4 * _dense(a.hidden, a.hidden),
        "feed-forward": a.layers * feed_forward,
        "norms": a.layers * 4 * a.hidden,
    } | final_norm


@dataclass(frozen=True)
class _Lstm:
    inputs: int
    width: int


def _ways_of_a_layer(a: Architecture) -> int:
    return 2 if a.directions == "both" else 1


def _lstms(a: Architecture) -> list[_Lstm]:
    """Every LSTM of a bilstm backbone: its inputs and its width."""
    width = a.hidden // 2 if a.directions in ("both", "pair") else a.hidden
    stacks = 2 if a.directions == "pair" else 1
    above = a.hidden if a.directions == "both" else width  # what a layer past the first reads
    layers = [_Lstm(a.hidden, width)] + [_Lstm(above, width)] * (a.layers - 1)
    return layers * (stacks * _ways_of_a_layer(a))


def flops_per_token(architecture: Architecture, length: int, predicted_share: float, read_share: float | None = None) -> float:
    """Training FLOPs a token in sequences of ``length``, of which ``predicted_share`` (0 to 1) are predicted.

    A product with a matrix of n weights takes 2n FLOPs forward and twice that backward: 6n. Attention's two products with the L
    tokens that a position sees take 4LH forward, so 12LH in a layer; a causal position sees (L + 1) / 2 of them on average. The
    language head counts at predicted positions only, and twice for a pair of language models; pooler and next-sentence head count
    once a sequence. Lookups, norms, activations and the optimizer are left out.

    ``read_share`` is how many of the highest layer's states are read, by default those of predicted positions and, with next-sentence
    prediction, one a sequence. Of the other tokens a transformer's highest layer needs keys and values only, unless batch normalisation
    takes its statistics of all. What is needed counts, even where more is computed: queries and attention of a causal model or on a GPU.
    """
    a = architecture
    if read_share is None:
        read_share = min(1.0, predicted_share + (1 / length if a.next_sentence else 0.0))
    weights = _transformer_weights(a, length, read_share) if a.backbone == "transformer" else float(_lstm_weights(a))
    heads = 2 if a.backbone == "bilstm" and a.directions == "pair" else 1
    weights += heads * predicted_share * (a.language_width * a.hidden + a.hidden * a.vocab_size)
    if a.next_sentence:
        weights += (a.hidden * a.hidden + 2 * a.hidden) / length
    return 6 * weights


def _transformer_weights(a: Architecture, length: int, read_share: float) -> float:
    """Weights that a token meets on average, and numbers of other tokens that attention multiplies as a matrix of weights."""
    keys_values = 2 * a.hidden * a.hidden
    queries_and_output, feed_forward = 2 * a.hidden * a.hidden, 2 * a.hidden * a.intermediate
    seen = length if a.attention == "bidirectional" else (length + 1) / 2
    layers_made = a.layers if a.norm == "batch" else a.layers - 1 + read_share
    return a.layers * keys_values + layers_made * (queries_and_output + feed_forward + 2 * seen * a.hidden)


def _lstm_weights(a: Architecture) -> int:
    """Weights that a token meets; a bag of words has none."""
    return sum(4 * each.width * (each.inputs + each.width) for each in _lstms(a)) if a.backbone == "bilstm" else 0


def memory_estimate(
    architecture: Architecture,
    length: int,
    sequences: int,
    *,
    precision: str = "fp32",
    attention_weights_kept: bool = True,
    recomputed: bool = False,
    parted_among: int | None = None,
) -> Memory:
    """Bytes that a step on a micro-batch of ``sequences`` × ``length`` tokens takes on a device.

    Weights, gradients and Adam's moments are 4 bytes each; under bf16 autocast keeps a copy of the weights in 2. Of the activations
    those are counted that the backward pass needs: the sums that go into a norm in 4 bytes, what goes into a product in 4 (fp32) or
    2 (bf16). Flash attention on a GPU keeps no attention weights (``attention_weights_kept=False``). With ``recomputed`` activations a
    layer keeps its input, and one at a time all that is inside. Where weights are ``parted_among`` devices each holds its rows; whole are
    the embeddings and heads, with their gradients, and two layers, one at work and one on its way, with the gradients of one; the copies
    in bf16 are those of all layers, or with ``recomputed`` activations of these. The highest layer is counted like the others, though it
    keeps less of tokens whose state nobody reads. The logits are never held all at once and are left out; so is what libraries need for
    themselves.
    """
    parameters, bf16 = parameter_table(architecture).total, precision == "bf16"
    summed, multiplied = _numbers_kept_of_a_token(architecture, length, attention_weights_kept, recomputed)
    activations = sequences * length * (4 * summed + (2 if bf16 else 4) * multiplied)
    if parted_among is None:
        return Memory((6 if bf16 else 4) * parameters, 4 * parameters, 8 * parameters, activations)
    share = -(-parameters // parted_among)
    layers, layer = _backbone_and_a_layer(architecture)
    outside = parameters - layers
    gathered = 4 * (outside + 2 * layer) + 4 * (outside + layer)
    if bf16:
        gathered += 2 * (outside + 2 * layer if recomputed else parameters)
    return Memory(4 * share, 4 * share, 8 * share, activations, gathered)


def _backbone_and_a_layer(a: Architecture) -> tuple[int, int]:
    """Parameters of the backbone, and of one of its layers."""
    backbone = sum(_backbone(a).values())
    return backbone, backbone if a.backbone == "cbow" else backbone // a.layers


def _numbers_kept_of_a_token(a: Architecture, length: int, attention_weights_kept: bool, recomputed: bool) -> tuple[int, int]:
    """Those of sums that are normalised, and those that go into a product of matrices; the norm's result is one of the second."""
    embeddings = a.hidden
    if a.backbone == "cbow":
        return embeddings + a.hidden, embeddings + a.hidden
    summed, multiplied = _kept_in_layers(a, length, attention_weights_kept)
    if recomputed:  # the layers' inputs in fp32, and the inside of one of them
        return embeddings + a.layers * a.hidden + -(-summed // a.layers), -(-multiplied // a.layers)
    return embeddings + summed, embeddings + multiplied


def _kept_in_layers(a: Architecture, length: int, attention_weights_kept: bool) -> tuple[int, int]:
    """The same of all layers together."""
    if a.backbone == "bilstm":  # gates, cell, state and the norm's result
        return sum(each.width for each in _lstms(a)), sum(each.inputs + 7 * each.width for each in _lstms(a))
    # queries, keys, values, mixed values; two normed states; the feed-forward's width before and after the activation
    layer = 4 * a.hidden + 2 * a.hidden + 2 * a.intermediate
    if attention_weights_kept:
        layer += a.heads * length
    return a.layers * 2 * a.hidden, a.layers * layer
