from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import yaml

import bertlab
from bertlab import cli
from bertlab.commands import doctor, evaluate, pretrain
from bertlab.config import PretrainConfig
from bertlab.errors import RunFailed, UserError
from bertlab.groups import choices
from bertlab.resources import conf_folder
from bertlab.schemas import PRETRAIN, belongs
from bertlab.training.signals import StopRequest

Call = Callable[..., tuple[int, str, str]]

HEAVY = ("torch", "numpy", "hydra", "omegaconf", "wandb", "pytorch_lightning", "tokenizers", "rich", "yaml")


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Runs a command in an empty folder; gives its exit code, standard output and standard error."""
    monkeypatch.chdir(tmp_path)
    for name in ("RANK", "LOCAL_RANK", "SLURM_PROCID", "BERTLAB_TRACEBACK"):
        monkeypatch.delenv(name, raising=False)

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exited:
            cli.main(words)
        captured = capsys.readouterr()
        return int(exited.value.code or 0), captured.out, captured.err

    return run


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[PretrainConfig]:
    """What the command trains, with nothing trained."""
    configurations: list[PretrainConfig] = []

    def train(config: PretrainConfig) -> Path:
        configurations.append(config)
        return Path(f"runs/run-{config.seed}")

    monkeypatch.setattr(pretrain, "_pretrain", train)
    return configurations


def in_a_process(*words: str, code: str = "") -> subprocess.CompletedProcess[str]:
    """A command in a fresh interpreter, and ``code`` after it."""
    program = f"import sys\nfrom bertlab.cli import main\ntry:\n    main({list(words)!r})\nexcept SystemExit as exited:\n    pass\n{code}"
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)


class TestImports:
    @pytest.mark.parametrize("words", [("--help",), ("--version",), ("nothing",)], ids=str)
    def test_what_needs_no_library_loads_none(self, words: tuple[str, ...]) -> None:
        finished = in_a_process(*words, code=f"print([name for name in {HEAVY} if name in sys.modules])")
        assert finished.stdout.splitlines()[-1] == "[]"

    def test_the_help_of_a_verb_reads_files_only(self) -> None:
        finished = in_a_process("pretrain", "--help", code=f"print([name for name in {HEAVY} if name in sys.modules])")
        assert finished.stdout.splitlines()[-1] == "['yaml']"

    def test_composing_and_validating_needs_no_torch(self) -> None:
        after = "print([name for name in ('torch', 'numpy', 'pytorch_lightning', 'wandb') if name in sys.modules])"
        finished = in_a_process("pretrain", "model.hidden=100", "model.heads=3", code=after)
        assert finished.stdout.splitlines()[-1] == "[]"
        assert "model.heads=3" in finished.stderr

    @pytest.mark.parametrize(
        "words",
        [
            ("pretrain", "init=nothing"),
            ("pretrain", "scale=paper", "trainer=cpu", "batch.sequences=99999999"),
            ("finetune", "task=bigram_shift", "checkpoint=nothing"),
            ("fill", "a [MASK]", "checkpoint=nothing"),
        ],
        ids=" ".join,
    )
    def test_what_is_not_there_is_refused_without_torch(self, words: tuple[str, ...]) -> None:
        finished = in_a_process(*words, code="print([name for name in ('torch', 'pytorch_lightning') if name in sys.modules])\n")
        assert finished.stdout == "[]\n"
        assert finished.stderr.startswith("bertlab: ")
        assert finished.stderr.count("\n") == 1

    def test_the_validation_alone_needs_nothing(self) -> None:
        program = (
            f"import sys\nimport bertlab, bertlab.config, bertlab.validation\nprint([name for name in {HEAVY} if name in sys.modules])"
        )
        finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
        assert finished.stdout.strip() == "[]"


class TestTop:
    def test_help_names_every_verb_in_full(self, call: Call) -> None:
        code, out, _ = call("--help")
        assert code == 0
        for command in cli.app.registered_commands:
            assert command.callback is not None
            assert f"  {command.name or command.callback.__name__} " in out
            assert str(command.callback.__doc__) in out  # not cut off

    def test_version(self, call: Call) -> None:
        assert call("--version")[:2] == (0, f"bertlab {bertlab.__version__}\n")

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["pretrian"], "Unknown command 'pretrian': did you mean pretrain"),
            (["zzz"], "Unknown command 'zzz': choose from ablate, doctor, evaluate"),
            (["--config-dir", "x", "pretrain"], "--config-dir stands before the command"),
            (["pretrain", "--bogus"], "Unknown flag '--bogus': choose from --cfg, --config-dir"),
            (["pretrain", "--multrun"], "Unknown flag '--multrun': did you mean --multirun"),
            (["ablate", "--budget", "foo"], "Unknown budget 'foo': choose from flops, minutes, tokens"),
            (["ablate", "--scale", "smoke", "--scale", "laptop"], "--scale is given twice, with smoke and with laptop"),
            (["ablate", "seed=1", "--grid", "seed=2"], "seed is given twice"),
            (["pretrain", "seed=1", "norm=batch", "+seed=2"], "seed is given twice, as seed=1 and as seed=2"),
            (["pretrain", "-m", "model=tiny", "model=mini,small"], "model is given twice"),
            (["evaluate", "checkpoint=a", "checkpoint=b"], "checkpoint is given twice"),
            (["pretrain", "--cfg", "job", "--cfg=all"], "--cfg is given twice"),
            (["pretrain", "modle=tiny"], "Unknown key 'modle': did you mean model?"),
            (["pretrain", "model=tinny"], "Unknown model 'tinny': did you mean tiny"),
            (["prepare", "corpus=text"], "corpus.kind=text needs corpus.path"),
            (["evaluate"], "evaluate needs checkpoint=RUN"),
            (["evaluate", "checkpoint=nothing"], "nothing"),
            (["evaluate", "checkpoint=a,b"], "add -m"),
            (["evaluate", "checkpoint=a", "model=large"], "model=large cannot be set in evaluate"),
            (["doctor", "model=large"], "doctor takes no 'model=large'"),
            (["pretrain", "batch.micro=${batch.nothing}"], "batch.micro"),
        ],
        ids=str,
    )
    def test_a_misuse_is_one_sentence_and_exit_code_2(self, call: Call, words: list[str], said: str) -> None:
        code, out, err = call(*words)
        assert (code, out) == (2, "")
        assert err.startswith("bertlab: ")
        assert said in err
        assert err.count("\n") == 1

    def test_a_key_may_be_repeated_and_replaced(self, call: Call) -> None:
        """``++`` says itself that it replaces what there is."""
        code, out, err = call("pretrain", "seed=1", "seed=1", "budget.steps=5", "++budget.steps=6", "--cfg", "job", "--cfg", "job")
        composed = yaml.safe_load(out)
        assert (code, composed["seed"], composed["budget"]["steps"]) == (0, 1, 6), err

    def test_a_traceback_is_shown_on_request(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("BERTLAB_TRACEBACK", "1")
        code, _, err = call("pretrain", "modle=tiny")
        assert code == 2
        assert "Traceback" in err
        assert "bertlab: Unknown key 'modle'" in err

    def test_what_the_machine_refuses_is_a_sentence(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        from bertlab.messages import complain

        monkeypatch.delenv("BERTLAB_TRACEBACK", raising=False)
        complain(OSError(errno.EROFS, "Read-only file system", "runs/x"))
        said = capsys.readouterr().err
        assert said.startswith("bertlab: runs/x: Read-only file system: ")
        assert "Traceback" not in said
        full = RuntimeError("unexpected pos 2 vs 1")  # what PyTorch makes of it
        full.__context__ = OSError(errno.ENOSPC, "No space left on device")
        complain(full)
        assert capsys.readouterr().err.startswith("bertlab: No space left on device: make room")
        complain(OSError(errno.EBADF, "Bad file descriptor"))
        assert "stopped by OSError" in capsys.readouterr().err  # a mistake of ours, told with its traceback

    def test_an_error_that_a_library_makes_of_ctrl_c_is_none(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        def doctor(words: list[str]) -> int:
            try:
                signal.raise_signal(signal.SIGINT)
            except KeyboardInterrupt:
                raise AttributeError("half imported") from None
            return 0

        monkeypatch.setattr("bertlab.interruption._came", threading.Event())
        monkeypatch.setattr("bertlab.commands.doctor.run", doctor)
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        try:
            assert call("doctor") == (130, "", "")
        finally:
            signal.signal(signal.SIGINT, before)

    def test_colour_only_on_a_terminal_that_wants_it(self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
        from bertlab.messages import complain

        monkeypatch.delenv("NO_COLOR", raising=False)
        complain(UserError("Plain."))
        monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
        complain(UserError("Red."))
        monkeypatch.setenv("NO_COLOR", "1")
        complain(UserError("Plain again."))
        assert capsys.readouterr().err == "bertlab: Plain.\n\033[31mbertlab:\033[0m Red.\nbertlab: Plain again.\n"


class TestHelp:
    @pytest.mark.parametrize("verb", ["prepare", "pretrain", "evaluate", "params", "doctor"])
    def test_every_verb_teaches(self, call: Call, verb: str) -> None:
        code, out, _ = call(verb, "--help")
        assert code == 0
        examples = [line for line in out.splitlines() if line.startswith(f"  bertlab {verb}")]
        assert len(examples) >= (2 if verb == "doctor" else 5)
        assert max(len(line) for line in out.splitlines()) <= 140

    def test_the_help_of_pretrain_lists_every_choice_with_its_description(self, call: Call) -> None:
        _, out, _ = call("pretrain", "model=large", "-h", "-m")
        groups = {group: found for group, found in choices([conf_folder()]).items() if belongs(group, PRETRAIN)}
        for group, found in groups.items():
            assert f"\n{group}=\n" in out
            for choice in found:
                assert any(line.split()[:1] == [choice] for line in out.splitlines()), choice
        assert "12 million positions" in out  # the description of scale=laptop
        assert "tokenizer.vocab_size (8192)" in out
        assert "budget.tokens (1.2e+07)" in out

    def test_the_help_of_prepare_lists_what_it_heeds(self, call: Call) -> None:
        _, out, _ = call("prepare", "--help")
        keys = out.partition("Main keys")[2]
        assert {"corpus.path", "tokenizer.vocab_size", "paths.cache"} <= set(keys.split())
        assert not any(section in keys for section in ("optimizer.", "masking.", "batch.", "budget.", "trainer.", "seed", "paths.runs"))

    def test_the_examples_can_be_composed(self, call: Call) -> None:
        """An example that no longer works teaches nothing."""
        from bertlab.help import VERBS

        for verb in ("pretrain", "prepare", "params"):
            for command, _ in VERBS[verb].examples:
                words = subprocess.run(
                    ["sh", "-c", f"printf '%s\\n' {command}"], capture_output=True, text=True, check=True
                ).stdout.splitlines()
                kept = [word for word in words[2:] if word not in ("-m", "--json", "--cfg", "job")]
                if "runs/RUN" in kept or any("," in word.partition("=")[2] and "{" not in word for word in kept):
                    continue
                code, _, err = call("pretrain", *kept, "--cfg", "job")
                assert code == 0, f"{command}: {err}"

    def test_ones_own_choices_are_listed(self, call: Call, tmp_path: Path) -> None:
        (tmp_path / "model").mkdir()
        (tmp_path / "model" / "zebra.yaml").write_text("# bertlab pretrain model=zebra\n# Striped.\nlayers: 3\n")
        assert "zebra" in (out := call("pretrain", "--help", "--config-dir", str(tmp_path))[1])
        assert "Striped." in out


class TestJobs:
    def test_a_job_trains_and_prints_its_folder_last(self, call: Call, trained: list[PretrainConfig], tmp_path: Path) -> None:
        code, out, err = call("pretrain", "seed=7", "norm=batch", "objective=ltr")
        assert (code, out.splitlines()[-1]) == (0, "runs/run-7")
        assert [(config.seed, config.norm.kind) for config in trained] == [(7, "batch")]
        assert "warning: norm=batch under objective=ltr" in err
        assert list(tmp_path.iterdir()) == []  # no folder of Hydra's

    def test_all_jobs_are_refused_before_the_first_trains(self, call: Call, trained: list[PretrainConfig]) -> None:
        code, _, err = call("pretrain", "-m", "model.heads=2,3")
        assert (code, trained) == (2, [])
        assert "Job 2 of 2 (model.heads=3): model.hidden=128 cannot be divided among model.heads=3" in err

    def test_a_job_that_fails_is_reported_and_the_others_go_on(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        def train(config: PretrainConfig) -> Path:
            if config.seed == 1:
                raise RunFailed("The loss is not finite.")
            if config.seed == 2:
                raise ZeroDivisionError("ours")
            return Path(f"runs/run-{config.seed}")

        monkeypatch.setattr(pretrain, "_pretrain", train)
        code, out, err = call("pretrain", "-m", "seed=1,2,3")
        assert (code, out) == (1, "runs/run-3\n")
        assert "bertlab: The loss is not finite.\n" in err
        assert "ZeroDivisionError" in err
        assert "Traceback" in err  # of the one that is no user's mistake
        assert "2 of 3 jobs failed" in err

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (("pretrain", "trainer.nodes=3"), "trainer.nodes=3 needs a process on every node"),
            (("pretrain", "trainer=fsdp"), "on a CPU add trainer.accelerator=cpu trainer.precision=fp32"),
            (("pretrain", "trainer=cpu", "trainer.threads=1000000"), "more than any CPU can use"),
            (("pretrain", "paths.runs=/dev/null"), "paths.runs=/dev/null: /dev/null is a file"),
            (("finetune", "task=mrpc", "checkpoint=nothing"), "task=mrpc needs task.path=DIR"),
            (("finetune", "task=mrpc", "task.path=.", "checkpoint=nothing"), "holds none of its files"),
            (("finetune", "task=bigram_shift", "checkpoint=nothing"), "No run 'nothing'"),
            (("finetune", "task=bigram_shift", "checkpoint=nothing", "submission=true"), "has no form for a submission"),
        ],
        ids=str,
    )
    def test_what_is_not_there_is_exit_code_2(
        self, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, words: tuple[str, ...], said: str
    ) -> None:
        monkeypatch.setattr("torch.cuda.is_available", lambda: False)
        monkeypatch.delenv("BERTLAB_TASKS", raising=False)
        code, out, err = call(*words)
        assert (code, out, err.count("\n")) == (2, "", 1), err
        assert said in err
        assert list(tmp_path.iterdir()) == []

    def test_no_job_begins_where_another_cannot(self, call: Call, trained: list[PretrainConfig]) -> None:
        code, _, err = call("pretrain", "-m", "trainer.nodes=1,3")
        assert (code, trained) == (2, [])
        assert "Job 2 of 2 (trainer.nodes=3): trainer.nodes=3 needs a process on every node" in err

    def test_a_failed_run_is_exit_code_1(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        def train(config: PretrainConfig) -> Path:
            raise UserError("The corpus has no text.")

        monkeypatch.setattr(pretrain, "_pretrain", train)
        assert call("pretrain") == (1, "", "bertlab: The corpus has no text.\n")

    def test_an_interruption_ends_the_whole_command(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        seen = []

        def train(config: PretrainConfig) -> Path:
            seen.append(config.seed)
            raise SystemExit(143)

        monkeypatch.setattr(pretrain, "_pretrain", train)
        assert call("pretrain", "-m", "seed=1,2")[0] == 143
        assert seen == [1]

    @pytest.mark.parametrize(("jobs", "code", "done"), [("1,2,3", 143, [1]), ("1", 0, [1])])
    def test_asked_to_stop_at_the_end_of_a_job_no_other_begins(
        self, call: Call, monkeypatch: pytest.MonkeyPatch, jobs: str, code: int, done: list[int]
    ) -> None:
        """A training that only its last evaluation is left of ends as ever, and is whole; twice, for nothing may be left of the first."""
        seen = []

        def train(config: PretrainConfig) -> Path:
            seen.append(config.seed)
            with StopRequest():
                os.kill(os.getpid(), signal.SIGTERM)
            return Path(f"runs/run-{config.seed}")

        monkeypatch.setattr(pretrain, "_pretrain", train)
        for _ in range(2):
            seen.clear()
            assert call("pretrain", "-m", f"seed={jobs}")[:2] == (code, "runs/run-1\n")
            assert seen == done

    def test_ctrl_c_is_exit_code_130(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        def train(config: PretrainConfig) -> Path:
            raise KeyboardInterrupt

        monkeypatch.setattr(pretrain, "_pretrain", train)
        assert call("pretrain") == (130, "", "")

    def test_each_job_looks_like_a_command_of_its_own(self, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        """Further processes of a run are started with ``sys.argv``."""
        seen = []

        def train(config: PretrainConfig) -> Path:
            seen.append(sys.argv[1:])
            return Path("x")

        monkeypatch.setattr(pretrain, "_pretrain", train)
        monkeypatch.setattr(sys, "argv", ["/bin/bertlab", "something else"])
        call("pretrain", "seed=1,2", "-m", "budget.steps=5", "--config-dir", str(tmp_path))
        alike = ["budget.steps=5", "budget.tokens=null", "budget.minutes=null"]
        assert seen == [["pretrain", f"--config-dir={tmp_path}", f"seed={seed}", *alike] for seed in (1, 2)]
        assert sys.argv == ["/bin/bertlab", "something else"]

    def test_the_further_processes_of_a_run_print_nothing(
        self, call: Call, trained: list[PretrainConfig], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("LOCAL_RANK", "1")
        assert call("pretrain", "norm=batch", "objective=ltr", "trainer=cpu", "trainer.devices=2") == (0, "", "")
        assert len(trained) == 1

    def test_cfg_trains_nothing(self, call: Call, trained: list[PretrainConfig]) -> None:
        code, out, _ = call("pretrain", "model=mini", "--cfg", "job")
        assert (code, yaml.safe_load(out)["model"]["name"], trained) == (0, "mini", [])

    def test_a_launcher_of_ones_own_runs_the_jobs(self, call: Call, trained: list[PretrainConfig], monkeypatch: pytest.MonkeyPatch) -> None:
        """A launcher under another name than Hydra's own gets to call the training itself."""
        from hydra.core.config_store import ConfigStore

        node = {"_target_": "hydra._internal.core_plugins.basic_launcher.BasicLauncher"}
        ConfigStore.instance().store(group="hydra/launcher", name="mine", node=node, provider="test")
        code, out, err = call("pretrain", "-m", "hydra/launcher=mine", "seed=1,2")
        assert (code, out) == (0, "runs/run-1\nruns/run-2\n"), err
        assert [config.seed for config in trained] == [1, 2]

        def train(config: PretrainConfig) -> Path:
            if config.seed == 1:
                raise UserError("The corpus has no text.")
            return Path(f"runs/run-{config.seed}")

        monkeypatch.setattr(pretrain, "_pretrain", train)
        code, out, err = call("pretrain", "-m", "hydra/launcher=mine", "seed=1,2")
        assert (code, out) == (1, "runs/run-2\n")
        assert err.startswith("bertlab: The corpus has no text.\n")
        assert err.endswith("bertlab: A job failed: seed=1\n")


