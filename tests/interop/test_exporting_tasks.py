"""Fine-tuned models in transformers' classes for tasks: the same logits."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from toys import LENGTHS, padded, toy_batch
from transformers import (
    AutoModelForMultipleChoice,
    AutoModelForQuestionAnswering,
    AutoModelForSequenceClassification,
    AutoModelForTokenClassification,
)
from written_runs import MakeRun

from bertlab.data.task_batch import TaskBatch
from bertlab.errors import UserError
from bertlab.files import write_json
from bertlab.finetune_config import FeaturesConfig, HeadConfig
from bertlab.interop.exporting_tasks import export_task
from bertlab.interop.finetuned import describe
from bertlab.interop.pretrained import load_pretrained
from bertlab.models.task_model import TaskModel
from bertlab.run_files.folder import RunFolder
from bertlab.task_config import TaskConfig

CLASSES = {
    "classification": AutoModelForSequenceClassification,
    "regression": AutoModelForSequenceClassification,
    "choice": AutoModelForMultipleChoice,
    "tagging": AutoModelForTokenClassification,
    "span": AutoModelForQuestionAnswering,
}
LABELS = {"classification": ["yes", "no", "maybe"], "tagging": ["O", "B-PER", "I-PER"]}


def tuned_run(folder: Path, source: Path, kind: str, features: FeaturesConfig | None = None, **head: Any) -> tuple[RunFolder, TaskModel]:
    """A folder as a finished fine-tuning leaves it."""
    pretrained = load_pretrained(str(source), Path())
    config, features = HeadConfig(**head), features or FeaturesConfig()
    torch.manual_seed(7)
    labels = LABELS.get(kind, [])
    model = TaskModel(pretrained.bert, kind, len(labels), config, features)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
    run = RunFolder(folder)
    folder.mkdir()
    describe(run, TaskConfig(name="mine", kind=kind), labels, model, config, features)
    run.config.write_text("task: {name: mine}\n")
    pretrained.vocabulary.save(run.tokenizer)
    save_file(dict(model.state_dict()), run.weights)
    write_json(run.result, {"threshold": 1.5 if kind == "span" else None})
    return run, model.eval()


@pytest.mark.parametrize("next_sentence", [True, False])
@pytest.mark.parametrize("kind", CLASSES)
def test_the_logits_are_the_same(make_run: MakeRun, tmp_path: Path, kind: str, next_sentence: bool) -> None:
    run, model = tuned_run(tmp_path / "tuned", make_run(next_sentence=next_sentence), kind)
    said = export_task(run, tmp_path / "out")
    assert ("1.5" in " ".join(said)) == (kind == "span")
    theirs, report = CLASSES[kind].from_pretrained(tmp_path / "out", output_loading_info=True)
    assert not any(report[key] for key in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")), report
    if kind in LABELS:
        assert list(theirs.config.id2label.values()) == LABELS[kind]
    batch = toy_batch(LENGTHS, model.bert.architecture.vocab_size)
    real = padded(batch, torch.ones_like(batch.tokens)).bool()
    inputs = {
        "input_ids": padded(batch, batch.tokens),
        "attention_mask": padded(batch, torch.ones_like(batch.tokens)),
        "token_type_ids": padded(batch, batch.segments),
    }
    if kind == "choice":
        inputs = {name: values.view(2, 3, -1) for name, values in inputs.items()}
    words = torch.arange(batch.tokens.numel()) if kind == "tagging" else None
    count = len(LENGTHS) // 3 if kind == "choice" else len(LENGTHS)
    ours = TaskBatch(batch, torch.arange(count), torch.full((count,), len(LENGTHS) // count), word_tokens=words, words_per_example=None)
    with torch.no_grad():
        found, expected = model(ours), theirs.eval()(**inputs)
    wanted = {
        "classification": lambda: expected.logits,
        "regression": lambda: expected.logits[:, 0],
        "choice": lambda: expected.logits.view(-1),
        "tagging": lambda: expected.logits[real],
        "span": lambda: torch.stack((expected.start_logits[real], expected.end_logits[real]), 1),
    }[kind]()
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize(
    ("kind", "settings", "reason"),
    [
        ("tagging", {"crf": True}, "CRF"),
        ("classification", {"bilstm": True}, "BiLSTM on top"),
        ("classification", {"convolution": 3}, "convolution"),
        ("classification", {"layers": 2}, "several layers"),
        ("classification", {"pooling": "mean"}, "pooling=mean"),
        ("classification", {"pooler": False}, "head without a pooler"),
        ("tagging", {"features": FeaturesConfig("last", hidden=8, layers=1)}, "frozen features"),
    ],
    ids=str,
)
def test_heads_that_transformers_has_no_class_for(
    make_run: MakeRun, tmp_path: Path, kind: str, settings: dict[str, Any], reason: str
) -> None:
    run, _ = tuned_run(tmp_path / "tuned", make_run(), kind, **settings)
    with pytest.raises(UserError, match=f"has no {reason}"):
        export_task(run, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_models_that_transformers_cannot_hold(make_run: MakeRun, tmp_path: Path) -> None:
    run, _ = tuned_run(tmp_path / "tuned", make_run(norm="batch"), "classification")
    with pytest.raises(UserError, match="batch normalisation"):
        export_task(run, tmp_path / "out")
