"""From manifests, records and run folders to what statistics are made of."""

import json
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_runs import STEPS, FakeTable, pretraining_identity

from bertlab.ablation.collect import CellRun, collect, held_out_quantity, runs_of
from bertlab.ablation.comparable import comparable
from bertlab.ablation.grid import Row
from bertlab.ablation.locking import NodeLock, is_locked
from bertlab.ablation.manifest import find_manifests, manifests_folder, read_manifest, with_earlier_seeds, write_manifest
from bertlab.ablation.report.build import report_of
from bertlab.ablation.report.curves import amounts_until
from bertlab.errors import UserError


def accuracy_of(folder: Path) -> float:
    """By a plain reading of the predictions."""
    rows = [json.loads(line) for line in (folder / "predictions.jsonl").read_text().splitlines()]
    return float(np.mean([row["prediction"] == row["gold"] for row in rows]))


def statuses(runs: tuple[CellRun, ...]) -> list[str]:
    return [run.status for run in runs]


def test_a_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path, points=(0.1, 1.0), published={"bert": {"mnli": (79.6, None)}}).manifest()
    assert read_manifest(write_manifest(tmp_path, manifest)) == manifest


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda values: values["cells"][0].update(point=[]), r"TypeError: \[\] is neither float nor NoneType"),
        (lambda values: values["cells"][0].update(nodes=None), "TypeError: None is no list"),
        (lambda values: values["grid"]["rows"].update(bert=[]), r"TypeError: \[\] is no dict"),
        (lambda values: values["grid"].update(title=None), "TypeError: None is no str"),
    ],
)
def test_values_of_another_kind_in_a_manifest_are_named(change: Callable[[Any], None], what: str, tmp_path: Path) -> None:
    path = write_manifest(tmp_path, FakeTable(tmp_path).manifest())
    values = json.loads(path.read_text())
    change(values)
    path.write_text(json.dumps(values))
    with pytest.raises(UserError, match=what):
        read_manifest(path)


def test_a_manifest_with_more_seeds_replaces_the_one_with_fewer_and_other_runs_have_their_own(tmp_path: Path) -> None:
    write_manifest(tmp_path, FakeTable(tmp_path, seeds=1).manifest())
    write_manifest(tmp_path, FakeTable(tmp_path, seeds=3).manifest())
    (only,) = manifests_folder(tmp_path).iterdir()
    assert len(read_manifest(only).nodes) == len(FakeTable(tmp_path, seeds=3).manifest().nodes)
    other = FakeTable(tmp_path)
    other.rows["ltr"] = Row("ltr", "LTR", ("objective=ltr", "model=mini"))
    write_manifest(tmp_path, other.manifest())
    assert len(list(manifests_folder(tmp_path).iterdir())) == 2


def test_a_call_with_fewer_seeds_keeps_the_runs_of_others_that_are_done(tmp_path: Path) -> None:
    fewer = FakeTable(tmp_path, seeds=1, notes=("Seeds: 1.",)).manifest()
    assert with_earlier_seeds(tmp_path, fewer) is fewer  # there is no other
    more = FakeTable(tmp_path, seeds=3)
    write_manifest(tmp_path, more.manifest())
    assert with_earlier_seeds(tmp_path, fewer) is fewer  # of which nothing was run
    table = more.write(leave=["f-bert-mnli-3", "f-ltr-mnli-2"])
    kept = with_earlier_seeds(tmp_path, fewer)
    assert (kept.cells, kept.nodes, kept.notes, kept.name) == (table.cells, table.nodes, table.notes, fewer.name)
    again = FakeTable(tmp_path, seeds=4).manifest()
    assert with_earlier_seeds(tmp_path, again) is again
    assert with_earlier_seeds(tmp_path, table) is table


def test_manifests_are_found_by_table_and_scale_and_wrong_names_are_told_the_nearest(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="bertlab ablate --grid makes one"):
        find_manifests(tmp_path, [])
    manifest = FakeTable(tmp_path).manifest()
    write_manifest(tmp_path, manifest)
    for names in ([], ["table5"], ["table5-smoke"], [manifest.name], [f"some/reports/{manifest.name}/"], ["tab*"], ["*-smoke"]):
        assert find_manifests(tmp_path, names) == [manifest]
    for name in ("tabel5", "tabel*"):
        with pytest.raises(UserError, match="did you mean table5"):
            find_manifests(tmp_path, [name])


def test_a_broken_manifest_is_one_sentence(tmp_path: Path) -> None:
    path = write_manifest(tmp_path, FakeTable(tmp_path).manifest())
    path.write_text(path.read_text()[:100])
    with pytest.raises(UserError, match="run bertlab ablate --grid again"):
        find_manifests(tmp_path, [])


