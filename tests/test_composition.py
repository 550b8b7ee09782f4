from __future__ import annotations

import dataclasses
import os
import sys
from pathlib import Path

import pytest
import yaml
from omegaconf import OmegaConf

from bertlab.arguments import parse_arguments
from bertlab.composition import Job, compose, compose_all
from bertlab.config import CorpusConfig, PretrainConfig
from bertlab.errors import UserError
from bertlab.groups import choices, default_choices, default_values, description
from bertlab.resources import conf_folder
from bertlab.schemas import FINETUNE, PRETRAIN, belongs
from bertlab.validation import validate


def jobs(*words: str) -> list[Job[PretrainConfig]]:
    return compose(PRETRAIN, parse_arguments(words))


def config(*words: str) -> PretrainConfig:
    (job,) = jobs(*words)
    return job.config


def refusal(*words: str) -> str:
    with pytest.raises(UserError) as caught:
        jobs(*words)
    assert "\n" not in str(caught.value)
    return str(caught.value)


class TestChoices:
    def test_no_words_give_a_valid_configuration_of_dataclasses(self) -> None:
        composed = config()
        assert type(composed) is PretrainConfig
        assert composed.scale == "laptop"
        assert validate(composed) == []

    def test_a_group_is_chosen_and_a_value_in_it_changed(self) -> None:
        composed = config("model=large", "model.layers=3")
        assert (composed.model.name, composed.model.layers, composed.model.hidden) == ("large", 3, 1024)

    @pytest.mark.parametrize("scale", ["smoke", "laptop", "gpu_hour", "gpu_day", "paper"])
    def test_every_scale_is_valid_and_names_itself(self, scale: str) -> None:
        composed = config(f"scale={scale}")
        assert composed.scale == scale
        assert validate(composed) == []

    def test_every_choice_of_every_group_agrees_with_the_schema(self) -> None:
        for schema in (PRETRAIN, FINETUNE):
            for group, found in choices([conf_folder()]).items():
                for file in found.values() if belongs(group, schema) else ():
                    text = file.read_text()
                    content = yaml.safe_load(text) or {}
                    content.pop("defaults", None)
                    # Raises where a key or a type is wrong.
                    at_the_top = text.startswith("# @package _global_")
                    OmegaConf.merge(OmegaConf.structured(schema.config), content if at_the_top else {group: content})

    def test_every_group_belongs_to_a_configuration(self) -> None:
        of_one = {group for group in choices([conf_folder()]) if belongs(group, PRETRAIN) != belongs(group, FINETUNE)}
        assert {"model", "scale", "task", "head", "features", "recipe"} <= of_one
        assert {"optimizer", "trainer", "logger"}.isdisjoint(of_one)

    def test_what_the_command_says_wins_over_its_scale_whatever_the_order(self) -> None:
        for words in (("scale=paper", "model=mini", "optimizer.lr=0.5"), ("optimizer.lr=0.5", "model=mini", "scale=paper")):
            composed = config(*words)
            assert (composed.model.name, composed.optimizer.lr) == ("mini", 0.5)
            assert composed.budget.steps == 1_000_000  # the rest is the scale's

    def test_a_scale_sets_what_the_command_leaves_open(self) -> None:
        paper, laptop = config("scale=paper"), config()
        assert (paper.model.name, paper.batch.sequences, paper.tokenizer.vocab_size) == ("base", 256, 30522)
        assert [(stage.share, stage.length) for stage in paper.lengths.stages] == [(0.9, 128), (0.1, 512)]
        assert (laptop.model.name, laptop.tokenizer.vocab_size, laptop.optimizer.lr) == ("tiny", 8192, 1e-3)
        assert [(stage.share, stage.length) for stage in laptop.lengths.stages] == [(0.7, 32), (0.15, 64), (0.15, 128)]

    def test_choices_without_hydra_are_those_that_hydra_makes(self) -> None:
        """The help says what is taken by default; it reads the files itself."""
        composed = config()
        values = default_values([conf_folder()], "pretrain")
        assert values["model"]["name"] == composed.model.name == default_choices([conf_folder()], "pretrain")["model"]
        assert values["tokenizer"]["vocab_size"] == composed.tokenizer.vocab_size
        assert values["lengths"]["name"] == composed.lengths.name == default_choices([conf_folder()], "pretrain")["lengths"]


