"""A task's files as examples: which files there are, how they are laid out, what their rows hold."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from bertlab.config import PathsConfig
from bertlab.counting import counted
from bertlab.data.compression import inner_suffix
from bertlab.errors import UserError, unknown
from bertlab.task_config import FORMATS, KINDS, SCHEMES, ColumnsConfig, LayoutConfig, TaskConfig
from bertlab.tasks.conll import read_conll
from bertlab.tasks.convert import discovered_labels, examples_of, source_of
from bertlab.tasks.delimited import read_csv, read_tsv
from bertlab.tasks.discovery import find_files, missing_split
from bertlab.tasks.examples import Example, SpanExample, TaskData
from bertlab.tasks.huggingface import Dataset
from bertlab.tasks.json_lines import read_jsonl
from bertlab.tasks.rows import Reading, Table
from bertlab.tasks.squad import read_squad

_FORMAT_OF_SUFFIX = {
    ".tsv": "tsv",
    ".txt": "tsv",
    ".csv": "csv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".conll": "conll",
    ".json": "jsonl",
}
_PARTED = ("train", "dev")
_HASH_PURPOSE = "held out"


def load_task(task: TaskConfig, paths: PathsConfig, splits: Sequence[str]) -> TaskData:
    """Read the ``splits`` of a task.

    The fingerprint is a hash of the examples themselves and of the labels: the same examples have the same one wherever they lie and
    however they were written down.

    Raises:
        UserError: a file or a column is missing, a row is too short, a label is unknown: file, line and what was expected.
    """
    _check(task)
    if task.format == "probe":
        return _probe(task, paths, splits)
    if task.format == "huggingface":
        dataset = Dataset(task)
        return _load_tables(task, splits, dataset.splits, dataset.missing, lambda split: (dataset.table(split), "huggingface"))
    return load_files(task, find_files(task), splits)


def available_splits(task: TaskConfig, paths: PathsConfig) -> list[str]:
    """The splits that ``load_task`` can read: those whose files are there.

    Raises:
        UserError: none are.
    """
    _check(task)
    if task.format == "probe":
        return ["train", "dev", "test"]
    found = Dataset(task).splits if task.format == "huggingface" else find_files(task)
    parted = [split for split in ("train", "dev") if task.held_out and len({"train", "dev"} & found.keys()) == 1]
    return list(dict.fromkeys([*parted, *found]))


def load_files(task: TaskConfig, files: Mapping[str, Path], splits: Sequence[str]) -> TaskData:
    """Read the ``splits`` of a task from ``files``, split → file. Raises UserError as ``load_task`` does."""
    found = dict(files)
    shared = _shared_files(task, found, splits)
    if task.format == "squad":
        data = _load_squad(task, found, splits)
    else:
        data = _load_tables(
            task, splits, found, lambda split: missing_split(task, split, found), lambda split: _table(task, split, found[split])
        )
    data.notes += shared
    return data


def _shared_files(task: TaskConfig, found: Mapping[str, Path], splits: Sequence[str]) -> list[str]:
    """What is to be said of a file that is two splits; UserError where one of them is for training."""
    if (same := [split for split in splits if split != "train" and found.get(split) == found.get("train", "")]) and "train" in splits:
        raise UserError(
            f"task={task.name}: {found['train']} is both train and {same[0]}: a model is not measured on what it has learned from. Name"
            " another file in task.files, or only train, with task.held_out=0.1."
        )
    others = [split for split in splits if split.startswith("dev") and split in found]
    pairs = [(dev, split) for dev in others for split in found if split.startswith("test") and found[split] == found[dev]]
    return [f"task={task.name}: {found[dev]} is both {dev} and {split}: weights are chosen on examples of {split}" for dev, split in pairs]


def _check(task: TaskConfig) -> None:
    if task.kind not in KINDS:
        raise unknown("task.kind", task.kind, KINDS)
    if task.format not in FORMATS:
        raise unknown("task.format", task.format, FORMATS)
    if task.scheme not in SCHEMES:
        raise unknown("task.scheme", task.scheme, SCHEMES)


def _probe(task: TaskConfig, paths: PathsConfig, splits: Sequence[str]) -> TaskData:
    from bertlab.tasks.probes import build_probe

    data = build_probe(task, paths)
    for split in splits:
        if split not in data.splits:
            raise unknown(f"split of task={task.name}", split, data.splits)
    data.splits = {split: data.splits[split] for split in splits}
    return data


def _load_squad(task: TaskConfig, files: dict[str, Path], splits: Sequence[str]) -> TaskData:
    if task.kind != "span":
        raise UserError(f"task.format=squad holds spans: set task.kind=span, not {task.kind}.")
    reading = Reading()
    wanted = _with_parted(task, splits, files, lambda split: missing_split(task, split, files))
    examples: dict[str, list[Example]] = {
        split: list(read_squad(files[split], split, task.no_answer, reading)) for split in wanted if split in files
    }
    return _data(task, _parted(task, splits, examples, reading, files), [], reading)


def _load_tables(
    task: TaskConfig,
    splits: Sequence[str],
    found: Mapping[str, object],
    missing: Callable[[str], UserError],
    table: Callable[[str], tuple[Table, str]],
) -> TaskData:
    """Read tables; labels that the configuration does not name are learned from the training split, which is then read in any case."""
    reading = Reading()
    wanted = _with_parted(task, splits, found, missing)
    learned = task.kind in ("classification", "tagging") and not task.labels
    to_learn_from = ["train"] if learned and "train" in found else []
    sources = {}
    for split in dict.fromkeys([*wanted, *to_learn_from]):
        rows, form = table(split)
        sources[split] = source_of(task, split, rows, _columns(task, split, form, rows))
    learning = [sources[split] for split in to_learn_from or wanted]
    labels = discovered_labels(task, learning) if learned else list(task.labels)
    examples = {split: examples_of(task, sources[split], labels, reading) for split in wanted}
    return _data(task, _parted(task, splits, examples, reading, found), labels, reading)


def _columns(task: TaskConfig, split: str, form: str, rows: Table) -> ColumnsConfig:
    layout = _layout(task, split, form)
    columns = layout.columns if layout else task.columns
    if form != "conll":
        return columns
    last = rows.names[-1] if len(rows.names) > 1 else None  # a file of words alone has no tags
    return replace(columns, words=columns.words or rows.names[0], tags=columns.tags or last)


def _layout(task: TaskConfig, split: str, form: str) -> LayoutConfig | None:
    return task.layouts.get(form) if form == "huggingface" else task.layouts.get(split) or task.layouts.get(form)


def _with_parted(task: TaskConfig, splits: Sequence[str], found: Mapping[str, object], missing: Callable[[str], UserError]) -> list[str]:
    """The splits to be read for ``splits``: where one of train and dev is parted to make both, the one that is there."""
    wanted: list[str] = []
    for split in splits:
        there = split
        if split not in found and split in _PARTED and task.held_out:
            there = next((other for other in _PARTED if other in found), split)
        if there not in found:
            raise missing(split)
        wanted.append(there)
    return list(dict.fromkeys(wanted))


def _parted(
    task: TaskConfig, splits: Sequence[str], examples: dict[str, list[Example]], reading: Reading, found: Mapping[str, object]
) -> dict[str, list[Example]]:
    """The examples by the splits that were asked for; train and dev out of one file where only one has any.

    Dev gets the examples with the smallest hashes of their content: the choice depends neither on order nor on seed, and examples that
    are alike stand on one side.
    """
    there = [split for split in _PARTED if split in found]
    if task.held_out is None or len(there) != 1 or there[0] not in examples:
        return {split: examples[split] for split in splits}
    everything = examples[there[0]]
    hashes = [_content_hash(example) for example in everything]
    bound = sorted(hashes)[max(round(task.held_out * len(hashes)), 1) - 1]
    train = [example for example, hashed in zip(everything, hashes, strict=True) if hashed > bound]
    dev = [example for example, hashed in zip(everything, hashes, strict=True) if hashed <= bound]
    if there[0] == "dev":  # whose answers were kept wherever they stand
        learnable = [example for example in train if not isinstance(example, SpanExample) or not example.answers or example.learnable]
        reading.leave_out("train: no answer stands in the context", len(train) - len(learnable))
        train = learnable
    if not train:
        raise UserError(f"task={task.name}: {counted(len(everything), 'example')} cannot be divided into train and dev.")
    reading.notes.append(
        f"task={task.name} has a file for {there[0]} alone: {len(dev):,} of its {len(everything):,} examples, chosen by a hash of their "
        f"content, are dev and the other {len(train):,} are train (task.held_out={task.held_out})"
    )
    parts = {**examples, "train": train, "dev": dev}
    return {split: parts[split] for split in splits}


def _content_hash(example: Example) -> str:
    """A hash of what an example says, whatever its id."""
    content = [getattr(example, name) for name in example.__slots__ if name not in ("id", "before", "after")]
    return hashlib.sha256(repr((_HASH_PURPOSE, content)).encode(errors="surrogatepass")).hexdigest()


def _table(task: TaskConfig, split: str, path: Path) -> tuple[Table, str]:
    """The rows of a file, and its format."""
    form = task.format if task.format != "auto" else _format_of(path, task.kind)
    layout = _layout(task, split, form)
    header = layout.header if layout else task.header
    if form == "tsv":
        return read_tsv(path, header, task.skip_malformed_rows), form
    if form == "csv":
        return read_csv(path, header, task.delimiter, task.skip_malformed_rows), form
    if form == "jsonl":
        return read_jsonl(path), form
    if form == "conll":
        return read_conll(path), form
    raise UserError(f"{path}: its suffix does not tell its format; set task.format to one of {', '.join(FORMATS[1:6])}.")


def _format_of(path: Path, kind: str) -> str:
    suffix = inner_suffix(str(path))
    return "conll" if suffix == ".txt" and kind == "tagging" else _FORMAT_OF_SUFFIX.get(suffix, "")


def _data(task: TaskConfig, splits: dict[str, list[Example]], labels: list[str], reading: Reading) -> TaskData:
    shown = labels if task.kind in ("classification", "tagging") else []
    for split, examples in splits.items():
        if not examples:
            raise UserError(f"task={task.name}: every row of {split} was left out.")
    return TaskData(task.kind, dict(splits), shown, _fingerprint(task.kind, splits, shown), reading.left_out, reading.sentences())


def _fingerprint(kind: str, splits: Mapping[str, Iterable[Example]], labels: Sequence[str]) -> str:
    digest = hashlib.sha256(repr((kind, labels)).encode())
    for split in sorted(splits):
        digest.update(repr(split).encode())
        for example in splits[split]:
            digest.update(repr(example).encode(errors="surrogatepass"))
    return digest.hexdigest()
