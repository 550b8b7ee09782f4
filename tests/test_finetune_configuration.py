"""The command line of ``bertlab finetune``: what its words compose to, what is refused, completion and help."""

from __future__ import annotations

import copy
import dataclasses
import functools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from omegaconf import OmegaConf

from bertlab import cli
from bertlab.arguments import parse_arguments
from bertlab.commands import finetune
from bertlab.composition import Job, compose
from bertlab.errors import UserError
from bertlab.finetune_config import FinetuneConfig
from bertlab.finetune_validation import WORDS, validate
from bertlab.groups import choices
from bertlab.keys import check_key, leaf_keys, words_for
from bertlab.resources import conf_folder
from bertlab.schemas import FINETUNE, belongs
from bertlab.task_config import TaskConfig

GIVEN = ("task=mrpc", "checkpoint=RUN")


def jobs(*words: str) -> list[Job[FinetuneConfig]]:
    return compose(FINETUNE, parse_arguments(words))


def config(*words: str) -> FinetuneConfig:
    (job,) = jobs(*GIVEN, *words)
    return job.config


@functools.cache
def _composed() -> FinetuneConfig:
    return config()


def given() -> FinetuneConfig:
    """The default configuration, composed once: composing takes a while."""
    return copy.deepcopy(_composed())


