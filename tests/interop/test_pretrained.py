from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from toys import LENGTHS, toy_batch
from written_runs import MakeRun, small_architecture, small_vocabulary, write_run

from bertlab.data.tokenizer import Vocabulary
from bertlab.errors import UserError
from bertlab.interop.exporting import save_own
from bertlab.interop.pretrained import load_pretrained
from bertlab.training.checkpoints import save_state


def test_every_name_of_a_run(make_run: MakeRun) -> None:
    run = make_run()
    (run / "checkpoints").mkdir()
    kept = run / "checkpoints" / "step-000000007.safetensors"
    shutil.copy(run / "model.safetensors", kept)
    runs = run.parent
    found = {name: load_pretrained(name, runs) for name in (str(run), run.name, "0123abcd", str(kept), str(run / "model.safetensors"))}
    assert len({each.fingerprint for each in found.values()}) == 1
    assert {each.name for each in found.values()} == {run.name, f"{run.name}-step-000000007"}
    assert {each.origin for each in found.values()} == {str(run), str(kept), str(run / "model.safetensors")}
    assert {each.tokenizer for each in found.values()} == {str(run / "tokenizer.json")}
    pretrained = found[run.name]
    assert (pretrained.objective, pretrained.fresh, pretrained.ignored) == ("mlm_nsp", [], [])
    assert not pretrained.bert.training
    for name, tensor in load_file(run / "model.safetensors").items():
        torch.testing.assert_close(pretrained.bert.state_dict()[name], tensor, atol=0, rtol=0)


