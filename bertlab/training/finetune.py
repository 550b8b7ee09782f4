"""Fine-tuning from a configuration to a run folder: task → pre-trained model → training → predictions → result."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from bertlab.counting import counted
from bertlab.errors import UserError
from bertlab.files import write_json
from bertlab.finetune_config import FinetuneConfig
from bertlab.launched import check_place, place_taken, process_rank
from bertlab.run_files.folder import RunFolder
from bertlab.training.devices import check_devices, examples_at_once, warn_of_cores
from bertlab.training.finetune_identity import finetune_folder_of, finetuning_identity
from bertlab.training.identity import Identity, hash8, write_identity
from bertlab.training.memory import AtOnce, memory_told
from bertlab.training.progress import ProgressDisplay, say
from bertlab.training.running import bad_ends_told, fit, train_once

if TYPE_CHECKING:
    from bertlab.interop.pretrained import Pretrained
    from bertlab.models.task_model import TaskModel
    from bertlab.run_files.states import State
    from bertlab.training.finetune_bookkeeping import FinetuneBookkeeping, FinetuneSurroundings
    from bertlab.training.finetune_data import ChosenTask, TaskLoader
    from bertlab.training.metrics import Row
    from bertlab.training.predicting import Judged, Split
    from bertlab.training.ranks import Ranks


@dataclass(frozen=True)
class Ingredients:
    """What a configuration means before anything is trained."""

    config: FinetuneConfig
    task: ChosenTask
    pretrained: Pretrained
    identity: Identity


def check_machine(config: FinetuneConfig) -> None:
    """Refuse devices, files and a checkpoint that are not there, before any job of a command has begun. Raises ``UserError``."""
    from bertlab.run_files.locating import located
    from bertlab.tasks.discovery import find_files

    check_place(config.trainer)
    check_devices(config.trainer)
    if config.task.format not in ("probe", "huggingface"):
        find_files(config.task)
    if config.submission:
        _splits_to_submit(config)
    located(config.checkpoint, config.paths.runs_folder)


def finetune(config: FinetuneConfig) -> Path:
    """Train what ``config`` describes, or go on with it where it was left; returns the run's folder.

    A run that is done is left as it is, but for a submission that it lacks.

    Raises:
        UserError: the task, the checkpoint or their combination cannot be used, or another process trains this run.
        RunFailed: the numbers stopped making sense, now or in an earlier call.
        Interrupted: a signal asked to stop (Ctrl-C, SIGTERM, SIGHUP, SIGUSR1); the state is saved.
    """
    with place_taken(config.trainer):
        check_devices(config.trainer)
        warn_of_cores(config.trainer)
        if config.submission:
            _splits_to_submit(config)  # what cannot be submitted is said before hours of training, not after
        ingredients = prepare_ingredients(config)
        run = finetune_folder_of(config.paths.runs_folder, config, ingredients.pretrained, ingredients.identity)
        with memory_told(_at_once(ingredients)):
            folder = train_once(run, lambda: _train(ingredients, run))
        if config.submission and process_rank() == 0:
            _submit(ingredients, run)
        return folder


def _at_once(ingredients: Ingredients) -> AtOnce:
    norm = ingredients.pretrained.architecture.norm
    return AtOnce(
        "tuning.micro",
        examples_at_once(ingredients.config),
        "examples",
        norm == "batch",
        "a smaller checkpoint or a shorter task.max_length",
    )


def prepare_ingredients(config: FinetuneConfig) -> Ingredients:
    """Read the task and the pre-trained model and refuse what does not fit together."""
    from bertlab.training.finetune_data import read_task

    task = read_task(config, ["train", *config.task.evaluate])
    for note in task.data.notes if process_rank() == 0 else ():
        say(note)
    _check_labels(config, task)
    _refuse_single_label(config, task)
    _check_metrics(config, task)
    from bertlab.interop.pretrained import load_pretrained
    from bertlab.training.finetune_model import architecture_of

    pretrained = load_pretrained(config.checkpoint, config.paths.runs_folder)
    _check_fits(config, pretrained, task)
    architecture = architecture_of(config, pretrained.architecture)
    return Ingredients(config, task, pretrained, finetuning_identity(config, pretrained, architecture, task.data.fingerprint))


def _check_labels(config: FinetuneConfig, task: ChosenTask) -> None:
    """Refuse to learn from, or be judged by, examples of which it is not known what is right. Raises ``UserError``."""
    from bertlab.tasks.predictions import gold_of

    for split in ("train", config.task.evaluate[0]):
        unknown = sum(gold_of(example, task.data.labels) is None for example in task.data.splits[split])
        if unknown:
            hint = "task.columns.label (or answer, tags)" if split == "train" else "another split first in task.evaluate"
            raise UserError(f"Of {counted(unknown, 'example')} of {split} it is not known what is right: name {hint}.")


def _refuse_single_label(config: FinetuneConfig, task: ChosenTask) -> None:
    """Who has met one label alone gives it to everything, and is always right where there is no other. Raises ``UserError``."""
    from bertlab.tasks.discovery import training_file
    from bertlab.tasks.predictions import gold_of

    if config.task.kind not in ("classification", "tagging"):
        return
    found = [gold_of(example, task.data.labels) for example in task.data.splits["train"]]
    used = set(found) if config.task.kind == "classification" else {tag for tags in found for tag in tags}
    if len(used) > 1:
        return
    column = "label" if config.task.kind == "classification" else "tags"
    taken = " that are taken" if any(why.startswith("train") for why in task.left_out) else ""
    fewer = f"raise tuning.train_examples={config.tuning.train_examples}, " if config.tuning.train_examples is not None else ""
    raise UserError(
        f"{training_file(config.task)}: all training examples{taken} are labelled {used.pop()!r}, so there is nothing to tell apart:"
        f" {fewer}give examples of another label, or name the right column in task.columns.{column}."
    )


def _check_metrics(config: FinetuneConfig, task: ChosenTask) -> None:
    """Refuse metrics that these examples do not have: labels may have been learned, and questions all be of one kind."""
    from bertlab.tasks.metric_names import known_metrics

    known, judging = known_metrics(replace(config.task, labels=task.data.labels)), config.task.evaluate[0]
    if config.task.kind == "span":
        answered = {bool(example.answers) for example in task.data.splits[judging]}
        absent = ("has_answer", "no_answer") if False not in answered else () if True in answered else ("has_answer",)
        known = [name for name in known if not name.startswith(absent)]
    for metric in config.task.metrics:
        if metric not in known:
            raise UserError(f"The examples of {judging} have no metric {metric!r}: choose task.metrics from {', '.join(known)}.")


def _check_fits(config: FinetuneConfig, pretrained: Pretrained, task: ChosenTask) -> None:
    """Refuse what this model cannot do. Raises ``UserError``."""
    from bertlab.models.task_checks import check_head, check_length, check_tuning

    architecture = pretrained.architecture
    check_head(config.task.kind, config.head, config.features, architecture)
    check_tuning(config.tuning, config.features, architecture)
    check_length(config.task.max_length, architecture, pretrained.name)
    if architecture.backbone != "cbow" and architecture.segments < 2 and _has_pairs(task):
        raise UserError(
            f"task={config.task.name} has sequences of two parts, and {pretrained.name} knows one segment only: take another model."
        )


def _has_pairs(task: ChosenTask) -> bool:
    """Whether a sequence can have a second segment."""
    if task.data.kind in ("choice", "span"):
        return True
    return any(getattr(example, "pair", None) is not None for examples in task.data.splits.values() for example in examples)


def _train(ingredients: Ingredients, run: RunFolder) -> None:
    from bertlab.run_files.states import load_newest
    from bertlab.training.finetune_bookkeeping import FinetuneBookkeeping
    from bertlab.training.finetune_data import TaskLoader, TaskSteps
    from bertlab.training.finetune_model import build_task_model
    from bertlab.training.finetune_module import FinetuneModule
    from bertlab.training.machine import lightning_trainer, set_up_process
    from bertlab.training.schedules import Schedule

    config = ingredients.config
    device_kind = set_up_process(config.trainer, ingredients.pretrained.architecture.backbone)
    model = build_task_model(config, ingredients.pretrained, ingredients.task.data.labels)
    if process_rank() == 0:
        _describe(ingredients, run, model)
    splits = _splits(ingredients, model, device_kind)
    steps = TaskSteps(splits["train"].inputs, config, process_rank(), config.trainer.world, splits["train"].attach)
    steps_per_epoch = steps.per_epoch
    total = max(1, round(config.tuning.epochs * steps_per_epoch))
    _check_shares(ingredients, splits["train"].inputs.examples)
    module = FinetuneModule(model, config, Schedule.of(config.optimizer, total, None))
    state = load_newest(run.checkpoints, say, put_aside=process_rank() == 0)
    _announce(ingredients, run, model, total, state)
    first = 0 if state is None else total if state["ended_early"] else state["step"]
    on_gpu = device_kind == "gpu"
    workers = config.trainer.workers if config.trainer.workers is not None else (4 if on_gpu else 0)
    loader = TaskLoader(steps, first, total, workers=workers, pinned=on_gpu)
    bookkeeping = FinetuneBookkeeping(_surroundings(ingredients, run, splits, loader, steps_per_epoch, state))
    del state  # which the bookkeeping lets go of when the model has it
    trainer = lightning_trainer(config.trainer, device_kind, bookkeeping, find_unused=config.tuning.gradual)
    with bad_ends_told(run, bookkeeping):
        fit(trainer, module, loader, bookkeeping)
        _finish(ingredients, run, model, splits, bookkeeping)


def _describe(ingredients: Ingredients, run: RunFolder, model: TaskModel) -> None:
    """Write what is known before the training."""
    from bertlab.interop.finetuned import describe

    config = ingredients.config
    run.write_config(config)
    write_identity(run, ingredients.identity)
    ingredients.pretrained.vocabulary.save(run.tokenizer)
    describe(run, config.task, ingredients.task.data.labels, model, config.head, config.features)


def _splits(ingredients: Ingredients, model: TaskModel, device_kind: str) -> dict[str, Split]:
    """Every split as numbers, with frozen features where they are asked for."""
    from bertlab.training.finetune_data import inputs_of
    from bertlab.training.predicting import Split

    config, data = ingredients.config, ingredients.task.data
    splits = {}
    for name in ("train", *config.task.evaluate):
        inputs = inputs_of(config, data, name, ingredients.pretrained.vocabulary)
        splits[name] = Split(name, data.splits[name], inputs)
    if model.is_frozen:
        from bertlab.training.frozen import attach_features

        return {name: attach_features(split, model, _frozen_weights(ingredients), config, device_kind) for name, split in splits.items()}
    return splits


def _frozen_weights(ingredients: Ingredients) -> str:
    """What decides the weights that features are made with, and no more than that."""
    if ingredients.config.weights == "pretrained":
        return ingredients.pretrained.fingerprint
    identity = ingredients.identity
    return hash8({"random": identity["architecture"], "vocabulary": identity["vocabulary"], "seed": identity["seed"]})


def _check_shares(ingredients: Ingredients, examples: int) -> None:
    """Batch normalisation meets the other ranks in every micro-batch, so there each needs as many. Raises ``UserError``."""
    config, world = ingredients.config, ingredients.config.trainer.world
    if world == 1 or ingredients.pretrained.architecture.norm != "batch":
        return
    micro = config.tuning.micro or config.tuning.batch
    for size in {min(config.tuning.batch, examples), examples % config.tuning.batch} - {0}:
        largest = -(-size // world)
        if size // world < -(-largest // micro):
            raise UserError(
                f"A batch of {counted(size, 'example')} cannot be shared by {world} devices under batch normalisation: choose tuning.batch"
                f" so that the {counted(examples, 'example')} of training leave no small batch at the end of an epoch, or lower"
                " trainer.devices."
            )


def _announce(ingredients: Ingredients, run: RunFolder, model: TaskModel, total: int, state: State | None) -> None:
    if process_rank() > 0:
        return
    task, trained = ingredients.task, sum(each.numel() for each in model.parameters() if each.requires_grad)
    parameters = sum(each.numel() for each in model.parameters())
    begun = "" if state is None else f", resumed after step {state['step']:,}"
    examples, steps = counted(task.examples["train"], "example"), counted(total, "step")
    say(f"{run.name}: {examples}, {trained:,} of {parameters:,} parameters trained, {steps}{begun}")
    if task.left_out:
        say("left out: " + ", ".join(f"{count:,} ({why})" for why, count in task.left_out.items()))


def _surroundings(
    ingredients: Ingredients, run: RunFolder, splits: dict[str, Split], loader: TaskLoader, steps_per_epoch: int, state: State | None
) -> FinetuneSurroundings:
    from bertlab.models.freezing import lowest_trained
    from bertlab.models.size import flops_per_token
    from bertlab.training.finetune_bookkeeping import FinetuneSurroundings
    from bertlab.training.wandb_mirror import make_mirror

    config, architecture = ingredients.config, ingredients.pretrained.architecture
    shown = {**asdict(config), "identity": hash8(ingredients.identity)}
    judging = config.task.evaluate[0]
    whole = config.features.kind == "none" and lowest_trained(config.tuning, architecture.layers + 1, share=0.0) == 0
    return FinetuneSurroundings(
        run=run,
        trainer=config.trainer,
        checkpointing=config.checkpointing,
        loader=loader,
        mirror=lambda say_above: make_mirror(config.logger, run.path, shown, say_above),
        state=state,
        tuning=config.tuning,
        steps_per_epoch=steps_per_epoch,
        split=judging,
        metric=config.task.metrics[0],
        figures=lambda model, ranks: _figures(ingredients, model, splits[judging], ranks),
        flops_per_token=(lambda length: flops_per_token(architecture, max(1, round(length)), 0.0)) if whole else None,
    )


def _figures(ingredients: Ingredients, model: TaskModel, split: Split, ranks: Ranks) -> Row:
    """Metrics of a split, on the first rank."""
    from bertlab.training.predicting import figures

    judged = _judge(ingredients, model, split, ranks)
    return {} if judged is None else figures(ingredients.config.task, ingredients.task.data.labels, judged)


def _judge(
    ingredients: Ingredients, model: TaskModel, split: Split, ranks: Ranks, threshold: float | None = None, *, shown: bool = False
) -> Judged | None:
    from bertlab.training.predicting import judge

    config, done = ingredients.config, 0
    display = ProgressDisplay(shown and config.trainer.progress and ranks.first, title=f"predicting {split.name}")

    def advance(examples: int) -> None:
        nonlocal done
        done += examples * ranks.world
        display.advance(min(1.0, done / len(split.examples)))

    bf16, labels = config.trainer.precision == "bf16", ingredients.task.data.labels
    try:
        return judge(model, config.task, labels, split, ranks, bf16=bf16, threshold=threshold, advance=advance)
    finally:
        display.close()


def _finish(ingredients: Ingredients, run: RunFolder, model: TaskModel, splits: dict[str, Split], bookkeeping: FinetuneBookkeeping) -> None:
    """Judge the chosen weights on every split and write what a finished run leaves, result.json last. All ranks work; the first writes."""
    from bertlab.run_files.weight_files import write_weights
    from bertlab.tasks.predictions import write_predictions
    from bertlab.training.finetune_result import make_result, summary

    _take_best(model.to(bookkeeping.speed.device), bookkeeping)
    judged: dict[str, Judged] = {}
    threshold = None
    for name in ingredients.config.task.evaluate:
        found = _judge(ingredients, model, splits[name], bookkeeping.ranks, threshold, shown=True)
        if found is not None:
            judged[name] = found
            threshold = found.threshold if threshold is None else threshold
    if not bookkeeping.ranks.first:
        return
    for number, (name, found) in enumerate(judged.items()):
        write_predictions(run.predictions_of(name) if number else run.predictions, found.predictions)
    write_weights(run.weights, model.state_dict())
    result = make_result(ingredients, run, model, judged, bookkeeping)
    write_json(run.result, result)
    _delete_states(run)
    bookkeeping.mirror.finish(exit_code=0, summary={"value": result["value"], "degenerate": result["degenerate"] is not None})
    for line in summary(result):
        say(line)


def _take_best(model: TaskModel, bookkeeping: FinetuneBookkeeping) -> None:
    """Raises ``UserError`` where they are damaged: the training is over, and nothing else has them."""
    from bertlab.run_files.weight_files import read_weights

    if (kept := bookkeeping.kept_weights) is None:
        return
    try:
        model.load_state_dict(read_weights(kept))
    except UserError as error:
        raise UserError(f"The best weights of this run are damaged or gone ({kept}): delete {kept.parent} to train it anew.") from error


def _delete_states(run: RunFolder) -> None:
    """Nothing is gone on with after the result; weights that were to be kept stay."""
    from bertlab.run_files.states import keep_newest

    keep_newest(run.checkpoints, 0)
    for path in run.checkpoints.glob("best-*.safetensors"):
        path.unlink()
    with suppress(OSError):
        run.checkpoints.rmdir()


def _splits_to_submit(config: FinetuneConfig) -> list[str]:
    """The splits that the task's server asks for and whose files are here. Raises ``UserError`` where there is none."""
    from bertlab.tasks.load import available_splits

    if not config.task.submission:
        raise UserError(f"submission=true, but task={config.task.name} has no form for a submission (task.submission is empty).")
    there = available_splits(config.task, config.paths)
    if not (wanted := [split for split in config.task.submission if split in there]):
        raise UserError(f"submission=true, but task={config.task.name} has no file for {', '.join(config.task.submission)} here.")
    return wanted