class TestBudget:
    @pytest.mark.parametrize(
        ("words", "expected"),
        [
            ((), (None, 12e6, None)),
            (("budget.steps=100",), (100, None, None)),
            (("budget.steps=1e3",), (1000, None, None)),
            (("budget.minutes=2.5", "scale=paper"), (None, None, 2.5)),
            (("budget.tokens=3e6",), (None, 3e6, None)),
            (("budget={steps: 7}",), (7, None, None)),
            (("budget.steps=null",), (None, 12e6, None)),
            (("budget.steps=5", "budget.tokens=6"), (5, 6.0, None)),  # left for the validation to refuse
        ],
    )
    def test_a_budget_replaces_the_others(self, words: tuple[str, ...], expected: tuple[object, ...]) -> None:
        budget = config(*words).budget
        assert (budget.steps, budget.tokens, budget.minutes) == expected

    def test_under_a_sweep_too(self) -> None:
        assert [(job.config.budget.steps, job.config.budget.tokens) for job in jobs("-m", "budget.steps=1,2")] == [(1, None), (2, None)]


class TestNumbers:
    def test_a_whole_number_may_be_written_1e3_wherever_one_is_meant(self) -> None:
        composed = config("checkpointing.keep_at=[1e3,7]", "lengths.stages=[{share: 1, length: 1e2}]", "validation={lengths: [3.2e1]}")
        assert (composed.checkpointing.keep_at, composed.lengths.stages[0].length, composed.validation.lengths) == ([1000, 7], 100, [32])
        mixture = config("corpus=mixture", "corpus.sources.a.filter.min_words=1e2", "corpus.sources.a.weight=2e0")
        assert (mixture.corpus.sources["a"].filter.min_words, mixture.corpus.sources["a"].weight) == (100, 2.0)

    def test_beside_other_values_of_a_sweep(self) -> None:
        assert [job.config.seed for job in jobs("-m", "seed=1e1,3,${model.layers}", "model.layers=6")] == [10, 3, 6]

    @pytest.mark.parametrize("text", ["1e3", "007", "true", "False"])
    def test_text_stays_as_it_was_written(self, text: str) -> None:
        assert config(f"corpus.column={text}").corpus.column == text


class TestSources:
    @pytest.mark.parametrize("plus", ["+", "++", ""])
    def test_a_mixture_is_given_on_the_command_line_and_typed(self, plus: str) -> None:
        composed = config(
            "corpus=mixture", plus + "corpus.sources.wiki={kind: wikiextractor, path: 'a b', weight: 2}", "corpus.sources.own.kind=text"
        )
        assert composed.corpus.kind == "mixture"
        assert composed.corpus.sources == {
            "wiki": CorpusConfig(kind="wikiextractor", path="a b", weight=2.0),
            "own": CorpusConfig(kind="text"),
        }
        assert isinstance(composed.corpus.sources["wiki"].weight, float)

    def test_values_with_quotes_and_backslashes_arrive_as_they_are(self) -> None:
        composed = config("corpus=mixture", "corpus.sources.x.path='it\\'s {a}, [b]'", 'corpus.sources.y.path="say \\"hi\\""')
        assert composed.corpus.sources["x"].path == "it's {a}, [b]"
        assert composed.corpus.sources["y"].path == 'say "hi"'

    def test_letters_of_every_language_need_no_second_quotes(self) -> None:
        assert config("corpus.path=Büchér und Тексты/a b.txt").corpus.path == "Büchér und Тексты/a b.txt"
        assert [job.config.corpus.path for job in jobs("-m", "corpus.path='ü','é'")] == ["ü", "é"]
        assert config("logger.tags=['ü','é']").logger.tags == ["ü", "é"]

    def test_a_sweep_over_sources_has_every_combination(self) -> None:
        found = jobs("-m", "corpus=mixture", "corpus.sources.a.weight=1,2", "corpus.sources.b={weight: 3},{weight: 4}")
        weights = [tuple(source.weight for source in job.config.corpus.sources.values()) for job in found]
        assert sorted(weights) == [(1, 3), (1, 4), (2, 3), (2, 4)]

    @pytest.mark.parametrize(
        "word", ["corpus.sources.a.weight=much", "corpus.sources={a: {weight: much}}", "+corpus.sources.a={weight: much}"]
    )
    def test_a_source_is_checked_like_everything_else(self, word: str) -> None:
        assert "corpus.sources.a.weight takes a number, not 'much'" in refusal("corpus=mixture", word)