def test_a_run_that_is_not_finished(make_run: MakeRun, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run()
    expected = load_pretrained(str(run), run.parent).fingerprint
    save_state(run / "checkpoints", 12, {"step": 12, "weights": load_file(run / "model.safetensors")})
    (run / "model.safetensors").unlink()
    assert load_pretrained(str(run), run.parent).fingerprint == expected
    assert "after step 12" in capsys.readouterr().err
    shutil.rmtree(run / "checkpoints")
    with pytest.raises(UserError, match="no weights yet"):
        load_pretrained(str(run), run.parent)


@pytest.mark.parametrize(
    ("changes", "objective"),
    [
        ({}, "mlm_nsp"),
        ({"next_sentence": False}, "mlm"),
        ({"attention": "causal", "next_sentence": False}, "ltr"),
        ({"attention": "anticausal", "next_sentence": False}, "rtl"),
    ],
    ids=str,
)
def test_the_objective_shows(make_run: MakeRun, changes: dict[str, Any], objective: str) -> None:
    assert load_pretrained(str(make_run(**changes)), Path()).objective == objective


def test_the_fingerprint_tells_weights_vocabularies_and_architectures_apart(tmp_path: Path, vocabulary: Vocabulary) -> None:
    architecture = small_architecture(vocabulary)
    cased = small_vocabulary(lowercase=False)
    folders = [
        write_run(tmp_path / "a", vocabulary, architecture),
        write_run(tmp_path / "b", vocabulary, architecture, seed=1),
        write_run(tmp_path / "c", cased, architecture),
        *(
            write_run(tmp_path / "-".join(change), vocabulary, small_architecture(vocabulary, **change))
            for change in ({"heads": 2}, {"epsilon": 1e-5}, {"activation": "relu"}, {"attention": "causal"}, {"placement": "pre"})
        ),
    ]
    assert len({load_pretrained(str(folder), tmp_path).fingerprint for folder in folders}) == len(folders) == 8
    again = write_run(tmp_path / "e", vocabulary, architecture)
    assert load_pretrained(str(again), tmp_path).fingerprint == load_pretrained(str(folders[0]), tmp_path).fingerprint


def test_heads_that_are_missing_start_anew_and_are_named(make_run: MakeRun, tmp_path: Path) -> None:
    run = make_run()
    weights = load_file(run / "model.safetensors")
    save_file({name: w for name, w in weights.items() if not name.startswith(("language_head", "next"))}, run / "model.safetensors")
    random_state = torch.get_rng_state()
    found = [load_pretrained(str(run), tmp_path) for _ in range(2)]
    assert torch.equal(random_state, torch.get_rng_state())
    assert found[0].fresh == ["language head", "next-sentence head"]
    assert found[0].objective == "mlm"
    assert set(found[0].trained_weights()) == set(load_file(run / "model.safetensors"))
    state, other = found[0].bert.state_dict(), found[1].bert.state_dict()
    for name, tensor in state.items():
        assert torch.equal(tensor, other[name])
    dense = state["language_head.dense.weight"]
    assert 0.15 < float(dense.std()) < 0.35  # drawn with a standard deviation of 0.3, cut off at two
    assert not torch.equal(dense, weights["language_head.dense.weight"])
    assert torch.equal(state["language_head.norm.weight"], torch.ones(16))
    assert torch.equal(state["language_head.bias"], torch.zeros(found[0].vocabulary.size))
    save_own(found[0], tmp_path / "own")
    again = load_pretrained(str(tmp_path / "own"), tmp_path)
    assert (again.fresh, again.fingerprint) == (found[0].fresh, found[0].fingerprint)


def test_the_encoder_of_a_fine_tuned_model(make_run: MakeRun) -> None:
    """Its heads of pre-training have not been trained along, so they are not taken for trained."""
    run = make_run()
    weights = load_file(run / "model.safetensors")
    save_file(
        {f"bert.{name}": w for name, w in weights.items()} | {"head.classifier.weight": torch.zeros(2, 16)}, run / "model.safetensors"
    )
    tuned = load_pretrained(str(run), run.parent)
    assert tuned.fresh == ["language head", "next-sentence head"]
    assert "head.classifier.weight" in tuned.ignored
    encoder = {name for name in weights if not name.startswith(("language_head", "next_sentence_head"))}
    assert set(tuned.trained_weights()) == encoder
    for name, tensor in tuned.trained_weights().items():
        assert torch.equal(tensor, weights[name])


@pytest.mark.parametrize(
    ("kind", "head", "own_pooler", "trained"),
    [
        ("classification", {"pooler": True}, False, True),
        ("choice", {"pooler": True}, False, True),
        ("classification", {"pooler": False}, False, False),
        ("classification", {"pooler": True}, True, False),
        ("tagging", {"pooler": True}, False, False),
        ("span", {"pooler": True}, False, False),
    ],
)
def test_a_pooler_that_was_not_fine_tuned_along_starts_anew(
    kind: str, head: dict[str, bool], own_pooler: bool, trained: bool, make_run: MakeRun
) -> None:
    run = make_run()
    weights = {f"bert.{name}": tensor for name, tensor in load_file(run / "model.safetensors").items()}
    save_file(weights | ({"head.pooler.dense.weight": torch.zeros(2, 16)} if own_pooler else {}), run / "model.safetensors")
    (run / "task.json").write_text(json.dumps({"task": {"kind": kind}, "labels": [], "head": head, "features": {"kind": "none"}}))
    tuned = load_pretrained(str(run), run.parent)
    assert ("pooler" in tuned.fresh) == (not trained)
    assert ("bert.pooler.dense.weight" in tuned.ignored) == (not trained)
    assert torch.equal(tuned.bert.state_dict()["pooler.dense.weight"], weights["bert.pooler.dense.weight"]) == trained


def test_training_what_was_loaded_leaves_the_file_alone(make_run: MakeRun) -> None:
    run = make_run()
    before = (run / "model.safetensors").read_bytes()
    model = load_pretrained(str(run), run.parent).bert
    model(toy_batch(LENGTHS, model.architecture.vocab_size)).sum().backward()
    with torch.no_grad():
        for parameter in model.parameters():
            assert parameter.requires_grad
            parameter.add_(1)
    assert (run / "model.safetensors").read_bytes() == before


def test_names_of_folders(make_run: MakeRun, tmp_path: Path) -> None:
    pretrained = load_pretrained(str(make_run()), tmp_path)
    for folder, name in ((tmp_path / "my model+", "my_model_"), (tmp_path / "wheel" / "model", "wheel")):
        save_own(pretrained, folder)
        assert load_pretrained(str(folder), tmp_path).name == name
    assert load_pretrained("wheel/model", tmp_path).name == "wheel"  # inside the folder of runs


class TestRefusals:
    def test_what_is_nothing(self, make_run: MakeRun, tmp_path: Path) -> None:
        make_run()
        (tmp_path / "empty").mkdir()
        (tmp_path / "weights.bin").write_bytes(b"")
        (tmp_path / "alone.safetensors").write_bytes(b"")
        for name, said in (
            ("", "name is empty"),
            ("nothing", "No run 'nothing'"),
            (str(tmp_path / "empty"), "holds no model"),
            (str(tmp_path / "runs"), f"do you mean {tmp_path}/runs/pretrain-small"),
            ("org/bert", "download it first"),
            (str(tmp_path / "weights.bin"), "give its folder"),
            (str(tmp_path / "alone.safetensors"), "no file of weights in a run's folder"),
        ):
            with pytest.raises(UserError, match=said):
                load_pretrained(name, tmp_path / "runs")

    def test_what_is_not_whole(self, make_run: MakeRun) -> None:
        run = make_run()
        weights = load_file(run / "model.safetensors")
        for changed, said in (
            ({name: w for name, w in weights.items() if name != "embeddings.norm.bias"}, "lacks the weights embeddings.norm.bias"),
            ({name: w for name, w in weights.items() if name != "language_head.bias"}, "lacks the weights language_head.bias"),
            (weights | {"more": torch.zeros(1)}, "no place: more"),
            (weights | {"embeddings.norm.bias": torch.zeros(7)}, r"embeddings.norm.bias has the shape \(7,\)"),
        ):
            save_file(changed, run / "model.safetensors")
            with pytest.raises(UserError, match=said):
                load_pretrained(str(run), run.parent)
        (run / "model.safetensors").write_bytes(b"\x10")
        with pytest.raises(UserError, match="damaged"):
            load_pretrained(str(run), run.parent)

    def test_a_damaged_architecture(self, make_run: MakeRun) -> None:
        run = make_run()
        (run / "architecture.json").write_text(json.dumps({"layers": 2, "lyers": 3}))
        with pytest.raises(UserError, match="lyers"):
            load_pretrained(str(run), run.parent)
        (run / "architecture.json").write_text("{")
        with pytest.raises(UserError, match="damaged"):
            load_pretrained(str(run), run.parent)
        (run / "architecture.json").unlink()
        with pytest.raises(UserError, match="no whole run"):
            load_pretrained(str(run), run.parent)


def test_a_model_is_built_without_drawing_weights(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a large model would take seconds, to be overwritten."""
    run, drawn = make_run(), []
    real = torch.nn.init.trunc_normal_

    def draw(tensor: Tensor, *rest: float) -> Tensor:
        drawn.append(0 if tensor.is_meta else tensor.numel())
        return real(tensor, *rest)

    monkeypatch.setattr(torch.nn.init, "trunc_normal_", draw)
    load_pretrained(str(run), Path())
    assert len(drawn) > 10
    assert sum(drawn) == 0
