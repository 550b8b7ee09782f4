"""The configuration of a downstream task: what the files in ``conf/task`` hold. Plain values; nothing heavy is imported."""

from __future__ import annotations

from dataclasses import dataclass, field

from bertlab.config import CorpusConfig, TokenizerConfig

KINDS = ("classification", "regression", "choice", "tagging", "span")
FORMATS = ("auto", "tsv", "csv", "jsonl", "conll", "squad", "huggingface", "probe")
SCHEMES = ("bio", "iob1", "none")


@dataclass
class ColumnsConfig:
    """Which column of a file holds what: a name, or, where the file has no header, its number from 0 as text."""

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    id: str | None = None  # None: the row's number within its split
    choices: list[str] = field(default_factory=list)  # of a choice: a column each, or one that holds a list (JSON lines)
    choice_start: str | None = None  # of a choice: a column with words that open every one of them
    words: str | None = None  # of tagging: a list of words (JSON lines); in CoNLL columns the number of the column
    tags: str | None = None
    question: str | None = None  # of a span, outside SQuAD's own JSON
    context: str | None = None
    answer: str | None = None  # the text, or a list of them
    answer_start: str | None = None  # in characters; None: the first occurrence of the text


@dataclass
class LayoutConfig:
    """How some of a task's files are laid out, where they differ from the others."""

    header: bool = True
    columns: ColumnsConfig = field(default_factory=ColumnsConfig)


@dataclass
class ProbeConfig:
    """A task made of raw text, without labels (``format: probe``)."""

    kind: str = "bigram_shift"  # bigram_shift | sentence_order | continuation | recurring_span | truecasing
    corpus: CorpusConfig = field(default_factory=CorpusConfig)  # of the pre-training, with its ``held_out``
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)  # of the pre-training: which documents are held out depends on it
    documents: str = "auto"  # auto (held_out where there is enough of it, else any) | held_out | any
    train: int = 10000  # examples
    dev: int = 2000
    test: int = 2000
    seed: int = 0  # of the task, not of a run: every run sees the same examples


@dataclass
class TaskConfig:
    """Where a task's examples are and what is to be predicted."""

    name: str = "???"
    kind: str = "classification"  # one of KINDS
    format: str = "auto"  # one of FORMATS; auto: by the file's suffix
    path: str | None = None  # a folder: the task's own, or one that holds a folder of one of the names ``folders``
    folders: list[str] = field(default_factory=list)  # e.g. [MRPC, mrpc], where the files lie in a download of many tasks
    files: dict[str, list[str]] = field(default_factory=dict)  # split → names, of which the first that exists is taken
    held_out: float | None = None  # where only one of train and dev has a file: the share of it that becomes dev, by content
    header: bool = True
    columns: ColumnsConfig = field(default_factory=ColumnsConfig)
    layouts: dict[str, LayoutConfig] = field(default_factory=dict)  # a split or a format → what holds for it instead
    delimiter: str = ","  # of csv
    skip_malformed_rows: bool = False  # leave out, and count, rows with too few or too many columns, instead of refusing the file
    leave_out: list[str] = field(default_factory=list)  # labels whose rows are left out and counted (MNLI's "-")
    # In the order of their indices; empty: as the training file has them, sorted. With two of them, f1 is that of the second; of tagging
    # with scheme=none the first one given here is what F1 counts as nothing (of tags from the file: O alone).
    labels: list[str] = field(default_factory=list)
    metrics: list[str] = field(default_factory=list)  # the first one selects the best checkpoint
    evaluate: list[str] = field(default_factory=lambda: ["dev"])  # splits that a run is evaluated on
    submission: dict[str, str] = field(default_factory=dict)  # split → the name that the task's server wants for its predictions
    max_length: int = 128  # tokens of a sequence, [CLS] and [SEP] included
    scheme: str = "bio"  # of tagging: bio | iob1 | none (each tag stands for itself)
    alternatives: str | None = None  # of tagging: what stands between several annotators' tags of a word; the first is taken
    document_context: bool = False  # of tagging: read the sentences before and after, as far as max_length allows
    stride: int = 128  # of a span: tokens between the starts of two windows of a long context
    max_query_length: int = 64
    max_answer_length: int = 30  # tokens
    no_answer: bool = False  # of a span: some questions have no answer (SQuAD v2.0)
    dataset: str | None = None  # of huggingface: the id on the Hub, or a folder that load_dataset takes
    subset: str | None = None
    probe: ProbeConfig = field(default_factory=ProbeConfig)
