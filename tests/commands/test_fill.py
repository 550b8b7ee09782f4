"""The verbs that use a trained model: fill, nsp, generate, export, import, and evaluate of folders."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file, save_file
from written_runs import small_architecture, small_vocabulary, write_run

from bertlab import cli
from bertlab.commands.words import parse_words
from bertlab.errors import UserError
from bertlab.interop.pretrained import load_pretrained

Call = Callable[..., tuple[int, str, str]]


@pytest.fixture
def call(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Call:
    """Runs a command in a folder that holds runs; gives its exit code, standard output and standard error."""
    vocabulary = small_vocabulary()
    for name, changes in (
        ("pretrain-a-mlm_nsp-00000001", {}),
        ("pretrain-a-ltr-00000002", {"attention": "causal", "next_sentence": False}),
        ("pretrain-a-mlm-00000003", {"next_sentence": False}),
    ):
        values: dict[str, Any] = changes
        write_run(tmp_path / "runs" / name, vocabulary, small_architecture(vocabulary, **values))
    monkeypatch.chdir(tmp_path)

    def run(*words: str) -> tuple[int, str, str]:
        with pytest.raises(SystemExit) as exited:
            cli.main(words)
        captured = capsys.readouterr()
        return int(exited.value.code or 0), captured.out, captured.err

    return run


class TestWords:
    def test_texts_keys_and_flags_in_any_order(self) -> None:
        words = ["2 + 2 = [MASK]", "checkpoint=a=b", "--to", "x", "top_k=3", "stop=the end", "-", "--as=y", "a b=c"]
        parsed = parse_words(words, ("checkpoint", "top_k", "stop"), {"--to": "folder", "--as": "parts"})
        assert parsed.texts == ["2 + 2 = [MASK]", "-", "a b=c"]
        assert parsed.values == {"checkpoint": "a=b", "folder": "x", "top_k": "3", "stop": "the end", "parts": "y"}
        assert parse_words(["--", "--to", "checkpoint=x"], ("checkpoint",)).texts == ["--to", "checkpoint=x"]
        parsed = parse_words(["-h", "--json"], (), switches=("--json",))
        assert (parsed.help, parsed.switches) == (True, {"--json"})

    @pytest.mark.parametrize(
        ("words", "said"),
        [
            (["chekpoint=x"], "Unknown key 'chekpoint': did you mean checkpoint"),
            (["--too", "x"], "Unknown flag '--too': did you mean --to"),
            (["--json"], "Unknown flag '--json'"),
            (["--to"], "--to needs a value"),
            (["checkpoint=x", "checkpoint=y"], "checkpoint is given twice, with x and with y"),
            (["--to", "x", "--to=y"], "--to is given twice"),
        ],
    )
    def test_mistakes(self, words: list[str], said: str) -> None:
        with pytest.raises(UserError, match=said):
            parse_words(words, ("checkpoint",), {"--to": "folder"})

    def test_numbers(self) -> None:
        parsed = parse_words(["a=3", "b=0.5", "c=x", "d=-1", "e=nan"], "abcde")
        assert (parsed.whole_number("a", 1), parsed.number("b", 1), parsed.whole_number("z", 7)) == (3, 0.5, 7)
        for wrong in (
            lambda: parsed.whole_number("b", 1),
            lambda: parsed.whole_number("c", 1),
            lambda: parsed.whole_number("d", 1),
            lambda: parsed.number("c", 1),
            lambda: parsed.number("d", 1),
            lambda: parsed.number("e", 1),
        ):
            with pytest.raises(UserError, match="must be a"):
                wrong()


def test_fill(call: Call) -> None:
    code, out, err = call("fill", "the [MASK] of [MASK].", "checkpoint=00000001", "top_k=3")
    assert code == 0, err
    lines = out.splitlines()
    assert (lines[0], lines[4], len(lines)) == ("[MASK] 1", "[MASK] 2", 8)
    assert all(line.split()[0].endswith("%") for line in (*lines[1:4], *lines[5:]))
    code, out, _ = call("fill", "--json", "checkpoint=pretrain-a-mlm-00000003", "a [MASK]", "top_k=2")
    ((first, second),) = json.loads(out)
    assert first["probability"] >= second["probability"]
    assert set(first) == {"token", "probability"}


def test_nsp(call: Call) -> None:
    code, out, err = call("nsp", "he sat.", "he was tired.", "checkpoint=runs/pretrain-a-mlm_nsp-00000001")
    assert code == 0, err
    share, rest = (float(line.split()[0].rstrip("%")) for line in out.splitlines())
    assert abs(share + rest - 100) < 0.11
    assert abs(json.loads(call("nsp", "he sat.", "he was tired.", "checkpoint=00000001", "--json")[1])["follows"] * 100 - share) < 0.06


def test_generate(call: Call) -> None:
    words = ("generate", "Once upon", "checkpoint=00000002", "max_tokens=9", "top_k=4", "temperature=0.5", "seed=3")
    code, out, err = call(*words)
    assert code == 0, err
    assert out.startswith("Once upon")
    assert out == call(*words)[1]
    assert json.loads(call(*words, "--json")[1])["text"] == out.rstrip("\n")
    assert call("generate", "checkpoint=00000002", "max_tokens=3")[0] == 0


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["fill", "a [MASK]"], "fill needs checkpoint=RUN"),
        (["fill", "checkpoint=00000001"], "fill needs one text"),
        (["fill", "a", "b", "checkpoint=00000001"], "fill needs one text"),
        (["fill", "a", "checkpoint=00000001"], "has no [MASK]"),
        (["fill", "a [MASK]", "checkpoint=00000001", "top_k=0"], "top_k=0 must be a whole number, 1 or more"),
        (["fill", "a [MASK]", "checkpoint=00000002"], "cannot fill in words"),
        (["fill", "a [MASK]", "checkpoint=nothing"], "No run 'nothing'"),
        (["nsp", "a", "checkpoint=00000001"], "nsp needs two texts"),
        (["nsp", "a", "b", "checkpoint=00000003"], "no trained next-sentence head"),
        (["generate", "a", "checkpoint=00000001"], "use fill"),
        (["generate", "a", "checkpoint=00000002", "temperature=-1"], "temperature=-1 must be a number"),
        (["export", "00000001"], "export needs one checkpoint and a folder"),
        (["export", "00000001", "--to", "runs"], "holds other files"),
        (["export", "00000001", "--to", "x", "--as", "encodr"], "did you mean encoder"),
        (["import"], "import needs one folder"),
        (["import", "/no/such/folder"], "There is no folder or file /no/such/folder"),
        (["evaluate", "checkpoint=nothing"], "nothing"),
    ],
    ids=str,
)
def test_a_misuse_is_one_sentence_and_exit_code_2(call: Call, words: list[str], said: str) -> None:
    code, out, err = call(*words)
    assert (code, out) == (2, "")
    assert said in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("verb", ["fill", "nsp", "generate", "export", "import"])
def test_every_verb_teaches(call: Call, verb: str) -> None:
    code, out, _ = call(verb, "--help")
    assert code == 0
    assert len([line for line in out.splitlines() if line.startswith(f"  bertlab {verb}")]) >= 3
    assert max(len(line) for line in out.splitlines()) <= 140


def test_export_and_import_follow_each_other(call: Call, tmp_path: Path) -> None:
    code, out, err = call("export", "00000001", "--to", "theirs")
    assert (code, out) == (0, "theirs\n"), err
    assert "BertForPreTraining" in err
    code, out, err = call("import", "theirs")
    assert (code, out) == (0, "runs/theirs\n"), err
    code, out, _ = call("export", "theirs", "--to", "again", "--as", "masked_lm")
    assert code == 0
    names = ("runs/pretrain-a-mlm_nsp-00000001", "theirs", "runs/theirs")
    assert len({load_pretrained(name, tmp_path).fingerprint for name in names}) == 1
    code, _, err = call("export", "00000002", "--to", "ltr")
    assert code == 0
    assert "left-to-right" in err
    assert sorted(path.name for path in (tmp_path / "ltr").iterdir()) == ["architecture.json", "model.safetensors", "tokenizer.json"]


def test_evaluate_takes_folders(call: Call, tmp_path: Path) -> None:
    (tmp_path / "text").mkdir()
    for number in range(6):
        (tmp_path / "text" / f"{number}.txt").write_text(" ".join(["he was tired.", "paris is the capital of france."] * (40 + number)))
    call("export", "00000001", "--to", "theirs")
    call("export", "00000002", "--to", "ours")
    common = ("corpus=text", "corpus.path=text", "corpus.held_out=0.3", "validation.sequences=8", "paths.cache=cache", "trainer=cpu")
    code, out, err = call("evaluate", "checkpoint=theirs", *common)
    assert code == 0, err
    assert "next sentence" in out
    assert out.splitlines()[0].startswith("held out, length 48 (8 of ")  # as far as the model has positions
    assert out.splitlines()[-1] == "theirs"
    code, out, err = call("evaluate", "checkpoint=ours", *common, "validation.lengths=[16,32]")
    assert code == 0, err
    assert [line.split(" (")[0] for line in out.splitlines()[:2]] == ["held out, length 16", "held out, length 32"]
    tuned = write_run(tmp_path / "runs" / "finetune-a-mrpc-0000000f", small_vocabulary(), small_architecture(small_vocabulary()))
    (tuned / "config.yaml").write_text("task: {name: mrpc}\n")
    (tuned / "task.json").write_text("{}")
    weights = load_file(tuned / "model.safetensors")
    save_file({f"bert.{name}": tensor for name, tensor in weights.items()}, tuned / "model.safetensors")
    for name in (tuned.name, "0000000f", str(tuned), f"{tuned}/model.safetensors"):  # what it predicted it has unlearnt
        code, _, err = call("evaluate", f"checkpoint={name}", *common)
        assert code == 1
        assert "finetune-a-mrpc-0000000f holds no language head" in err
    call("export", "00000001", "--to", "bare", "--as", "encoder")
    code, _, err = call("evaluate", "checkpoint=bare", *common)
    assert code == 1
    assert "no language head" in err
