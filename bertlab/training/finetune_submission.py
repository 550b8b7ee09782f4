"""The files that a task's server takes, of a fine-tuning that is done."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from bertlab.errors import UserError
from bertlab.finetune_config import FinetuneConfig
from bertlab.training.progress import say

if TYPE_CHECKING:
    from bertlab.run_files.folder import RunFolder
    from bertlab.training.finetune import Ingredients


def splits_to_submit(config: FinetuneConfig) -> list[str]:
    """The splits that the task's server asks for and whose files are here. Raises ``UserError`` where there is none."""
    from bertlab.tasks.load import available_splits

    if not config.task.submission:
        raise UserError(f"submission=true, but task={config.task.name} has no form for a submission (task.submission is empty).")
    there = available_splits(config.task, config.paths)
    if not (wanted := [split for split in config.task.submission if split in there]):
        raise UserError(f"submission=true, but task={config.task.name} has no file for {', '.join(config.task.submission)} here.")
    return wanted


def submit(ingredients: Ingredients, run: RunFolder) -> None:
    """Predict what the task's server asks for and write its files, unless they are there."""
    from bertlab.interop.finetuned import load_finetuned
    from bertlab.tasks.submission import write_submission
    from bertlab.training.finetune_data import inputs_of, read_task
    from bertlab.training.machine import set_up_process
    from bertlab.training.predicting import Split, judge_with_progress
    from bertlab.training.ranks import Ranks

    config = replace(ingredients.config, tuning=replace(ingredients.config.tuning, eval_examples=None))
    wanted = splits_to_submit(config)
    if without := [split for split in config.task.submission if split not in wanted]:
        say(f"submission: task={config.task.name} has no file for {', '.join(without)} here; the others are predicted")
    if all((run.submission / config.task.submission[split]).is_file() for split in wanted):
        return
    device_kind = set_up_process(config.trainer, ingredients.pretrained.architecture.backbone)
    finetuned = load_finetuned(run)
    model = finetuned.model.to("cuda" if device_kind == "gpu" else "cpu")
    for name in wanted:
        read = read_task(config, [name])
        if read.left_out:  # the server takes whole files only
            lost = ", ".join(f"{count:,} ({why})" for why, count in read.left_out.items())
            raise UserError(
                f"submission: examples of {name} are left out, {lost}: mend its file, and the same command writes the submission."
            )
        data = read.data
        split = Split(name, data.splits[name], inputs_of(config, data, name, finetuned.vocabulary))
        judged = judge_with_progress(config, ingredients.task.data.labels, model, split, Ranks(0, 1), finetuned.threshold, shown=True)
        assert judged is not None
        say(f"submission: {write_submission(run.submission, config.task, name, judged.predictions)}")