class TestRefusals:
    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["modle=tiny"], ["'modle'", "did you mean model"]),
            (["model=tinny"], ["Unknown model 'tinny'", "tiny"]),
            (["model.layer=3"], ["'model.layer'", "model.layers"]),
            (["lr=1e-3"], ["'lr'", "optimizer.lr"]),
            (["seed.x=1"], ["'seed.x'", "single value"]),
            (["optimizer=null"], ["Unknown optimizer 'null'", "bert_adam"]),
            (["+corpus.sources.w={knd: text}"], ["'corpus.sources.w.knd'", "corpus.sources.w.kind"]),
            (["nowhere/x=1"], ["'nowhere/x'", "choose from"]),
            (["budget.steps=abc"], ["budget.steps", "whole number", "'abc'"]),
            (["budget.steps=1.5"], ["budget.steps", "whole number", "1.5"]),
            (["model.layers=null"], ["model.layers cannot be null"]),
            (["model.dropout=true"], ["model.dropout takes a number, not true"]),
            (["tokenizer.lowercase=1"], ["tokenizer.lowercase takes true or false"]),
            (["model=[tiny,tinny]"], ["Unknown model 'tinny'"]),
            (["lengths.stages=3"], ["lengths.stages takes a list like [{share: 0.5, length: 128}]"]),
            (["lengths.stages=[{share: 1, lengh: 32}]"], ["lengh", "length"]),
            (["lengths.stages=[{share: 1, length: x}]"], ["lengths.stages[0].length takes a whole number"]),
            (["corpus={kind: 3, strict: maybe}"], ["corpus.strict takes true or false"]),
            (["seed=1,2"], ["'seed=1,2'", "-m"]),
            (["-m", "seed=1,x"], ["seed takes a whole number, not 'x'"]),
            (["-m", "model=tiny,lrge"], ["Unknown model 'lrge'", "large"]),
            (["tiny"], ["'tiny'", "key=value"]),
            (["=3"], ["'=3'", "no key"]),
            (["model.name=[a"], ["model.name=[a", "if the value is text"]),
            (["corpus.path=/data (new)/x"], ["corpus.path=/data (new)/x", "'corpus.path=\"/data (new)/x\"'"]),
            (["~model.layers"], ["model.layers"]),
            (["~modle"], ["'modle'", "model"]),
            (["--config-name", "nothing"], ["Unknown configuration (--config-name) 'nothing'", "finetune, pretrain"]),
            (["--config-name", "pretain.yaml"], ["did you mean pretrain"]),
            (["batch.micro=${batch.nothing}"], ["batch.micro", "batch.nothing"]),
            (["hydra/launcher=nothing"], ["hydra/launcher"]),
            (["hydra.nothing=1"], ["hydra.nothing"]),
            (["-m", "seed=1e1,x"], ["seed takes a whole number, not 'x'"]),
        ],
        ids=str,
    )
    def test_a_mistake_is_one_sentence_that_names_it(self, words: list[str], said: list[str]) -> None:
        sentence = refusal(*words)
        assert all(part in sentence for part in said), sentence

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["--cfgg", "job"], ["'--cfgg'", "--cfg"]),
            (["--cfg", "jobs"], ["jobs", "job"]),
            (["--cfg"], ["--cfg"]),
            (["--resolve"], ["--resolve", "--cfg"]),
            (["-m", "--cfg", "job"], ["-m", "--cfg"]),
            (["--config-dir", "nowhere"], ["--config-dir", "'nowhere'"]),
            (["--json"], ["--json"]),
        ],
        ids=str,
    )
    def test_flags_too(self, words: list[str], said: list[str]) -> None:
        sentence = refusal(*words)
        assert all(part in sentence for part in said), sentence


