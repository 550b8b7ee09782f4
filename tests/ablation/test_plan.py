from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from bertlab.ablation.graph import FINETUNING, PRETRAINING, Node, Plan
from bertlab.ablation.grid import Grid, Row, load_grid
from bertlab.ablation.meaning import Meanings
from bertlab.ablation.plan import plan
from bertlab.ablation.plan_notes import called
from bertlab.ablation.settings import Settings
from bertlab.config import CorpusConfig, PathsConfig, TokenizerConfig
from bertlab.errors import UserError
from bertlab.task_config import ColumnsConfig, ProbeConfig, TaskConfig


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A corpus of two documents: nothing of it is prepared for a plan."""
    folder = tmp_path_factory.mktemp("text")
    for name in ("a", "b"):
        (folder / f"{name}.txt").write_text(f"A document {name}. It has two sentences.\n")
    return folder


@pytest.fixture(scope="module")
def settings(text: Path) -> Settings:
    return Settings(scale="smoke", seeds=2, pretrain=("corpus=text", f"corpus.path={text}"))


@pytest.fixture(scope="module")
def paper(settings: Settings) -> Plan:
    """Tables that share their reference."""
    return plan([load_grid(name) for name in ("table5", "table6", "table8", "figure5")], settings)


CONTENT: dict[str, Any] = {
    "rows": {"one": {"pretrain": ["objective=mlm"]}, "two": {"pretrain": ["objective=ltr"]}},
    "columns": {"c": {"task": "bigram_shift", "metric": "accuracy"}},
    "baseline": "one",
}


def written(folder: Path, name: str = "mine", **values: Any) -> Grid:
    path = folder / f"{name}.yaml"
    path.write_text(yaml.safe_dump({**CONTENT, **values}, sort_keys=False))
    return load_grid(str(path))


def node_of(found: Plan, table: str, row: str, column: str, point: float | None = None, seed: int = 0) -> Node:
    (cell,) = [cell for cell in found.cells[table] if (cell.row, cell.column, cell.point) == (row, column, point)]
    return found.nodes[cell.nodes[seed]]


def words(node: Node, key: str) -> list[str]:
    return [word.partition("=")[2] for word in node.overrides if word.partition("=")[0] == key]


class TestGraph:
    def test_every_cells_runs_are_there_once_a_seed(self, paper: Plan) -> None:
        for cells in paper.cells.values():
            for cell in cells:
                assert len(cell.nodes) == 2
                assert set(cell.nodes) <= set(paper.nodes)

    def test_every_row_has_a_cell_in_every_column(self, paper: Plan) -> None:
        for name, table in paper.tables.items():
            pairs = {(cell.row, cell.column) for cell in paper.cells[name]}
            for row in table.grid.rows.values():
                for column in table.grid.columns.values():
                    expected = not row.published_only and not (row.random and column.held_out)
                    assert ((row.name, column.name) in pairs) == expected

    def test_what_a_run_starts_from_precedes_it(self, paper: Plan) -> None:
        seen: set[str] = set()
        for key, node in paper.nodes.items():
            assert key == node.key
            assert node.source is None or node.source in seen
            seen.add(key)

    def test_first_seeds_come_first(self, paper: Plan) -> None:
        seeds = [node.seed for node in paper.nodes.values()]
        assert seeds == sorted(seeds)

    def test_fine_tunings_start_from_their_rows_pretraining(self, paper: Plan) -> None:
        for node in paper.nodes.values():
            if node.kind == PRETRAINING:
                assert node.source is None
                continue
            assert node.source is not None
            source = paper.nodes[node.source]
            assert source.kind == PRETRAINING
            assert source.seed == (1 if words(node, "weights") == ["random"] else node.seed)

    def test_the_reference_is_trained_once_for_all_tables(self, paper: Plan) -> None:
        column = "sentence_order"
        rows = [("table5", "bert", None), ("table6", "l2_h128_a2", None), ("table8", "mask_80_keep_10_random_10", None)]
        found = {node_of(paper, table, row, column, point).key for table, row, point in rows}
        assert len(found) == 1  # even the fine-tuning is the same
        reference = node_of(paper, *rows[0][:2], column).source
        assert node_of(paper, "figure5", "mlm", "continuation", 0.2).source == reference
        assert node_of(paper, "table6", "l2_h128_a2", "perplexity").key == reference
        pretrainings = [node for node in paper.nodes.values() if node.kind == PRETRAINING]
        assert len(pretrainings) == 2 * (3 + 2 + 5)  # bert, mlm, ltr; two more sizes; five more maskings

    def test_saved_runs_are_counted(self, paper: Plan) -> None:
        runs = sum(len(cell.nodes) for cells in paper.cells.values() for cell in cells if cell.column != "perplexity")
        pretrainings = 2 * (4 + 3 + 6 + 2)
        assert paper.naive_runs == runs + pretrainings
        assert paper.naive_runs > len(paper.nodes)
        assert paper.naive_flops > sum(node.flops for node in paper.nodes.values())

    def test_nobody_prepares_anything(self, paper: Plan, text: Path) -> None:
        assert sorted(path.name for path in text.iterdir()) == ["a.txt", "b.txt"]


class TestRandomRows:
    def test_every_trained_row_has_one_of_its_way_of_attending(self, paper: Plan) -> None:
        assert paper.tables["table5"].grid.random == {
            "bert": "random",
            "no_nsp": "random",
            "ltr_no_nsp": "random_causal",
            "ltr_no_nsp_bilstm": "random_causal",
        }
        assert "random_causal" not in paper.tables["table8"].grid.rows

    def test_they_need_no_training_of_their_own_and_vary_by_seed(self, paper: Plan) -> None:
        one, two = (node_of(paper, "table5", "random", "sentence_order", seed=seed) for seed in (0, 1))
        assert one.key != two.key
        assert one.source == two.source == node_of(paper, "table5", "bert", "sentence_order").source
        assert words(one, "weights") == ["random"]
        assert one.key == node_of(paper, "table8", "random", "sentence_order").key

    def test_an_architecture_that_no_row_has_takes_a_single_step(self, settings: Settings, tmp_path: Path) -> None:
        rows = {**CONTENT["rows"], "wide": {"random": True, "pretrain": ["objective=mlm", "model.intermediate=300"]}}
        found = plan([written(tmp_path, rows=rows, random={"one": "wide"})], settings)
        source = found.nodes[str(node_of(found, "mine", "wide", "c").source)]
        assert words(source, "budget.steps") == ["1"]
        assert found.tables["mine"].grid.random == {"one": "wide", "two": "random_causal"}

    def test_one_of_the_file_that_is_a_rows_counterpart_is_taken_without_being_named(self, settings: Settings, tmp_path: Path) -> None:
        batch = ["objective=mlm", "norm=batch"]
        rows = {
            **CONTENT["rows"],
            "batch": {"pretrain": batch},
            "batch_lstm": {"pretrain": batch, "finetune": ["head=bilstm"]},
            "some": {"random": True, "pretrain": ["norm=batch"], "columns": ["d"]},  # lacks a column
            "other": {"random": True, "pretrain": ["norm=batch"]},  # the same model without its pre-training's head
            "other_lstm": {"random": True, "pretrain": batch, "finetune": ["head=bilstm"]},
        }
        columns = {**CONTENT["columns"], "d": {"task": "sentence_order", "metric": "accuracy"}}
        found = plan([written(tmp_path, rows=rows, columns=columns)], settings).tables["mine"].grid.random
        assert found == {"one": "random", "two": "random_causal", "batch": "other", "batch_lstm": "other_lstm"}

    def test_one_that_the_scale_lacks_is_replaced(self, settings: Settings, tmp_path: Path) -> None:
        rows = {**CONTENT["rows"], "large": {"random": True, "scales": ["paper"]}}
        found = plan([written(tmp_path, rows=rows, random={"one": "large"})], settings)
        assert found.tables["mine"].grid.random == {"one": "random", "two": "random_causal"}

    def test_they_can_be_switched_off(self, settings: Settings, tmp_path: Path) -> None:
        found = plan([written(tmp_path, random=False)], settings)
        assert list(found.tables["mine"].grid.rows) == ["one", "two"]

    def test_a_table_of_pretrainings_alone_has_none(self, settings: Settings, tmp_path: Path) -> None:
        found = plan([written(tmp_path, columns={"p": {"held_out": "perplexity"}})], settings)
        assert {node.kind for node in found.nodes.values()} == {PRETRAINING}


class TestCurves:
    def test_points_are_steps_of_one_pretraining_that_keeps_them(self, paper: Plan) -> None:
        cells = [cell for cell in paper.cells["figure5"] if cell.row == "mlm"]
        assert [cell.point for cell in cells] == [0.03, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0]
        steps = [paper.nodes[cell.nodes[0]].step for cell in cells]
        assert steps == [2, 3, 6, 12, 24, 36, 48, None]  # of 60
        (source,) = {paper.nodes[cell.nodes[0]].source for cell in cells}
        (kept,) = words(paper.nodes[str(source)], "checkpointing.keep_at")
        assert set(yaml.safe_load(kept)) >= set(steps[:-1])

    def test_the_last_point_is_the_table_s_own_run(self, paper: Plan) -> None:
        assert node_of(paper, "figure5", "mlm", "continuation", 1.0).key == node_of(paper, "table5", "bert", "continuation").key

    def test_a_run_wanted_with_and_without_points_is_one(self, settings: Settings, tmp_path: Path) -> None:
        without = plan([written(tmp_path, "without")], settings)
        both = plan([written(tmp_path, "without"), written(tmp_path, "curve", points=[0.45, 1.0])], settings)
        key = next(iter(without.nodes))
        assert key in both.nodes
        assert 27 in yaml.safe_load(words(both.nodes[key], "checkpointing.keep_at")[0])
        assert 27 not in yaml.safe_load(words(without.nodes[key], "checkpointing.keep_at")[0])

    def test_minutes_have_no_points(self, settings: Settings, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="points"):
            plan([written(tmp_path, points=[0.5])], replace(settings, budget="minutes"))


class TestSeeds:
    @pytest.mark.parametrize(
        ("seeds", "expected"),
        [
            ({"vary": "both"}, [(1, 1), (2, 2)]),
            ({"vary": "pretrain"}, [(1, 1), (2, 1)]),
            ({"vary": "finetune"}, [(1, 1), (1, 2)]),
            ({"vary": "both", "finetunings": 2}, [(1, 1), (2, 3), (1, 2), (2, 4)]),
        ],
    )
    def test_what_varies(self, settings: Settings, tmp_path: Path, seeds: dict[str, Any], expected: list[tuple[int, int]]) -> None:
        found = plan([written(tmp_path, seeds=seeds)], settings)
        (cell,) = [cell for cell in found.cells["mine"] if cell.row == "one"]
        nodes = [found.nodes[key] for key in cell.nodes]
        assert [(found.nodes[str(node.source)].seed, node.seed) for node in nodes] == expected
        (random,) = [cell for cell in found.cells["mine"] if cell.row == "random"]
        assert [found.nodes[key].seed for key in random.nodes] == list(range(1, len(expected) + 1))

    def test_the_command_wins_over_the_table_and_the_table_over_the_scale(self, settings: Settings, tmp_path: Path) -> None:
        grid = written(tmp_path, seeds={"count": 2})

        def count(given: int | None) -> int:
            return len(plan([grid], replace(settings, seeds=given)).cells["mine"][0].nodes)

        assert (count(None), count(3)) == (2, 3)
        grid = written(tmp_path, seeds={"count": 7})
        assert count(None) == 2  # the most at scale=smoke


class TestKeys:
    def key(self, settings: Settings, folder: Path, **values: Any) -> tuple[str, str]:
        """Those of the first row's pretraining and fine-tuning."""
        node = node_of(plan([written(folder, **values)], settings), "mine", "one", "c")
        return str(node.source), node.key

    def test_the_same_however_it_is_written(self, settings: Settings, text: Path, tmp_path: Path) -> None:
        expected = self.key(settings, tmp_path)
        copy = tmp_path / "elsewhere"
        copy.mkdir()
        for path in text.iterdir():
            (copy / path.name).write_bytes(path.read_bytes())
        same = [
            replace(settings, machine=("logger=none", "trainer.threads=1", "paths.runs=there")),
            replace(settings, pretrain=(f"corpus.path={copy}", "corpus=text")),
            replace(settings, pretrain=(*settings.pretrain, "model.layers=2", "masking.noise_std=3")),
            replace(settings, pretrain=(*settings.pretrain, "budget.tokens=61440", "trainer.devices=1", "validation.every=7")),
        ]
        for other in same:
            assert self.key(other, tmp_path) == expected
        reordered = {"one": {"pretrain": ["norm.kind=layer", "objective=mlm"], "label": "Another name"}, "two": CONTENT["rows"]["two"]}
        assert self.key(settings, tmp_path, rows=reordered) == expected

    @pytest.mark.parametrize(
        "change",
        ["corpus.filter.duplicate_lines=true", "corpus.filter.duplicate_documents=true", "tokenizer.lowercase=false",
         "optimizer.lr=1e-5", "batch.sequences=16", "model.layers=1", "masking.rate=0.3", "tokenizer.vocab_size=512", "corpus.held_out=0.3",
         "validation.sequences=8", "trainer.precision=bf16", "budget.steps=61", "corpus.filter.min_words=3"],
    )  # fmt: skip
    def test_a_meaning_changes_them(self, settings: Settings, tmp_path: Path, change: str) -> None:
        before = self.key(settings, tmp_path)
        after = self.key(replace(settings, pretrain=(*settings.pretrain, change)), tmp_path)
        assert before[0] != after[0]
        assert before[1] != after[1]

    @pytest.mark.parametrize("change", ["tuning.epochs=2", "optimizer.lr=1e-5", "head=linear", "task.probe.train=100", "dropout=0.3"])
    def test_a_meaning_of_fine_tuning_changes_that_alone(self, settings: Settings, tmp_path: Path, change: str) -> None:
        before = self.key(settings, tmp_path)
        after = self.key(replace(settings, finetune=(change,)), tmp_path)
        assert before[0] == after[0]
        assert before[1] != after[1]

    def test_another_text_is_another_run(self, settings: Settings, text: Path, tmp_path: Path) -> None:
        other = tmp_path / "other"
        other.mkdir()
        (other / "a.txt").write_text("Other words. And more of them.\n")
        changed = replace(settings, pretrain=("corpus=text", f"corpus.path={other}"))
        assert self.key(settings, tmp_path)[0] != self.key(changed, tmp_path)[0]

    @pytest.mark.parametrize(
        ("place", "version", "changed"),
        [
            ("bertlab.data.vocabulary_training.TRAINER_VERSION", "2/0.0", (True, True)),
            ("bertlab.tasks.probes.build.VERSION", 2, (False, True)),
        ],
    )
    def test_what_is_made_in_another_way_is_another_run(
        self, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, version: Any, changed: tuple[bool, bool]
    ) -> None:
        before = self.key(settings, tmp_path)
        monkeypatch.setattr(place, version)
        after = self.key(settings, tmp_path)
        assert (before[0] != after[0], before[1] != after[1]) == changed

    def test_shapes_tell_everything_but_seeds(self, paper: Plan) -> None:
        one, two = (node_of(paper, "table5", "bert", "sentence_order", seed=seed) for seed in (0, 1))
        other = node_of(paper, "table5", "no_nsp", "sentence_order")
        assert one.shape == two.shape
        assert one.shape != other.shape  # it starts from another pretraining
        points = [node_of(paper, "figure5", "mlm", "continuation", point).shape for point in (0.2, 0.4, 1.0)]
        assert len(set(points)) == 3  # they start from other steps of one
        assert re.fullmatch("[0-9a-f]{16}", one.key)


