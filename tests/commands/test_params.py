from __future__ import annotations

import json
import subprocess
import sys

import pytest

from bertlab.arguments import parse_arguments
from bertlab.commands.params import costs_of, run
from bertlab.composition import compose
from bertlab.errors import UserError
from bertlab.schemas import PRETRAIN

PUBLISHED = {  # embeddings, encoder and pooler of the published architectures, at their vocabulary of 30,522
    "tiny": 4_385_920,
    "mini": 11_170_560,
    "small": 28_763_648,
    "medium": 41_373_184,
    "base": 109_482_240,
    "large": 335_141_888,
}


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    assert run(list(words)) == 0
    return capsys.readouterr().out


@pytest.mark.parametrize("vocabulary", [8192, 30522])
def test_the_published_sizes_are_printed_whatever_the_vocabulary(capsys: pytest.CaptureFixture[str], vocabulary: int) -> None:
    out = printed(capsys, "-m", f"model={','.join(PUBLISHED)}", f"tokenizer.vocab_size={vocabulary}")
    for size in PUBLISHED.values():
        assert f"{size:,}" in out


def test_json_for_one_and_for_several(capsys: pytest.CaptureFixture[str]) -> None:
    one = json.loads(printed(capsys, "model=base", "tokenizer.vocab_size=30522", "--json"))
    assert one["encoder_with_pooler"] == PUBLISHED["base"]
    assert one["total"] == sum(one["parameters"].values())
    several = json.loads(printed(capsys, "--json", "-m", "model=tiny,mini"))
    assert [cost["encoder_with_pooler_at_30522"] for cost in several] == [PUBLISHED["tiny"], PUBLISHED["mini"]]


def test_a_narrow_terminal_cuts_no_number(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wide = printed(capsys, "model=base")
    monkeypatch.setenv("COLUMNS", "20")
    narrow = printed(capsys, "model=base")
    assert [line for line in narrow.splitlines() if "total" in line] == [line for line in wide.splitlines() if "total" in line]
    assert "…" not in narrow


def test_every_length_of_the_schedule_has_its_costs() -> None:
    (job,) = compose(PRETRAIN, parse_arguments(["scale=paper"]))
    short, long = costs_of(job.config)["training"]
    assert (short["length"], long["length"]) == (128, 512)
    assert short["sequences"] == long["sequences"] == 256
    assert long["flops_per_token"] > short["flops_per_token"]  # attention sees more
    assert long["bytes"]["activations"] > 4 * short["bytes"]["activations"]


def test_a_device_holds_its_share_or_a_micro_batch_of_it() -> None:
    def at_once(*words: str) -> int:
        (job,) = compose(PRETRAIN, parse_arguments(["lengths=constant", "batch.sequences=64", *words]))
        sequences = costs_of(job.config)["training"][0]["sequences"]
        assert isinstance(sequences, int)
        return sequences

    assert at_once() == 64
    assert at_once("trainer.devices=3") == 22  # 64 / 3, rounded up: the fullest device decides
    assert at_once("trainer.devices=3", "batch.micro=8") == 8
    assert at_once("trainer.devices=3", "batch.micro=32") == 22


def test_masked_objectives_predict_the_masking_rate_and_others_every_word() -> None:
    shares = []
    for objective in ("mlm", "ltr"):
        (job,) = compose(PRETRAIN, parse_arguments([f"objective={objective}", "masking.rate=0.3"]))
        shares.append(costs_of(job.config)["predicted_share"])
    assert shares == [0.3, 1.0]


def test_nothing_heavy_is_loaded() -> None:
    program = (
        "import sys\nfrom bertlab.cli import main\ntry:\n    main(['params', 'model=large'])\nexcept SystemExit:\n    pass\n"
        "print([name for name in ('torch', 'numpy', 'pytorch_lightning', 'wandb', 'tokenizers') if name in sys.modules])"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=60)
    assert finished.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize(
    "word", ["trainer.devices=0", "model.layers=0", "model.hidden=-4", "batch.length=1000", "masking.rate=2", "batch.micro=0"]
)
def test_what_cannot_be_trained_has_no_costs(word: str) -> None:
    (job,) = compose(PRETRAIN, parse_arguments([word, "lengths=constant"]))
    with pytest.raises(UserError, match=word.partition("=")[0]):
        costs_of(job.config)


def test_costs_need_no_text() -> None:
    (job,) = compose(PRETRAIN, parse_arguments(["corpus=text"]))
    assert costs_of(job.config)["total"] > 0


def test_devices_that_part_the_weights_hold_their_share(capsys: pytest.CaptureFixture[str]) -> None:
    """Of BERT-large on eight GPUs: an eighth of sixteen bytes a parameter, and what is whole at a time."""
    words = ["model=large", "tokenizer.vocab_size=30522", "lengths=constant", "batch.sequences=64"]
    one, eight = (json.loads(printed(capsys, *words, *more, "--json")) for more in (["trainer=gpu"], ["trainer=fsdp", "trainer.devices=8"]))
    whole, parted = one["training"][0], eight["training"][0]
    assert parted["sequences"] == whole["sequences"] // 8
    assert parted["bytes"]["activations"] == whole["bytes"]["activations"] // 8
    states = sum(parted["bytes"][name] for name in ("weights", "gradients", "optimizer"))
    assert states == pytest.approx(16 * one["total"] / 8, rel=1e-6)
    assert parted["bytes"]["total"] == states + parted["bytes"]["gathered"] + parted["bytes"]["activations"]
    assert "divided among 8 devices" in printed(capsys, *words, "trainer=fsdp", "trainer.devices=8")
    two_nodes = json.loads(printed(capsys, *words, "trainer=fsdp", "trainer.devices=4", "trainer.nodes=2", "--json"))
    assert two_nodes["training"] == eight["training"]


def test_activations_that_are_computed_again_are_not_kept(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["model=base", "lengths=constant", "batch.sequences=64"]
    kept, again = (json.loads(printed(capsys, *words, f"trainer.checkpoint_activations={value}", "--json")) for value in ("false", "true"))
    assert again["training"][0]["bytes"]["activations"] < kept["training"][0]["bytes"]["activations"] / 5
    assert again["training"][0]["bytes"]["weights"] == kept["training"][0]["bytes"]["weights"]
