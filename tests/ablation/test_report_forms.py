"""Every form of a report says the same numbers, takes hostile labels as text, and shows what is missing."""

import csv
import io
import json
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from fake_runs import FakeTable
from rich.console import Console

from bertlab.ablation.grid import Column, Row
from bertlab.ablation.records import read_record, write_record
from bertlab.ablation.report.build import report_table
from bertlab.ablation.report.html_page import page
from bertlab.ablation.report.latex import escaped as escaped_for_latex
from bertlab.ablation.report.latex import latex
from bertlab.ablation.report.markdown import markdown, provenance_lines
from bertlab.ablation.report.model import Cell, Report
from bertlab.ablation.report.plain_files import as_json, runs_csv, table_csv
from bertlab.ablation.report.plots import Plot, plots_of
from bertlab.ablation.report.render import render_all
from bertlab.ablation.report.terminal import print_report
from bertlab.ablation.report.words import amount, cell_lines, number, signed

HOSTILE = "<script>alert('a_b')</script> & 100% of $x$ | \\input{#1} ~^*`é中 \"q\""


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """With something of everything: failed, missing, degenerate, published only, not compared."""
    runs = tmp_path_factory.mktemp("runs")
    table = FakeTable(runs)
    table.rows["openai"] = Row("openai", "OpenAI GPT", published_only=True)
    table.published["openai"] = {"mnli": 82.1}
    table.manifest()
    table.collapses.add("f-ltr-mrpc-2")
    return report_table(table.write(leave=["f-no_nsp-mrpc-3"], fail=["f-ltr-mnli-3"]), runs)


@pytest.fixture(scope="module")
def curves(tmp_path_factory: pytest.TempPathFactory) -> Report:
    runs = tmp_path_factory.mktemp("curves")
    columns = {"mnli": Column("mnli", "MNLI", "mnli", "accuracy")}
    published = {"bert": {"mnli": (79.6, 82.2, 84.4)}, "ltr": {"mnli": (79.8, 81.0, None)}}
    table = FakeTable(runs, points=(0.1, 0.4, 1.0), columns=columns, published=published)
    del table.rows["no_nsp"]
    return report_table(table.write(), runs)


def numbers(text: str) -> list[float]:
    """All numbers of a text, in order, with the signs that people write."""
    return [float(found.replace("−", "-")) for found in re.findall(r"[−+-]?\d+(?:\.\d+)?", text)]


def expected(report: Report, cell: Cell) -> list[float]:
    """The numbers that a cell shows, rounded as they are shown; counted out here on its own."""
    decimals = report.column(cell.column).decimals
    shown: list[float] = []
    if cell.mean is not None:
        shown.append(round(cell.mean, decimals))
        shown += [round(cell.std, decimals)] if cell.std is not None else []
        shown.append(cell.units)
        shown += [many for many in (cell.failed, cell.degenerate, cell.running, cell.missing) if many]
    difference = cell.difference
    if difference is not None and difference.value is not None:
        shown.append(round(difference.value, decimals))
        if difference.low is not None and difference.high is not None:
            shown += [round(difference.low, decimals), round(difference.high, decimals)]
    if cell.published is not None:
        shown.append(cell.published)
        shown += [round(cell.published_difference, 1)] if cell.published_difference is not None else []
    return shown


def assert_numbers(report: Report, texts: Iterator[str]) -> None:
    """``texts``: what stands in each cell, row by row."""
    found = list(texts)
    assert len(found) == len(report.cells)
    for cell, text in zip(report.cells, found, strict=True):
        assert numbers(text) == pytest.approx(expected(report, cell)), (cell.row, cell.column, text)


class Page(HTMLParser):
    """The cells of the first table, all texts, and everything that could point outside."""

    def __init__(self) -> None:
        super().__init__()
        self.cells: list[str] = []
        self.text = ""
        self.links: list[str] = []
        self.tags: list[str] = []
        self._cell: list[str] | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        values = dict(attributes)
        self.tags.append(tag)
        self.links += [str(value) for name, value in attributes if name in ("src", "href", "xlink:href", "action", "srcset", "data")]
        if tag == "td" and "data-label" in values:
            self._cell = []

    def handle_endtag(self, tag: str) -> None:
        if tag == "td" and self._cell is not None:
            self.cells.append(" ".join(self._cell))
            self._cell = None

    def handle_data(self, data: str) -> None:
        self.text += data
        if self._cell is not None:
            self._cell.append(data)


