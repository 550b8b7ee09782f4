from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from bertlab.ablation.grid import Grid, bundled_grids, load_grid
from bertlab.ablation.scales import load_scale
from bertlab.ablation.task_files import task_named
from bertlab.errors import UserError

GOOD = """
title: A table
rows:
  one: {label: First, pretrain: [objective=mlm]}
  two: {pretrain: [objective=ltr], finetune: [head=bilstm]}
columns:
  mnli: {task: mnli, metric: accuracy, probe: sentence_order}
baseline: one
"""


def load(folder: Path, text: str) -> Grid:
    path = folder / "mine.yaml"
    path.write_text(text, encoding="utf-8")
    return load_grid(str(path))


def changed(**values: Any) -> str:
    """The good table with some of its top keys replaced; None takes one away."""
    content = yaml.safe_load(GOOD)
    for key, value in values.items():
        content.pop(key, None)
        if value is not None:
            content[key] = value
    return yaml.safe_dump(content)


class TestReading:
    def test_a_table_of_ones_own(self, tmp_path: Path) -> None:
        grid = load(tmp_path, GOOD)
        assert (grid.name, grid.title, grid.baseline) == ("mine", "A table", "one")
        assert (grid.rows["one"].label, grid.rows["two"].label) == ("First", "two")
        assert grid.rows["two"].finetune == ("head=bilstm",)
        column = grid.columns["mnli"]
        assert (column.metric, column.probe, column.probe_metric) == ("accuracy", "sentence_order", "accuracy")
        assert (grid.seeds.vary, grid.seeds.count) == ("both", None)

    def test_a_probe_without_the_metric_is_measured_by_its_own(self, tmp_path: Path) -> None:
        grid = load(tmp_path, changed(columns={"squad": {"task": "squad11", "metric": "exact", "probe": "truecasing"}}))
        assert grid.columns["squad"].probe_metric == "f1"

    def test_held_out_columns(self, tmp_path: Path) -> None:
        grid = load(tmp_path, changed(columns={"a": {"held_out": "perplexity"}, "b": {"held_out": "accuracy", "length": 128}}))
        assert [(column.held_out, column.length) for column in grid.columns.values()] == [("perplexity", None), ("accuracy", 128)]

    def test_published_numbers_of_points(self, tmp_path: Path) -> None:
        grid = load(tmp_path, changed(points=[0.5, 1], published={"one": {"mnli": [50, None]}}))
        assert grid.published["one"]["mnli"] == (50.0, None)

    def test_random_rows_can_be_switched_off(self, tmp_path: Path) -> None:
        assert load(tmp_path, GOOD).add_random
        assert not load(tmp_path, changed(random=False)).add_random