def _submit(ingredients: Ingredients, run: RunFolder) -> None:
    """Predict what the task's server asks for and write its files, unless they are there."""
    from bertlab.interop.finetuned import load_finetuned
    from bertlab.tasks.submission import write_submission
    from bertlab.training.finetune_data import inputs_of, read_task
    from bertlab.training.machine import set_up_process
    from bertlab.training.predicting import Split
    from bertlab.training.ranks import Ranks

    config = replace(ingredients.config, tuning=replace(ingredients.config.tuning, eval_examples=None))
    wanted = _splits_to_submit(config)
    if without := [split for split in config.task.submission if split not in wanted]:
        say(f"submission: task={config.task.name} has no file for {', '.join(without)} here; the others are predicted")
    if all((run.submission / config.task.submission[split]).is_file() for split in wanted):
        return
    device_kind = set_up_process(config.trainer, ingredients.pretrained.architecture.backbone)
    finetuned = load_finetuned(run)
    model = finetuned.model.to("cuda" if device_kind == "gpu" else "cpu")
    for name in wanted:
        data = read_task(config, [name]).data
        split = Split(name, data.splits[name], inputs_of(config, data, name, finetuned.vocabulary))
        judged = _judge(ingredients, model, split, Ranks(0, 1), finetuned.threshold, shown=True)
        assert judged is not None
        say(f"submission: {write_submission(run.submission, config.task, name, judged.predictions)}")