_DRAWN: dict[int, list[Plot]] = {}


def drawn(report: Report) -> list[Plot]:
    """Its plots, drawn once for all tests."""
    if id(report) not in _DRAWN:
        _DRAWN[id(report)] = plots_of(report)
    return _DRAWN[id(report)]


def parsed(report: Report, plots: Sequence[Plot] = ()) -> Page:
    found = Page()
    found.feed(page(report, plots))
    return found


# Numbers


def test_html_shows_the_numbers_of_every_cell(report: Report) -> None:
    assert_numbers(report, iter(parsed(report).cells))


def test_markdown_shows_the_numbers_of_every_cell(report: Report) -> None:
    lines = [line for line in markdown(report).splitlines() if line.startswith("| ")][1:]
    table = [line for line in lines if not line.startswith("| ---")][: len(report.rows)]
    assert_numbers(report, (cell for line in table for cell in line.strip("| ").split(" | ")[1:]))


def test_latex_shows_the_numbers_of_every_cell(report: Report) -> None:
    body = latex(report).split("\\midrule")[1].split("\\bottomrule")[0]
    rows = re.split(r"\\addlinespace\n", body)
    assert len(rows) == len(report.rows)

    def texts() -> Iterator[str]:
        for row in rows:
            lines = [line.removesuffix("\\\\").split(" & ") for line in row.strip().splitlines()]
            for place in range(1, len(report.columns) + 1):
                yield " ".join(line[place] for line in lines).replace("$-$", "−")

    assert_numbers(report, texts())


def test_a_wide_terminal_shows_the_numbers_of_a_row_together(report: Report) -> None:
    console = Console(width=200, record=True, file=io.StringIO())
    print_report(report, console)
    block = console.export_text().split("BERT ")[1].split("No NSP ")[0]
    wanted = [value for cell in report.cells if cell.row == "bert" for value in expected(report, cell)]
    assert sorted(numbers(block)) == pytest.approx(sorted(wanted))


@pytest.mark.parametrize("width", [24, 40, 60, 200])
def test_no_line_is_wider_than_the_terminal_and_no_number_is_cut(report: Report, width: int) -> None:
    console = Console(width=width, record=True, file=io.StringIO())
    print_report(report, console)
    text = console.export_text()
    assert max(len(line.rstrip()) for line in text.splitlines()) <= width
    assert "…" not in text
    joined = " ".join(text.split())
    for cell in report.cells:
        if cell.mean is not None:
            assert number(cell.mean, report.column(cell.column).decimals) in joined


def test_json_has_every_number_in_full(report: Report) -> None:
    written = json.loads(as_json(report))
    assert len(written["cells"]) == len(report.cells)
    for cell, values in zip(report.cells, written["cells"], strict=True):
        assert (values["row"], values["column"], values["mean"], values["std"]) == (cell.row, cell.column, cell.mean, cell.std)
        assert (values["difference"] or {}).get("low") == (cell.difference.low if cell.difference else None)
        assert [run["value"] for run in values["values"]] == [run.value for run in cell.values]


def test_csv_has_every_number_in_full(report: Report) -> None:
    lines = list(csv.DictReader(io.StringIO(table_csv(report))))
    for cell, line in zip(report.cells, lines, strict=True):
        for name, value in (
            ("mean", cell.mean),
            ("std", cell.std),
            ("published", cell.published),
            ("n", cell.units),
            ("failed", cell.failed),
        ):
            assert line[name] == ("" if value is None else repr(value))
        if cell.difference is not None and cell.difference.value is not None:
            assert float(line["difference"]) == cell.difference.value
            assert line["difference_verdict"] == cell.difference.verdict
    runs = list(csv.DictReader(io.StringIO(runs_csv(report))))
    assert len(runs) == sum(len(cell.values) for cell in report.cells)
    values = [run.value for cell in report.cells for run in cell.values]
    assert [float(line["value"]) if line["value"] else None for line in runs] == values


