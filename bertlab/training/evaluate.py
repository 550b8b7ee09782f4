"""How well a model predicts documents that it was not trained on: those that its run held out, or all of another corpus."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from bertlab.config import PretrainConfig, TrainerConfig
from bertlab.data.batches import Batch
from bertlab.data.sampling import usable_documents
from bertlab.errors import UserError
from bertlab.messages import warn
from bertlab.models.dropout import seed_dropout
from bertlab.run_files.folder import RunFolder
from bertlab.training.metrics import Row, Sums, losses, perplexity
from bertlab.training.progress import say

if TYPE_CHECKING:
    from bertlab.data.assembly import PretrainingData
    from bertlab.data.store import TokenStore
    from bertlab.models.bert import Bert
    from bertlab.objectives.outcome import Objective

EVALUATION_SEED = 0  # of the noise that some maskings add: the same for every run


def held_out_figures(
    model: Bert, objective: Objective, batches: Iterable[Batch], context: AbstractContextManager[Any], *, world: int = 1
) -> Row:
    """Losses, accuracies and perplexity over ``batches`` (of this rank; the figures are of all), the model being left in its mode.

    The perplexity of a masked model and that of a left-to-right one are different quantities.
    """
    device = next(model.parameters()).device
    sums = Sums(device)
    was_training = model.training
    model.eval()
    try:
        with torch.no_grad(), context:
            for batch in batches:
                seed_dropout(EVALUATION_SEED, batch.place, 0)
                outcome = objective.loss(model, batch.to(device))
                if batch.counts:
                    sums.add(outcome.sums)
    finally:
        model.train(was_training)
    row = losses(sums.take(world))
    row["perplexity"] = perplexity(row["language_loss"])
    if "opposite_loss" in row:
        row["opposite_perplexity"] = perplexity(row["opposite_loss"])
    return row


def evaluate(folder: Path, config: PretrainConfig, weights: Path | None = None) -> dict[int, Row]:
    """Evaluate the run in ``folder`` on ``config``'s corpus and print what comes out.

    ``config`` is the run's own, but for what is wanted otherwise: another corpus, other lengths, another device. Of the run's own corpus
    the held-out documents are read, of another one all; of either ``validation.sequences`` sequences. The vocabulary is the run's.
    ``weights`` is a file of them that the run has kept; without it the final ones are taken, or, of a run that is not finished, those of
    the newest saved state. Returns the figures by length.

    Raises:
        UserError: the run has no weights yet, the corpus cannot be used, or it is not known what of it the run was not trained on.
    """
    run = RunFolder(folder)
    return evaluate_model(load_model(run, weights), run.tokenizer, config, run)


def evaluate_model(
    model: Bert, tokenizer: Path, config: PretrainConfig, run: RunFolder | None = None, show: Callable[[str], None] = print
) -> dict[int, Row]:
    """The same of a model and its vocabulary, wherever they come from.

    Args:
        model: on any device.
        tokenizer: the file of its vocabulary.
        config: what to evaluate on, and how.
        run: what trained it; without one, no corpus is known to be another than what it was trained on, and the held-out part is read.
        show: gets what is printed.

    Raises:
        UserError: the corpus cannot be used, or it is not known which of its documents the run was not trained on.
    """
    from bertlab.data.prepare import prepare
    from bertlab.training.machine import set_up_process

    config = replace(config, trainer=_one_device(config.trainer))
    device = torch.device("cuda" if set_up_process(config.trainer, config.backbone.kind) == "gpu" else "cpu")
    model = model.to(device)
    store = prepare(config.corpus, replace(config.tokenizer, path=str(tokenizer)), config.paths, progress=config.trainer.progress, say=say)
    why_other = None if run is None else _why_other_text(run, config, store)
    other = why_other is not None
    if other:
        show(f"{why_other}: all its documents count as held out ({store.documents:,})")
    objective, lengths, data = _evaluation(store, config, other)
    bf16 = config.trainer.precision == "bf16"
    figures = {}
    for length in lengths:
        context = torch.autocast(device.type, dtype=torch.bfloat16, enabled=bf16)
        figures[length] = held_out_figures(model, objective, data.validation_batches(length), context)
        read, there = data.validation_sequences(length)
        part = _part_in_words(read, there, config.validation.sequences)
        show(f"{'this text' if other else 'held out'}, length {length}{part}: {in_words(figures[length])}")
    show(_baseline_in_words(store, data, other))
    return figures


def _why_other_text(run: RunFolder, config: PretrainConfig, store: TokenStore) -> str | None:
    """Why all of the corpus can be read; None where its held-out part alone can be: what is in doubt of that is refused, or said.

    Raises:
        UserError: the command has chosen a corpus, or a share of it, of which it is not known what was trained on.
    """
    from bertlab.training.other_text import doubts_of_held_out, other_text

    if (why := other_text(run, config, store)) is not None:
        return why
    doubts = doubts_of_held_out(run, config, store)
    if doubts and (run.task.is_file() or run.read_config().corpus != config.corpus):
        raise UserError(f"{doubts[0]} Evaluate on that run's own corpus, or on text that was not trained on at all.")
    for doubt in doubts:
        warn(doubt)
    return None


def _evaluation(store: TokenStore, config: PretrainConfig, other: bool) -> tuple[Objective, list[int], PretrainingData]:
    """The objective, the lengths and what makes their batches: without next sentences where there is no second document for false ones."""
    from bertlab.data.assembly import PretrainingData
    from bertlab.data.schedule import plan_training
    from bertlab.objectives import objective_of

    def of(config: PretrainConfig) -> tuple[Objective, list[int], PretrainingData]:
        objective, plan = objective_of(config), plan_training(config)
        data = PretrainingData(store, config, plan, predict=objective.predict, pair=objective.pair, validation_alone=other)
        return objective, config.validation.lengths or plan.lengths, data

    found = of(config)
    documents = usable_documents(store.document_offsets, found[2].held_out_documents, pair=True)
    if config.objective.kind != "mlm_nsp" or len(documents) != 1:
        return found
    say("Next-sentence accuracy is left out: false next sentences come from another document, and only one here has enough text.")
    return of(replace(config, objective=replace(config.objective, kind="mlm", segments="pair")))


def _part_in_words(read: int, there: int, at_most: int) -> str:
    """How many of the sequences that there are were read, and why not all; nothing where all were."""
    if read >= there:
        return ""
    why = "as validation.sequences sets" if at_most < there else "a multiple of four, so that half of the pairs are true"
    return f" ({read:,} of {there:,} sequences, {why})"


def _baseline_in_words(store: TokenStore, data: PretrainingData, other: bool) -> str:
    from bertlab.data.unigram import unigram_baseline

    counted = data.held_out_documents if other else data.training_documents
    baseline = unigram_baseline(store, counted, data.held_out_documents)
    return f"word frequencies{' of this text' if other else ''} alone: perplexity {baseline.perplexity:,.1f}"


def _one_device(trainer: TrainerConfig) -> TrainerConfig:
    """Where to evaluate what was trained on several devices, or on a GPU that is not here."""
    if trainer.accelerator == "gpu" and not torch.cuda.is_available():
        say("PyTorch finds no GPU it can use here: evaluating on the CPU.")
        trainer = replace(trainer, accelerator="cpu")
    return replace(trainer, devices=1, nodes=1, strategy="auto")


def load_model(run: RunFolder, kept: Path | None = None) -> Bert:
    """The model of a run with the ``kept`` weights, its final ones, or those of its newest saved state; on the CPU, for evaluation.

    Raises:
        UserError: the run has not saved any yet.
    """
    from bertlab.models.bert import Bert
    from bertlab.run_files.states import weights_of
    from bertlab.run_files.weight_files import read_weights

    weights = weights_of(run, say) if kept is None else read_weights(kept)
    model = Bert(run.read_architecture())
    model.load_state_dict(weights)
    return model.eval()


def in_words(figures: Row) -> str:
    """``perplexity 143.2, accuracy 31.0%``, with the accuracy of next sentences or the other direction's perplexity where there is one."""
    line = f"perplexity {_in_digits(figures['perplexity'])}, accuracy {figures['accuracy']:.1%}"
    if "nsp_accuracy" in figures:
        line += f", next sentence {figures['nsp_accuracy']:.1%}"
    if "opposite_perplexity" in figures:
        line += f", in the other direction {_in_digits(figures['opposite_perplexity'])}"
    return line


def _in_digits(perplexity: float | None) -> str:
    """An infinite one is null in the files of rows."""
    return "infinite" if perplexity is None else f"{perplexity:,.1f}"
