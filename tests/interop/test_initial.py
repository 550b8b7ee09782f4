"""Further pre-training: what the configuration takes over, and that the weights are where training begins."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from written_runs import MakeRun, small_vocabulary

from bertlab.arguments import parse_arguments
from bertlab.composition import compose
from bertlab.config import BudgetConfig, CorpusConfig, LoggerConfig, ModelConfig, PathsConfig, PretrainConfig, TrainerConfig
from bertlab.errors import UserError
from bertlab.interop.exporting import export
from bertlab.interop.initial import check_fits, config_without_training, start_from, take_over
from bertlab.interop.pretrained import load_pretrained
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert
from bertlab.schemas import PRETRAIN
from bertlab.training.pretrain import prepare_ingredients, pretrain


def taken_over(run: Path, *words: str, **changes: Any) -> PretrainConfig:
    config = PretrainConfig(init=str(run), model=ModelConfig(dropout=0.0))
    for key, value in changes.items():
        section, name = key.split("__")
        setattr(getattr(config, section), name, value)
    take_over(config, words)
    return config


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"next_sentence": False},
        {"next_sentence": False, "attention": "causal", "directions": "pair"},
        {"norm": "batch", "momentum": 0.3},
        {"placement": "pre", "activation": "relu", "epsilon": 1e-6},
        {"backbone": "bilstm", "heads": 1},
        {"backbone": "bilstm", "directions": "forward", "next_sentence": False, "attention": "causal"},
        {"backbone": "bilstm", "directions": "pair", "next_sentence": False, "attention": "causal"},
        {"backbone": "bilstm", "directions": "backward", "next_sentence": False, "attention": "anticausal"},
        {"backbone": "bilstm", "directions": "pair", "next_sentence": False, "attention": "anticausal"},
        {"backbone": "cbow", "window": 4},
    ],
    ids=str,
)
def test_the_configuration_becomes_that_of_the_checkpoint(make_run: MakeRun, changes: dict[str, Any]) -> None:
    pretrained = load_pretrained(str(make_run(**changes)), Path())
    config = taken_over(Path(pretrained.origin))
    assert Architecture.of(config, pretrained.vocabulary.size) == pretrained.architecture
    assert (config.tokenizer.path, config.init) == (pretrained.tokenizer, pretrained.origin)
    assert config.objective.kind == pretrained.objective


def test_a_model_without_a_configuration_is_evaluated_on_the_corpus_that_a_command_trains_on(make_run: MakeRun) -> None:
    (job,) = compose(PRETRAIN, parse_arguments([]))
    assert config_without_training(load_pretrained(str(make_run()), Path())).corpus == job.config.corpus


def test_words_that_fit_and_words_that_do_not(make_run: MakeRun) -> None:
    run = make_run()
    config = taken_over(
        run, "model.dropout=0.3", "objective=mlm", "model.layers=2", model__dropout=0.3, objective__kind="mlm", model__layers=2
    )
    assert (config.model.dropout, config.model.attention_dropout, config.objective.kind) == (0.3, 0.1, "mlm")
    assert taken_over(run, "tokenizer.path=x", tokenizer__path=str(run / "tokenizer.json")).tokenizer.path == str(run / "tokenizer.json")
    small_vocabulary(lowercase=False).save(run.parent / "other.json")
    for word, changes, said in (
        ("model=large", {}, "model=large does not fit .* model.layers=2"),
        ("model.hidden=32", {"model__hidden": 32}, "model.hidden=32 does not fit .* model.hidden=16"),
        ("+norm=batch", {"norm__kind": "batch"}, "norm.kind=layer"),
        ("backbone=cbow", {"backbone__kind": "cbow"}, "backbone.kind=transformer"),
        ("objective=ltr", {"objective__kind": "ltr"}, "objective.kind=mlm_nsp: leave .* direction .* objective=mlm_nsp or mlm"),
        ("tokenizer.vocab_size=100", {"tokenizer__vocab_size": 100}, "tokenizer.vocab_size"),
        ("tokenizer.path=other.json", {"tokenizer__path": str(run.parent / "other.json")}, "tokenizer.path"),
    ):
        with pytest.raises(UserError, match=said):
            taken_over(run, word, **changes)


def test_directions_that_the_checkpoint_lacks_are_refused(make_run: MakeRun) -> None:
    run = make_run(backbone="bilstm", heads=1)
    assert taken_over(run, "backbone.directions=both", backbone__directions="both").backbone.directions == "auto"
    with pytest.raises(UserError, match=r"backbone.directions=forward does not fit"):
        taken_over(run, "backbone.directions=forward", backbone__directions="forward")


def test_a_configuration_without_init_is_left_as_it_is() -> None:
    config = PretrainConfig()
    take_over(config, ["model=large"])
    assert config == PretrainConfig()


def test_weights_go_where_they_fit_and_the_rest_stays(make_run: MakeRun) -> None:
    pretrained = load_pretrained(str(make_run(next_sentence=False)), Path())
    values = pretrained.architecture.to_dict() | {"next_sentence": True}
    model, untouched = (Bert(Architecture.from_dict(values)) for _ in range(2))
    untouched.load_state_dict(model.state_dict())
    assert start_from(model, pretrained) == ["next-sentence head", "pooler"]
    for name, tensor in model.state_dict().items():
        expected = pretrained.bert.state_dict().get(name, untouched.state_dict()[name])
        assert torch.equal(tensor, expected), name


@pytest.fixture
def configured(tmp_path: Path) -> Any:
    """The configuration of a run of some steps on words of the small vocabulary."""
    draw = random.Random(0)
    (tmp_path / "corpus").mkdir()
    for number in range(12):
        lines = [" ".join(draw.choices(["he", "sat", "down", "was", "tired", "paris", "is", "of"], k=9)) + "." for _ in range(20)]
        (tmp_path / "corpus" / f"{number}.txt").write_text("\n".join(lines) + "\n")

    def make(init: Path | None, steps: int, lr: float = 1e-3) -> PretrainConfig:
        config = PretrainConfig(
            init=None if init is None else str(init),
            corpus=CorpusConfig(kind="text", path=str(tmp_path / "corpus"), held_out=0.2, sentence_splitting="line"),
            budget=BudgetConfig(steps=steps),
            trainer=TrainerConfig(accelerator="cpu", threads=1, progress=False),
            logger=LoggerConfig(kind="none"),
            paths=PathsConfig(runs=str(tmp_path / "runs"), cache=str(tmp_path / "cache")),
        )
        config.batch.sequences, config.batch.length, config.validation.sequences = 8, 24, 16
        config.optimizer.lr = lr
        take_over(config, [])
        return config

    return make


def test_training_begins_with_the_checkpoint(make_run: MakeRun, configured: Any) -> None:
    source = make_run()
    folder = pretrain(configured(source, 1, lr=1e-9))
    assert folder.name.startswith("pretrain-small-mlm_nsp-")
    before, after = load_file(source / "model.safetensors"), load_file(folder / "model.safetensors")
    assert before.keys() == after.keys()
    for name, tensor in before.items():
        torch.testing.assert_close(after[name], tensor, atol=1e-7, rtol=0)
    assert (folder / "tokenizer.json").read_text() == (source / "tokenizer.json").read_text()


def test_the_checkpoint_counts_in_the_identity_and_only_where_there_is_one(make_run: MakeRun, configured: Any, tmp_path: Path) -> None:
    one, other = make_run(), make_run(name="other-11111111", dropout=0.3)
    identities = [prepare_ingredients(configured(source, 5)).identity for source in (one, other)]
    assert identities[0]["init"] == load_pretrained(str(one), tmp_path).fingerprint
    assert identities[0]["init"] != identities[1]["init"]
    plain = configured(None, 5)
    plain.tokenizer.path = str(one / "tokenizer.json")
    assert "init" not in prepare_ingredients(plain).identity
    export(load_pretrained(str(one), tmp_path), tmp_path / "exported")  # the same weights lying elsewhere are the same start
    assert prepare_ingredients(configured(tmp_path / "exported", 5)).identity == identities[0]


def test_values_that_a_backbone_has_no_use_for_do_not_matter(make_run: MakeRun, configured: Any) -> None:
    run = make_run(attention="causal", next_sentence=False, directions="forward", window=9, momentum=0.7)
    assert prepare_ingredients(configured(run, 5)).architecture.attention == "causal"


def test_a_command_may_name_values_that_the_checkpoint_s_backbone_has_no_use_for(make_run: MakeRun) -> None:
    run = make_run(backbone="cbow", next_sentence=False)
    config = taken_over(run, "model.layers=7", "model.positions=99", model__layers=7, model__positions=99)
    pretrained = load_pretrained(str(run), run.parent)
    wanted = Architecture.of(config, pretrained.vocabulary.size)
    assert (wanted.layers, wanted.positions) == (7, 99)
    assert check_fits(pretrained, wanted, pretrained.vocabulary.fingerprint) == wanted
    with pytest.raises(UserError, match=r"model\.hidden=4 does not fit"):
        taken_over(run, "model.hidden=4", model__hidden=4)


def test_a_configuration_that_does_not_fit_is_refused(make_run: MakeRun, configured: Any) -> None:
    config = configured(make_run(), 5)
    config.model.layers = 3
    with pytest.raises(UserError, match="The model is not that of init="):
        prepare_ingredients(config)
    config = configured(make_run(name="other-11111111"), 5)
    small_vocabulary(lowercase=False).save(Path(config.paths.runs) / "cased.json")
    config.tokenizer.path = str(Path(config.paths.runs) / "cased.json")
    with pytest.raises(UserError, match="The vocabulary is not that of init="):
        prepare_ingredients(config)