class TestFurtherPretraining:
    def test_it_goes_on_from_the_same_seed_of_its_row(self, settings: Settings, tmp_path: Path) -> None:
        rows = {
            "one": {"pretrain": ["objective=mlm_nsp", "model=mini"]},
            "on": {"of": "one", "pretrain": ["optimizer.lr=1e-5"]},
            "mlm": {"of": "one", "pretrain": ["objective=mlm"]},
        }
        found = plan([written(tmp_path, rows=rows)], settings)
        first, on, mlm = (found.nodes[str(node_of(found, "mine", row, "c", seed=1).source)] for row in rows)
        assert on.source == first.key
        assert mlm.source == first.key
        assert (first.seed, on.seed) == (2, 2)
        assert words(first, "model") == ["mini"]
        assert words(on, "model") == words(on, "objective") == []  # both come with the weights
        assert words(on, "optimizer.lr") == ["1e-5"]
        assert words(mlm, "objective") == ["mlm"]
        assert on.flops == first.flops  # of the same model, although no word says so

    def test_what_goes_on_alike_from_other_rows_is_of_another_shape(self, settings: Settings, tmp_path: Path) -> None:
        further: dict[str, Any] = {"pretrain": ["optimizer.lr=1e-5"], "budget": 2}
        other = {"pretrain": ["objective=mlm", "masking.rate=0.3"]}
        back = {"pretrain": ["optimizer.lr=1e-5", "masking.rate=0.15"], "budget": 2}  # what it inherits is as in the first again
        rows = {**CONTENT["rows"], "two": other, "on_one": {"of": "one", **further}, "on_two": {"of": "two", **back}}
        found = plan([written(tmp_path, rows=rows)], settings)
        one, two = (found.nodes[str(node_of(found, "mine", row, "c").source)] for row in ("on_one", "on_two"))
        assert one.shape != two.shape

    @pytest.mark.parametrize(
        ("word", "said"),
        [
            ("objective=ltr", "objective=ltr does not fit of: one, which has objective.kind=mlm_nsp: leave it out"),
            ("model=mini", "model=mini does not fit of: one, which has model.layers=2"),
            ("model.positions=600", "model.positions=600 does not fit of: one, which has model.positions=512"),
            ("norm=batch", "norm=batch does not fit of: one, which has norm.kind=layer"),
            ("backbone=bilstm", "backbone=bilstm does not fit of: one, which has backbone.kind=transformer"),
            ("tokenizer.lowercase=false", "tokenizer.lowercase=false does not fit of: one, which has tokenizer.lowercase=true"),
            ("tokenizer.vocab_size=300", "tokenizer.vocab_size=300 does not fit of: one, which has tokenizer.vocab_size=2048"),
            ("tokenizer.path={vocabulary}", "tokenizer.path=.* does not fit of: one, which has tokenizer.path=null"),
        ],
    )
    def test_what_contradicts_the_row_it_goes_on_from_is_refused(self, word: str, said: str, settings: Settings, tmp_path: Path) -> None:
        (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n")
        rows = {"one": {}, "on": {"of": "one", "pretrain": [word.format(vocabulary=tmp_path / "vocab.txt")]}}
        with pytest.raises(UserError, match=f"mine.yaml: rows.on: {said}"):
            plan([written(tmp_path, rows=rows)], settings)

    def test_what_agrees_with_the_row_it_goes_on_from_may_be_said(self, settings: Settings, tmp_path: Path) -> None:
        agreeing = ["model=tiny", "model.dropout=0.3", "norm=layer", "backbone=transformer", "objective=mlm", "tokenizer.vocab_size=2048"]
        rows = {"one": {}, "on": {"of": "one", "pretrain": agreeing}}
        found = plan([written(tmp_path, rows=rows)], settings)
        on = found.nodes[str(node_of(found, "mine", "on", "c").source)]
        assert words(on, "model.dropout") == ["0.3"]
        assert words(on, "tokenizer.vocab_size") == []  # as many as the corpus gave, which only the checkpoint knows

    def test_a_row_of_twice_the_budget(self, settings: Settings, tmp_path: Path) -> None:
        rows = {"one": {"pretrain": ["objective=mlm"]}, "twice": {"pretrain": ["objective=mlm"], "budget": 2}}
        found = plan([written(tmp_path, rows=rows)], settings)
        one, twice = (found.nodes[str(node_of(found, "mine", row, "c").source)] for row in rows)
        assert twice.positions == 2 * one.positions

    def test_a_row_that_goes_on_does_not_pass_for_one_of_the_same_budget(self, settings: Settings) -> None:
        (budget, *_) = plan([load_grid("further_pretraining")], settings).tables["further_pretraining"].notes
        rows = load_grid("further_pretraining").rows
        further, without = (rows[name].label for name in ("further", "further_no_nsp"))
        assert "," not in further
        assert budget.endswith(f"{further} and “{without}” start from BERT, whose own pre-training comes on top.")


class TestNotes:
    def test_a_table_says_what_it_was_made_of(self, paper: Plan, text: Path) -> None:
        for table in paper.tables.values():
            (data,) = [note for note in table.notes if note.startswith("Data: ")]
            assert f"corpus=text ({text}) except 10% of its documents" in data
            assert "2,048 pieces" in data

    def test_and_what_its_rows_read_instead(self, settings: Settings, tmp_path: Path) -> None:
        rows = {**CONTENT["rows"], "cased": {"pretrain": ["objective=mlm", "tokenizer.lowercase=false"]}}
        notes = plan([written(tmp_path, rows=rows)], settings).tables["mine"].notes
        (data,) = [note for note in notes if note.startswith("Data: ")]
        assert data.count("lower case") == 1
        assert data.endswith("cased.")
        assert " cased reads corpus=text" in data

    def test_random_rows_that_differ_in_more_than_training_are_told(self, paper: Plan, settings: Settings) -> None:
        def told(name: str, found: Plan) -> str:
            return " ".join(note for note in found.tables[name].notes if note.startswith("Random rows: "))

        assert "compares + BiLSTM with one that is fine-tuned differently" in told("table5", paper)
        assert "1 / 128 / 2 and 4 / 256 / 4 with one of a different architecture" in told("table6", paper)
        assert told("table8", paper) == ""

    def test_rows_are_called_by_their_labels_which_tell_them_apart(self) -> None:
        labels = {"a": "BERT", "b": "Adam, 3 epochs", "c": "Same", "d": "Same"}
        names = called({name: Row(name, label) for name, label in labels.items()})
        assert names == {"a": "BERT", "b": "“Adam, 3 epochs”", "c": "Same (c)", "d": "Same (d)"}

    @pytest.mark.parametrize(
        ("of_one", "of_two", "named"),
        [
            (["head=mean"], [], ["one"]),  # the baseline as well
            (["head=mean"], ["head=linear"], ["one", "two"]),
            (["head.dropout=0.1"], [], []),  # which it is anyway
        ],
    )
    def test_rows_that_are_fine_tuned_otherwise_than_the_random_one(
        self, settings: Settings, tmp_path: Path, of_one: list[str], of_two: list[str], named: list[str]
    ) -> None:
        rows = {"one": {"finetune": of_one}, "two": {"pretrain": ["masking=zero"], "finetune": of_two}}
        found = plan([written(tmp_path, rows=rows)], settings).tables["mine"].notes
        expected = [f"Random rows: the table compares {' and '.join(named)} with one that is fine-tuned differently."] if named else []
        assert [note.split(" The difference")[0] for note in found if note.startswith("Random rows: ")] == expected

    @pytest.mark.parametrize(
        ("of_two", "told"),
        [
            (["corpus.held_out=0.01"], True),  # has trained on most of what the other one holds out
            (["corpus.held_out=0.5"], False),  # holds out the same documents, and more
            (["tokenizer.vocab_size=512"], True),  # the hashes are of other tokens
            (["corpus.filter.min_words=2"], True),
            (["masking=zero"], False),
        ],
    )
    def test_rows_that_may_have_been_trained_on_what_probes_are_made_of(
        self, settings: Settings, tmp_path: Path, of_two: list[str], told: bool
    ) -> None:
        rows = {"one": {"pretrain": ["objective=mlm"]}, "two": {"pretrain": ["objective=mlm_nsp", *of_two]}}
        notes = plan([written(tmp_path, rows=rows)], settings).tables["mine"].notes
        assert [" two, where one of the three is different, may have been trained on them" in note for note in notes].count(True) == told


class TestMeasures:
    def test_probes_stand_in_once_each(self, paper: Plan) -> None:
        columns = paper.tables["table5"].grid.columns
        assert [(name, column.stands_for) for name, column in columns.items()] == [
            ("sentence_order", ("mnli", "mrpc")),
            ("continuation", ("qnli",)),
            ("bigram_shift", ("sst2",)),
            ("recurring_span", ("squad11",)),
        ]
        assert any("mnli and mrpc" in note for note in paper.tables["table5"].notes)

    def test_probes_are_on_the_corpus_of_the_pretraining(self, paper: Plan, text: Path) -> None:
        node = node_of(paper, "table5", "bert", "sentence_order")
        assert words(node, "task.probe.corpus.kind") == ["'text'"]
        assert words(node, "task.probe.corpus.path") == [f"'{text}'"]
        assert words(node, "task.probe.corpus.held_out") == ["0.1"]
        assert words(node, "task.probe.tokenizer.vocab_size") == ["2048"]

    def test_labelled_tasks_are_taken_where_their_files_are(self, settings: Settings, tmp_path: Path) -> None:
        folder = tmp_path / "tasks" / "MRPC"
        folder.mkdir(parents=True)
        for name in ("train", "dev"):
            (folder / f"{name}.tsv").write_text("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n1\t1\t2\tA b\tA c\n")
        columns = {
            "mrpc": {"task": "mrpc", "metric": "accuracy", "probe": "sentence_order"},
            "sst2": {"task": "sst2", "metric": "accuracy", "probe": "bigram_shift"},
        }
        found = plan([written(tmp_path, columns=columns)], replace(settings, tasks=str(tmp_path / "tasks")))
        assert list(found.tables["mine"].grid.columns) == ["mrpc", "bigram_shift"]
        node = node_of(found, "mine", "one", "mrpc")
        assert words(node, "task.path") == [f"'{tmp_path / 'tasks'}'"]
        before = node.key
        (folder / "train.tsv").write_text("Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n0\t1\t2\tA b\tA c\n")
        found = plan([written(tmp_path, columns=columns)], replace(settings, tasks=str(tmp_path / "tasks")))
        assert node_of(found, "mine", "one", "mrpc").key != before

    def test_a_stand_in_takes_no_columns_place(self, settings: Settings, tmp_path: Path) -> None:
        features = ["features=last"]
        columns = {
            "ner": {"label": "NER", "task": "conll2003", "metric": "f1", "probe": "truecasing", "probe_finetune": features},
            "truecasing": {"task": "truecasing", "metric": "f1"},
        }
        found = plan([written(tmp_path, columns=columns)], settings).tables["mine"].grid.columns
        assert [(column.finetune, column.stands_for) for column in found.values()] == [(tuple(features), ("ner",)), ((), ())]

    def test_stand_ins_of_one_probe_are_told_apart(self, paper: Plan) -> None:
        columns = paper.tables["table8"].grid.columns.values()
        assert [column.task for column in columns] == ["sentence_order", "truecasing", "truecasing"]
        assert len({(column.label, column.metric) for column in columns}) == 3

    def test_a_column_without_either(self, settings: Settings, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"columns.rte has no probe"):
            plan([written(tmp_path, columns={"rte": {"task": "rte", "metric": "accuracy"}})], settings)

    def test_a_data_set_in_a_folder_is_known_by_its_files(self, tmp_path: Path) -> None:
        """Wherever it lies; one of the hub is known by its name."""

        def key(dataset: Path | str) -> str:
            task = TaskConfig(name="mine", kind="classification", format="huggingface", dataset=str(dataset), metrics=["accuracy"])
            return Meanings().task(task, PathsConfig(cache=str(tmp_path / "cache")))

        for name in ("one", "two"):
            (tmp_path / name / "train").mkdir(parents=True)
            (tmp_path / name / "train" / "data.arrow").write_text("rows")
        before = key(tmp_path / "one")
        assert key(tmp_path / "two") == before
        (tmp_path / "two" / "train" / "data.arrow").write_text("other rows")
        assert key(tmp_path / "two") != before
        assert key("glue") != key("super_glue")

    def test_a_task_is_known_by_every_file_and_setting_that_its_examples_come_of(self, text: Path, tmp_path: Path) -> None:
        paths = PathsConfig(cache=str(tmp_path / "cache"))
        columns = ColumnsConfig(text="text", label="label")

        def of_files(folder: str, labels: list[str], **rows: str) -> str:
            (tmp_path / folder).mkdir()
            for name in ("train", "dev"):
                (tmp_path / folder / f"{name}.tsv").write_text(f"text\tlabel\n{rows.get(name, 'a')}\t0\n")
            files = {name: [f"{name}.tsv"] for name in ("train", "dev")}
            place: dict[str, Any] = {"format": "tsv", "files": files, "path": str(tmp_path / folder), "evaluate": ["test"]}
            task = TaskConfig(name="m", kind="classification", columns=columns, labels=labels, **place)
            return Meanings().task(task, paths)

        keys = [
            of_files("a", ["0", "1"]),
            of_files("b", ["0", "1"], train="b"),
            of_files("c", ["0", "1"], dev="b"),
            of_files("d", ["1", "0"]),
        ]
        assert len(set(keys)) == 4
        assert of_files("e", ["0", "1"]) == keys[0]

        def of_probe(held_out: float = 0.1, size: int = 300, **changes: Any) -> str:
            corpus = CorpusConfig(kind="text", path=str(text), held_out=held_out)
            probe = ProbeConfig(corpus=corpus, tokenizer=TokenizerConfig(vocab_size=size), **changes)
            return Meanings().task(TaskConfig(name="m", kind="classification", format="probe", probe=probe), paths)

        keys = [of_probe(), of_probe(held_out=0.2), of_probe(size=400), of_probe(seed=1), of_probe(documents="any"), of_probe(dev=7)]
        assert len(set(keys)) == 6
        assert of_probe() == keys[0]

    def test_a_task_of_the_users_own_may_build_on_another(self, settings: Settings, tmp_path: Path) -> None:
        (tmp_path / "task").mkdir()
        (tmp_path / "task" / "mine.yaml").write_text("defaults: [mrpc, _self_]\nname: mine\n")
        (tmp_path / "mine.yaml").write_text(
            yaml.safe_dump({**CONTENT, "columns": {"c": {"task": "mine", "metric": "f1", "probe": "sentence_order"}}})
        )
        grid = load_grid(str(tmp_path / "mine.yaml"), tmp_path)
        assert grid.columns["c"].probe_metric == "f1"
        found = plan([grid], replace(settings, config_dir=tmp_path))
        assert found.tables["mine"].grid.columns["sentence_order"].stands_for == ("c",)

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("name: mine\nkind: pair\nmetrics: [f1]\n", "kind"),
            ("name: mine\nkind: classification\ntipe: x\n", "tipe"),
            ("kind: tagging\n", "name"),
        ],
    )
    def test_a_task_of_the_users_own_that_cannot_be_meant(self, content: str, said: str, tmp_path: Path) -> None:
        (tmp_path / "task").mkdir()
        (tmp_path / "task" / "mine.yaml").write_text(content)
        (tmp_path / "mine.yaml").write_text(yaml.safe_dump({**CONTENT, "columns": {"c": {"task": "mine", "metric": "f1"}}}))
        with pytest.raises(UserError, match=rf"mine.yaml: columns.c.task: .*{said}"):
            load_grid(str(tmp_path / "mine.yaml"), tmp_path)

    def test_rows_that_predict_no_next_sentence_have_no_cell_for_its_accuracy(self, settings: Settings, tmp_path: Path) -> None:
        rows = {**CONTENT["rows"], "nsp": {"pretrain": ["objective=mlm_nsp"]}}
        columns = {**CONTENT["columns"], "n": {"held_out": "nsp_accuracy"}}
        found = plan([written(tmp_path, rows=rows, columns=columns)], settings)
        assert [cell.row for cell in found.cells["mine"] if cell.column == "n"] == ["nsp"]

    def test_a_row_of_some_columns(self, settings: Settings, tmp_path: Path) -> None:
        columns = {**CONTENT["columns"], "ner": {"task": "conll2003", "metric": "f1", "probe": "truecasing"}}
        rows = {**CONTENT["rows"], "crf": {"pretrain": ["objective=mlm"], "finetune": ["head=crf"], "columns": ["ner"]}}
        found = plan([written(tmp_path, columns=columns, rows=rows)], settings)
        assert [cell.column for cell in found.cells["mine"] if cell.row == "crf"] == ["truecasing"]


