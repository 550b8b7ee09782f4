"""Files of users, damaged in every way that comes to hypothesis: they are read, or refused in a sentence, and nothing else.

The suite tries a hundred of each kind; `make fuzz` tries thousands, other ones each time.
"""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml
from fake_runs import FakeTable
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from mutations import as_json, damaged, mutated
from written_runs import small_architecture, small_vocabulary, write_run

from bertlab.ablation.collect import collect
from bertlab.ablation.grid import load_grid
from bertlab.ablation.manifest import read_manifest
from bertlab.ablation.records import read_record, record_path
from bertlab.ablation.scales import load_scale
from bertlab.config import CorpusConfig
from bertlab.data.documents import ReadingReport
from bertlab.data.pieces import pieces
from bertlab.data.readers import read
from bertlab.data.tokenizer import given_vocabulary
from bertlab.errors import UserError
from bertlab.groups import default_choices, default_values, description
from bertlab.interop.pretrained import load_pretrained
from bertlab.overrides import prepare_overrides
from bertlab.resources import conf_folder, sweeps_folder
from bertlab.run_files.folder import RunFolder
from bertlab.schemas import PRETRAIN
from bertlab.task_config import ColumnsConfig, TaskConfig
from bertlab.tasks.load import load_files
from bertlab.tasks.scoring import predictions_with_gold, read_null, scored

LARGEST_SENTENCE = 20_000  # characters: it may quote a value, and no file


@dataclass
class Kind:
    """A kind of file: how damaged ones come about, and what reads them."""

    files: st.SearchStrategy[bytes]
    name: str
    use: Callable[[Path], object]


def lines(rows: Any) -> bytes:
    return b"\n".join(as_json(row) for row in rows) if isinstance(rows, list) else as_json(rows)


def as_yaml(value: Any) -> bytes:
    return yaml.dump(value, allow_unicode=True).encode("utf-8", "surrogatepass")


TEXTS = [{"id": "1", "text": "a b", "pair": "c", "label": "x"}, {"id": "2", "text": "d", "pair": "e", "label": "y"}]
TAGGED = [{"words": ["a", "b"], "tags": ["O", "B-X"]}, {"words": ["c"], "tags": ["I-X"]}]
CHOICES = [{"text": "a", "c": ["b", "d"], "label": 0}, {"text": "a", "c": ["b", "d"], "label": 1}]
SPANS = [
    {"question": "q", "context": "a c d", "answer": ["c", "d"], "at": [2, 4]},
    {"question": "q", "context": "c", "answer": "c", "at": 0},
]
QUESTIONS = [
    {"id": "1", "question": "q", "answers": [{"text": "b", "answer_start": 2}], "is_impossible": False},
    {"id": "2", "question": "q", "answers": [], "is_impossible": True},
]
SQUAD = {"version": "v2.0", "data": [{"title": "t", "paragraphs": [{"context": "a b c", "qas": QUESTIONS}]}]}
GRID = {
    "title": "t",
    "rows": {
        "one": {"label": "F", "pretrain": ["objective=mlm"]},
        "two": {"of": "one", "budget": 2, "scales": ["laptop"], "columns": ["m"]},
    },
    "columns": {"m": {"task": "mnli", "metric": "accuracy", "probe": "sentence_order"}, "p": {"held_out": "perplexity", "length": 128}},
    "baseline": "one",
    "published": {"one": {"m": 50}},
    "seeds": {"vary": "both", "count": 3, "finetunings": 1},
}
PREDICTED: dict[str, list[dict[str, Any]]] = {
    "classification": [{"id": "0", "prediction": "x", "gold": "y"}, {"id": "1", "prediction": "x", "gold": "x"}],
    "tagging": [{"id": "0", "prediction": ["O", "B-X"], "gold": ["O", "B-X"]}],
    "span": [{"id": "0", "prediction": "x", "gold": ["y"], "scores": [1.0]}],
    "regression": [{"id": "0", "prediction": 1.5, "gold": 1}, {"id": "1", "prediction": 1.0, "gold": 2}],
    "choice": [{"id": "0", "prediction": 1, "gold": 0}],
}


def rows_of(task: str, form: str = "auto", **columns: Any) -> Callable[[Path], object]:
    config = TaskConfig(name="mine", kind=task, format=form, columns=ColumnsConfig(**columns), no_answer=form == "squad")
    return lambda path: load_files(config, {"train": path}, ["train"])


