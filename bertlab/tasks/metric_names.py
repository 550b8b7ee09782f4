"""Which metrics a task can be measured by; nothing heavy is imported."""

from __future__ import annotations

from bertlab.task_config import TaskConfig


def known_metrics(task: TaskConfig) -> list[str]:
    """The metrics that ``bertlab.tasks.metrics.metrics_of`` can give for a task of this kind."""
    if task.kind == "classification":
        return ["accuracy", "matthews", "macro_f1", *(["f1"] if len(task.labels) in (0, 2) else [])]
    if task.kind == "span" and task.no_answer:
        parts = [f"{part}_{name}" for part in ("has_answer", "no_answer", "best") for name in ("exact", "f1")]
        return ["exact", "f1", *parts]
    return {
        "regression": ["pearson", "spearman"],
        "choice": ["accuracy"],
        "tagging": ["f1", "precision", "recall", "accuracy"],
        "span": ["exact", "f1"],
    }[task.kind]
