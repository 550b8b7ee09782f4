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
from bertlab.messages import warn
from bertlab.run_files.folder import RunFolder
from bertlab.training.devices import check_devices, examples_at_once, warn_of_cores
from bertlab.training.finetune_checks import check_examples, check_model, check_shares, warning_of_window
from bertlab.training.finetune_identity import finetune_folder_of, finetuning_identity
from bertlab.training.finetune_submission import splits_to_submit, submit
from bertlab.training.identity import Identity, hash8, write_identity
from bertlab.training.memory import AtOnce, memory_told
from bertlab.training.progress import say
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
        splits_to_submit(config)
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
            splits_to_submit(config)  # what cannot be submitted is said before hours of training, not after
        ingredients = prepare_ingredients(config)
        run = finetune_folder_of(config.paths.runs_folder, config, ingredients.pretrained, ingredients.identity)
        with memory_told(_at_once(ingredients)):
            folder = train_once(run, lambda: _train(ingredients, run))
        if config.submission and process_rank() == 0:
            submit(ingredients, run)
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
    check_examples(config, task)
    from bertlab.interop.pretrained import load_pretrained
    from bertlab.training.finetune_model import architecture_of

    pretrained = load_pretrained(config.checkpoint, config.paths.runs_folder)
    check_model(config, pretrained, task)
    if (warning := warning_of_window(config, pretrained.architecture)) and process_rank() == 0:
        warn(warning)
    architecture = architecture_of(config, pretrained.architecture)
    return Ingredients(config, task, pretrained, finetuning_identity(config, pretrained, architecture, task.data.fingerprint))


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
    check_shares(config, ingredients.pretrained.architecture, splits["train"].inputs.examples)
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
    run.write_config(replace(config, checkpoint=ingredients.pretrained.origin))  # an id says nothing under another paths.runs
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
    from bertlab.models.task_checks import reads_one_state
    from bertlab.training.finetune_bookkeeping import FinetuneSurroundings
    from bertlab.training.wandb_mirror import make_mirror

    config, architecture = ingredients.config, ingredients.pretrained.architecture
    shown = {**asdict(config), "identity": hash8(ingredients.identity)}
    judging = config.task.evaluate[0]
    read_once = reads_one_state(config.task.kind, config.head, architecture)

    def flops(length: float) -> float:
        tokens = max(1, round(length))
        return flops_per_token(architecture, tokens, 0.0, read_share=1 / tokens if read_once else 1.0)

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
        flops_per_token=flops if whole else None,
    )


def _figures(ingredients: Ingredients, model: TaskModel, split: Split, ranks: Ranks) -> Row:
    """Metrics of a split, on the first rank."""
    from bertlab.training.predicting import figures, judge_with_progress

    judged = judge_with_progress(ingredients.config, ingredients.task.data.labels, model, split, ranks)
    return {} if judged is None else figures(ingredients.config.task, ingredients.task.data.labels, judged)


def _finish(ingredients: Ingredients, run: RunFolder, model: TaskModel, splits: dict[str, Split], bookkeeping: FinetuneBookkeeping) -> None:
    """Judge the chosen weights on every split and write what a finished run leaves, result.json last. All ranks work; the first writes."""
    from bertlab.run_files.weight_files import write_weights
    from bertlab.tasks.predictions import write_predictions
    from bertlab.training.finetune_result import make_result, summary
    from bertlab.training.predicting import judge_with_progress

    _take_best(model.to(bookkeeping.speed.device), bookkeeping)
    config, labels = ingredients.config, ingredients.task.data.labels
    judged: dict[str, Judged] = {}
    threshold = None
    for name in config.task.evaluate:
        found = judge_with_progress(config, labels, model, splits[name], bookkeeping.ranks, threshold, shown=True)
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
