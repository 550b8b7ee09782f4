"""Tables at Weights & Biases: without a login, and with a server."""

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from fake_runs import FakeTable
from wandb_server import STUB, wandb_server

from bertlab.ablation.collect import Collected, collect
from bertlab.ablation.grid import Column
from bertlab.ablation.report.build import report_of, report_table
from bertlab.ablation.report.model import Report
from bertlab.ablation.report.publish import build, specification
from bertlab.ablation.report.render import render_all
from bertlab.ablation.report.wandb_tables import Mirrored, mirror_table
from bertlab.config import LoggerConfig
from bertlab.errors import UserError

COLUMNS = {"mnli": Column("mnli", "MNLI", "mnli", "accuracy")}


def small_table(runs: Path) -> FakeTable:
    table = FakeTable(runs, seeds=1, columns=dict(COLUMNS))
    del table.rows["no_nsp"], table.rows["random"]
    return table


def report(runs: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("WANDB_")}
    home = {"HOME": str(runs), "NETRC": str(runs / "no_netrc"), "WANDB_CACHE_DIR": str(runs / "wandb_cache"), "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "bertlab", "report", f"paths.runs={runs}", *words]
    return subprocess.run(
        command, env={**kept, **home, **environment}, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240
    )


def leaves(filters: dict[str, Any]) -> list[dict[str, Any]]:
    """What a set's runs are chosen by; each has to be in the list of ids."""
    inner = filters.get("filters")
    if inner is None:
        assert (filters["key"]["name"], filters["op"]) == ("name", "IN")  # wandb's word for a run's id
        return [filters]
    return [leaf for each in inner for leaf in leaves(each)]


def test_specification_has_text_run_sets_tables_and_plots(tmp_path: Path) -> None:
    manifest = FakeTable(tmp_path).write()
    found = report_table(manifest, tmp_path)
    folder = render_all(found, tmp_path / "out").parent
    mirrored = Mirrored("bertlab", None, False, "report-table5", None, ("held_out/128/perplexity",))
    written = json.loads(specification(build(found, mirrored, folder)))
    text = json.dumps(written)
    markdown_block = next(block for block in written["blocks"] if block["type"] == "markdown-block")
    assert markdown_block["content"].startswith("# Effect of the pre-training tasks")
    grids = [block["metadata"] for block in written["blocks"] if block["type"] == "panel-grid"]
    assert [[run_set["name"] for run_set in grid["runSets"]] for grid in grids] == [["The table"], ["Pre-trainings", "Fine-tunings"]]
    runs = {set_["name"]: {name for leaf in leaves(set_["filters"]) for name in leaf["value"]} for set_ in grids[1]["runSets"]}
    ended = [run for run in found.provenance.runs if run.status == "done"]
    done = {kind: {run.folder for run in ended if run.kind == kind} for kind in ("pretrain", "finetune")}
    assert runs == {"Pre-trainings": done["pretrain"], "Fine-tunings": done["finetune"]}
    assert all(done.values())
    assert "held_out/128/perplexity" in text
    assert "plots/cells-mnli" in text


def nothing_run(runs: Path, name: str) -> tuple[Collected, Report]:
    """A table of which nothing has run, called ``name``."""
    table = small_table(runs)
    collected = collect(table.write(leave=list(table.manifest().nodes)), runs)
    return collected, replace(report_of(collected), table=name)


@pytest.mark.parametrize("name", ["it's", 'a "b"', "x" * 70])
def test_a_table_of_any_name_is_found_by_its_tag(name: str, tmp_path: Path) -> None:
    _, found = nothing_run(tmp_path, name)
    written = json.loads(specification(build(found, Mirrored("bertlab", None, False, "report", None, ()), tmp_path)))
    (of_table,) = [block["metadata"]["runSets"] for block in written["blocks"] if block["type"] == "panel-grid"]  # there are no runs
    assert of_table[0]["filters"]["filters"][0]["value"] == [name[:64]]


def test_tags_are_no_longer_than_they_may_be(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tags: list[str] = []

    def init(**settings: Any) -> None:
        tags.extend(settings["tags"])
        raise RuntimeError

    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setattr("wandb.init", init)
    collected, found = nothing_run(tmp_path, "x" * 70)
    with pytest.raises(UserError, match="did not accept the table"):
        mirror_table(collected, found, tmp_path / "report.html", LoggerConfig(), tmp_path)
    assert tags == ["x" * 64, "scale-smoke"]


@pytest.mark.slow
def test_without_a_login_everything_is_kept_offline_and_nothing_is_asked(tmp_path: Path) -> None:
    small_table(tmp_path).write()
    done = report(tmp_path, "--publish", "--artifacts", f"paths.cache={tmp_path / 'cache'}")
    assert done.returncode == 0, done.stderr
    assert "there is no login" in done.stderr
    assert done.stdout.splitlines()[-1].endswith("report.html")
    for run in tmp_path.glob("*-fake-*"):
        assert list((run / "wandb").glob("offline-run-*")), run
    (folder,) = (tmp_path / "reports").iterdir()
    assert json.loads((folder / "wandb_report.json").read_text())["blocks"]


@pytest.mark.slow
@pytest.mark.skipif(not STUB.is_file(), reason=f"no stand-in for the W&B server at {STUB}")
def test_with_a_login_runs_tables_and_the_report_arrive_once(tmp_path: Path) -> None:
    small_table(tmp_path).write()
    with wandb_server() as server:
        login = {"WANDB_BASE_URL": f"http://127.0.0.1:{server.PORT}", "WANDB_API_KEY": "a" * 40}
        done = report(tmp_path, "--publish", **login)
        assert done.returncode == 0, done.stderr
        (view,) = server.VIEWS
        assert "Effect of the pre-training tasks" in view["displayName"]
        assert "Pre-trainings" in view["spec"]
        rows = [json.loads(row) for row in server.HISTORY["wandb-history.jsonl"]]
        perplexities = [row["held_out/128/perplexity"] for row in rows if "held_out/128/perplexity" in row]
        assert len(perplexities) == 2 * 5  # two pretrainings, each evaluated five times
        assert any("cells" in row for row in rows)
        before = len(server.HISTORY["wandb-history.jsonl"])
        again = report(tmp_path, "--publish", **login)
        assert again.returncode == 0, again.stderr
        new = [json.loads(row) for row in server.HISTORY["wandb-history.jsonl"][before:]]
        assert new  # the table
        assert not any("held_out/128/perplexity" in row for row in new)  # its runs are there already