def score(task: str) -> Callable[[Path], object]:
    config = TaskConfig(name="mine", kind=task)

    def use(path: Path) -> None:
        predictions, labels = predictions_with_gold(config, path)
        scored(config, predictions, labels)

    return use


def documents(kind: str) -> Callable[[Path], object]:
    def use(path: Path) -> None:
        for piece in pieces(CorpusConfig(kind=kind, path=str(path))):
            for document in read(piece, ReadingReport()):
                assert document.blocks

    return use


def vocabulary(path: Path) -> None:
    found = given_vocabulary(str(path), True)
    assert found.ordinary.size <= found.size <= 10**7
    found.plain_encoder().encode("the cat [MASK]")
    assert found.starts_word.size == found.size


def choice(path: Path) -> None:
    folders = [path.parents[1], conf_folder()]
    description(path)
    default_choices(folders, "pretrain")
    default_values(folders, "pretrain")


def scale(path: Path) -> None:
    load_scale(path.stem, path.parents[1])


def a_parquet() -> bytes:
    import pyarrow as pa
    import pyarrow.parquet as pq

    file = io.BytesIO()
    pq.write_table(pa.table({"text": ["One.", "Two two.", None] * 20}), file, row_group_size=20)
    return file.getvalue()


def small_tokenizer() -> dict[str, Any]:
    whole = json.loads(small_vocabulary().tokenizer.to_str())
    whole["model"]["vocab"] = {token: place for place, token in enumerate(list(whole["model"]["vocab"])[:12])}
    return dict(whole)


def kinds() -> dict[str, Kind]:
    found = {
        "classification": Kind(
            mutated(TEXTS).map(lines), "t.jsonl", rows_of("classification", text="text", pair="pair", label="label", id="id")
        ),
        "regression": Kind(
            mutated([{"text": "a", "label": 1.5}] * 2).map(lines), "t.jsonl", rows_of("regression", text="text", label="label")
        ),
        "tagging": Kind(mutated(TAGGED).map(lines), "t.jsonl", rows_of("tagging", words="words", tags="tags")),
        "choice": Kind(mutated(CHOICES).map(lines), "t.jsonl", rows_of("choice", text="text", choices=["c"], label="label")),
        "span": Kind(
            mutated(SPANS).map(lines),
            "t.jsonl",
            rows_of("span", question="question", context="context", answer="answer", answer_start="at"),
        ),
        "squad": Kind(mutated(SQUAD).map(as_json), "t.json", rows_of("span", "squad")),
        "tsv": Kind(damaged(b"text\tlabel\na b\tx\nc\ty\n"), "t.tsv", rows_of("classification", text="text", label="label")),
        "csv": Kind(damaged(b'text,label\n"a ""b",x\nc,y\n'), "t.csv", rows_of("classification", text="text", label="label")),
        "conll": Kind(damaged(b"a O\nb B-X\n\n-DOCSTART-\n\nc I-X\n"), "t.conll", rows_of("tagging")),
        "archive": Kind(damaged(gzip.compress(lines(TEXTS))), "t.jsonl.gz", rows_of("classification", text="text", label="label")),
        "parquet": Kind(damaged(a_parquet()), "t.parquet", documents("parquet")),
        "records": Kind(mutated(TEXTS).map(lines), "t.jsonl", documents("jsonl")),
        "no-answer probabilities": Kind(mutated({"1": 0.5, "2": 1}).map(as_json), "n.json", read_null),
        "tokenizer.json": Kind(mutated(small_tokenizer()).map(as_json), "tokenizer.json", vocabulary),
        "vocab.txt": Kind(damaged("\n".join(small_tokenizer()["model"]["vocab"]).encode()), "vocab.txt", vocabulary),
        "table": Kind(mutated(GRID).map(as_yaml), "mine.yaml", lambda path: load_grid(str(path))),
        "table's bytes": Kind(damaged((sweeps_folder() / "table5.yaml").read_bytes()), "mine.yaml", lambda path: load_grid(str(path))),
        "choice of a scale": Kind(damaged((conf_folder() / "scale" / "smoke.yaml").read_bytes()), "scale/laptop.yaml", choice),
        "scale of grids": Kind(
            mutated(yaml.safe_load((conf_folder() / "_grid" / "smoke.yaml").read_text())).map(as_yaml), "_grid/mine.yaml", scale
        ),
    }
    for task, rows in PREDICTED.items():
        found[f"predictions of {task}"] = Kind(mutated(rows).map(lines), "p.jsonl", score(task))
    return found