def test_a_broken_manifest_keeps_no_other_from_its_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    manifest = FakeTable(tmp_path).manifest()
    path = write_manifest(tmp_path, manifest)
    path.with_name("table8-laptop-01234567.json").write_text("{")
    assert find_manifests(tmp_path, []) == [manifest]
    assert "table8-laptop-01234567.json is not a table's file" in capsys.readouterr().err
    assert find_manifests(tmp_path, ["table5"]) == [manifest]
    assert capsys.readouterr().err == ""
    assert find_manifests(tmp_path, ["table*"]) == [manifest]
    assert "table8-laptop-01234567.json is not a table's file" in capsys.readouterr().err
    for name in ("table8", "table8-laptop", "table8-laptop-01234567"):
        with pytest.raises(UserError, match="run bertlab ablate --grid again"):
            find_manifests(tmp_path, [name])


def test_a_locked_run_is_seen_in_a_folder_that_cannot_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with NodeLock(tmp_path, "a") as held, NodeLock(tmp_path, "b") as free:
        assert held.acquire()
        assert free.acquire()
        free.release()
        opened = os.open

        def reading_alone(path: Path, flags: int, *rest: int) -> int:
            if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
                raise PermissionError(path)
            return opened(path, flags, *rest)

        monkeypatch.setattr("bertlab.ablation.locking.os.open", reading_alone)
        assert [is_locked(tmp_path, key) for key in ("a", "b", "c")] == [True, False, False]


def test_values_and_examples_are_those_of_the_predictions(tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path).write()
    collected = collect(manifest, tmp_path)
    for row in ("bert", "ltr", "random"):
        for seed, run in enumerate(collected.cells[row, "mnli", None], 1):
            assert run.value == pytest.approx(accuracy_of(tmp_path / f"finetune-fake-f-{row}-mnli-{seed}"))
            assert run.run is not None
            assert run.run.sums is not None
            assert run.run.sums.value() == pytest.approx(run.value)
            assert (run.pretraining_seed, run.finetuning_seed) == (seed, seed)


