from __future__ import annotations

from pathlib import Path

import pytest

from bertlab.arguments import Arguments
from bertlab.composition import compose, compose_all
from bertlab.errors import UserError
from bertlab.schemas import FINETUNE, PRETRAIN

COMMANDS = (
    ["scale=smoke", "objective=ltr", "norm=batch", "seed=3"],
    ["scale=paper", "budget.steps=1e3", "optimizer=adamw"],
    ["corpus=mixture", "corpus.sources.a={kind: text, path: x}", "corpus.sources.b.kind=text"],
)


def test_it_gives_what_compose_gives() -> None:
    alone = [compose(PRETRAIN, Arguments(overrides=list(words)))[0].config for words in COMMANDS]
    assert compose_all(PRETRAIN, COMMANDS) == alone


def test_of_fine_tunings_too() -> None:
    words = ["task=squad20", "checkpoint=none", "optimizer=adamw"]
    assert compose_all(FINETUNE, [words]) == [compose(FINETUNE, Arguments(overrides=words))[0].config]


def test_a_folder_of_the_users_own(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "minute.yaml").write_text("layers: 1\nhidden: 8\nheads: 2\n")
    (found,) = compose_all(PRETRAIN, [["model=minute"]], tmp_path)
    assert found == compose(PRETRAIN, Arguments(overrides=["model=minute"], config_dir=tmp_path))[0].config
    assert found.model.hidden == 8


@pytest.mark.parametrize(("words", "said"), [(["modle=tiny"], "modle"), (["seed=1,2"], "several values"), (["model=tinny"], "tiny")])
def test_mistakes_are_sentences(words: list[str], said: str) -> None:
    with pytest.raises(UserError, match=said):
        compose_all(PRETRAIN, [["seed=1"], words])