class TestEvaluate:
    @pytest.fixture
    def evaluated(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[tuple[str, PretrainConfig]]:
        for seed in (1, 2):
            folder = tmp_path / "runs" / f"pretrain-tiny-0000000{seed}"
            folder.mkdir(parents=True)
            config = PretrainConfig(seed=seed)
            config.budget.steps = 10
            (folder / "config.yaml").write_text(yaml.safe_dump(dataclasses.asdict(config)))
        seen: list[tuple[str, PretrainConfig]] = []
        monkeypatch.setattr(evaluate, "_evaluate", lambda folder, config, weights: seen.append((folder.name, config)))
        return seen

    def test_a_run_is_evaluated_as_it_was_configured_but_for_the_overrides(
        self, call: Call, evaluated: list[tuple[str, PretrainConfig]]
    ) -> None:
        code, out, err = call("evaluate", "validation.sequences=9", "checkpoint=pretrain-tiny-00000002")
        assert (code, out) == (0, "runs/pretrain-tiny-00000002\n"), err
        ((name, config),) = evaluated
        expected = PretrainConfig(seed=2)
        expected.budget.steps, expected.validation.sequences = 10, 9
        assert (name, config) == ("pretrain-tiny-00000002", expected)

    def test_several_runs_and_a_sweep(self, call: Call, evaluated: list[tuple[str, PretrainConfig]]) -> None:
        code, _, err = call("evaluate", "-m", "checkpoint=00000001,00000002", "validation.sequences=3,4")
        assert code == 0, err
        assert [(config.seed, config.validation.sequences) for _, config in evaluated] == [(1, 3), (1, 4), (2, 3), (2, 4)]

    @pytest.mark.parametrize(
        ("content", "said"),
        [
            ("", "config.yaml is not what a run has written"),
            ("seed: [", "config.yaml is not what a run has written"),
            ("sed: 3", "config.yaml has the key 'sed', which this version does not know"),
            ("seed: three", "bertlab: seed takes a whole number"),
        ],
    )
    def test_a_configuration_edited_by_hand_is_refused_in_a_sentence(
        self, call: Call, evaluated: list[tuple[str, PretrainConfig]], tmp_path: Path, content: str, said: str
    ) -> None:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "config.yaml").write_text(content)
        code, out, err = call("evaluate", f"checkpoint={tmp_path / 'mine'}")
        assert (code, out, evaluated) == (2, "", [])
        assert said in err
        assert err.count("\n") == 1

    def test_runs_are_looked_for_in_paths_runs(self, call: Call, evaluated: list[tuple[str, PretrainConfig]], tmp_path: Path) -> None:
        (tmp_path / "runs").rename(tmp_path / "elsewhere")
        assert call("evaluate", "checkpoint=pretrain-tiny-00000001")[0] == 2
        assert call("evaluate", "checkpoint=pretrain-tiny-00000001", "paths.runs=elsewhere")[0] == 0
        assert call("evaluate", "checkpoint=pretrain-tiny-00000001", "paths.runs='elsewhere'")[0] == 0
        assert call("evaluate", "checkpoint=elsewhere/pretrain-tiny-00000001")[0] == 0