def test_means_and_differences_are_those_of_the_runs_values(report: Report) -> None:
    """Worked out anew from what the report says of single runs."""
    for cell in report.cells:
        values = [run.value for run in cell.values if run.value is not None]
        if not values:
            continue
        assert cell.mean == pytest.approx(sum(values) / len(values))
        if cell.difference is not None and cell.difference.value is not None:
            ours = {run.pretraining_seed: run.value for run in cell.values if run.value is not None}
            base = {run.pretraining_seed: run.value for run in report.cell("bert", cell.column).values if run.value is not None}
            pairs = [ours[seed] - base[seed] for seed in ours if seed in base]
            assert cell.difference.value == pytest.approx(sum(pairs) / len(pairs))


# States, verdicts, the paper


def test_missing_failed_and_degenerate_runs_are_named_everywhere(report: Report) -> None:
    assert report.cell("no_nsp", "mrpc").state == "partial"
    for text in (parsed(report).text, markdown(report).replace("\\", ""), as_json(report)):
        assert "No NSP × MRPC: 1 not run (of 3 runs)" in text
        assert "the loss is nan" in text
        assert "all 200 predictions are 'yes'" in text
    assert "1 degenerate" in latex(report)


def test_perplexities_of_different_objectives_are_not_compared(report: Report) -> None:
    cell = report.cell("ltr", "perplexity")
    assert cell.mean is not None
    assert cell.difference is not None
    assert cell.difference.value is None
    assert "different things" in next(note.text for note in report.notes if note.heading == "Without a verdict")


def note(report: Report, heading: str) -> str:
    return next((note.text for note in report.notes if note.heading == heading), "")


def test_what_a_difference_leaves_out_is_said_under_the_table(tmp_path: Path) -> None:
    """Of the row with a missing third seed the difference is that of two pairs, and not that of the means beside it."""
    table = FakeTable(tmp_path)
    manifest = table.write(leave=["f-no_nsp-mrpc-3"])
    for seed in (1, 2, 3):
        (tmp_path / f"finetune-fake-f-ltr-mnli-{seed}" / "predictions.jsonl").unlink()
    found = report_table(manifest, tmp_path)
    text = note(found, "About some comparisons")
    assert "Seeds without a partner in the other row are left out: 3. (No NSP on MRPC)" in text
    assert re.search(r"There are no scores of single examples: [^(]*\([^)]*LTR & No NSP on MNLI", text)
    assert text in parsed(found).text
    whole = tmp_path / "whole"
    whole.mkdir()
    assert note(report_table(FakeTable(whole).write(), whole), "About some comparisons") == ""


