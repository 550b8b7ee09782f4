from __future__ import annotations

from pathlib import Path

import pytest

from bertlab import cli
from bertlab.arguments import Arguments
from bertlab.composition import compose
from bertlab.errors import UserError
from bertlab.schemas import FINETUNE, PRETRAIN
from bertlab.secrecy import refuse_secrets

KEY = "canary0123456789abcdef0123456789abcdef01"
SECRETS = {
    "of the environment": KEY,
    "in a URL": "https://me:pa55word@data.example/text",
    "a token of the hub": "hf_" + "aB3" * 11,
}


@pytest.fixture(autouse=True)
def key(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WANDB_API_KEY", "HF_TOKEN", "SOME_SERVERS_PASSWORD"):
        monkeypatch.setenv(name, KEY)


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
@pytest.mark.parametrize(
    "words",
    [
        ["pretrain", "corpus=text", "corpus.path={}"],
        ["pretrain", "+wandb.api_key={}"],
        ["pretrain", "{}"],
        ["finetune", "task=mrpc", "checkpoint=x", "task.dataset={}"],
        ["ablate", "--grid", "table5", "logger.project={}"],
        ["report", "logger.entity={}"],
        ["score", "{}", "x"],
        ["export", "{}"],
    ],
    ids=lambda words: " ".join(words),
)
def test_a_command_with_a_secret_is_refused_and_does_not_repeat_it(
    words: list[str], secret: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit) as exited:
        cli.main([word.format(secret) for word in words])
    said = "".join(capsys.readouterr())
    assert exited.value.code == 2
    assert "saved and shown" in said
    assert secret not in said
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", ["${oc.env:HF_TOKEN}", "x ${oc.env:SOME_SERVERS_PASSWORD}", KEY, "https://u:p@example.org/x"])
def test_a_file_brings_no_secret_into_a_configuration(value: str, tmp_path: Path) -> None:
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "mine.yaml").write_text(f"kind: text\npath: '{value}'\n")
    with pytest.raises(UserError, match=r"corpus\.path holds") as raised:
        compose(PRETRAIN, Arguments(["corpus=mine"], config_dir=tmp_path))
    assert KEY not in str(raised.value)
    (tmp_path / "task").mkdir()
    (tmp_path / "task" / "mine.yaml").write_text(f"name: mine\ndataset: '{value}'\n")
    with pytest.raises(UserError, match=r"task\.dataset holds"):
        compose(FINETUNE, Arguments(["task=mine", "checkpoint=x"], config_dir=tmp_path))


def test_a_foreign_config_yaml_asks_for_no_secret() -> None:
    from dataclasses import asdict

    from bertlab.config import PretrainConfig

    base = asdict(PretrainConfig())
    base["logger"]["project"] = "${oc.env:WANDB_API_KEY}"
    with pytest.raises(UserError, match=r"logger\.project holds") as raised:
        compose(PRETRAIN, Arguments([]), base=base)
    assert KEY not in str(raised.value)


def test_what_is_no_secret_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "a long value that is no secret")
    monkeypatch.setenv("API_TOKEN", "short")
    refuse_secrets(
        [
            "corpus.path=/home/me/a long value that is no secret",
            "corpus.path=s3://bucket/x@y",
            "checkpoint=models--x/snapshots/0123456789abcdef0123456789abcdef01234567",
            "logger.project=short",
            "https://example.org:8080/x",
            "tokenizer=hf_tokenizer",
        ]
    )


def test_what_a_run_leaves_behind_holds_no_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    """Of the environment, with the real library of the mirror beside it, offline."""
    from small_runs import small_pretraining, write_corpus

    from bertlab.training.pretrain import pretrain

    monkeypatch.setenv("WANDB_MODE", "offline")
    changes = {"logger.kind": "wandb", "budget.steps": 4, "checkpointing.every": 4}
    folder = pretrain(small_pretraining(write_corpus(tmp_path / "text"), tmp_path / "cache", tmp_path / "runs", **changes))
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert folder / "config.yaml" in files
    assert [path for path in files if path.suffix == ".wandb"]
    for path in files:
        assert KEY.encode() not in path.read_bytes(), path
    assert KEY not in "".join(capfd.readouterr())