KINDS = kinds()


def check(sentence: str) -> None:
    assert sentence.strip()
    assert len(sentence) < LARGEST_SENTENCE


def try_out(folder: Path, kind: Kind) -> None:
    path = folder / kind.name
    path.parent.mkdir(parents=True, exist_ok=True)

    @settings(suppress_health_check=list(HealthCheck))
    @given(kind.files)
    def one(content: bytes) -> None:
        path.write_bytes(content)
        try:
            kind.use(path)
        except UserError as error:
            check(str(error))

    one()


@pytest.mark.parametrize("kind", KINDS)
def test_a_file(kind: str, tmp_path: Path) -> None:
    try_out(tmp_path, KINDS[kind])


PARTS = ["architecture.json", "config.yaml", "model.safetensors", "tokenizer.json"]


def part_of_a_run(name: str, folder: Path) -> Kind:
    words = small_vocabulary()
    run = write_run(folder / "runs" / "pretrain-small-mlm_nsp-0123abcd", words, small_architecture(words))
    whole = (run / name).read_bytes()

    def use(path: Path) -> None:
        if name == "config.yaml":
            RunFolder(run).read_config()
        else:
            load_pretrained(str(run), run.parent)

    if name == "model.safetensors":
        files = damaged(whole[:4000]).map(lambda head: head + whole[4000:])
    elif name == "tokenizer.json":
        files = damaged(whole)
    else:
        files = mutated(yaml.safe_load(whole)).map(as_json)
    return Kind(files, str((run / name).relative_to(folder)), use)


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_run(name: str, tmp_path: Path) -> None:
    try_out(tmp_path, part_of_a_run(name, tmp_path))


def file_of_a_grid(which: str, folder: Path) -> Kind:
    table = FakeTable(folder, seeds=1)
    manifest = table.write()
    (path,) = (folder / "grid" / "tables").glob("*.json")
    key = next(iter(manifest.nodes))
    if which == "record":
        return damaged_json(record_path(folder, key), folder, lambda path: read_record(folder, key))
    return damaged_json(path, folder, lambda path: collect(read_manifest(path), folder))


def damaged_json(path: Path, folder: Path, use: Callable[[Path], object]) -> Kind:
    return Kind(mutated(json.loads(path.read_text())).map(as_json), str(path.relative_to(folder)), use)


@pytest.mark.parametrize("which", ["record", "table's file"])
def test_a_file_of_a_grid(which: str, tmp_path: Path) -> None:
    try_out(tmp_path, file_of_a_grid(which, tmp_path))


KEYS = [
    "model",
    "model.layers",
    "corpus.path",
    "corpus.sources",
    "corpus.sources.a.path",
    "lengths.stages",
    "seed",
    "budget",
    "a",
    "",
    "..",
    "model@x",
]
TEXTS_OF_VALUES = [
    "1",
    "1e400",
    "nan",
    "null",
    "true",
    "[1,2]",
    "{a:1}",
    "${seed}",
    "${",
    "'",
    "\\",
    "1,2",
    "é",
    "range(1,3)",
    "glob(*)",
    "choice(1,2)",
    "interval(1,2)",
    "int(1.5)",
    "sort(2,1)",
    "-",
    "???",
]
WORDS = st.text(max_size=8) | st.sampled_from([*TEXTS_OF_VALUES, "[" * 200, "{a:" * 200, "9" * 5000, "\0"])
OVERRIDES = st.tuples(
    st.sampled_from(["", "+", "++", "~", "-"]), st.sampled_from(KEYS) | st.text(max_size=6), st.sampled_from(["=", "=", ""]), WORDS
)


@example(["seed=" + "9" * 5000], False)
@settings(max_examples=300)
@given(st.lists(OVERRIDES.map("".join), max_size=3), st.booleans())
def test_overrides(words: list[str], multirun: bool) -> None:
    groups = {"model": ["tiny", "base"], "corpus": ["text"], "lengths": ["paper"]}
    try:
        assert all(isinstance(word, str) for word in prepare_overrides(words, PRETRAIN, groups, ["model"], multirun))
    except UserError as error:
        check(str(error))