def refusal(*words: str) -> str:
    with pytest.raises(UserError) as caught:
        jobs(*words)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestChoices:
    def test_the_paper_s_recipe_is_the_default(self) -> None:
        composed = config()
        assert type(composed) is FinetuneConfig
        assert (composed.recipe, composed.task.name, composed.checkpoint) == ("paper", "mrpc", "RUN")
        assert (composed.tuning.batch, composed.tuning.epochs, composed.optimizer.lr, composed.dropout) == (32, 3.0, 5e-5, 0.1)
        assert validate(composed) == []

    @pytest.mark.parametrize(
        ("words", "batch", "epochs", "rate"),
        [
            (["task=squad11"], 32, 3, 5e-5),
            (["task=squad20"], 48, 2, 5e-5),
            (["task=swag"], 16, 3, 2e-5),
            (["task=swag", "recipe=laptop"], 32, 3, 2e-4),
            (["task=squad20", "tuning.batch=8"], 8, 2, 5e-5),
            (["task=conll2003", "features=last"], 32, 3, 1e-3),
            (["task=conll2003", "recipe=laptop", "features=weighted_sum_all", "optimizer=adamw"], 32, 3, 1e-3),
            (["task=conll2003", "features=last", "optimizer.lr=2e-3"], 32, 3, 2e-3),
            (["task=conll2003", "features=none"], 32, 3, 5e-5),
        ],
    )
    def test_what_a_task_and_frozen_features_have_of_their_own(self, words: list[str], batch: int, epochs: float, rate: float) -> None:
        (job,) = jobs("checkpoint=RUN", *words)
        assert (job.config.tuning.batch, job.config.tuning.epochs, job.config.optimizer.lr) == (batch, epochs, rate)

    def test_under_a_sweep_over_tasks_too(self) -> None:
        found = jobs("-m", "task=mrpc,swag", "checkpoint=RUN", "recipe=paper,laptop")
        assert [(job.config.task.name, job.config.tuning.batch) for job in found] == [
            ("mrpc", 32),
            ("mrpc", 32),
            ("swag", 16),
            ("swag", 32),
        ]

    @pytest.mark.parametrize("recipe", ["paper", "laptop", "smoke"])
    def test_every_recipe_names_itself(self, recipe: str) -> None:
        assert config(f"recipe={recipe}").recipe == recipe

    def test_every_task_head_and_feature_is_valid(self) -> None:
        groups = choices([conf_folder()])
        for group in ("task", "head", "features"):
            for choice, file in groups[group].items():
                base = OmegaConf.structured(dataclasses.replace(given(), task=TaskConfig(name="any", metrics=["accuracy"])))
                content = yaml.safe_load(file.read_text())
                merged = OmegaConf.merge(base, content if group in content else {group: content})
                if choice == "crf":
                    merged.task.kind, merged.task.metrics = "tagging", ["f1"]
                composed = OmegaConf.to_object(merged)
                assert isinstance(composed, FinetuneConfig)
                assert validate(composed) == [], choice
                assert group != "task" or composed.task.name == choice

    def test_parts_of_recipes_are_no_choices(self) -> None:
        assert set(choices([conf_folder()])["recipe"]) == {"paper", "laptop", "smoke"}

    def test_a_task_of_one_s_own_from_a_yaml_alone(self, tmp_path: Path) -> None:
        (tmp_path / "task").mkdir()
        own = {"name": "mine", "kind": "classification", "columns": {"text": "review", "label": "stars"}, "metrics": ["macro_f1"]}
        (tmp_path / "task" / "mine.yaml").write_text("# Reviews of mine.\n" + yaml.safe_dump(own))
        (job,) = jobs(f"--config-dir={tmp_path}", "task=mine", "checkpoint=RUN", f"task.path={tmp_path}", "task.files.train=[a.tsv]")
        assert (job.config.task.name, job.config.task.columns.text, job.config.task.files) == ("mine", "review", {"train": ["a.tsv"]})
        assert validate(job.config) == []

    def test_a_task_without_a_name_is_told_where_to_say_it(self, tmp_path: Path) -> None:
        (tmp_path / "task").mkdir()
        (tmp_path / "task" / "mine.yaml").write_text("kind: classification\n")
        with pytest.raises(UserError, match=r"^task\.name is missing, also from the file that task= names: add name: … there\.$"):
            jobs(f"--config-dir={tmp_path}", "task=mine", "checkpoint=RUN")

    def test_a_task_that_names_one_column_where_a_list_is_taken_is_shown_the_list(self, tmp_path: Path) -> None:
        (tmp_path / "task").mkdir()
        (tmp_path / "task" / "mine.yaml").write_text("name: mine\nkind: choice\ncolumns: {text: start, choices: options}\n")
        told = refusal(f"--config-dir={tmp_path}", "task=mine", "checkpoint=RUN")
        assert told.endswith("task.columns.choices takes a list like [word].")

    def test_a_run_is_started_again_from_the_configuration_in_its_folder(self, tmp_path: Path) -> None:
        before = config("tuning.epochs=7", "features=last", "task.files.dev=[x.tsv]")
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(dataclasses.asdict(before)))
        flags = ["--config-dir", str(tmp_path), "--config-name", "config"]
        (again,) = jobs(*flags)
        assert again.config == before
        (other,) = jobs(*flags, "seed=9")
        assert other.config == dataclasses.replace(before, seed=9)

    @pytest.mark.parametrize("name", ["0123e456", "00123456", "12345678", "1e99"])
    def test_the_end_of_a_run_s_id_may_look_like_a_number(self, name: str) -> None:
        (job,) = jobs("task=mrpc", f"checkpoint={name}")
        assert job.config.checkpoint == name
        swept = jobs("-m", "task=mrpc", f"checkpoint={name},abcd")
        assert [job.config.checkpoint for job in swept] == [name, "abcd"]

    def test_the_overrides_of_a_job_give_it_again(self) -> None:
        for job in jobs("-m", GIVEN[0], "seed=1,2", "tuning.train_examples=1e3", "+head=crf", "checkpoint=0123e456,b"):
            (again,) = jobs(*job.overrides)
            assert again.config == job.config
            assert job.config.tuning.train_examples == 1000


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            ([], ["finetune needs task", "mrpc"]),
            (["task=mrpc"], ["finetune needs checkpoint"]),
            (["task=mrpk", "checkpoint=R"], ["Unknown task 'mrpk'", "mrpc"]),
            ([*GIVEN, "tuning.epoch=3"], ["'tuning.epoch'", "tuning.epochs"]),
            ([*GIVEN, "epochs=3"], ["'epochs'", "tuning.epochs"]),
            ([*GIVEN, "model=tiny"], ["'model'"]),
            ([*GIVEN, "model.layers=3"], ["'model.layers'", "head.layers"]),
            ([*GIVEN, "head=mena"], ["Unknown head 'mena'", "mean"]),
            ([*GIVEN, "recipe=papre"], ["Unknown recipe 'papre'", "paper"]),
            ([*GIVEN, "tuning.epochs=many"], ["tuning.epochs takes a number"]),
            ([*GIVEN, "task.files=x"], ["task.files takes a mapping like {name: [word]}"]),
            ([*GIVEN, "task.probe.corpus.pth=x"], ["task.probe.corpus.pth", "path"]),
            ([*GIVEN, "seed=1,2"], ["-m"]),
        ],
        ids=str,
    )
    def test_a_mistake_is_one_sentence_that_names_it(self, words: list[str], said: list[str]) -> None:
        sentence = refusal(*words)
        assert all(part in sentence for part in said), sentence

    def test_printing_needs_neither_task_nor_checkpoint(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert jobs("--cfg", "job") == []
        assert yaml.safe_load(capsys.readouterr().out)["recipe"] == "paper"


@pytest.mark.parametrize("key", sorted(WORDS))
def test_a_wrong_word_is_refused_with_the_nearest_right_ones(key: str) -> None:
    composed = _with(given(), key, WORDS[key][-1] + "x")
    with pytest.raises(UserError, match=re.escape(WORDS[key][-1])):
        validate(composed)


IMPOSSIBLE: dict[str, tuple[dict[str, Any], str]] = {
    "a crf without tags": ({"head.crf": True}, "head.crf=true"),
    "pooling of tags": ({"task.kind": "tagging", "task.metrics": ["f1"], "head.pooling": "mean"}, "head.pooling=mean"),
    "frozen twice": ({"features.kind": "last", "tuning.freeze": "encoder"}, "tuning.freeze"),
    "frozen and unfrozen": ({"tuning.freeze": "encoder", "tuning.gradual": True}, "tuning.gradual"),
    "a metric of another kind": ({"task.metrics": ["pearson"]}, "Unknown metric of task.kind=classification 'pearson'"),
    "no metric": ({"task.metrics": []}, "task.metrics is empty"),
    "no split": ({"task.evaluate": []}, "task.evaluate is empty"),
    "judged on training": ({"task.evaluate": ["train"]}, "task.evaluate names train"),
    "a split twice": ({"task.evaluate": ["dev", "dev"]}, "names a split twice"),
    "too short": ({"task.max_length": 7}, "task.max_length=7"),
    "no room for a context": (
        {"task.kind": "span", "task.metrics": ["f1"], "task.max_length": 64, "task.max_query_length": 61},
        "task.max_query_length=61",
    ),
    "a stride beyond a window": ({"task.kind": "span", "task.metrics": ["f1"], "task.stride": 100}, "task.stride=100"),
    "a name that is no name": ({"task.name": "a/b"}, "task.name='a/b'"),
    "no path": ({"task.path": "/nowhere"}, "task.path=/nowhere"),
    "no data set": ({"task.format": "huggingface", "task.dataset": None}, "task.dataset"),
    "no example left": ({"tuning.min_words": 5, "tuning.max_words": 4}, "tuning.min_words=5"),
    "fewer examples than devices": ({"trainer.devices": 64}, "tuning.batch=32 has fewer examples"),
    "fewer examples than processes": ({"trainer.devices": 8, "trainer.nodes": 5}, "trainer.devices=8 on trainer.nodes=5"),
    "weights in parts": ({"trainer.strategy": "fsdp"}, "choose trainer=ddp"),
    "filters of nothing": ({"head.filters": 3}, "head.filters"),
}


@pytest.mark.parametrize(("values", "said"), IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_what_cannot_be_meant_is_refused(values: dict[str, Any], said: str) -> None:
    composed = given()
    for key, value in values.items():
        composed = _with(composed, key, value)
    with pytest.raises(UserError) as caught:
        validate(composed)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["tuning.micro=64"], "tuning.micro=64 is more than a batch has"),
        (["weights=random", "tuning.freeze=encoder"], "weights=random leaves the encoder random"),
        (["weights=random", "tuning.reinit_layers=1"], "tuning.reinit_layers=1 has no effect"),
    ],
)
def test_what_may_not_be_meant_is_warned_of(words: list[str], said: str) -> None:
    (warning,) = validate(config(*words))
    assert said in warning