class TestMistakes:
    @pytest.mark.parametrize(
        ("values", "said"),
        [
            ({"tilte": "x"}, ["Unknown key 'tilte'", "title"]),
            ({"rows": {"one": {"pretain": ["objective=mlm"]}}}, ["rows.one", "'pretain'", "pretrain"]),
            ({"columns": {"mnli": {"task": "mnli", "metrik": "f1"}}}, ["columns.mnli", "'metrik'", "metric"]),
            ({"columns": {"mnli": {"metric": "accuracy"}}}, ["columns.mnli", "has no task"]),
            ({"columns": {"mnli": {"task": "squad11"}}}, ["columns.mnli", "has no metric", "metric: f1"]),
            ({"columns": {"mnli": {"task": "mnil", "metric": "accuracy"}}}, ["columns.mnli.task", "'mnil'", "mnli"]),
            ({"columns": {"mnli": {"task": "mnli", "metric": "acuracy"}}}, ["columns.mnli.metric", "metric of task mnli", "accuracy"]),
            ({"columns": {"mnli": {"task": "mnli", "metric": "f1"}}}, ["columns.mnli.metric", "'f1'"]),  # three classes
            ({"columns": {"mnli": {"task": "mnli", "metric": "accuracy", "probe": "rte"}}}, ["columns.mnli.probe", "labelled files"]),
            ({"columns": {"p": {"held_out": "perplexty"}}}, ["columns.p.held_out", "perplexity"]),
            ({"columns": {"p": {"held_out": "perplexity", "length": "long"}}}, ["columns.p.length", "'long'"]),
            ({"columns": {"p": {"held_out": "perplexity", "metric": "f1"}}}, ["columns.p", "'metric'"]),
            ({"columns": {"p": {"held_out": "perplexity", "scales": ["laptob"]}}}, ["columns.p.scales", "'laptob'", "laptop"]),
            ({"columns": {}}, ["columns", "is empty"]),
            ({"rows": None}, ["rows", "is empty"]),
            ({"baseline": None}, ["baseline", "is missing", "baseline: one"]),
            ({"baseline": "oen"}, ["baseline", "'oen'", "one"]),
            ({"published": {"three": {"mnli": 1}}}, ["published", "'three'"]),
            ({"published": {"one": {"mlni": 1}}}, ["published.one", "'mlni'", "mnli"]),
            ({"published": {"one": {"mnli": "high"}}}, ["published.one.mnli", "takes a number"]),
            ({"published": {"one": {"mnli": [1, 2]}}}, ["published.one.mnli", "2 numbers for 0 points"]),
            ({"random": {"one": "two"}}, ["random.one", "two cannot be", "no row says random: true"]),
            ({"random": {"one": "b"}, "rows": {"one": {}, "a": {"random": True}}}, ["random.one", "Unknown row 'b'", "choose from a"]),
            ({"random": {"three": "one"}}, ["random", "'three'"]),
            ({"rows": {"one": {"pretrain": ["objectve=mlm"]}}}, ["rows.one.pretrain", "'objectve'", "objective"]),
            ({"rows": {"one": {"pretrain": ["objective=mml"]}}}, ["rows.one.pretrain", "'mml'", "mlm"]),
            ({"rows": {"one": {"pretrain": ["objective"]}}}, ["rows.one.pretrain", "key=value"]),
            ({"rows": {"one": {"pretrain": ["model.layers=many"]}}}, ["rows.one.pretrain", "whole number"]),
            ({"rows": {"one": {"pretrain": "objective=mlm"}}}, ["rows.one.pretrain", "list of overrides"]),
            ({"rows": {"one": {"pretrain": [{"masking.rate": 0.3}]}}}, ["rows.one.pretrain", "list of overrides"]),
            ({"rows": {"one": {"pretrain": ["seed=3"]}}}, ["rows.one.pretrain", "seed=3", "seeds:"]),
            ({"rows": {"one": {"pretrain": ["budget.tokens=1e6"]}}}, ["rows.one.pretrain", "budget: 2"]),
            ({"rows": {"one": {"finetune": ["checkpoint=x"]}}}, ["rows.one.finetune", "checkpoint=x"]),
            ({"rows": {"one": {"of": "two"}, "two": {"of": "one"}}}, ["rows.one.of", "circle"]),
            ({"rows": {"one": {"of": "zero"}}}, ["rows.one.of", "'zero'"]),
            ({"rows": {"one": {}, "random": {"pretrain": ["objective=mlm"]}}}, ["rows.random", "random: true"]),
            ({"rows": {"one": {"random": True, "budget": 2}}}, ["rows.one", "not pre-trained"]),
            ({"rows": {"one": {"scales": ["laptob"]}}}, ["rows.one.scales", "'laptob'", "laptop"]),
            ({"rows": {"one": {"columns": ["mnl"]}}}, ["rows.one.columns", "'mnl'", "mnli"]),
            ({"rows": {"one": {"budget": 0}}}, ["rows.one.budget", "above 0"]),
            ({"rows": {"one": {"label": "x", "published_only": True, "finetune": ["head=crf"]}}}, ["rows.one", "not run"]),
            ({"seeds": {"vary": "pretraining"}}, ["seeds.vary", "pretrain"]),
            ({"seeds": {"count": 0}}, ["seeds.count", "from 1"]),
            ({"seeds": {"vary": "finetune", "finetunings": 2}}, ["seeds.finetunings", "both"]),
            ({"points": [0.5, 0.1]}, ["points", "upwards"]),
            ({"points": [2]}, ["points", "shares"]),
            ({"points": [0.5, True]}, ["points", "shares"]),
            ({"published": {"one": {"mnli": float("nan")}}}, ["published.one.mnli", "takes a number, not nan"]),
            ({"points": [1], "published": {"one": {"mnli": ["high"]}}}, ["published.one.mnli", "takes a number, not 'high'"]),
            ({"rows": {"one": {"budget": float("inf")}}}, ["rows.one.budget", "takes a number above 0, not inf"]),
            ({"show": "median"}, ["show", "mean"]),
            ({"show": "deviation", "seeds": {"finetunings": 2}}, ["show: deviation", "not: leave seeds.finetunings out", "vary: finetune"]),
        ],
    )
    def test_each_is_one_sentence_with_file_and_key(self, tmp_path: Path, values: dict[str, Any], said: list[str]) -> None:
        with pytest.raises(UserError) as caught:
            load(tmp_path, changed(**values))
        sentence = str(caught.value)
        assert sentence.startswith(str(tmp_path / "mine.yaml"))
        assert "\n" not in sentence
        for part in said:
            assert part in sentence

    def test_a_key_that_stands_twice(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match=r"mine.yaml:5: 'one' is given twice \(first in line 4\)"):
            load(tmp_path, GOOD.replace("  two: {pretrain", "  one: {pretrain"))

    def test_what_is_no_yaml(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="Cannot read"):
            load(tmp_path, "rows: {one: [")

    def test_what_would_run_code_is_refused(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="Cannot read"):
            load(tmp_path, "title: !!python/object/apply:os.getcwd []")

    def test_an_unknown_table_and_a_missing_file(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="table5"):
            load_grid("tabel5")
        with pytest.raises(UserError, match="no such file"):
            load_grid(str(tmp_path / "nothing.yaml"))


