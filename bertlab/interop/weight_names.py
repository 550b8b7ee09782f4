"""The names that a BERT's weights have here and in transformers' layout.

Ours and theirs hold the same matrices, but that here queries, keys and values are one matrix, theirs stacked in that order, and that
the output embedding is the word table itself, which theirs name a second time as ``cls.predictions.decoder``.
"""

from __future__ import annotations

from bertlab.models.architecture import Architecture

# Parts that a checkpoint can lack, by the first word of their weights' names.
HEADS = {"language_head": "language head", "pooler": "pooler", "next_sentence_head": "next-sentence head"}

_EMBEDDINGS = {
    "embeddings.words": "word_embeddings",
    "embeddings.positions": "position_embeddings",
    "embeddings.segments": "token_type_embeddings",
}
_LAYER = {
    "attention.queries_keys_values": ("attention.self.query", "attention.self.key", "attention.self.value"),
    "attention.output": ("attention.output.dense",),
    "attention_norm": ("attention.output.LayerNorm",),
    "feed_forward.inner": ("intermediate.dense",),
    "feed_forward.outer": ("output.dense",),
    "feed_forward_norm": ("output.LayerNorm",),
}
_HEADS = {
    "pooler.dense": "bert.pooler.dense",
    "language_head.dense": "cls.predictions.transform.dense",
    "language_head.norm": "cls.predictions.transform.LayerNorm",
    "next_sentence_head": "cls.seq_relationship",
}


def hugging_face_names(architecture: Architecture) -> dict[str, tuple[str, ...]]:
    """Our name of each weight → theirs, several where ours is theirs stacked; of a transformer of BERT's own shape.

    The names of theirs are those of ``BertForPreTraining``; a ``BertModel`` has them without ``bert.``.
    """
    names: dict[str, tuple[str, ...]] = {f"{own}.weight": (f"bert.embeddings.{theirs}.weight",) for own, theirs in _EMBEDDINGS.items()}
    modules: dict[str, tuple[str, ...]] = {"embeddings.norm": ("bert.embeddings.LayerNorm",)}
    for layer in range(architecture.layers):
        for own, theirs in _LAYER.items():
            modules[f"backbone.layers.{layer}.{own}"] = tuple(f"bert.encoder.layer.{layer}.{each}" for each in theirs)
    heads = {own: theirs for own, theirs in _HEADS.items() if architecture.next_sentence or own.startswith("language_head")}
    modules |= {own: (theirs,) for own, theirs in heads.items()}
    for own, parts in modules.items():
        for kind in ("weight", "bias"):
            names[f"{own}.{kind}"] = tuple(f"{part}.{kind}" for part in parts)
    return names | {"language_head.bias": ("cls.predictions.bias",)}


def head_of(name: str) -> str | None:
    """What the weight of ours called ``name`` is part of, if a checkpoint can lack it: one of ``HEADS``' texts."""
    return HEADS.get(name.partition(".")[0])
