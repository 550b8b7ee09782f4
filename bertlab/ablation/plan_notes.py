"""What is said under a table of its plan: what varies, what is read, and where a row is no exact counterpart of the random one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from bertlab.ablation.grid import Row
from bertlab.ablation.meaning import architecture_of
from bertlab.config import PretrainConfig
from bertlab.counting import listed
from bertlab.finetune_config import FinetuneConfig
from bertlab.training.identity import described_architecture


def called(rows: Mapping[str, Row]) -> dict[str, str]:
    """What each row is called in sentences: by its label as in the table, with its name where several have the same label."""
    labels = [row.label for row in rows.values()]
    quoted = {name: f"“{row.label}”" if "," in row.label or " and " in row.label else row.label for name, row in rows.items()}
    return {name: quoted[name] if labels.count(row.label) == 1 else f"{quoted[name]} ({name})" for name, row in rows.items()}


def seeds_in_words(vary: str, runs: Sequence[tuple[int, int]]) -> str:
    """What varies from run to run; ``runs`` are the seeds of pre-training and of fine-tuning."""
    pretrainings, finetunings = (len({run[place] for run in runs}) for place in (0, 1))
    what = {
        "pretrain": f"{pretrainings} of pre-training; one of fine-tuning",
        "finetune": f"{finetunings} of fine-tuning; one of pre-training, so the deviations do not show how much pre-trainings vary",
        "both": f"{pretrainings} of pre-training, each with {finetunings // pretrainings} of fine-tuning of its own",
    }[vary]
    return (
        f"Seeds: {what}. Runs with the same seed read the same text in the same order if their objectives use the same form of sequences."
    )


def data_in_words(rows: Mapping[str, PretrainConfig], base: PretrainConfig) -> str:
    """What the rows of a table are pre-trained on."""
    said = f"Data: pre-training reads {_text(base)}."
    others = {name: _text(config) for name, config in rows.items() if _text(config) != _text(base)}
    return said + "".join(f" {name} reads {text}." for name, text in others.items())


def _text(config: PretrainConfig) -> str:
    corpus, tokenizer = config.corpus, config.tokenizer
    where = f" ({corpus.path})" if corpus.path else f" ({', '.join(corpus.sources)})" if corpus.sources else ""
    pieces = f"the vocabulary {tokenizer.path}" if tokenizer.path else f"a vocabulary of up to {tokenizer.vocab_size:,} pieces made from it"
    case = "lower case" if tokenizer.lowercase else "cased"
    return f"corpus={corpus.kind}{where} except {100 * corpus.held_out:g}% of its documents, with {pieces}, {case}"


def hold_out_others(rows: Mapping[str, PretrainConfig], base: PretrainConfig) -> list[str]:
    """Which rows do not hold out all the documents that probes are evaluated on: those that ``base`` holds out.

    Documents are held out by the hashes of their tokens, the smallest first: a larger share holds out those of a smaller one, too.
    """
    others = [name for name, config in rows.items() if not _holds_out_all(config, base)]
    if not others:
        return []
    return [
        "Probes made of held-out documents use those that the table's own corpus, vocabulary and corpus.held_out keep out of"
        f" pre-training: {listed(others)}, where one of the three is different, may have been trained on them."
    ]


def _holds_out_all(config: PretrainConfig, base: PretrainConfig) -> bool:
    alike = replace(config.corpus, held_out=base.corpus.held_out) == base.corpus and config.tokenizer == base.tokenizer
    return alike and config.corpus.held_out >= base.corpus.held_out


def unlike_random(
    random: Mapping[str, str], rows: Mapping[str, PretrainConfig], finetunings: Mapping[tuple[str, str], FinetuneConfig]
) -> list[str]:
    """Which rows differ from the randomly initialised one that they are held against in more than their training.

    ``random`` names that one for each row, ``finetunings`` are by row and column.
    """
    columns = dict.fromkeys(column for _, column in finetunings)
    models, tunings = [], []
    for name, other in random.items():
        if name not in rows or other not in rows:
            continue
        if model_in_finetuning(rows[name]) != model_in_finetuning(rows[other]):
            models.append(name)
        both = [
            (finetunings[name, column], finetunings[other, column])
            for column in columns
            if {(name, column), (other, column)} <= finetunings.keys()
        ]
        if any(replace(ours, weights="") != replace(theirs, weights="") for ours, theirs in both):
            tunings.append(name)
    parts = [f"{listed(models)} with one of a different architecture"] * bool(models)
    parts += [f"{listed(tunings)} with one that is fine-tuned differently"] * bool(tunings)
    if not parts:
        return []
    return [f"Random rows: the table compares {'; '.join(parts)}. The difference between them need not come from the pre-training."]


def model_in_finetuning(config: PretrainConfig) -> dict[str, Any]:
    """The architecture as far as fine-tuning is concerned."""
    return {key: value for key, value in described_architecture(architecture_of(config)).items() if key != "next_sentence"}