class TestDoctor:
    def test_the_report(self, call: Call, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        monkeypatch.setenv("BERTLAB_CACHE", str(tmp_path / "cache"))
        monkeypatch.setenv("WANDB_MODE", "disabled")
        monkeypatch.setenv("SLURM_JOB_ID", "77")
        code, out, _ = call("doctor", "--json")
        report = json.loads(out)["report"]
        assert code == 0
        assert report["Software"]["bertlab"] == bertlab.__version__
        assert str(tmp_path / "cache") in report["Storage"]["cache"]
        assert report["Services"] == {"Weights & Biases": "disabled", "SLURM": "inside job 77"}
        assert call("doctor")[1].count("\n") > 20

    @pytest.mark.parametrize(
        ("answer", "said"),
        [("exit 0", "available ("), ("echo 'squeue: fatal: no host' >&2; exit 1", "), but does not answer: no host")],
    )
    def test_slurm_is_asked_whether_it_is_there(self, answer: str, said: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        for name in ("sbatch", "squeue"):
            (tmp_path / name).write_text(f"#!/bin/sh\n{answer}\n")
            (tmp_path / name).chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
        monkeypatch.delenv("SLURM_JOB_ID", raising=False)
        monkeypatch.setenv("WANDB_MODE", "disabled")
        assert said in doctor._services()["SLURM"]
        monkeypatch.setenv("PATH", str(tmp_path / "empty"))
        assert doctor._services()["SLURM"] == "not found"

    @pytest.mark.parametrize(
        ("installed", "bad"),
        [
            ({"pytorch-lightning": "2.6.6"}, 0),
            ({"pytorch-lightning": "2.6.2"}, 1),
            ({"pytorch-lightning": "2.6.6", "lightning": "2.6.3"}, 1),
            ({}, 0),
        ],
    )
    def test_malicious_releases_are_named(self, installed: dict[str, str], bad: int) -> None:
        sentences = doctor.malicious_releases(installed.get)
        assert len(sentences) == bad
        assert all("GHSA-w37p-236h-pfx3" in sentence for sentence in sentences)

    def test_a_malicious_release_is_exit_code_1(self, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(doctor, "examine", dict)
        monkeypatch.setattr(doctor, "_installed_version", {"lightning": "2.6.2"}.get)
        code, out, _ = call("doctor")
        assert code == 1
        assert "PROBLEM: lightning 2.6.2" in out


def test_output_into_a_closed_pipe_is_no_error() -> None:
    program = f"{sys.executable} -m bertlab pretrain --help | head -c 10; exit ${{PIPESTATUS[0]}}"
    finished = subprocess.run(["bash", "-c", program], capture_output=True, text=True, timeout=60)
    assert (finished.returncode, finished.stderr) == (0, "")


def test_the_program_is_found_as_a_module_and_exits_with_its_code() -> None:
    finished = subprocess.run([sys.executable, "-m", "bertlab", "pretrain", "seed=x"], capture_output=True, text=True, timeout=60)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert finished.stderr == "bertlab: seed takes a whole number, not 'x'.\n"


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    """Twenty short documents of their own words each."""
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(20):
        sentences = [f"The animal {number} sat on mat {line}. It was day {line} of rain." for line in range(40)]
        (folder / f"{number}.txt").write_text("\n\n".join(sentences))
    return folder


@pytest.mark.slow
def test_two_distributed_jobs_one_after_the_other(texts: Path) -> None:
    """Each starts a process for its second device by the command line that it finds, and a process group that the next must not find."""
    words = f"-m seed=1,2 scale=smoke corpus=text corpus.path={texts} corpus.held_out=0.2 budget.steps=3 logger=none".split()
    devices = ["trainer.accelerator=cpu", "trainer.devices=2", "trainer.threads=1", "validation.sequences=8"]
    finished = subprocess.run(
        [sys.executable, "-m", "bertlab", "pretrain", *words, *devices],
        cwd=texts.parent,
        env={**os.environ, "BERTLAB_CACHE": str(texts.parent / "cache")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert finished.returncode == 0, finished.stderr
    folders = finished.stdout.splitlines()
    assert len(set(folders)) == len(folders) == 2
    assert all((texts.parent / folder / "result.json").is_file() for folder in folders)


@pytest.mark.slow
def test_prepare_pretrain_and_evaluate_follow_each_other(texts: Path) -> None:
    """A shell chains commands by the last line of standard output."""

    def command(*words: str) -> str:
        finished = subprocess.run(
            [sys.executable, "-m", "bertlab", *words],
            cwd=texts.parent,
            env={**os.environ, "BERTLAB_CACHE": str(texts.parent / "cache")},
            capture_output=True,
            text=True,
            timeout=300,
        )
        assert finished.returncode == 0, finished.stderr
        return finished.stdout.splitlines()[-1]

    corpus = ["corpus=text", f"corpus.path={texts}", "corpus.held_out=0.2", "tokenizer.vocab_size=200"]
    store = command("prepare", *corpus)
    assert (Path(store) / "manifest.json").is_file()
    training = ["pretrain", "scale=smoke", *corpus, "budget.steps=3", "logger=none", "validation.sequences=8", "trainer.threads=1"]
    folder = command(*training)
    assert command(*training) == folder  # finished: nothing is done again
    assert command("pretrain", "--config-dir", folder, "--config-name", "config") == folder  # the folder starts the same run
    assert command("evaluate", f"checkpoint={folder}", "validation.sequences=4") == folder
    assert sorted(entry.name for entry in texts.parent.iterdir()) == ["cache", "runs", "texts"]