def test_no_number_of_the_schema_is_left_unbounded() -> None:
    of_the_corpus = ("task.probe.corpus.", "task.probe.tokenizer.", "task.probe.seed")
    kinds = {key: words_for(check_key(key, FinetuneConfig)).split(" or ")[0] for key in leaf_keys(FinetuneConfig)}
    numbers = [key for key, kind in kinds.items() if kind in ("a number", "a whole number") and not key.startswith(of_the_corpus)]
    assert "tuning.micro" in numbers
    for key in numbers:
        with pytest.raises(UserError, match=re.escape(key)):
            validate(_with(given(), key, -1))


def _with(composed: FinetuneConfig, key: str, value: Any) -> FinetuneConfig:
    *path, name = key.split(".")
    holder: Any = composed
    for part in path:
        holder = getattr(holder, part)
    setattr(holder, name, value)
    return composed


class TestCommand:
    def test_jobs_run_one_after_another_and_are_summed_up(
        self, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.chdir(tmp_path)
        seen = []

        def train(composed: FinetuneConfig) -> Path:
            seen.append((composed.task.name, composed.seed))
            if composed.seed == 3:
                raise UserError("Nothing to read.")
            folder = tmp_path / f"run-{composed.seed}"
            folder.mkdir()
            (folder / "result.json").write_text(
                f'{{"task": "mrpc", "split": "dev", "metric": "f1", "value": 0.{composed.seed}, "seed": 1, "degenerate": null}}'
            )
            return folder

        monkeypatch.setattr(finetune, "_finetune", train)
        monkeypatch.setattr(finetune, "_check", lambda config: None)  # there is no such checkpoint
        with pytest.raises(SystemExit) as exited:
            cli.main(["finetune", "-m", *GIVEN, "seed=1,2,3"])
        captured = capsys.readouterr()
        assert exited.value.code == 1
        assert seen == [("mrpc", 1), ("mrpc", 2), ("mrpc", 3)]
        assert captured.out == f"{tmp_path}/run-1\n{tmp_path}/run-2\n"
        assert "15.00" in captured.err
        assert "failed: as given, seed 3: the job failed" in captured.err

    def test_help_teaches(self, capsys: pytest.CaptureFixture[str]) -> None:
        with pytest.raises(SystemExit):
            cli.main(["finetune", "--help"])
        out = capsys.readouterr().out
        assert len([line for line in out.splitlines() if line.startswith("  bertlab finetune")]) >= 5
        assert max(len(line) for line in out.splitlines()) <= 140
        for group, found in choices([conf_folder()]).items():
            assert (f"\n{group}=\n" in out) == belongs(group, FINETUNE), group
            for choice in found if belongs(group, FINETUNE) else ():
                assert any(line.split()[:1] == [choice] for line in out.splitlines()), choice

    def test_the_examples_can_be_composed(self) -> None:
        from bertlab.help import VERBS

        for command, _ in VERBS["finetune"].examples:
            words = command.split()[2:]
            kept = [word for word in words if word != "-m" and "," not in word]
            if "--config-dir" not in kept:
                assert len(jobs(*kept)) == 1, command

    def test_composing_and_validating_needs_no_torch(self) -> None:
        words = [*GIVEN, "head.crf=true"]
        program = (
            f"import sys\nfrom bertlab.cli import main\ntry:\n    main(['finetune', *{words!r}])\nexcept SystemExit:\n    pass\n"
            "print([name for name in ('torch', 'numpy', 'pytorch_lightning', 'wandb') if name in sys.modules])"
        )
        finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
        assert "head.crf=true" in finished.stderr
        assert finished.stdout.splitlines()[-1] == "[]"


class TestCompletion:
    @staticmethod
    def bash(*words: str) -> list[str]:
        from typer.testing import CliRunner

        from bertlab.completion import join_split_words

        given = {"_BERTLAB_COMPLETE": "complete_bash", "COMP_WORDS": "\n".join(words), "COMP_CWORD": str(len(words) - 1)}
        join_split_words(given)
        return CliRunner().invoke(cli.app, [], prog_name="bertlab", env=given).output.split()

    @pytest.fixture(autouse=True)
    def one_word_a_shell(self, monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
        monkeypatch.delenv("BERTLAB_COMPLETION_SPLIT", raising=False)
        monkeypatch.chdir(tmp_path_factory.mktemp("elsewhere"))  # make demo leaves runs where the tests begin

    def test_groups_keys_and_words(self) -> None:
        assert self.bash("bertlab", "finetune", "task=mr") == ["task=mrpc"]
        assert "task=mrpc" in self.bash("bertlab", "finetune", "tas")
        assert self.bash("bertlab", "finetune", "tuning.freeze=e") == ["tuning.freeze=embeddings", "tuning.freeze=encoder"]
        assert self.bash("bertlab", "finetune", "tuning.grad") == ["tuning.gradual=true", "tuning.gradual=false"]
        assert self.bash("bertlab", "finetune", "model") == []
        assert self.bash("bertlab", "finetune", "recipe=p") == ["recipe=paper"]

    def test_checkpoints_are_runs_that_were_pre_trained(self, tmp_path: Path) -> None:
        for name in ("pretrain-tiny-0123abcd", "finetune-mrpc-tiny-0123abcd-456789ab"):
            (tmp_path / name).mkdir()
            (tmp_path / name / "config.yaml").touch()
        found = self.bash("bertlab", "finetune", f"paths.runs={tmp_path}", "checkpoint=")
        assert found == ["checkpoint=pretrain-tiny-0123abcd"]
        assert self.bash("bertlab", "finetune", "checkp") == ["checkpoint="]