class TestRefusals:
    def test_rows_that_mean_the_same(self, settings: Settings, tmp_path: Path) -> None:
        rows = {**CONTENT["rows"], "again": {"pretrain": ["objective.kind=mlm", "masking.mask=0.8"]}}
        with pytest.raises(UserError, match=r"mine.yaml: rows one and again mean the same runs"):
            plan([written(tmp_path, rows=rows)], settings)

    def test_a_row_that_cannot_be_meant(self, settings: Settings, tmp_path: Path) -> None:
        rows = {**CONTENT["rows"], "odd": {"pretrain": ["objective=mlm", "model.heads=3"]}}
        with pytest.raises(UserError, match=r"rows.odd: model.hidden=128 cannot be divided among model.heads=3"):
            plan([written(tmp_path, rows=rows)], settings)

    def test_a_head_that_a_column_cannot_take(self, settings: Settings, tmp_path: Path) -> None:
        rows = {**CONTENT["rows"], "crf": {"pretrain": ["objective=mlm"], "finetune": ["head=crf"]}}
        with pytest.raises(UserError, match=r"rows.crf, columns.c: .*crf"):
            plan([written(tmp_path, rows=rows)], settings)

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ("head=last_4_layers", "head.layers=4 asks for more states than there are: the model has 2 layers"),
            ("features=concat_last_4", "features=concat_last_4 takes the states of four layers, and the model has 2 layers"),
            ("tuning.reinit_layers=3", "tuning.reinit_layers=3 is too many"),
            ("task.max_length=2048", "task.max_length=2048 is longer than the position table of the row's model"),
        ],
    )
    def test_what_a_row_s_model_cannot_do(self, settings: Settings, tmp_path: Path, words: str, said: str) -> None:
        rows = {**CONTENT["rows"], "deep": {"pretrain": ["objective=mlm"], "finetune": [words]}}
        with pytest.raises(UserError, match=f"rows.deep, columns.c: {said}"):
            plan([written(tmp_path, rows=rows)], settings)

    def test_a_baseline_that_the_scale_lacks(self, settings: Settings, tmp_path: Path) -> None:
        rows = {**CONTENT["rows"], "one": {"pretrain": ["objective=mlm"], "scales": ["paper"]}}
        with pytest.raises(UserError, match="baseline"):
            plan([written(tmp_path, rows=rows)], settings)

    def test_a_length_that_a_row_is_not_evaluated_at(self, settings: Settings, tmp_path: Path) -> None:
        columns = {"p": {"held_out": "perplexity", "length": 77}}
        said = r"mine.yaml: columns.p.length: row one is evaluated at length 32, 64, 128, not at 77: .* validation.lengths=\[32,64,77,128\]"
        with pytest.raises(UserError, match=said):
            plan([written(tmp_path, columns=columns)], settings)
        rows = {**CONTENT["rows"], "three": {"pretrain": ["lengths=constant", "batch.length=32"]}}
        lengths = ["validation.lengths=[16,77]"]
        with pytest.raises(UserError, match="row three is evaluated at length 32, not at 64"):
            plan([written(tmp_path, rows=rows, columns={"p": {"held_out": "perplexity", "length": 64}})], settings)
        assert plan([written(tmp_path, rows=rows, columns=columns, pretrain=lengths)], settings).cells["mine"]

    def test_next_sentences_that_no_row_predicts(self, settings: Settings, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"columns.n: no row at scale=smoke has nsp_accuracy, since none predicts next sentences"):
            plan([written(tmp_path, columns={**CONTENT["columns"], "n": {"held_out": "nsp_accuracy"}})], settings)

    def test_two_tables_of_one_name(self, settings: Settings, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="Two tables are called mine"):
            plan([written(tmp_path), written(tmp_path)], settings)

    @pytest.mark.parametrize(
        ("changes", "said"), [({"scale": "laptob"}, "laptop"), ({"budget": "flop"}, "flops"), ({"seeds": 0}, "--seeds")]
    )
    def test_settings_that_do_not_exist(self, settings: Settings, tmp_path: Path, changes: dict[str, Any], said: str) -> None:
        with pytest.raises(UserError, match=said):
            plan([written(tmp_path)], replace(settings, **changes))