class TestGrammar:
    def test_flags_and_overrides_stand_in_any_order(self) -> None:
        for words in (("-m", "seed=1,2", "model=mini"), ("seed=1,2", "model=mini", "-m"), ("seed=1,2", "--multirun", "model=mini")):
            assert [(job.config.seed, job.config.model.name) for job in jobs(*words)] == [(1, "mini"), (2, "mini")]

    def test_a_sweep_has_every_combination_the_last_key_fastest(self) -> None:
        found = jobs("-m", "seed=1,2", "model=tiny,mini")
        assert [(job.config.seed, job.config.model.name) for job in found] == [(1, "tiny"), (1, "mini"), (2, "tiny"), (2, "mini")]

    def test_a_sweep_by_range_and_by_glob(self) -> None:
        assert [job.config.seed for job in jobs("-m", "seed=range(3,6)")] == [3, 4, 5]
        assert {job.config.objective.kind for job in jobs("-m", "objective=glob(mlm*)")} == {"mlm", "mlm_nsp"}

    def test_the_overrides_of_a_job_give_it_again(self) -> None:
        """A job's own command line: what distributed training starts its further processes with."""
        for job in jobs("-m", "budget.steps=10,1e2", "corpus=mixture", "corpus.sources.a.path=x,'y z'"):
            (again,) = jobs(*job.overrides)
            assert again.config == job.config

    def test_plus_and_tilde(self) -> None:
        assert config("+seed=3").seed == 3
        assert config("++seed=3").seed == 3
        assert config("+model=mini").model.name == "mini"
        assert config("~lengths").lengths.stages == []

    def test_text_may_look_like_a_number(self) -> None:
        assert config("logger.group=7").logger.group == "7"

    def test_references_between_keys(self) -> None:
        assert config("batch.micro=${batch.sequences}").batch.micro == config().batch.sequences

    def test_nothing_is_left_behind(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.chdir(tmp_path)
        command, environment = list(sys.argv), dict(os.environ)
        jobs("-m", "seed=1,2")
        jobs("seed=1")
        refusal("hydra.nothing=1")
        assert list(tmp_path.iterdir()) == []
        assert (Path.cwd(), sys.argv, dict(os.environ)) == (tmp_path, command, environment)

    def test_cfg_prints_what_the_job_would_be(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert jobs("--cfg", "job", "budget.steps=9", "model=mini") == []
        printed = yaml.safe_load(capsys.readouterr().out)
        assert (printed["budget"], printed["model"]["name"]) == ({"steps": 9, "tokens": None, "minutes": None}, "mini")
        assert jobs("budget.steps=9", "--cfg=job", "--resolve", "--package", "budget") == []
        assert yaml.safe_load(capsys.readouterr().out) == {"steps": 9, "tokens": None, "minutes": None}

    def test_info(self, capsys: pytest.CaptureFixture[str]) -> None:
        assert jobs("--info", "defaults", "model=mini") == []
        assert "model/mini" in capsys.readouterr().out
        assert jobs("--info", "model=mini") == []
        assert "model/mini" in capsys.readouterr().out


class TestOwnFolder:
    @pytest.fixture
    def folder(self, tmp_path: Path) -> Path:
        (tmp_path / "model").mkdir()
        (tmp_path / "experiment").mkdir()
        (tmp_path / "model" / "odd.yaml").write_text("# Three layers.\nname: odd\nlayers: 3\n")
        (tmp_path / "model" / "wrong.yaml").write_text("layers: many\n")
        (tmp_path / "model" / "unknown.yaml").write_text("layerz: 3\n")
        (tmp_path / "model" / "broken.yaml").write_text("layers: [3\n")
        (tmp_path / "model" / "list.yaml").write_text("- layers\n")
        (tmp_path / "experiment" / "mine.yaml").write_text("# @package _global_\ndefaults: [override /norm: batch]\nseed: 5\n")
        return tmp_path

    def test_its_choices_are_choices(self, folder: Path) -> None:
        composed = config("model=odd", "+experiment=mine", "--config-dir", str(folder))
        assert (composed.model.name, composed.model.layers, composed.norm.kind, composed.seed) == ("odd", 3, "batch", 5)
        assert "'model.odd'" not in refusal("model=od", f"--config-dir={folder}")
        assert "did you mean odd" in refusal("model=od", f"--config-dir={folder}")
        assert description(folder / "model" / "odd.yaml") == "Three layers."

    def test_of_two_choices_with_one_name_the_users_own_counts(self, tmp_path: Path) -> None:
        for file, text in {
            "model/tiny.yaml": "# Five layers.\nlayers: 5\nhidden: 128\nheads: 2\n",
            "launcher/slurm.yaml": "kind: slurm\naccount: nlp\n",
            "norm/layer.yaml": "kind: layer\nplacement: pre\n",  # a default of the bundled primary file
        }.items():
            (tmp_path / file).parent.mkdir()
            (tmp_path / file).write_text(text)
        composed = config("--config-dir", str(tmp_path), "model=tiny", "launcher=slurm")
        assert (composed.model.layers, composed.launcher.account, composed.norm.placement) == (5, "nlp", "pre")
        assert compose_all(PRETRAIN, [["model=tiny", "launcher=slurm"]], tmp_path) == [composed]
        assert config("--config-dir", str(tmp_path), "model=mini").model.layers == 4  # what the folder lacks is the bundled one
        assert description(choices([tmp_path, conf_folder()])["model"]["tiny"]) == "Five layers."  # as the help has it

    def test_a_folder_whose_name_means_something_to_hydra(self, tmp_path: Path) -> None:
        folder = tmp_path / "mine, [and] {yours}=$x"
        (folder / "model").mkdir(parents=True)
        (folder / "model" / "odd.yaml").write_text("layers: 3\n")
        assert config("--config-dir", str(folder), "model=odd").model.layers == 3
        assert compose_all(PRETRAIN, [["model=odd"]], folder)[0].model.layers == 3

    def test_a_broken_file_to_start_from(self, folder: Path) -> None:
        assert "broken.yaml" in refusal(f"--config-dir={folder / 'model'}", "--config-name=broken")

    @pytest.mark.parametrize(
        ("choice", "said"),
        [
            ("wrong", "model/wrong.yaml: model.layers takes a whole number (Value 'many'"),
            ("unknown", "model/unknown.yaml: Unknown key 'model.layerz': did you mean model.layers"),
            ("broken", "broken.yaml"),
            ("list", "model/list.yaml: Merge error: list is not a subclass of ModelConfig"),
        ],
    )
    def test_its_files_are_checked(self, folder: Path, choice: str, said: str) -> None:
        assert said in refusal(f"model={choice}", f"--config-dir={folder}")

    def test_so_is_what_they_choose(self, folder: Path) -> None:
        (folder / "experiment" / "mine.yaml").write_text("# @package _global_\ndefaults: [override /norm: lyer]\n")
        said = refusal("+experiment=mine", f"--config-dir={folder}")
        assert said.startswith("A list of defaults is wrong: Unknown norm 'lyer': did you mean layer")

    def test_a_run_is_started_again_from_the_configuration_in_its_folder(self, tmp_path: Path) -> None:
        before = config("model=mini", "budget.steps=77", "corpus=mixture", "corpus.sources.a.path=x")
        (tmp_path / "config.yaml").write_text(yaml.safe_dump(dataclasses.asdict(before)))
        assert config("--config-dir", str(tmp_path), "--config-name", "config") == before
        assert config("--config-dir", str(tmp_path), "--config-name", "config", "seed=9").seed == 9
        again = config("--config-dir", str(tmp_path), "--config-name", "config", "+model=tiny")
        assert (again.model.name, again.budget.steps) == ("tiny", 77)

    @pytest.mark.parametrize(("time", "minutes"), [("12:00:00", 43200), ("2:30", 150)])
    def test_a_time_without_quotes_is_refused(self, time: str, minutes: int, tmp_path: Path) -> None:
        assert yaml.safe_load(time) == minutes
        (tmp_path / "launcher").mkdir()
        file = tmp_path / "launcher" / "mine.yaml"
        file.write_text(f"kind: slurm\ntime: {time}\n")
        assert f"{file}:2: {time} without quotes is a number in base 60: write '{time}'" in refusal(f"--config-dir={tmp_path}")
        file.write_text(f"kind: slurm\ntime: '{time}'\n")
        assert config(f"--config-dir={tmp_path}", "launcher=mine").launcher.time == time

    def test_a_base_takes_overrides_and_choices(self) -> None:
        before = config("model=mini", "budget.steps=77", "corpus=mixture", "corpus.sources.a.path=x")
        (job,) = compose(PRETRAIN, parse_arguments(["validation.sequences=3", "corpus=builtin"]), base=dataclasses.asdict(before))
        assert job.config.corpus.sources == {}
        expected = dataclasses.replace(
            before, corpus=config("corpus=builtin").corpus, validation=dataclasses.replace(before.validation, sequences=3)
        )
        assert job.config == expected


def test_every_configuration_file_opens_with_the_command_that_uses_it_and_says_what_it_is() -> None:
    for group, found in choices([conf_folder()]).items():
        for choice, file in found.items():
            opening = next(line for line in file.read_text().splitlines() if not line.startswith("# @package"))
            assert opening.startswith("# bertlab "), file
            assert description(file).endswith((".", "?", ")")), f"{group}={choice} is not described in whole sentences"


@pytest.mark.parametrize(
    ("opening", "said"),
    [
        ("# bertlab pretrain model=a\n# One sentence. And another that goes on\n# in a second line.\n# A third line.\nlayers: 3\n",
         "One sentence. And another that goes on in a second line."),
        ("# @package _global_\n# bertlab pretrain model=a\n#\n# No full stop\n#\n# More.\n", "No full stop"),
        ("# What is it?\n# More.\n", "What is it?"),
        ("# As one writes (in brackets.)\n# More.\n", "As one writes (in brackets.)"),
        ("layers: 3\n", ""),
    ],
)  # fmt: skip
def test_a_choice_is_described_in_whole_sentences(opening: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(opening)
    assert description(tmp_path / "a.yaml") == said