def test_numbers_of_the_split_that_weights_were_chosen_on_are_told(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    table.columns["other"] = replace(table.columns["mnli"], name="other", label="Other", split="dev_mismatched")
    table.skills |= {(row, "other"): 0.7 for row in table.rows}
    manifest = table.write()
    assert note(report_table(manifest, tmp_path), "Selection") == ""
    for select, told in (("last", ""), ("best", "For MNLI and MRPC, each run's best weights were chosen")):
        for path in tmp_path.glob("finetune-fake-f-*/result.json"):
            result = json.loads(path.read_text()) | {"recipe": {"select": select}}
            result["metrics"]["dev_mismatched"] = result["metrics"]["dev"]
            path.write_text(json.dumps(result))
        assert note(report_table(manifest, tmp_path), "Selection").startswith(told)
        assert bool(note(report_table(manifest, tmp_path), "Selection")) == bool(told)


def test_a_column_of_many_points_is_named_once(tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path, points=(0.1, 0.5, 1.0)).write()
    for path in tmp_path.glob("finetune-fake-f-*/result.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"recipe": {"select": "best"}}))
    assert note(report_table(manifest, tmp_path), "Selection").startswith("For MNLI and MRPC, each run's best weights were chosen")


def test_weights_that_were_chosen_among_more_evaluations_are_not_said_to_be_alike(tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path).write()
    for path in tmp_path.glob("finetune-fake-f-*/result.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"recipe": {"select": "best"}}))
        looks = 20 if "ltr" in path.parent.name else 3
        (path.parent / "metrics.jsonl").write_text("".join(json.dumps({"step": step, "split": "dev"}) + "\n" for step in range(looks)))
    told = note(report_table(manifest, tmp_path), "Selection")
    assert "not equally in all rows: the weights are the best of 3 to 20 evaluations" in told


def test_the_best_of_one_evaluation_was_not_chosen(tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path).write()
    for path in tmp_path.glob("finetune-fake-f-*/result.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"recipe": {"select": "best"}}))
        (path.parent / "metrics.jsonl").write_text(json.dumps({"step": 9, "split": "dev"}) + "\n")
    assert note(report_table(manifest, tmp_path), "Selection") == ""


def test_what_it_would_take_is_said_once_of_all_differences_that_it_holds_for(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    table.skills |= {("bert", "mnli"): 0.75, ("no_nsp", "mnli"): 0.75, ("ltr", "mnli"): 0.75}
    found = report_table(table.write(), tmp_path)
    unresolved = [cell for cell in found.cells if cell.difference and cell.difference.p_holm and cell.difference.verdict == "unresolved"]
    hopeless = [cell for cell in unresolved if cell.difference and cell.difference.examples_suffice is False]
    told = note(found, "Verdicts")
    assert len(hopeless) > 1
    assert told.count("too few evaluation examples") == 1
    for cell in unresolved:
        assert f"{found.row(cell.row).label} on {found.column(cell.column).label} (" in told


def test_of_many_reasons_why_runs_learned_nothing_two_are_told(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    manifest = table.write()
    for seed in (1, 2, 3):
        path = tmp_path / f"finetune-fake-f-ltr-mnli-{seed}" / "predictions.jsonl"
        path.unlink()
        result = json.loads((path.parent / "result.json").read_text())
        (path.parent / "result.json").write_text(json.dumps(result | {"degenerate": f"no better than {seed}"}))
    told = note(report_table(manifest, tmp_path), "Learned nothing")
    assert "LTR & No NSP on MNLI, 3 runs (no better than 1; no better than 2; and others)" in told


def test_what_only_the_correction_leaves_unresolved_is_named(tmp_path: Path) -> None:
    """By the intervals, which are not corrected: those that exclude zero, of all and of the unresolved."""
    table = FakeTable(tmp_path, seeds=5)
    table.skills[("ltr", "mnli")], table.skills[("no_nsp", "mrpc")] = 0.75, 0.82
    found = report_table(table.write(), tmp_path)
    judged = [cell for cell in found.cells if cell.difference is not None and cell.difference.p_holm is not None]
    clear = [cell for cell in judged if cell.difference and (cell.difference.low or 0) * (cell.difference.high or 0) > 0]
    hints = [cell for cell in clear if cell.difference and cell.difference.verdict == "unresolved"]
    assert (len(hints), len(clear), len(judged)) == (2, 3, 4)
    text = note(found, "Verdicts").split("Before the correction, ")[1]
    assert text.startswith(f"{len(clear)} of {len(judged)} intervals exclude zero, where {0.05 * len(judged):.1f} would by chance")
    names = [f"{found.row(cell.row).label} on {found.column(cell.column).label}" for cell in hints]
    assert text.endswith(f"; the correction leaves unresolved {' and '.join(names)}.")


def test_verdicts_of_a_table_that_is_coming_about_are_provisional(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    table.manifest()
    found = report_table(table.write(leave=["f-ltr-mnli-1", "f-ltr-mnli-2"]), tmp_path)
    assert found.coming == 1
    assert "Provisional" in note(found, "Verdicts")
    assert ", of which 1 cannot be made yet" in note(found, "Statistics")
    whole = report_table(table.write(), tmp_path)
    assert whole.coming == 0
    assert "Provisional" not in note(whole, "Verdicts")


def test_which_luck_intervals_cover_is_said_of_each_column(tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path).write()
    told = note(report_table(manifest, tmp_path), "Statistics")
    assert "that cover random variation of pretraining seeds, fine-tuning seeds and examples. " in told
    for path in tmp_path.glob("finetune-fake-f-*-mrpc-*/predictions.jsonl"):
        path.unlink()
    told = note(report_table(manifest, tmp_path), "Statistics")
    assert "pretraining seeds, fine-tuning seeds and examples (MNLI); of pretraining seeds and fine-tuning seeds (MRPC)." in told


def test_the_papers_numbers_stand_in_their_cells(report: Report) -> None:
    assert report.cell("ltr", "mnli").published == 82.1
    assert report.cell("ltr", "mnli").published_difference == pytest.approx(-2.3)
    assert report.cell("openai", "mnli").mean is None
    assert "paper 82.1" in parsed(report).text
    assert report.cell("ltr", "mnli").agrees is True


def test_columns_that_stand_in_have_the_mean_of_what_they_stand_for(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    table.columns = {"mnli": replace(table.columns["mnli"], stands_for=("mnli", "mrpc"))}
    found = report_table(table.write(), tmp_path)
    assert found.cell("bert", "mnli").published == pytest.approx((84.4 + 86.7) / 2)
    assert "paper, mnli+mrpc: 85." in parsed(found).text
    assert "stand in for the paper's" in next(note.text for note in found.notes if note.heading == "Agreement with the paper")


def test_a_stand_in_is_compared_with_those_columns_that_all_rows_have_numbers_of(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    table.columns = {"mnli": replace(table.columns["mnli"], stands_for=("mnli", "mrpc"))}
    table.published = {"bert": {"mnli": 84.4, "mrpc": 86.7}, "no_nsp": {"mnli": 83.9}, "ltr": {"mnli": 82.1}, "openai": {"mrpc": 82.3}}
    table.rows["openai"] = Row("openai", "OpenAI GPT", published_only=True)
    found = report_table(table.write(), tmp_path)
    assert [found.cell(row, "mnli").published for row in ("bert", "no_nsp", "ltr", "openai")] == [84.4, 83.9, 82.1, None]
    assert "paper, mnli: 84.4" in parsed(found).text


@pytest.mark.parametrize("content", ["", "{", "[1]"])
def test_a_configuration_that_cannot_be_read_costs_no_report(content: str, tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path).write()
    for path in tmp_path.glob("finetune-fake-f-no_nsp-*/config.yaml"):
        path.write_text(content)
    (tmp_path / "finetune-fake-f-ltr-mnli-1" / "config.yaml").write_text(content)
    found = report_table(manifest, tmp_path)
    (setting,) = [setting for setting in found.settings if setting.key == "head.bilstm"]
    assert setting.values == {"bert": "false", "ltr": "true", "random": "false"}  # of the left-to-right row another run tells it
    assert "The configuration of finetune-fake-f-no_nsp-mnli-1 cannot be read" in note(found, "Remarks")


def test_one_seed_gives_no_verdict_and_says_so(tmp_path: Path) -> None:
    found = report_table(FakeTable(tmp_path, seeds=1).write(), tmp_path)
    assert {cell.difference.verdict for cell in found.cells if cell.difference and cell.difference.value is not None} == {"unresolved"}
    assert next(note.text for note in found.notes if note.heading == "Verdicts").startswith("None")
    assert "One seed cannot show whether" in next(note.text for note in found.notes if note.heading == "Random weights")
    assert "nothing about the method" in next(note.text for note in found.notes if note.heading == "What these seeds can say")


def test_three_seeds_say_what_the_permutation_test_cannot(tmp_path: Path) -> None:
    found = report_table(FakeTable(tmp_path).write(), tmp_path)
    assert "cannot fall below p = .250" in next(note.text for note in found.notes if note.heading == "What these seeds can say")


def test_a_table_with_nothing_run_is_a_table(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    manifest = table.manifest()
    found = report_table(table.write(leave=list(manifest.nodes)), tmp_path)
    assert {cell.state for cell in found.cells if cell.row != "random"} == {"missing"}
    assert "not run" in parsed(found).text
    render_all(found, tmp_path / "out")


def test_a_row_without_a_cell_has_a_dash_and_lacks_nothing(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    manifest = table.write()
    without = replace(manifest, cells=tuple(cell for cell in manifest.cells if (cell.row, cell.column) != ("ltr", "perplexity")))
    found = report_table(without, tmp_path)
    assert cell_lines(found, found.cell("ltr", "perplexity")) == ["–"]
    assert found.gaps == ()


def test_hours_of_runs_that_were_resumed_are_those_of_all_their_processes(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    manifest = table.write()
    for key in table.nodes:  # the last process of each found next to nothing to do; results say 50 seconds of training
        record = read_record(tmp_path, key)
        assert record is not None
        write_record(tmp_path, replace(record, seconds=1.0))
    provenance = report_table(manifest, tmp_path).provenance
    assert provenance.hours == pytest.approx(50 * len(table.nodes) / 3600)


def test_the_commit_is_not_said_to_be_that_of_the_runs(report: Report) -> None:
    told = dict(provenance_lines(report))
    assert "0123456789ab" in told["Code of the last call"]
    assert "0123456789ab" not in told["Versions of the runs"]


def test_rows_say_whether_they_beat_random_weights(report: Report) -> None:
    note = next(note.text for note in report.notes if note.heading == "Random weights")
    assert "BERT beats Random weights on MNLI (1 of 2 columns)" in note
    assert "shows nothing about its pre-training" in note


def test_a_random_row_that_no_row_has_to_beat_is_not_judged(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    table.rows["other"] = Row("other", "Another random one", random=True)
    table.skills |= {("other", "mnli"): 0.5, ("other", "mrpc"): 0.7}
    found = report_table(table.write(), tmp_path)
    assert found.cell("other", "mnli").mean is not None
    assert found.cell("other", "mnli").difference is None


def test_configurations_are_told_where_they_differ(report: Report) -> None:
    found = {(setting.of, setting.key): dict(setting.values) for setting in report.settings}
    assert found == {
        ("pre-training", "objective.kind"): {"bert": "mlm_nsp", "no_nsp": "mlm", "ltr": "ltr"},
        ("fine-tuning", "head.bilstm"): {"bert": "false", "no_nsp": "false", "ltr": "true", "random": "false"},
    }


def test_what_came_with_the_weights_is_no_difference_of_a_row_that_went_on(tmp_path: Path) -> None:
    """Its configuration has what the checkpoint settled, and the place of the checkpoint's vocabulary."""
    table = FakeTable(tmp_path)
    table.rows["on"] = Row("on", "Further", ("objective=mlm_nsp",), of="bert")
    table.skills |= {("on", column): 0.7 for column in table.columns}
    manifest = table.write()
    for path in tmp_path.glob("pretrain-fake-p-*/config.yaml"):
        on = "-on-" in path.parent.name
        model = {"layers": 2, "intermediate": 512 if on else None}
        tokenizer = {"vocab_size": 125 if on else 300, "path": "/home/me/vocab.txt" if on else None}
        path.write_text(yaml.safe_dump({"model": model, "tokenizer": tokenizer, "optimizer": {"lr": 0.1 if on else 0.2}}))
    settings = {setting.key: setting.values["on"] for setting in report_table(manifest, tmp_path).settings if setting.of == "pre-training"}
    assert settings == {"optimizer.lr": "0.1"}


def test_variance_is_the_result_where_the_table_says_so(tmp_path: Path) -> None:
    table = FakeTable(tmp_path, seeds=5, show="deviation")
    table.manifest()
    table.collapses.update(f"f-ltr-mnli-{seed}" for seed in (1, 3))
    found = report_table(table.write(), tmp_path)
    spread = found.cell("ltr", "mnli").spread
    assert spread is not None
    assert spread.std is not None
    assert spread.low is not None
    assert spread.low < spread.std
    assert (spread.failed, spread.runs) == (2, 5)
    assert "2 of 5 failed" in parsed(found).text
    for cell, line in zip(found.cells, csv.DictReader(io.StringIO(table_csv(found))), strict=True):
        for name in ("low", "high", "p_holm", "verdict", "failed", "runs", "failed_high"):
            value = None if cell.spread is None else getattr(cell.spread, name)
            assert line[f"deviation_{name}"] == ("" if value is None else value if isinstance(value, str) else repr(value))


def test_deviations_of_what_may_not_be_compared_are_not_compared(tmp_path: Path) -> None:
    """Nor do they make the correction of the others stricter: Holm's smallest p value is multiplied by the number of comparisons."""
    found = report_table(FakeTable(tmp_path, seeds=5, show="deviation").write(), tmp_path)
    apart = found.cell("ltr", "perplexity")
    assert apart.spread is not None
    assert (apart.spread.verdict, apart.spread.p_value, apart.spread.p_holm) == ("not compared", None, None)
    tested = [cell.spread for cell in found.cells if cell.spread and cell.spread.p_holm is not None and cell.spread.p_value is not None]
    least = min(tested, key=lambda spread: spread.p_value or 1.0)
    assert least.p_holm == pytest.approx(min(1.0, len(tested) * (least.p_value or 1.0)))
    assert len(tested) == len([cell for cell in found.cells if cell.difference and cell.difference.value is not None])
    lines = {(line["row"], line["column"]): line for line in csv.DictReader(io.StringIO(table_csv(found)))}
    assert lines["ltr", "perplexity"]["difference_verdict"] == lines["ltr", "perplexity"]["deviation_verdict"] == "not compared"
    assert lines["no_nsp", "mnli"]["difference_verdict"] != "not compared"


def test_equal_values_have_a_deviation_without_an_interval(tmp_path: Path) -> None:
    table = FakeTable(tmp_path, seeds=5, show="deviation")
    manifest = table.write()
    for seed in range(1, 6):
        folder = tmp_path / f"finetune-fake-f-ltr-mnli-{seed}"
        (folder / "predictions.jsonl").write_text((tmp_path / "finetune-fake-f-ltr-mnli-1" / "predictions.jsonl").read_text())
        (folder / "result.json").write_text((tmp_path / "finetune-fake-f-ltr-mnli-1" / "result.json").read_text())
    found = report_table(manifest, tmp_path)
    spread = found.cell("ltr", "mnli").spread
    assert spread is not None
    assert (spread.std, spread.low, spread.high) == (0.0, None, None)
    assert "deviation 0.0, 0 of 5 failed" in parsed(found).text


# Curves


def test_points_are_columns_and_random_weights_are_the_same_at_each(curves: Report) -> None:
    assert [column.key for column in curves.columns] == ["mnli@0.1", "mnli@0.4", "mnli@1"]
    assert len({curves.cell("random", column.key).mean for column in curves.columns}) == 1
    assert [curves.cell("ltr", column.key).published for column in curves.columns] == [79.8, 81.0, None]


def test_a_curve_counts_positions_targets_and_flops(curves: Report) -> None:
    bert, ltr = ({point.share: point for point in curve.points} for curve in curves.curves)
    for share in (0.1, 0.4):
        assert bert[share].positions == ltr[share].positions == share * 1000 * 1024
        assert bert[share].targets == pytest.approx(0.15 * (bert[share].positions or 0))
        assert (ltr[share].flops or 0) > (bert[share].flops or 0)
        assert bert[share].mean == curves.cell("bert", f"mnli@{share:g}").mean
    names = {plot.name for plot in drawn(curves)}
    assert {"curve-mnli-positions", "curve-mnli-targets", "curve-mnli-flops", "curve-mnli-paper"} <= names


# Hostile labels, and nothing from outside


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Report:
    runs = tmp_path_factory.mktemp("hostile")
    table = FakeTable(runs, title=HOSTILE, notes=(f"Data: {HOSTILE}",))
    table.rows["ltr"] = Row("ltr", f"_{HOSTILE}", ("objective=ltr",))
    table.columns["mnli"] = replace(table.columns["mnli"], label=HOSTILE)
    return report_table(table.write(), runs)


def test_labels_are_text_in_html(hostile: Report) -> None:
    found = parsed(hostile)
    assert "script" not in found.tags
    assert HOSTILE in found.text
    assert_numbers(hostile, iter(found.cells))


def test_labels_are_text_in_markdown(hostile: Report) -> None:
    text = markdown(hostile)
    assert "<script" not in text
    table = [line for line in text.splitlines() if line.startswith("|")]
    assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table[: len(hostile.rows) + 2]}) == 1


@pytest.mark.parametrize("label", ["+ BiLSTM", "- BiLSTM", "1. BiLSTM", "12) BiLSTM"])
def test_labels_open_no_list_within_the_list_of_what_is_missing(label: str, report: Report) -> None:
    """As GitHub's Markdown has it, where a backslash takes a sign for itself."""
    text = markdown(replace(report, gaps=(f"{label} × MNLI: 1 failed.",)))
    (item,) = [line.removeprefix("- ") for line in text.splitlines() if "BiLSTM" in line]
    assert re.match(r"[-+] |\d+[.)] ", item) is None
    assert item.replace("\\", "") == f"{label} × MNLI: 1 failed."


def test_labels_are_text_in_csv_and_json(hostile: Report) -> None:
    assert csv.DictReader(io.StringIO(table_csv(hostile))).__next__()["column_label"] == HOSTILE
    assert json.loads(as_json(hostile))["title"] == HOSTILE


def test_labels_are_text_in_latex() -> None:
    assert escaped_for_latex("a_b & 5% {x} $y$ #1") == r"a\_b \& 5\% \{x\} \$y\$ \#1"
    assert escaped_for_latex("\\input{x}") == r"\textbackslash{}input\{x\}"
    assert escaped_for_latex("é 中 ﬁ") == "é [U+4E2D] fi"


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("pdflatex") is None, reason="there is no LaTeX on this machine")
def test_latex_compiles(hostile: Report, curves: Report, report: Report, tmp_path: Path) -> None:
    tables = "\n".join(latex(each) for each in (hostile, curves, report))
    packages = "\\usepackage[T1]{fontenc}\\usepackage{booktabs,amssymb,textcomp,graphicx}"
    (tmp_path / "it.tex").write_text(f"\\documentclass{{article}}{packages}\\begin{{document}}{tables}\\end{{document}}", encoding="utf-8")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "it.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stdout.decode(errors="replace")[-2000:]


def test_the_page_needs_nothing_else(report: Report, curves: Report, hostile: Report) -> None:
    for each in (report, curves, hostile):
        text = page(each, drawn(each))
        found = parsed(each, drawn(each))
        assert not {"script", "link", "iframe", "object", "embed", "img", "base"} & set(found.tags)
        assert all(link.startswith("#") for link in found.links)
        assert "@import" not in text
        assert all(target.startswith("#") for target in re.findall(r"url\(([^)]*)\)", text))
        assert "http" not in re.sub(r'xmlns(:\w+)?="[^"]*"', "", text)


def test_names_inside_plots_are_unique_on_the_page(report: Report) -> None:
    names = re.findall(r'\bid="([^"]+)"', page(report, drawn(report)))
    assert len(names) == len(set(names))
    text = page(report, drawn(report))
    assert {target[1:] for target in re.findall(r'href="(#[^"]+)"', text)} <= set(names)


def test_all_forms_are_files_of_one_folder_and_old_plots_go(report: Report, tmp_path: Path) -> None:
    (tmp_path / "plots").mkdir()
    (tmp_path / "plots" / "old.svg").write_text("<svg/>")
    assert render_all(report, tmp_path) == tmp_path / "report.html"
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"report.html", "table.md", "table.tex", "table.csv", "runs.csv", "report.json", "plots"}
    plots = {path.name for path in (tmp_path / "plots").iterdir()}
    assert "old.svg" not in plots
    assert {f"plots/{name}" for name in plots} == set(re.findall(r"\((plots/[^)]+)\)", (tmp_path / "table.md").read_text()))


def test_the_same_runs_give_the_same_files(report: Report, tmp_path: Path) -> None:
    for folder in ("one", "two"):
        render_all(report, tmp_path / folder)
    for path in (tmp_path / "one").rglob("*.*"):
        assert path.read_bytes() == (tmp_path / "two" / path.relative_to(tmp_path / "one")).read_bytes(), path


@pytest.mark.parametrize(("value", "text"), [(-0.04, "0.0"), (-0.06, "−0.1"), (1.25, "1.2"), (float("inf"), "∞")])
def test_numbers_have_true_signs_and_no_negative_zero(value: float, text: str) -> None:
    assert number(value, 1) == text
    assert signed(0.3, 1) == "+0.3"


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (999, "999"),
        (999.6, "1 thousand"),
        (999_500, "1 million"),
        (12e6, "12 million"),
        (9.996e11, "1 × 10¹²"),
        (2e21, "2 × 10²¹"),
    ],
)
def test_large_numbers_have_the_unit_that_they_are_rounded_to(value: float, text: str) -> None:
    assert amount(value) == text