def test_rows_of_other_scales_are_shown_by_what_is_published(paper: Plan) -> None:
    rows = paper.tables["table6"].grid.rows
    assert rows["l24_h1024_a16"].published_only
    assert not rows["l2_h128_a2"].published_only
    assert paper.tables["table6"].grid.baseline == "l2_h128_a2"


def test_columns_of_other_scales_are_not_there(settings: Settings, tmp_path: Path) -> None:
    columns = {**CONTENT["columns"], "large": {"task": "sentence_order", "metric": "accuracy", "scales": ["paper"]}}
    assert list(plan([written(tmp_path, columns=columns)], settings).tables["mine"].grid.columns) == ["c"]
    assert list(plan([written(tmp_path, columns=columns)], replace(settings, scale="paper")).tables["mine"].grid.columns) == ["c", "large"]
    with pytest.raises(UserError, match="columns: none exists at scale=smoke"):
        plan([written(tmp_path, columns={"large": columns["large"]})], settings)


def test_fine_tunings_are_those_of_the_verb(paper: Plan) -> None:
    """The words are complete: with a checkpoint they are a command."""
    from bertlab.composition import compose_all
    from bertlab.schemas import FINETUNE, PRETRAIN

    nodes = list(paper.nodes.values())
    pretraining = next(node for node in nodes if node.kind == PRETRAINING)
    finetuning = next(node for node in nodes if node.kind == FINETUNING)
    (config,) = compose_all(PRETRAIN, [pretraining.overrides])
    assert (config.seed, config.budget.steps, config.scale) == (1, 60, "smoke")
    (finetune,) = compose_all(FINETUNE, [[*finetuning.overrides, "checkpoint=x"]])
    assert finetune.task.probe.corpus == config.corpus
    assert finetune.task.probe.tokenizer == config.tokenizer
