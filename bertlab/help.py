"""What ``--help`` says of a verb: what it does, examples, flags, and every choice there is, read off the YAML files."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bertlab.arguments import Arguments
from bertlab.groups import MUST_BE_GIVEN, choices, default_choices, default_values, description
from bertlab.keys import leaf_keys
from bertlab.resources import conf_folder
from bertlab.schemas import Schema, belongs, schema_of


@dataclass(frozen=True)
class Verb:
    """The texts of one verb."""

    about: str
    examples: tuple[tuple[str, str], ...]  # command, what it does
    groups: tuple[str, ...] = ()  # the groups that matter to it; none: all
    words: str = "[FLAGS] [KEY=VALUE]...   (in any order)"
    options: tuple[tuple[str, str], ...] = ()  # all the words that it takes, of a verb that is not configured by choices


_CHECKPOINT = ("checkpoint", "a run's id or folder, weights that a run has kept, an exported folder or a Hugging Face folder")
_RUNS = ("paths.runs (runs)", "where a run's id is looked for")

VERBS = {
    "pretrain": Verb(
        "Train a model on raw text. Each word of the command is one choice: model=large takes the file conf/model/large.yaml, and "
        "model.layers=3 changes one value in it. Without choices, a tiny model learns from text that every installation has, in "
        "minutes. The run's folder is the last line printed. The same command again resumes an interrupted run, and does "
        "nothing for a finished one.",
        (
            ("bertlab pretrain", "a tiny model, no download"),
            ("bertlab pretrain scale=smoke", "the same in seconds, to see that everything works"),
            ("bertlab pretrain corpus=text corpus.path=DIR", "your own text, one document a file"),
            ("bertlab pretrain objective=ltr norm=batch", "left to right instead of masked, BatchNorm instead of LayerNorm"),
            ("bertlab pretrain model=mini model.layers=6 budget.steps=20000", "another size, another budget"),
            ("bertlab pretrain -m seed=1,2,3 backbone=transformer,bilstm", "six runs, one after the other"),
            (
                "bertlab pretrain corpus=mixture 'corpus.sources.wiki={kind: wikiextractor, path: DIR}' \\\n"
                "      'corpus.sources.books={kind: text, path: DIR2, weight: 2}'",
                "two sources, the second read twice",
            ),
            (
                "bertlab pretrain init=RUN corpus=text corpus.path=DIR optimizer.lr=1e-4",
                "continue from a checkpoint (a run, or a Hugging Face folder) on other text",
            ),
            ("bertlab pretrain launcher=slurm launcher.partition=gpu", "as a job of a SLURM cluster"),
            ("bertlab pretrain model=large --cfg job", "print the configuration instead of training"),
            ("bertlab pretrain --config-dir runs/RUN --config-name config", "start a run again from its folder"),
        ),
    ),
    "finetune": Verb(
        "Train a pre-trained model on a downstream task and measure it. The checkpoint is a run's id or folder, an exported folder or "
        "a Hugging Face folder; the task's files are looked for in task.path, else in $BERTLAB_TASKS. The default is "
        "the paper's recipe; recipe=laptop suits tiny models. The run's folder, with its metrics in result.json and one row per "
        "example in predictions.jsonl, is the last line printed. The same command again resumes an interrupted run, and does nothing "
        "for a finished one.",
        (
            ("bertlab finetune task=mrpc task.path=GLUE checkpoint=RUN", "the paper's recipe"),
            ("bertlab finetune task=bigram_shift checkpoint=RUN recipe=laptop", "a probe made of text alone, which needs no labelled data"),
            ("bertlab finetune -m task=mrpc checkpoint=RUN seed=1,2,3", "three seeds, and their mean, deviation, median and best"),
            (
                "bertlab finetune -m task=rte checkpoint=RUN optimizer.lr=5e-5,3e-5,2e-5 seed=1,2,3",
                "which rate is best on dev",
            ),
            ("bertlab finetune task=mrpc checkpoint=RUN weights=random", "what the pre-training is worth: the same without it"),
            ("bertlab finetune task=mrpc checkpoint=RUN optimizer=adamw tuning.epochs=10", "bias correction, and more epochs"),
            ("bertlab finetune task=wnut17 checkpoint=RUN features=concat_last_4 head=crf", "frozen features under a BiLSTM and a CRF"),
            ("bertlab finetune --config-dir mine task=mine checkpoint=RUN", "your own task, described by mine/task/mine.yaml"),
        ),
    ),
    "prepare": Verb(
        "Turn raw text into a WordPiece vocabulary and a token store, as bertlab pretrain does first when they are missing. "
        "It takes the same words, so that the training will find the store; only corpus, tokenizer, scale and paths matter. "
        "Stores are in paths.cache (by default $BERTLAB_CACHE, else your cache folder), named by their content: a second call "
        "finds what is there, and a killed one can be continued. The store's folder is the last line printed.",
        (
            ("bertlab prepare", "the default corpus"),
            ("bertlab prepare corpus=text corpus.path=DIR", "a folder of plain text, one document a file"),
            ("bertlab prepare corpus=jsonl 'corpus.path=\"data/*.jsonl.gz\"' corpus.column=body", "JSON lines, compressed"),
            ("bertlab prepare corpus=text corpus.path=DIR tokenizer.vocab_size=30522", "a vocabulary of the published size"),
            ("bertlab prepare corpus=text corpus.path=DIR tokenizer.path=vocab.txt", "a given vocabulary"),
            ("bertlab prepare corpus=text corpus.path=DIR corpus.strict=true", "stop at the first malformed input"),
        ),
        ("corpus", "tokenizer", "scale"),
    ),
    "evaluate": Verb(
        "Measure a trained model on held-out documents: masked-LM loss, perplexity and accuracy, next-sentence accuracy, or the "
        "perplexity of a left-to-right model. A run is named by its id, by the eight hexadecimal digits at its end, or by its "
        "folder, and is evaluated as it was configured; the text to evaluate on can be changed. Perplexities of different "
        "objectives or vocabularies are not comparable.",
        (
            ("bertlab evaluate checkpoint=runs/RUN", "as during its training"),
            ("bertlab evaluate checkpoint=RUN validation.sequences=4096", "on more of the held-out documents"),
            ("bertlab evaluate checkpoint=RUN 'validation.lengths=[32,128]'", "at these lengths"),
            ("bertlab evaluate checkpoint=RUN corpus=text corpus.path=DIR", "on other text"),
            ("bertlab evaluate checkpoint=DIR corpus=text corpus.path=DIR2", "an exported or a Hugging Face folder"),
            ("bertlab evaluate -m checkpoint=RUN1,RUN2 trainer=cpu", "two runs, one after the other"),
        ),
        ("corpus", "trainer"),
    ),
    "score": Verb(
        "Measure any file of predictions with the code that measures our own runs, and print the metrics as JSON: fractions, "
        "not percent. PREDICTIONS is a JSON object id → text (SQuAD), a table with a header whose first column is the example's index and "
        "whose last column is the prediction (GLUE; separated by tabs, or by commas in a file named .csv), columns of words whose last "
        "one is the predicted tag (CoNLL), or a run's predictions.jsonl. DATA is the task's file, or a folder that contains it; "
        "predictions.jsonl and CoNLL columns with the gold tag before the predicted one need no DATA. Exact match and F1 of SQuAD, and F1 "
        "of entities, are computed as by the official scripts.",
        (
            ("bertlab score squad11 predictions.json dev-v1.1.json", "as SQuAD's evaluate-v1.1.py"),
            ("bertlab score squad20 predictions.json dev-v2.0.json na_prob=na_prob.json", "with the best thresholds for no answer"),
            ("bertlab score mnli MNLI-m.tsv glue_data split=dev", "a table in GLUE's format; the labels are found in the download"),
            ("bertlab score conll2003 predicted.txt eng.testb", "columns of words"),
            ("bertlab score mrpc runs/RUN/predictions.jsonl", "a run's predictions, which contain the right answers"),
            ("bertlab score mine predictions.jsonl DIR --config-dir mine", "a task of your own, described by mine/task/mine.yaml"),
        ),
        ("task",),
        "TASK PREDICTIONS [DATA] [KEY=VALUE]...",
    ),
    "fill": Verb(
        "Show the words that a masked model would put for each [MASK] of a text, with their probabilities. With several masks, each is "
        "filled while the others stay masked. ## marks a token that continues a word. Left-to-right models cannot fill: see generate.",
        (
            ('bertlab fill "Paris is the [MASK] of France." checkpoint=RUN', "the five likeliest words"),
            ('bertlab fill "Paris is the [MASK] of France." checkpoint=RUN top_k=20', "the twenty likeliest"),
            ('bertlab fill "The [MASK] of France is [MASK]." checkpoint=RUN', "two words"),
            ('bertlab fill "A [MASK]." checkpoint=RUN/checkpoints/step-000001000.safetensors', "weights that the run has kept"),
            ('bertlab fill "A [MASK]." checkpoint=bert-base-uncased/ --json', "a Hugging Face folder; output for a program to read"),
        ),
        words='"TEXT" checkpoint=RUN [KEY=VALUE]...',
        options=(
            _CHECKPOINT,
            ("top_k (5)", "words for each mask"),
            _RUNS,
            ("--json", "print JSON: for each mask a list of tokens and probabilities"),
        ),
    ),
    "nsp": Verb(
        "Show the probability that a model gives the second text to follow the first. The model must have been trained with "
        "objective=mlm_nsp.",
        (
            ('bertlab nsp "He sat down." "He was tired." checkpoint=RUN', "a likely pair"),
            ('bertlab nsp "He sat down." "Lead is a metal." checkpoint=RUN', "an unlikely one"),
            ('bertlab nsp "He sat down." "He was tired." checkpoint=438635a2', "a run by the eight digits at the end of its id"),
            ('bertlab nsp "He sat down." "He was tired." checkpoint=DIR', "an exported or a Hugging Face folder"),
            ('bertlab nsp "He sat down." "He was tired." checkpoint=RUN --json', "for a program to read"),
        ),
        words='"FIRST" "SECOND" checkpoint=RUN',
        options=(_CHECKPOINT, _RUNS, ("--json", "print JSON")),
    ),
    "generate": Verb(
        "Have a left-to-right model (objective=ltr) continue a text; with backbone=bilstm, its forward model does. Special "
        "tokens are never written.",
        (
            ('bertlab generate "Once upon" checkpoint=RUN', "fifty tokens, drawn by their probabilities"),
            ('bertlab generate "Once upon" checkpoint=RUN temperature=0', "the likeliest token always"),
            ('bertlab generate "Once upon" checkpoint=RUN top_k=20 temperature=0.8 seed=1', "the same text every time"),
            ('bertlab generate "Once upon" checkpoint=RUN stop=. max_tokens=200', "up to the end of the sentence"),
            ("bertlab generate checkpoint=RUN", "from nothing"),
        ),
        words='["TEXT"] checkpoint=RUN [KEY=VALUE]...',
        options=(
            _CHECKPOINT,
            ("max_tokens (50)", "the most tokens to write, within the positions that the model has"),
            ("temperature (1)", "below 1, likely tokens become likelier; 0 always takes the likeliest"),
            ("top_k", "choose only among this many of the likeliest tokens"),
            ("stop", "end as soon as the continuation contains this"),
            ("seed", "makes the draws repeatable; without it they differ every time"),
            _RUNS,
            ("--json", "print JSON"),
        ),
    ),
    "export": Verb(
        "Write a trained model as a folder that Hugging Face transformers loads: config.json, model.safetensors and the tokenizer. "
        "A model that transformers' BERT cannot represent (left-to-right, BatchNorm, norm before the branches, LSTM, bag of words) is "
        "written in bertlab's own layout, and the command says so. bertlab reads both again with checkpoint=DIR. The folder is the "
        "last line printed.",
        (
            ("bertlab export RUN --to DIR", "everything that was trained"),
            ("bertlab export RUN --to DIR --as encoder", "exactly what transformers.AutoModel has, and no heads"),
            ("bertlab export RUN --to DIR --as masked_lm", "exactly what AutoModelForMaskedLM has"),
            ("bertlab export RUN/checkpoints/step-000001000.safetensors --to DIR", "weights that the run has kept"),
            ("bertlab export RUN --to DIR paths.runs=elsewhere", "a run in another folder"),
        ),
        words="RUN --to DIR [--as PARTS]",
        options=(
            ("RUN", _CHECKPOINT[1]),
            ("--to DIR", "a new folder, or one that an earlier export wrote"),
            ("--as PARTS", "pretraining, masked_lm or encoder: BertForPreTraining, BertForMaskedLM or BertModel"),
            _RUNS,
        ),
    ),
    "import": Verb(
        "Convert a BERT in the Hugging Face layout to bertlab's own: safetensors, or a PyTorch file, from which only tensors are "
        "accepted; cased and uncased; with or without its heads. Importing is optional: wherever a checkpoint is asked for, "
        "checkpoint=DIR reads such a folder directly. The folder is the last line printed.",
        (
            ("bertlab import bert-base-uncased", "into the folder of runs, where checkpoint=bert-base-uncased finds it"),
            ("bertlab import bert-base-uncased --to DIR", "into DIR"),
            ("bertlab import DIR paths.runs=elsewhere", "into another folder of runs"),
            ("bertlab finetune task=rte checkpoint=bert-base-uncased", "fine-tune what was imported"),
            ("bertlab pretrain init=bert-base-uncased corpus=text corpus.path=DIR", "pre-train it further"),
        ),
        words="DIR [--to DIR2]",
        options=(
            ("DIR", "a folder with config.json, the weights and the tokenizer's files"),
            ("--to DIR2", "where to write it, instead of a folder of its name in paths.runs"),
            ("paths.runs (runs)", "the folder of runs, where it is written without --to"),
        ),
    ),
    "params": Verb(
        "Count what a model costs before training it: parameters part by part, training FLOPs per token at every length of its "
        "schedule, and memory. It takes the same words as bertlab pretrain and loads nothing heavy.",
        (
            ("bertlab params", "the default model"),
            ("bertlab params model=large tokenizer.vocab_size=30522", "BERT-large as published"),
            ("bertlab params -m model=tiny,mini,small,medium,base,large", "every size"),
            ("bertlab params backbone=bilstm objective=ltr", "ELMo's shape"),
            ("bertlab params model=base model.layers=6 --json", "for a program to read"),
        ),
        ("model", "backbone", "norm", "objective", "scale"),
    ),
    "ablate": Verb(
        "Run all the trainings behind one or several tables, each in its own process, and make the tables. A run that several tables "
        "need is trained once, and a finished run is not repeated, so the same call goes on after any interruption. The first seed "
        "of every row comes before any second one. Without tasks=DIR, a folder of labelled tasks, tasks made of the corpus's own text "
        "stand in for them; without a corpus, text that every installation has is used.",
        (
            ("bertlab ablate --grid table5 --scale smoke", "the paper's table 5 in minutes, to see how it is made"),
            ("bertlab ablate --grid table5 --dry-run", "what would be run, what is already done, and how long the rest will take"),
            ("bertlab ablate --grid table5 table8 figure5 --seeds 5", "several tables; runs that they share are trained once"),
            ("bertlab ablate --grid table5 corpus=text corpus.path=DIR tasks=GLUE", "your own text, and labelled tasks"),
            ("bertlab ablate --grid table5 --budget flops", "rows with equal cost instead of equal positions"),
            (
                "bertlab ablate --grid table5 optimizer.lr=5e-4 finetune.optimizer.lr=1e-3",
                "another rate in pre-training, another in fine-tuning",
            ),
            (
                "bertlab ablate --grid table5 --launcher slurm launcher.partition=gpu launcher.time=1-00:00:00",
                "as jobs of a SLURM cluster; see docs/clusters.md",
            ),
            ("bertlab ablate --grid mine.yaml", "a table of your own; docs/ablations.md says how to write one"),
        ),
        words="--grid [TABLE]... [FLAGS] [KEY=VALUE]...   (in any order)",
        options=(
            ("TABLE (table5)", "one of the tables below, or the path of a YAML file"),
            ("--scale S (laptop)", "smoke, laptop, gpu_hour, gpu_day or paper: sizes, budgets, seeds and probes together"),
            ("--seeds N", "runs per cell; without it the table or the scale sets the number"),
            ("--dry-run", "show the runs, and run nothing"),
            ("--jobs N", "runs at a time; without it one per GPU, or one per core"),
            ("--budget B (tokens)", "what all rows of a table share: tokens, flops or minutes"),
            ("--launcher L (local)", "local: processes on this machine; slurm: jobs of a cluster, which go on when this command ends"),
            ("--resubmit", "with --launcher slurm: queue cancelled and failed jobs again"),
            ("launcher.KEY=VALUE", "what jobs ask for: partition, time, concurrency, …; finetune.launcher.time=60 for one kind of run"),
            ("--config-dir DIR", "look for choices in DIR too, and for scales of grids: DIR/_grid/mine.yaml"),
            ("tasks=DIR", "labelled tasks, a folder for each; probes stand in for missing ones"),
            (
                "KEY=VALUE",
                "for every pre-training, as for bertlab pretrain; trainer, logger and paths also for every fine-tuning, and what only "
                "fine-tuning has (tuning.epochs=1) for every fine-tuning",
            ),
            ("pretrain.KEY=VALUE", "for every pre-training"),
            ("finetune.KEY=VALUE", "for every fine-tuning, as for bertlab finetune"),
            ("paths.runs=DIR (runs)", "where the runs' folders go, and where finished ones are looked for"),
        ),
    ),
    "report": Verb(
        "Make the tables of earlier calls of bertlab ablate from the files of their runs, finished or not; nothing is trained. A table "
        "is printed, and written as a page for the browser, Markdown, LaTeX, CSV, JSON and plots. The page is the last line printed. "
        "Without a name, every table is made.",
        (
            ("bertlab report", "every table in runs/"),
            ("bertlab report table5", "one table, at every scale at which it was made"),
            ("bertlab report 'table*'", "all whose names are like this"),
            ("bertlab report table5-laptop --to DIR", "at one scale, written into a folder of DIR"),
            ("bertlab report table5 --publish", "also a report at Weights & Biases, with its runs"),
            ("bertlab report table5 --publish --artifacts", "and the final weights of the pre-trainings"),
        ),
        words="[TABLE]... [--to DIR] [--publish]",
        options=(
            ("TABLE", "its name, with its scale if there are several (table5-laptop)"),
            ("--to DIR", "where the reports' folders go, instead of paths.runs/reports"),
            ("--publish", "to Weights & Biases; without a login everything is kept offline, to be sent later"),
            ("--artifacts", "with --publish: also final weights and the contents of the token stores"),
            ("logger.project, logger.entity", "the project and the account at Weights & Biases"),
            ("paths.runs=DIR (runs)", "where the runs are"),
            ("paths.cache=DIR", "where token stores are"),
        ),
    ),
    "doctor": Verb(
        "Show what this machine has and what a run on it will use: Python and libraries, processors and GPUs, number formats, "
        "memory, where things are stored, Weights & Biases, SLURM. It changes nothing.",
        (("bertlab doctor", "the report"), ("bertlab doctor --json", "the same for a program to read")),
        words="[--json]",
    ),
}

_FLAGS = (
    ("-m, --multirun", "several values for a key (seed=1,2,3) mean several runs"),
    ("--cfg job [--resolve]", "print the configuration instead of running"),
    ("--package KEY", "with --cfg: print only this part"),
    ("--info [defaults|searchpath|…]", "print how the configuration is put together"),
    ("--config-dir DIR", "look for choices in DIR too: DIR/model/mine.yaml is model=mine"),
    ("--config-name NAME", "start from NAME.yaml instead of the default choices"),
    ("+KEY=VALUE, ~KEY", "add a choice that is not there, remove one"),
)

_SCORE_WORDS = (
    ("split=NAME (dev)", "which split of a folder, and which layout its file has"),
    ("partial=true (false)", "score a file that lacks examples or has others; SQuAD v1.1 counts the missing ones as wrong"),
    ("na_prob=FILE", "for SQuAD v2.0: JSON, id → score for no answer"),
    ("na_prob_threshold=X (1.0)", "a question whose score is above this counts as predicted unanswerable"),
    ("task.KEY=VALUE", "change the task's description, as in task.columns.label=stars"),
    ("--config-dir DIR", "look for tasks in DIR too: DIR/task/mine.yaml is mine"),
)

_PRETRAIN_KEYS = {
    "corpus.path": "a file, a folder or a glob",
    "tokenizer.vocab_size": "entries of the vocabulary",
    "budget.steps": "how long to train, in optimizer steps",
    "budget.tokens": "… in positions fed",
    "budget.minutes": "… in minutes; setting one of the three replaces the others",
    "batch.sequences": "sequences of batch.length per optimizer step, on all devices together; a schedule takes more of shorter ones",
    "batch.length": "their length, unless the schedule of lengths sets it",
    "batch.micro": "sequences a device works on at once; more are accumulated",
    "optimizer.lr": "the highest learning rate",
    "masking.rate": "share of the words that are predicted",
    "validation.every": "steps between evaluations",
    "trainer.devices": "devices (GPUs or CPU processes) on each node",
    "trainer.nodes": "machines that train together",
    "launcher.time": "for launcher=slurm: the time limit of a job; a longer run is queued again and goes on",
    "trainer.precision": "fp32 or bf16",
    "init": "a checkpoint to start from instead of random weights: a run, an exported or a Hugging Face folder",
    "seed": "seed of everything random",
    "paths.runs": "where runs' folders go",
    "paths.cache": "where vocabularies and token stores go",
}
_PREPARE_KEYS = {
    "corpus.path": "a file, a folder or a glob",
    "corpus.column": "the column of the text, for jsonl, parquet and huggingface",
    "corpus.strict": "stop at malformed input",
    "corpus.filter.duplicate_documents": "leave repeated documents out",
    "tokenizer.vocab_size": "entries of the vocabulary",
    "tokenizer.lowercase": "lower-case the text and strip accents",
    "tokenizer.path": "use this vocabulary instead of training one",
    "paths.cache": "where vocabularies and token stores go",
}
_FINETUNE_KEYS = {
    "checkpoint": "what to start from",
    "weights": "pretrained, or random: the checkpoint's architecture and vocabulary with none of its training",
    "task.path": "the folder of the task, or one with a folder for each task",
    "task.max_length": "tokens of a sequence",
    "tuning.epochs": "passes through the training examples",
    "tuning.batch": "examples per optimizer step, on all devices together",
    "tuning.micro": "examples a device works on at once; more are accumulated",
    "optimizer.lr": "the highest learning rate",
    "optimizer.warmup": "share of the steps over which the rate rises",
    "dropout": "the model's dropout; null: as in its pre-training",
    "tuning.freeze": "none, embeddings, or encoder: everything but the head",
    "tuning.frozen_layers": "how many of the lowest layers to freeze, with the embeddings",
    "tuning.gradual": "unfreeze layer by layer, from the top",
    "tuning.layer_decay": "factor on the learning rate from each layer to the one below",
    "tuning.reinit_layers": "how many of the top layers to reinitialise, with the pooler",
    "tuning.select": "which weights: best (on dev) or last",
    "tuning.patience": "evaluations without an improvement after which training stops",
    "tuning.evaluate_every": "epochs between evaluations",
    "tuning.train_examples": "use this many, the same for every seed",
    "submission": "also write the file that the task's server takes",
    "trainer.devices": "devices (GPUs or CPU processes) on each node",
    "trainer.nodes": "machines that train together",
    "launcher.time": "for launcher=slurm: the time limit of a job; a longer run is queued again and goes on",
    "trainer.precision": "fp32 or bf16",
    "seed": "seed of everything random",
    "paths.runs": "where runs' folders go, and where a checkpoint's name is looked for",
}
_EVALUATE_KEYS = {
    "checkpoint": "a run, weights that it has kept, an exported or a Hugging Face folder",
    "validation.sequences": "how many to measure on",
    "validation.lengths": "their lengths, in turn",
    "corpus.path": "other text: a file, a folder or a glob",
    "corpus.held_out": "share of its documents that is measured on",
    "paths.runs": "where a run's id is looked for",
}
_MAIN_KEYS = {"pretrain": _PRETRAIN_KEYS, "prepare": _PREPARE_KEYS, "finetune": _FINETUNE_KEYS, "evaluate": _EVALUATE_KEYS}


def show_help(verb: str, arguments: Arguments) -> int:
    """Print the help of a verb. Returns the exit code."""
    folders = [*([arguments.config_dir] if arguments.config_dir else []), conf_folder()]
    print("\n".join(_help_lines(verb, folders, shutil.get_terminal_size().columns if sys.stdout.isatty() else 120)))
    return 0


def _help_lines(verb: str, folders: Sequence[Path], width: int) -> Iterator[str]:
    texts = VERBS[verb]
    yield f"bertlab {verb} {texts.words}"
    yield ""
    yield from textwrap.wrap(texts.about, min(width, 120))
    yield ""
    yield "Examples"
    for command, meaning in texts.examples:
        yield f"  {command}"
        yield f"      {meaning}"
    yield ""
    if verb == "doctor":
        return
    if texts.options:
        yield "Words"
        yield from _table(texts.options, width)
        if verb == "ablate":
            from bertlab.ablation.grid import bundled_grids

            yield ""
            yield "Tables"
            yield from _table([(name, description(path)) for name, path in bundled_grids().items()], width)
        return
    yield "Flags" if verb != "score" else "Words"
    yield from _table(_SCORE_WORDS if verb == "score" else [*_FLAGS, *([("--json", "print JSON")] if verb == "params" else [])], width)
    yield ""
    schema = schema_of(verb)
    as_configured = verb == "evaluate"  # its defaults are the run's
    yield from _group_lines(schema, texts.groups, folders, width, marked=not as_configured)
    if as_configured:
        yield "Whatever is not named stays as the run was configured; only corpus, validation, trainer and paths can be changed."
        yield ""
    elif verb != "score":
        together = "recipe sets rates, batches and epochs" if "recipe" in schema.sections else "scale sets sizes, lengths and budgets"
        yield f"* marks the default. A {together} together; the command overrides it."
        yield ""
    if keys := _MAIN_KEYS.get(verb):
        yield f"Main keys{'' if as_configured else ' (and their defaults)'}; --cfg job prints all of them"
        values = {} if as_configured else dict(_defaults(schema, keys, folders))
        yield from _table([(f"{key} ({_shown(values[key])})" if key in values else key, meaning) for key, meaning in keys.items()], width)
        yield ""
    yield f"Choices are files in {conf_folder()}"


def _group_lines(schema: Schema[Any], wanted: Sequence[str], folders: Sequence[Path], width: int, *, marked: bool) -> Iterator[str]:
    """Every group with its choices, each with its line of description; the default ones ``marked``."""
    defaults = default_choices(folders, schema.name)
    for group, found in _in_order(choices(folders), (*schema.required, *defaults)).items():
        if "/" in group or (wanted and group not in wanted) or not belongs(group, schema):
            continue
        yield f"{group}="
        yield from _table(
            [(f"{name}{' *' if marked and name == defaults.get(group) else ''}", description(file)) for name, file in found.items()], width
        )
        yield ""


def _in_order(groups: Mapping[str, dict[str, Path]], order: Sequence[str]) -> dict[str, dict[str, Path]]:
    """The groups in this order, others after."""
    named = [group for group in order if group in groups]
    return {group: groups[group] for group in [*named, *(group for group in groups if group not in named)]}


def _defaults(schema: Schema[Any], keys: Iterable[str], folders: Sequence[Path]) -> Iterator[tuple[str, Any]]:
    """The ``keys`` with the values they have when the command sets nothing."""
    known, set_by_files = leaf_keys(schema.config), default_values(folders, schema.name)
    for key in keys:
        section, _, name = key.rpartition(".")
        yield key, (set_by_files.get(section, {}) if section else set_by_files).get(name, known[key])


def _shown(value: Any) -> str:
    if isinstance(value, float) and value >= 1e5:
        return f"{value:g}"
    if value == MUST_BE_GIVEN:
        return "must be given"
    if value is None or isinstance(value, bool):
        return str(value).lower() if value is not None else "null"
    return str(value)


def _table(rows: Sequence[tuple[str, str]], width: int) -> Iterator[str]:
    """Two columns, the second wrapped."""
    first = max((len(left) for left, _ in rows), default=0) + 2
    for left, right in rows:
        lines = textwrap.wrap(right, max(30, width - first - 2)) or [""]
        yield f"  {left:<{first}}{lines[0]}".rstrip()
        for line in lines[1:]:
            yield " " * (first + 2) + line
