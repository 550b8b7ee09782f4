from __future__ import annotations

import json
from pathlib import Path

import pytest

from bertlab.ablation.dry_run import in_short
from bertlab.ablation.execute import Options, Outcome
from bertlab.ablation.executor import Assignment
from bertlab.ablation.graph import Plan, Record
from bertlab.ablation.manifest import find_manifests
from bertlab.ablation.records import write_record
from bertlab.ablation.request import parse_request
from bertlab.ablation.runner import command_of
from bertlab.arguments import parse_arguments
from bertlab.cluster.queue import QueueSilent
from bertlab.commands.ablate import run
from bertlab.composition import compose_all
from bertlab.config import PathsConfig
from bertlab.errors import UserError
from bertlab.schemas import PRETRAIN

TABLE = """
title: Two objectives
rows: {one: {pretrain: [objective=mlm]}, two: {pretrain: [objective=ltr]}}
columns: {c: {task: bigram_shift, metric: accuracy}}
baseline: one
"""


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """A small table on a corpus of two sentences."""
    (tmp_path / "mine.yaml").write_text(TABLE)
    (tmp_path / "text").mkdir()
    (tmp_path / "text" / "a.txt").write_text("A sentence. And another one.\n")
    monkeypatch.chdir(tmp_path)
    return ["--grid", "mine.yaml", "--scale", "smoke", "corpus=text", "corpus.path=text"]


class TestRequest:
    def test_flags_tables_and_overrides_in_any_order(self) -> None:
        request = parse_request(
            ["corpus=text", "--grid", "table5", "tasks=GLUE", "figure5", "--seeds", "4", "--scale", "smoke", "--dry-run", "corpus.path=X"]
        )
        assert request.tables == ["table5", "figure5"]
        assert request.dry_run
        assert (request.settings.scale, request.settings.seeds, request.settings.tasks) == ("smoke", 4, "GLUE")
        assert request.settings.pretrain == ("corpus=text", "corpus.path=X")

    def test_a_tilde_is_the_users_folder(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("HOME", "/home/me")
        assert parse_request(['paths.runs="~/ours"']).runs == PathsConfig("~/ours").runs_folder == Path("/home/me/ours")

    def test_without_a_table_it_is_table5(self) -> None:
        assert parse_request(["--grid"]).tables == ["table5"]
        assert not parse_request([]).said_grid
        assert parse_request(["--grid=table8"]).tables == ["table8"]

    def test_each_override_goes_where_it_belongs(self) -> None:
        settings = parse_request(
            [
                "model=mini",
                "pretrain.optimizer.lr=1e-3",
                "finetune.optimizer.lr=2e-3",
                "tuning.epochs=1",
                "trainer=cpu",
                "trainer.threads=1",
                "logger=none",
                "paths.runs=there",
            ]
        ).settings
        assert settings.pretrain == ("model=mini", "optimizer.lr=1e-3", "trainer=cpu")
        assert settings.finetune == ("optimizer.lr=2e-3", "tuning.epochs=1", "trainer=cpu")
        assert settings.machine == ("trainer.threads=1", "logger=none", "paths.runs=there")

    def test_flags_may_be_written_as_overrides(self) -> None:
        request = parse_request(["scale=smoke", "budget=flops", "launcher=slurm"])
        assert (request.settings.scale, request.settings.budget, request.launcher) == ("smoke", "flops", "slurm")
        assert parse_request(["budget.tokens=1e6"]).settings.pretrain == ("budget.tokens=1e6",)

    @pytest.mark.parametrize(
        ("words", "devices"),
        [
            ([], 1),
            (["trainer.devices=2"], 2),
            (["finetune.trainer.devices=4"], 4),
            (["pretrain.trainer.devices=3", "finetune.trainer.devices=2"], 3),
        ],
    )
    def test_devices_are_those_of_the_kind_of_run_that_takes_more(self, words: list[str], devices: int) -> None:
        assert parse_request(words).devices == devices

    def test_places(self) -> None:
        request = parse_request(['paths.runs="a b"', "paths.cache=c"])
        assert (request.runs, request.cache) == (Path("a b"), "c")
        assert parse_request([]).runs == Path("runs")

    @pytest.mark.parametrize(
        ("given", "said"),
        [
            (["--sclae", "smoke"], "--scale"),
            (["modle=tiny"], "model"),
            (["finetune.hed=crf"], "head"),
            (["model.layers=many"], "whole number"),
            (["seed=3"], "--seeds"),
            (["pretrain.seed=3"], "--seeds"),
            (["seeds=3"], "--seeds"),
            (["checkpoint=x"], "own pre-trainings"),
            (["task=mnli"], "columns"),
            (["finetune.weights=random"], "random: true"),
            (["init=x"], "of: ROW"),
            (["pretrain.scale=smoke"], "--scale"),  # the table would go on to call itself another
            (["--seeds", "0"], "--seeds takes a whole number"),
            (["--seeds", "²"], "--seeds takes a whole number"),
            (["--jobs", "many"], "--jobs takes a whole number"),
            (["--budget", "flop"], "flops"),
            (["--launcher", "lokal"], "local"),
            (["model=tiny,mini"], "several values"),
            (["--config-dir", "/nowhere/at/all"], "no folder"),
        ],
    )
    def test_mistakes_are_sentences(self, given: list[str], said: str) -> None:
        with pytest.raises(UserError) as caught:
            parse_request(given)
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)


