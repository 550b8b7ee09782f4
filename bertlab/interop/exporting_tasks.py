"""Writing a fine-tuned model for transformers, which has a class for the paper's heads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from torch import Tensor

from bertlab.errors import UserError
from bertlab.files import write_json
from bertlab.interop.exporting import THEIR_FILES, claim, reason_against, save_tokenizer, save_weights
from bertlab.interop.finetuned import Finetuned, load_finetuned
from bertlab.interop.huggingface import config_of, their_weights
from bertlab.models.task_model import TaskModel
from bertlab.run_files.folder import RunFolder

# Kind of a task → transformers' class, and what it calls the last layer.
_CLASSES = {
    "classification": ("BertForSequenceClassification", "classifier"),
    "regression": ("BertForSequenceClassification", "classifier"),
    "choice": ("BertForMultipleChoice", "classifier"),
    "tagging": ("BertForTokenClassification", "classifier"),
    "span": ("BertForQuestionAnswering", "qa_outputs"),
}


def export_task(run: RunFolder, folder: Path) -> list[str]:
    """Write the fine-tuned model of ``run`` to ``folder``; returns sentences about what was written.

    Raises:
        UserError: transformers has no class for its head or for the model under it, or the folder holds other files.
    """
    tuned = load_finetuned(run)
    model, architecture = tuned.model, tuned.model.bert.architecture
    if reason := reason_against(architecture) or _reason_against_head(model):
        raise UserError(f"transformers' BERT has no {reason}: {run.name} stays in its own folder; --as encoder exports what it can hold.")
    kind, last = _CLASSES[model.kind]
    claim(folder, THEIR_FILES)
    weights = _encoder(model)
    theirs = {name: tensor for name, tensor in their_weights(weights, architecture).items() if name.startswith("bert.")}
    theirs |= _pooler(model)
    theirs |= {f"{last}.{name}": tensor for name, tensor in model.head.classifier.state_dict().items()}
    save_tokenizer(tuned.vocabulary, folder, architecture.positions)
    save_weights(folder, theirs)
    write_json(folder / "config.json", config_of(architecture, kind, tuned.vocabulary.pad) | _labels(tuned))
    said = f"{folder} holds a {kind} for transformers, with its tokenizer."
    if tuned.threshold is None:
        return [said]
    return [said, f"A question is answered if its best answer scores at least {tuned.threshold:g} more than no answer."]


def _reason_against_head(model: TaskModel) -> str | None:
    """What of the head transformers' classes have not; None where they can hold it."""
    head = model.head
    for reason, holds in (
        ("frozen features", model.is_frozen),
        ("several layers under a head", model.layers != 1),
        ("convolution", head.convolution is not None),
        ("BiLSTM on top", head.reader is not None),
        ("CRF", head.crf is not None),
    ):
        if holds:
            return reason
    if model.kind in ("classification", "regression", "choice"):
        if head.pooling != "first":
            return f"pooling={head.pooling}"
        if not head.takes_pretrained_pooler and head.pooler is None:
            return "head without a pooler"
    return None


def _encoder(model: TaskModel) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in model.bert.state_dict().items() if name.startswith(("embeddings.", "backbone."))}


def _pooler(model: TaskModel) -> dict[str, Tensor]:
    """The pooler that the head reads; theirs for tags and spans have none."""
    if model.kind in ("tagging", "span"):
        return {}
    pooler = model.bert.pooler if model.head.takes_pretrained_pooler else model.head.pooler
    assert pooler is not None
    return {f"bert.pooler.{name}": tensor for name, tensor in pooler.state_dict().items()}


def _labels(tuned: Finetuned) -> dict[str, Any]:
    """The names of the classes, as config.json has them."""
    if tuned.model.kind == "regression":
        return {"id2label": {"0": "LABEL_0"}, "label2id": {"LABEL_0": 0}, "problem_type": "regression"}
    if not tuned.labels:
        return {}
    return {
        "id2label": {str(number): label for number, label in enumerate(tuned.labels)},
        "label2id": {label: number for number, label in enumerate(tuned.labels)},
    }