NAMES = sorted(bundled_grids())


class TestBundled:
    def test_all_that_are_promised_are_there(self) -> None:
        paper = {*(f"table{number}" for number in range(1, 9)), "figure5"}
        beyond = {"norm", "backbone", "corruption", "lengths", "stability", "heads", "whole_word", "further_pretraining"}
        assert paper | beyond <= set(NAMES)

    @pytest.mark.parametrize("name", NAMES)
    def test_each_is_read_and_opens_with_its_command(self, name: str) -> None:
        grid = load_grid(name)
        lines = grid.path.read_text(encoding="utf-8").splitlines()
        assert lines[0].split(" tasks=")[0] == f"# bertlab ablate --grid {name}"
        assert lines[1].startswith("# ")
        assert lines[1].endswith("?")
        text_alone = [
            column.held_out or column.probe or task_named(column.task or "").format == "probe" for column in grid.columns.values()
        ]
        assert all(text_alone)  # no table needs labelled tasks

    def test_stability_is_about_ten_seeds_of_fine_tuning(self) -> None:
        grid = load_grid("stability")
        assert (grid.seeds.vary, grid.seeds.count, grid.show) == ("finetune", 10, "deviation")

    @pytest.mark.parametrize("name", NAMES)
    def test_no_row_is_the_best_of_more_evaluations_than_another(self, name: str) -> None:
        """The best of twenty evaluations is higher than that of three, and varies less, without being better."""
        grid = load_grid(name)
        keys = ("tuning.epochs", "tuning.evaluate_every")
        evaluations = {tuple(word for word in row.finetune if word.partition("=")[0] in keys) for row in grid.rows.values()}
        assert len(evaluations) == 1 or "tuning.select=last" in grid.finetune


# Table → its section of published.yaml, and our columns in the order of the paper's.
SECTIONS: dict[str, tuple[str, list[str]]] = {
    "table1": ("table1_glue_test", ["mnli_m", "mnli_mm", "qqp", "qnli", "sst2", "cola", "stsb", "mrpc", "rte"]),
    "table2": ("table2_squad11_dev", ["exact", "f1"]),
    "table3": ("table3_squad20_dev", ["exact", "f1"]),
    "table4": ("table4_swag", ["swag"]),
    "table5": ("table5_pretraining_tasks", ["mnli", "qnli", "mrpc", "sst2", "squad11"]),
    "table7": ("table7_conll2003_ner", ["dev", "test"]),
}
NAMES_THERE = {
    "table2": {"bert_base_single": "bert_base", "bert_large_single": "bert_large"},
    "table3": {"bert_large_single": "bert_large"},
    "table5": {"bert_base": "bert"},
}