class TestCommand:
    def test_a_folder_of_tasks_that_is_not_there_is_refused(self, words: list[str]) -> None:
        with pytest.raises(UserError, match="tasks=GLU: there is no such folder"):
            run([*words, "--dry-run", "tasks=GLU"])

    def test_a_dry_run_shows_every_run_and_runs_nothing(self, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        assert run([*words, "--dry-run"]) == 0
        shown = capsys.readouterr().out
        assert "mine: Two objectives, at scale=smoke; 4 rows, 1 column" in shown
        assert shown.count("pre-train ") == 2
        assert shown.count("fine-tune ") == 4
        assert shown.count("to do") >= 6
        assert "6 runs: 2 pre-trainings and 4 fine-tunings; 0 done, 6 to do." in shown
        assert "mine: one × c, seed 1" in shown
        assert "the same 61,440 positions" in shown
        assert not (tmp_path / "runs").exists()

    def test_it_knows_what_is_done_and_what_failed(self, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        from bertlab.ablation.grid import load_grid
        from bertlab.ablation.plan import plan

        keys = list(plan([load_grid("mine.yaml")], parse_request(words).settings).nodes)
        folder = tmp_path / "runs" / "pretrain-x"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text(json.dumps({}))
        write_record(tmp_path / "runs", Record(keys[0], "done", str(folder), seconds=30.0))
        write_record(tmp_path / "runs", Record(keys[1], "failed", "", "why"))
        run([*words, "--dry-run"])
        shown = capsys.readouterr().out
        assert "1 done, 5 to do (1 of them failed before)." in shown
        assert "failed before" in shown

    def test_kept_weights_that_are_not_there_are_told(self, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "mine.yaml").write_text(TABLE + "points: [0.5, 1.0]\n")
        from bertlab.ablation.grid import load_grid
        from bertlab.ablation.plan import plan

        first = next(iter(plan([load_grid("mine.yaml")], parse_request(words).settings).nodes))
        folder = tmp_path / "runs" / "pretrain-x"
        folder.mkdir(parents=True)
        (folder / "result.json").write_text("{}")
        write_record(tmp_path / "runs", Record(first, "done", str(folder), seconds=30.0))
        run([*words, "--dry-run"])
        assert "pretrain-x has not kept its weights of step 30" in capsys.readouterr().err

    def test_runs_are_composed_with_the_folder_that_the_plan_was(
        self, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        own = tmp_path / "own configurations"
        (own / "model").mkdir(parents=True)
        (own / "model" / "own.yaml").write_text("name: own\nlayers: 1\nhidden: 16\nheads: 2\nintermediate: 32\n")
        given: list[tuple[Plan, Options]] = []

        def carried_out(plan: Plan, runs: Path, executor: object, options: Options) -> Outcome:
            given.append((plan, options))
            return Outcome([], 15, 0.0)

        monkeypatch.setattr("bertlab.ablation.execute.execute", carried_out)
        assert run([*words, "--config-dir", "own configurations", "model=own"]) == 143
        ((plan, options),) = given
        first = next(iter(plan.nodes.values()))
        _, _, _, verb, *arguments = command_of(Assignment(first, tmp_path, options.overrides))
        parsed = parse_arguments(arguments)
        (config,) = compose_all(PRETRAIN, [tuple(parsed.overrides)], parsed.config_dir)
        assert verb == "pretrain"
        assert (config.model.name, config.model.hidden) == ("own", 16)

    def test_it_says_how_long_it_takes_before_it_begins(
        self, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        (tmp_path / "mine.yaml").write_text(TABLE.replace("c: {task: bigram_shift, metric: accuracy}", "c: {held_out: perplexity}"))
        said: list[str] = []

        def begun(plan: Plan, runs: Path, executor: object, options: Options) -> Outcome:
            said.append(capsys.readouterr().err)
            assert "logger.group='grid-smoke'" in options.overrides  # as a report puts what it sends
            for node in plan.nodes.values():
                (runs / node.key).mkdir(exist_ok=True)
                (runs / node.key / "result.json").write_text("{}")
                write_record(runs, Record(node.key, "done", str(runs / node.key), seconds=30.0))
            return Outcome([], 15, 0.0)

        monkeypatch.setattr("bertlab.ablation.execute.execute", begun)
        words += ["--budget", "minutes"]  # of six seconds each, and ten for the start of each
        run([*words, "--dry-run", "--jobs", "1"])
        assert "32 s on this machine, one run after the other" in capsys.readouterr().out
        for _ in range(2):
            run([*words, "--jobs", "2"])
        assert said == ["bertlab: mine: 2 runs to do, 16 s on this machine, 2 runs at a time; --dry-run lists them.\n", ""]

    def test_its_seeds_stay_in_the_table_whatever_a_call_for_fewer_has_written_meanwhile(
        self, words: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def overtaken(plan: Plan, runs: Path, executor: object, options: Options) -> Outcome:
            if "seed=2" in " ".join(word for node in plan.nodes.values() for word in node.overrides):
                run([*words, "--seeds", "1"])  # nothing of the second seed is done yet
            return Outcome([], 15, 0.0)

        monkeypatch.setattr("bertlab.ablation.execute.execute", overtaken)
        run([*words, "--seeds", "2"])
        (manifest,) = find_manifests(Path("runs"), [])
        assert {len(cell.nodes) for cell in manifest.cells} == {2}

    def test_without_grid_it_says_what_it_does(self, words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
        run([*words[1:], "--dry-run"])
        assert "bertlab ablate --grid mine.yaml" in capsys.readouterr().err

    def test_slurm_is_refused_where_there_is_none(self, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bertlab.cluster.queue.shutil.which", lambda name: None)
        with pytest.raises(UserError, match="no SLURM on this machine"):
            run([*words, "--launcher", "slurm"])
        with pytest.raises(UserError, match="--resubmit goes with --launcher slurm"):
            run([*words, "--resubmit"])

    def test_dry_run_shows_what_a_cluster_would_be_asked_for(
        self, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        def silent() -> None:
            raise QueueSilent("no squeue")

        monkeypatch.setattr("bertlab.cluster.queue.states", silent)
        more = ["launcher.partition=long", "finetune.launcher.time=60", "pretrain.trainer.devices=4", "launcher.options.exclude=node7"]
        run([*words, "--launcher", "slurm", *more, "--dry-run"])
        shown = capsys.readouterr()
        assert "No SLURM can be reached" in shown.err
        arrays = [line for line in shown.out.splitlines() if line.startswith("Array")]
        assert len(arrays) == 2
        assert arrays[0].startswith("Array 1: 2 pre-trainings; partition long, 4 GPUs, the partition's time limit, exclude=node7")
        assert "fine-tunings, each after the run that it starts from; partition long, 1 GPU, limit 60" in arrays[1]

    def test_a_launcher_of_ones_own(self, words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
        (tmp_path / "mine" / "launcher").mkdir(parents=True)
        (tmp_path / "mine" / "launcher" / "ours.yaml").write_text("kind: slurm\npartition: a100\n")
        run([*words, "--config-dir", str(tmp_path / "mine"), "--launcher", "ours", "trainer=cpu", "--dry-run"])
        assert "partition a100, no GPU" in capsys.readouterr().out

    def test_no_run_of_a_grid_queues_itself(self) -> None:
        request = parse_request(["--launcher", "slurm", "launcher.time=5", "pretrain.launcher.time=60", "pretrain.launcher.warning=9"])
        assert request.launching == {
            "pretrain": ("launcher.time=5", "launcher.time=60", "launcher.warning=9"),
            "finetune": ("launcher.time=5",),
        }
        assert (request.settings.pretrain, request.settings.finetune) == ((), ())
        with pytest.raises(UserError, match="a grid has one launcher"):
            parse_request(["pretrain.launcher=slurm"])

    def test_help_lists_the_tables(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert run(["--help"]) == 0
        shown = capsys.readouterr().out
        for word in ("--dry-run", "table5", "figure5", "further_pretraining", "finetune.KEY=VALUE"):
            assert word in shown


@pytest.mark.parametrize(
    ("number", "shown"),
    [
        (0, "–"),
        (12, "12"),
        (999.6, "1 k"),
        (61440, "61.4 k"),
        (999_499, "999 k"),
        (999_500, "1 M"),
        (12e6, "12 M"),
        (1.5e9, "1.5 G"),
        (3.3e12, "3.3 T"),
        (4.2e17, "420 P"),
        (9.999e17, "1 E"),
    ],
)
def test_numbers_in_short(number: float, shown: str) -> None:
    assert in_short(number) == shown
