"""Pre-training from a configuration to a run folder: data → model → callbacks → loggers → trainer."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bertlab.config import PretrainConfig
from bertlab.counting import counted
from bertlab.errors import UserError
from bertlab.files import write_json
from bertlab.launched import check_place, place_taken, process_rank
from bertlab.messages import warn
from bertlab.run_files.folder import RunFolder
from bertlab.training.devices import check_devices, check_memory, sequences_at_once, warn_of_cores
from bertlab.training.identity import Identity, hash8, pretraining_identity, run_folder_of, write_identity
from bertlab.training.memory import AtOnce, memory_told
from bertlab.training.progress import duration, say
from bertlab.training.running import bad_ends_told, fit, train_once

if TYPE_CHECKING:
    from torch import Tensor

    from bertlab.data.assembly import PretrainingData
    from bertlab.data.schedule import TrainingPlan
    from bertlab.data.store import TokenStore
    from bertlab.interop.pretrained import Pretrained
    from bertlab.models.architecture import Architecture
    from bertlab.models.bert import Bert
    from bertlab.objectives.outcome import Objective
    from bertlab.run_files.states import State
    from bertlab.training.bookkeeping import Bookkeeping
    from bertlab.training.loader import StageLoader
    from bertlab.training.module import PretrainModule
    from bertlab.training.pretrain_bookkeeping import PretrainSurroundings


@dataclass(frozen=True)
class Ingredients:
    """What a configuration means before anything is trained."""

    config: PretrainConfig
    plan: TrainingPlan
    store: TokenStore
    architecture: Architecture
    objective: Objective
    identity: Identity
    pretrained: Pretrained | None = None  # what it starts from


def check_machine(config: PretrainConfig) -> None:
    """Refuse what this machine has not got for the training, before any job of a command has begun. Raises ``UserError``."""
    check_place(config.trainer)
    check_devices(config.trainer)
    check_memory(config)


def pretrain(config: PretrainConfig) -> Path:
    """Train what ``config`` describes, or go on with it where it was left; returns the run's folder.

    A run that is done is left as it is.

    Raises:
        UserError: the configuration or the corpus cannot be used, the devices are not there, or another process trains this run.
        RunFailed: the numbers stopped making sense, now or in an earlier call.
        Interrupted: a signal asked to stop (Ctrl-C, SIGTERM, SIGHUP, SIGUSR1); the state is saved.
    """
    with place_taken(config.trainer):
        check_devices(config.trainer)
        check_memory(config)
        warn_of_cores(config.trainer)
        ingredients = prepare_ingredients(config)
        run = run_folder_of(config, ingredients.identity)
        with memory_told(_at_once(config, ingredients.plan)):
            return train_once(run, lambda: _train(ingredients, run))


def _at_once(config: PretrainConfig, plan: TrainingPlan) -> AtOnce:
    """What the stage that needs the most memory works on at once."""
    largest = max(plan.stages, key=lambda stage: sequences_at_once(config, stage.sequences) * stage.length)
    count = sequences_at_once(config, largest.sequences)
    return AtOnce("batch.micro", count, "sequences", config.norm.kind == "batch", "a smaller model or a shorter batch.length")


def prepare_ingredients(config: PretrainConfig) -> Ingredients:
    """Prepare the corpus where that is not done yet, and work out what is to be trained."""
    from bertlab.data.prepare import prepare
    from bertlab.data.schedule import plan_training
    from bertlab.models.architecture import Architecture
    from bertlab.objectives import objective_of

    plan, first = plan_training(config), process_rank() == 0
    store = prepare(
        config.corpus,
        config.tokenizer,
        config.paths,
        progress=config.trainer.progress and first,
        say=say if first else lambda line: None,  # of several processes one makes the store; all would say that they wait
        at_most=lambda documents: _refuse_few(config, documents),
    )
    architecture = Architecture.of(config, store.vocabulary.size)
    pretrained = None
    if config.init is not None:
        from bertlab.interop.initial import check_fits
        from bertlab.interop.pretrained import load_pretrained

        pretrained = load_pretrained(config.init, config.paths.runs_folder)
        architecture = check_fits(pretrained, architecture, store.vocabulary.fingerprint)
        _check_held_out(config, store, pretrained)
    objective = objective_of(config)
    identity = pretraining_identity(
        config,
        architecture,
        plan,
        pair=objective.pair,
        masked=objective.predict == "masked",
        store=store,
        init=None if pretrained is None else pretrained.fingerprint,
    )
    return Ingredients(config, plan, store, architecture, objective, identity, pretrained)


def _check_held_out(config: PretrainConfig, store: TokenStore, pretrained: Pretrained) -> None:
    """Refuse to validate on what the checkpoint was trained on, or say so where a setting would not mend it. Raises ``UserError``."""
    from bertlab.training.other_text import doubts_of_held_out

    doubts = [] if pretrained.run is None else doubts_of_held_out(pretrained.run, config, store)
    for doubt in doubts if process_rank() == 0 else ():
        warn(f"{doubt} The held-out figures of this run may be too good.")


def _refuse_few(config: PretrainConfig, documents: int) -> None:
    """Refuse a corpus of so few documents that some cannot be trained and others validated on. Raises ``UserError``."""
    corpus, objective = config.corpus, config.objective.kind
    least, why, otherwise = 2, "one to train on and one to validate on", ""
    if objective == "mlm_nsp":
        least, otherwise = 4, ", or choose objective=mlm"
        why = "two to train on and two to validate on, since false next sentences come from another document"
    if documents < least:
        raise UserError(
            f"{f'corpus.path={corpus.path}' if corpus.path else f'corpus={corpus.kind}'} has {counted(documents, 'document')}, but"
            f" objective={objective} needs at least {least}, {why}: give more documents (under corpus=text each file is one, under"
            f" corpus=sentences blank lines separate them){otherwise}."
        )


def _train(ingredients: Ingredients, run: RunFolder) -> None:
    from bertlab.data.assembly import PretrainingData
    from bertlab.run_files.states import load_newest
    from bertlab.training.machine import lightning_trainer, set_up_process
    from bertlab.training.module import PretrainModule
    from bertlab.training.parted import whole
    from bertlab.training.pretrain_bookkeeping import PretrainBookkeeping
    from bertlab.training.schedules import Schedule

    config, plan = ingredients.config, ingredients.plan
    device_kind = set_up_process(config.trainer, config.backbone.kind)
    if process_rank() == 0:
        run.write_config(config)
        write_identity(run, ingredients.identity)
        ingredients.store.vocabulary.save(run.tokenizer)
        write_json(run.architecture, ingredients.architecture.to_dict())
    data = PretrainingData(
        ingredients.store,
        config,
        plan,
        process_rank(),
        config.trainer.world,
        predict=ingredients.objective.predict,
        pair=ingredients.objective.pair,
    )
    model = _build_model(ingredients, device_kind)
    schedule = Schedule.of(config.optimizer, plan.total_steps, config.budget.minutes)
    module = PretrainModule(model, ingredients.objective, config, schedule)
    state = load_newest(run.checkpoints, say, put_aside=process_rank() == 0, in_memory=config.trainer.strategy != "fsdp")
    _announce(ingredients, run, model, state)
    loader = _loader(config, plan, data, module, state, on_gpu=device_kind == "gpu")
    bookkeeping = PretrainBookkeeping(_surroundings(ingredients, run, data, loader, state))
    del state  # which the bookkeeping lets go of when the model has it
    trainer = lightning_trainer(config.trainer, device_kind, bookkeeping)
    with bad_ends_told(run, bookkeeping):
        fit(trainer, module, loader, bookkeeping)
        weights = whole(model.state_dict(), first=bookkeeping.ranks.first)
        if bookkeeping.ranks.first:
            _finish(ingredients, run, weights, data, bookkeeping)


def _build_model(ingredients: Ingredients, device_kind: str) -> Bert:
    import torch

    from bertlab.models.bert import Bert

    torch.manual_seed(ingredients.config.seed)
    model = Bert(ingredients.architecture)
    if ingredients.pretrained is not None:
        _start_from(model, ingredients.pretrained)
    if ingredients.config.trainer.checkpoint_activations:
        model.checkpoint_activations()
    if ingredients.config.trainer.compile:
        _compile(model, device_kind)
    return model


def _start_from(model: Bert, pretrained: Pretrained) -> None:
    from bertlab.interop.initial import start_from

    new = start_from(model, pretrained)
    pretrained.bert.to("meta")  # its weights are the model's now, and need not be in memory twice
    if process_rank() == 0:
        say(f"The weights are those of {pretrained.name}{', with a new ' + ' and a new '.join(new) if new else ''}.")


def _compile(model: Bert, device_kind: str) -> None:
    from bertlab.models.transformer import Transformer

    if device_kind == "gpu" and isinstance(model.backbone, Transformer):
        model.backbone.compile_blocks()
    elif process_rank() == 0 and device_kind == "gpu":
        say("trainer.compile is left out: only a transformer has blocks that gain from it.")
    elif process_rank() == 0:
        say("trainer.compile is left out on a CPU: the kernels there are written by hand, and the compiler cannot follow them.")


def _announce(ingredients: Ingredients, run: RunFolder, model: Bert, state: dict[str, Any] | None) -> None:
    if process_rank() > 0:
        return
    plan, parameters = ingredients.plan, sum(parameter.numel() for parameter in model.parameters())
    if plan.total_steps is not None:
        whole = counted(plan.total_steps, "step")
    else:
        whole = f"{plan.minutes:g} minute{'' if plan.minutes == 1 else 's'}"
    begun = "" if state is None else f", resumed after step {state['step']:,}"
    say(f"{run.name}: {parameters:,} parameters, {whole}{begun}")


def _loader(
    config: PretrainConfig, plan: TrainingPlan, data: PretrainingData, module: PretrainModule, state: State | None, *, on_gpu: bool
) -> StageLoader:
    from bertlab.training.loader import StageLoader

    workers = config.trainer.workers if config.trainer.workers is not None else (4 if on_gpu else 0)
    return StageLoader(
        data,
        plan,
        first=0 if state is None else state["step"],
        share=lambda: module.schedule.share(0, module.elapsed),
        begun={} if state is None else state["begun"],
        workers=workers,
        pinned=on_gpu,
    )


def _surroundings(
    ingredients: Ingredients, run: RunFolder, data: PretrainingData, loader: StageLoader, state: State | None
) -> PretrainSurroundings:
    from bertlab.models.size import flops_per_token
    from bertlab.training.pretrain_bookkeeping import PretrainSurroundings
    from bertlab.training.wandb_mirror import make_mirror

    config = ingredients.config
    predicted = config.masking.rate if ingredients.objective.predict == "masked" else 1.0
    shown = {**asdict(config), "identity": hash8(ingredients.identity)}
    return PretrainSurroundings(
        run=run,
        trainer=config.trainer,
        checkpointing=config.checkpointing,
        config=config,
        plan=ingredients.plan,
        loader=loader,
        stages=loader,
        validation=data.validation_batches,
        flops_per_token=lambda length: flops_per_token(ingredients.architecture, length, predicted),
        vocabulary=ingredients.architecture.vocab_size,
        mirror=lambda say_above: make_mirror(config.logger, run.path, shown, say_above),
        state=state,
    )


def _finish(ingredients: Ingredients, run: RunFolder, weights: dict[str, Tensor], data: PretrainingData, bookkeeping: Bookkeeping) -> None:
    """Write what a finished run leaves, result.json last, and tell the user how it went."""
    from bertlab.run_files.states import keep_newest
    from bertlab.run_files.weight_files import write_weights

    run.write_config(ingredients.config)  # as it is, should someone have edited it in the meantime
    result = _result(ingredients, run, data, bookkeeping)
    write_weights(run.weights, weights)
    write_json(run.result, result)
    keep_newest(run.checkpoints, 1)
    bookkeeping.mirror.finish(exit_code=0, summary={"unigram_perplexity": result["unigram_perplexity"]})
    for line in summary(result, run):
        say(line)


def _result(ingredients: Ingredients, run: RunFolder, data: PretrainingData, bookkeeping: Bookkeeping) -> dict[str, Any]:
    from bertlab.data.unigram import unigram_baseline
    from bertlab.models.size import parameter_table
    from bertlab.training.metrics import read_rows
    from bertlab.training.throughput import facts

    baseline = unigram_baseline(ingredients.store, data.training_documents, data.held_out_documents)
    last = [row for row in read_rows(run.metrics) if row["step"] == bookkeeping.step and row["split"] == "held_out"]
    fed, world = bookkeeping.speed.total, ingredients.config.trainer.world
    at_once = [sequences_at_once(ingredients.config, stage.sequences) for stage in ingredients.plan.stages]
    return {
        "id": run.name,
        "identity": ingredients.identity,
        "config": run.config_digest(),
        "steps": bookkeeping.step,
        "positions": fed.positions,
        "tokens": fed.tokens,
        "cut": {"devices": world, "sequences": at_once},  # of a micro-batch in each stage: the noise of dropout follows it
        "parameters": parameter_table(ingredients.architecture).total,
        "held_out": {str(row["length"]): {key: row[key] for key in row if key not in ("step", "split", "length")} for row in last},
        "unigram_perplexity": baseline.perplexity,
        **facts(bookkeeping.speed),
    }


def summary(result: dict[str, Any], run: RunFolder) -> list[str]:
    """What a person wants to know of a finished run, as lines."""
    from bertlab.training.evaluate import in_words

    lines = [f"held out, length {length}: {in_words(figures)}" for length, figures in result["held_out"].items()]
    speed = f"{result['positions']:,} positions in {duration(result['seconds'])}: {result['tokens_per_second']:,.0f} tokens/s"
    if result["mfu"] is not None:
        speed += f", {result['mfu']:.0%} of what the machine can do"
    return [
        *lines,
        f"word frequencies alone: perplexity {result['unigram_perplexity']:,.1f}",
        speed,
        f"next: bertlab evaluate checkpoint={run.path}",
    ]