class TestPublished:
    @pytest.fixture(scope="class")
    def paper(self, shared_data: Path) -> dict[str, Any]:
        path = shared_data.parent / "paper" / "published.yaml"
        if not path.is_file():
            pytest.skip(f"the published numbers are not here: no file {path}")
        found: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
        return found

    @pytest.mark.parametrize("name", sorted(SECTIONS))
    def test_tables_of_named_rows(self, paper: dict[str, Any], name: str) -> None:
        section, columns = SECTIONS[name]
        published = load_grid(name).published
        rows = {row: numbers for row, numbers in paper[section].items() if row != "columns"}
        for row, numbers in rows.items():
            ours = published.get(NAMES_THERE.get(name, {}).get(row, row), {})
            theirs = {column: number for column, number in zip(columns, numbers, strict=False) if number is not None}
            assert dict(ours) == theirs, row

    def test_sizes(self, paper: dict[str, Any]) -> None:
        published = load_grid("table6").published
        for layers, hidden, heads, *numbers in paper["table6_model_size"]["rows"]:
            assert list(published[f"l{layers}_h{hidden}_a{heads}"].values()) == numbers

    def test_masking(self, paper: dict[str, Any]) -> None:
        grid = load_grid("table8")
        theirs = [numbers for _, _, _, *numbers in paper["table8_masking"]["rows"]]
        for features in ("ner_features", "ner_features_all"):  # one column of the paper at all scales
            assert [[grid.published[row][column] for column in ("mnli", "ner", features)] for row in grid.rows] == theirs
        labels = [" / ".join(map(str, rates)) for *rates, _, _, _ in paper["table8_masking"]["rows"]]
        assert [row.label for row in grid.rows.values()] == labels

    def test_steps(self, paper: dict[str, Any]) -> None:
        grid, theirs = load_grid("figure5"), paper["figure5_training_steps"]
        assert [round(1000 * point) for point in grid.points] == theirs["thousand_steps"]
        assert list(grid.published["mlm"]["mnli"]) == theirs["mlm"]
        assert list(grid.published["ltr"]["mnli"]) == theirs["left_to_right"]


class TestScales:
    @pytest.mark.parametrize("name", ["smoke", "laptop", "gpu_hour", "gpu_day", "paper"])
    def test_each_keeps_what_figure5_needs(self, name: str) -> None:
        scale = load_scale(name)
        assert set(load_grid("figure5").points) <= {*scale.keep, 1.0}
        assert scale.seeds >= 1
        assert f"scale={name}" in scale.pretrain

    def test_a_mini_model_has_a_rate_of_its_own(self) -> None:
        """With the laptop scale's, which are a tiny model's, it learns nothing."""
        mini = [
            row.pretrain
            for name in bundled_grids()
            for row in load_grid(name).rows.values()
            if "model=mini" in row.pretrain and not row.random
        ]
        assert mini
        assert all({"optimizer.lr=5e-4", "model.initializer_range=0.035"} <= set(words) for words in mini)

    def test_one_of_the_users_own(self, tmp_path: Path) -> None:
        (tmp_path / "_grid").mkdir()
        (tmp_path / "_grid" / "mine.yaml").write_text("probe: {train: 9, dev: 9, test: 9}\nseeds: 2\nminutes: 1\n")
        assert load_scale("mine", tmp_path).seeds == 2

    def test_a_copy_that_names_the_scale_it_is_a_copy_of(self, tmp_path: Path) -> None:
        """Such a file alone gives that scale's pre-training other fine-tunings; beside one of pre-training it would leave that unread."""
        for folder in ("_grid", "scale"):
            (tmp_path / folder).mkdir()
        copy = tmp_path / "_grid" / "mine.yaml"
        copy.write_text("pretrain: [scale=smoke]\nprobe: {train: 9, dev: 9, test: 9}\nseeds: 2\nminutes: 1\n")
        assert load_scale("mine", tmp_path).pretrain == ("scale=smoke",)
        (tmp_path / "scale" / "mine.yaml").write_text("# @package _global_\nbudget: {steps: 77}\n")
        with pytest.raises(UserError, match=r"mine.yaml: pretrain: scale=smoke leaves the file of scale=mine unread: write scale=mine"):
            load_scale("mine", tmp_path)
        copy.write_text(copy.read_text().replace("smoke", "mine"))
        assert load_scale("mine", tmp_path).pretrain == ("scale=mine",)

    def test_mistakes(self, tmp_path: Path) -> None:
        with pytest.raises(UserError, match="laptop"):
            load_scale("laptob")
        (tmp_path / "_grid").mkdir()
        (tmp_path / "_grid" / "mine.yaml").write_text("probe: {train: 9, dev: 9, test: 9}\nseeds: none\nminutes: 1\n")
        with pytest.raises(UserError, match=r"mine.yaml: seeds: takes a whole number"):
            load_scale("mine", tmp_path)