def test_held_out_figures_are_of_the_longest_length_or_the_one_asked_for(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    table.columns["short"] = replace(table.columns["perplexity"], name="short", length=32)
    table.columns["none"] = replace(table.columns["perplexity"], name="none", length=64)
    collected = collect(table.write(), tmp_path)
    result = json.loads((tmp_path / "pretrain-fake-p-ltr-2" / "result.json").read_text())
    for column, length in (("perplexity", "128"), ("short", "32")):
        run = collected.cells["ltr", column, None][1]
        assert run.value == result["held_out"][length]["perplexity"]
        assert run.finetuning_seed is None
        assert run.quantity is not None
        assert run.quantity.protocol == f"length {length}, 512 sequences, single"
    (first, *_) = collected.cells["ltr", "none", None]
    assert first.status == "failed"
    assert "at length 32, 128, not at 64" in first.reason
    assert ("random", "perplexity", None) not in collected.cells


@pytest.mark.parametrize(
    ("changes", "because"),
    [
        ({}, None),
        ({"objective": {"kind": "mlm", "pair": False}}, "different things"),
        ({"vocabulary": "v1"}, "different vocabularies"),
        ({"corpus": {"content": "c1", "held_out": 0.05}}, "different data"),
        ({"masking": {"rate": 0.3}}, "measured differently"),
        ({"objective": {"kind": "mlm_nsp", "pair": False}}, "measured differently"),
        ({"validation": {"sequences": 64}}, "measured differently"),
    ],
)
@pytest.mark.parametrize("metric", ["perplexity", "accuracy"])
def test_figures_of_language_models_compare_only_where_they_measure_the_same(
    metric: str, changes: dict[str, object], because: str | None
) -> None:
    one = held_out_quantity(pretraining_identity("mlm_nsp", 1), metric, 128)
    other = held_out_quantity({**pretraining_identity("mlm_nsp", 2), **changes}, metric, 128)
    reason = comparable(one, other)
    assert reason is None if because is None else because in str(reason)


def test_verdicts_on_pairs_compare_whatever_is_masked_and_not_over_other_numbers_of_them() -> None:
    one, masked, fewer = (
        held_out_quantity(pretraining_identity("mlm_nsp", 1, **changes), "nsp_accuracy", 128)
        for changes in ({}, {"masking": {"rate": 0.3}}, {"validation": {"sequences": 64}})
    )
    assert comparable(one, masked) is None
    assert "different data" in str(comparable(one, fewer))


def test_failed_running_missing_and_degenerate_runs_are_called_so(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    table.manifest()
    table.skills["ltr", "mrpc"] = 0.9  # well above the F1 of 0.75 of one answer to everything
    table.collapses.add("f-ltr-mrpc-2")
    manifest = table.write(leave=["f-bert-mnli-2", "f-bert-mnli-3"], fail=["f-no_nsp-mnli-1"])
    lock = NodeLock(tmp_path, "f-bert-mnli-3")
    assert lock.acquire()
    try:
        collected = collect(manifest, tmp_path)
    finally:
        lock.release()
    assert statuses(collected.cells["bert", "mnli", None]) == ["done", "missing", "running"]
    assert len(runs_of(collected, ("bert", "mnli", None))) == 1
    failed = collected.cells["no_nsp", "mnli", None][0]
    assert failed.status == "failed"
    assert "the loss is nan" in failed.reason
    assert [run.failed for run in runs_of(collected, ("no_nsp", "mnli", None))] == [True, False, False]
    assert [run.degenerate is not None for run in collected.cells["ltr", "mrpc", None]] == [False, True, False]


def test_what_was_learned_is_told_by_the_columns_own_split_and_metric(tmp_path: Path) -> None:
    """A result's own word on it is about the first split and the first metric."""
    table = FakeTable(tmp_path)
    table.columns["f1"] = replace(table.columns["mnli"], name="f1", label="F1", metric="f1")
    table.columns["other"] = replace(table.columns["mnli"], name="other", label="Other", split="other")
    # Of 0.6 of one class, one answer to everything has an accuracy of 0.6 and an F1 of 0.75: more than an accuracy of 0.66 gives.
    table.skills |= {(row, name): skill for row in table.rows for name, skill in (("f1", 0.66), ("other", 0.75))}
    manifest = table.write()
    for name in ("f1", "other"):
        folder = tmp_path / f"finetune-fake-f-bert-{name}-1"
        result = json.loads((folder / "result.json").read_text())
        result["metrics"]["other"] = result["metrics"]["dev"]
        # By accuracy on dev it has failed in one case, and not in the other.
        result["degenerate"] = "accuracy is no better" if name == "other" else None
        (folder / "result.json").write_text(json.dumps(result))
        if name == "other":  # whose predictions these are, and not those of dev
            (folder / "predictions.jsonl").rename(folder / "predictions.other.jsonl")
    cells = collect(manifest, tmp_path).cells
    assert str(cells["bert", "f1", None][0].degenerate).startswith("f1 0.")
    assert cells["bert", "other", None][0].degenerate is None


def test_what_hangs_on_a_failed_pretraining_has_failed_with_it(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    table.manifest()
    manifest = table.write(fail=["p-ltr-1"], leave=["f-ltr-mnli-1", "f-ltr-mrpc-1"])
    collected = collect(manifest, tmp_path)
    first = collected.cells["ltr", "mnli", None][0]
    assert first.status == "failed"
    assert "which it starts from, failed" in first.reason
    assert collected.cells["ltr", "perplexity", None][0].status == "failed"


def test_what_hangs_on_a_failed_pretraining_by_way_of_another_has_failed_too(tmp_path: Path) -> None:
    table = FakeTable(tmp_path)
    table.manifest()
    table.nodes["p-ltr-1"] = replace(table.nodes["p-ltr-1"], source="p-bert-1")  # goes on from it
    left = [key for key in table.nodes if key == "p-ltr-1" or table.nodes[key].source in ("p-ltr-1", "p-bert-1")]
    collected = collect(table.write(fail=["p-bert-1"], leave=left), tmp_path)
    for column in ("mnli", "mrpc", "perplexity"):
        first, *others = collected.cells["ltr", column, None]
        assert (first.status, first.reason) == ("failed", "bert, seed 1, which it starts from, failed.")
        assert {run.status for run in others} == {"done"}


def test_a_folder_of_runs_that_was_moved_gives_the_same(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    runs.mkdir()
    before = collect(FakeTable(runs).write(), runs)
    moved = tmp_path / "elsewhere"
    shutil.move(runs, moved)
    (manifest,) = find_manifests(moved, ["table5"])
    after = collect(manifest, moved)
    assert {place: [run.value for run in runs] for place, runs in after.cells.items()} == {
        place: [run.value for run in runs] for place, runs in before.cells.items()
    }


def test_lost_or_foreign_predictions_cost_the_examples_and_not_the_value(tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path).write()
    (tmp_path / "finetune-fake-f-bert-mnli-1" / "predictions.jsonl").unlink()
    other = tmp_path / "finetune-fake-f-ltr-mnli-2" / "predictions.jsonl"
    shutil.copy(other, tmp_path / "finetune-fake-f-bert-mnli-2" / "predictions.jsonl")
    collected = collect(manifest, tmp_path)
    runs = collected.cells["bert", "mnli", None]
    assert statuses(runs) == ["done"] * 3
    assert [run.run is not None and run.run.sums is not None for run in runs] == [False, False, True]
    assert len(collected.remarks) == 2
    assert "f-bert-mnli-1" in collected.remarks[0]


def test_rows_that_were_evaluated_on_parts_of_a_split_do_not_compare(tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path).write()
    for path in tmp_path.glob("finetune-fake-f-*-mnli-*/result.json"):
        result = json.loads(path.read_text())
        result["data"]["examples"] = {"train": 9, "dev": 100 if "no_nsp" in path.parent.name else 200}
        path.write_text(json.dumps(result))
        (path.parent / "predictions.jsonl").unlink()  # which would tell it, too
    cells = collect(manifest, tmp_path).cells
    bert, no_nsp, ltr = (cells[row, "mnli", None][0].quantity for row in ("bert", "no_nsp", "ltr"))
    assert bert
    assert no_nsp
    assert ltr
    assert comparable(bert, ltr) is None
    assert "different data" in str(comparable(bert, no_nsp))


def test_rows_with_other_training_data_compare_where_they_are_evaluated_on_the_same(tmp_path: Path) -> None:
    """Those of an older version, which does not tell them apart, compare where all that they have read is the same."""
    manifest = FakeTable(tmp_path).write()
    evaluated = {"bert": "d1", "no_nsp": "d1", "ltr": "d2"}
    for path in tmp_path.glob("finetune-fake-f-*-mnli-*/result.json"):
        result = json.loads(path.read_text())
        row = path.parent.name.split("-")[3]
        result["data"]["fingerprint"] = f"with the training examples of {row}"
        if row in evaluated:
            result["data"]["evaluated"] = {"dev": evaluated[row]}
        path.write_text(json.dumps(result))
    cells = collect(manifest, tmp_path).cells
    bert, no_nsp, ltr, older = (cells[row, "mnli", None][0].quantity for row in ("bert", "no_nsp", "ltr", "random"))
    assert bert
    assert no_nsp
    assert ltr
    assert older
    assert comparable(bert, no_nsp) is None
    assert "different data" in str(comparable(bert, ltr))
    assert "different data" in str(comparable(bert, older))
    assert comparable(older, replace(bert, read=older.read)) is None


def test_what_is_to_be_known_of_the_examples_stands_under_the_table_once(tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path).write()
    for path in tmp_path.glob("finetune-fake-f-*-mnli-*/result.json"):
        result = json.loads(path.read_text())
        result["data"]["notes"] = ["The examples are of documents that pre-training may have seen."]
        path.write_text(json.dumps(result))
    assert collect(manifest, tmp_path).remarks == ("MNLI: The examples are of documents that pre-training may have seen.",)


@pytest.mark.parametrize("content", ["{", "", "[1]", "{}", '{"split": "dev", "metrics": {"dev": {"accuracy": "high"}}}'])
def test_a_result_that_cannot_be_read_is_a_missing_run_with_its_reason(content: str, tmp_path: Path) -> None:
    """It says nothing of how the training went, so it counts as no failure; the report comes about and names it."""
    manifest = FakeTable(tmp_path).write()
    damaged = tmp_path / "finetune-fake-f-bert-mnli-1"
    (damaged / "result.json").write_text(content)
    collected = collect(manifest, tmp_path)
    runs = collected.cells["bert", "mnli", None]
    assert statuses(runs) == ["missing", "done", "done"]
    assert runs[0].run is None
    assert "result.json" in runs[0].reason
    assert f"delete the folder {damaged}" in runs[0].reason
    report = report_of(collected)
    assert any("1 not run (of 3 runs): " in gap and damaged.name in gap for gap in report.gaps), report.gaps


def test_a_damaged_result_of_a_pre_training_leaves_its_cells_missing(tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path).write()
    (tmp_path / "pretrain-fake-p-ltr-2" / "result.json").write_text("{")
    collected = collect(manifest, tmp_path)
    assert statuses(collected.cells["ltr", "perplexity", None]) == ["done", "missing", "done"]
    assert statuses(collected.cells["ltr", "mnli", None]) == ["done"] * 3  # which had its weights
    assert report_of(collected).provenance.runs


def test_amounts_until_a_step_add_up_over_the_stages() -> None:
    result = {"identity": pretraining_identity("mlm_nsp", 1), "steps": STEPS}
    first, whole = amounts_until(result, 900), amounts_until(result, None)
    assert first.positions == 900 * 32 * 32
    assert whole.positions == first.positions + 100 * 128 * 8
    assert whole.targets == pytest.approx(0.15 * whole.positions)
    ltr = amounts_until({"identity": pretraining_identity("ltr", 1), "steps": STEPS}, None)
    assert ltr.targets == ltr.positions == whole.positions
    assert ltr.flops > 2 * whole.flops  # the vocabulary projection at every position
    # In minutes, stages are shares of the steps that were made.
    by_shares = pretraining_identity("mlm_nsp", 1, budget={"steps": None, "minutes": 3.0, "stages": [[0.9, 32, 32], [0.1, 128, 8]]})
    assert amounts_until({"identity": by_shares, "steps": STEPS}, None) == whole
