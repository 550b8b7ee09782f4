from __future__ import annotations

import importlib
import logging
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import AutoTokenizer, BertForMaskedLM, BertForNextSentencePrediction, BertModel
from written_runs import MakeRun

import bertlab
from bertlab.config import CorpusConfig, FilterConfig, MaskingConfig, ObjectiveConfig, PretrainConfig
from bertlab.data.tokenizer import Vocabulary
from bertlab.errors import UserError
from bertlab.inference.incremental import Reader
from bertlab.inference.model import Model
from bertlab.interop.exporting import export

CAUSAL: list[dict[str, Any]] = [
    {},
    {"placement": "pre"},
    {"norm": "batch"},
    {"norm": "batch", "placement": "pre"},
    {"backbone": "bilstm", "directions": "forward"},
    {"backbone": "bilstm", "directions": "forward", "placement": "pre"},
    {"backbone": "bilstm", "directions": "pair"},
    {"backbone": "bilstm", "directions": "pair", "placement": "pre", "norm": "batch"},
    {"backbone": "cbow"},
    {"backbone": "cbow", "window": 3},
]


@pytest.fixture
def model(make_run: MakeRun) -> Model:
    return bertlab.load(make_run())


@pytest.fixture
def exported(model: Model, tmp_path: Path) -> Path:
    export(model.pretrained, tmp_path / "exported")
    return tmp_path / "exported"


def left_to_right(make_run: MakeRun, **changes: Any) -> Model:
    return bertlab.load(make_run(attention="causal", next_sentence=False, **changes))


def test_importing_loads_nothing_heavy() -> None:
    program = "import sys, bertlab\nbertlab.load\nprint([n for n in ('torch', 'numpy', 'tokenizers', 'hydra', 'yaml') if n in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "[]\n"


class TestFill:
    def test_the_probabilities_are_those_of_transformers(self, model: Model, exported: Path) -> None:
        text = "the [MASK] of france is [MASK], once"
        found = model.fill(text, k=7)
        theirs, tokenizer = BertForMaskedLM.from_pretrained(exported).eval(), AutoTokenizer.from_pretrained(exported)
        inputs = tokenizer(text, return_tensors="pt")
        with torch.no_grad():
            probabilities = theirs(**inputs).logits[inputs["input_ids"] == tokenizer.mask_token_id].softmax(-1)
        best = probabilities.topk(7)
        assert len(found) == 2
        for candidates, tokens, values in zip(found, best.indices, best.values, strict=True):
            assert [candidate.token for candidate in candidates] == tokenizer.convert_ids_to_tokens(tokens.tolist())
            torch.testing.assert_close(torch.tensor([candidate.probability for candidate in candidates]), values, atol=1e-5, rtol=1e-5)

    def test_all_probabilities_add_up(self, model: Model, make_run: MakeRun) -> None:
        """Also where the table has rows that no token belongs to."""
        for each in (model, bertlab.load(make_run(name="padded", vocab_size=model.vocabulary.size + 50))):
            (candidates,) = each.fill("[MASK]", k=10**6)
            assert len(candidates) == model.vocabulary.size
            assert abs(sum(candidate.probability for candidate in candidates) - 1) < 1e-5

    def test_a_special_token_that_is_written_out_is_text(self, model: Model) -> None:
        """As in training: the model reads no separator where the text speaks of one."""
        plain = "".join(f" {token}" for token in ("[", "sep", "]"))
        assert model.fill("paris [SEP] the [MASK]") == model.fill(f"paris{plain} the [MASK]")

    def test_what_cannot_be_filled(self, model: Model, make_run: MakeRun) -> None:
        with pytest.raises(UserError, match=r"has no \[MASK\]"):
            model.fill("the [mask] of france")
        with pytest.raises(UserError, match="48 at most"):
            model.fill("[MASK] " * 47)
        with pytest.raises(UserError, match="generate continues"):
            left_to_right(make_run, name="ltr").fill("the [MASK]")


class TestNextSentence:
    def test_the_probability_is_that_of_transformers(self, model: Model, exported: Path) -> None:
        theirs, tokenizer = BertForNextSentencePrediction.from_pretrained(exported).eval(), AutoTokenizer.from_pretrained(exported)
        for first, second in (("he sat down.", "he was tired."), ("paris", "he")):
            with torch.no_grad():
                logits = theirs(**tokenizer(first, second, return_tensors="pt")).logits
            assert abs(model.next_sentence(first, second) - float(logits.softmax(-1)[0, 0])) < 1e-5

    @pytest.mark.parametrize(("first", "second", "which"), [("", "he", "first"), ("he", " ", "second"), ("", "", "first")])
    def test_two_texts_are_needed(self, model: Model, first: str, second: str, which: str) -> None:
        with pytest.raises(UserError, match=f"The {which} text is empty"):
            model.next_sentence(first, second)

    def test_models_that_were_not_trained_to_tell(self, make_run: MakeRun) -> None:
        with pytest.raises(UserError, match="no trained next-sentence head"):
            bertlab.load(make_run(next_sentence=False)).next_sentence("he", "was")


class TestGenerate:
    @pytest.mark.parametrize("changes", CAUSAL, ids=str)
    def test_reading_token_by_token_is_reading_at_once(self, make_run: MakeRun, changes: dict[str, Any]) -> None:
        model = left_to_right(make_run, layers=3, **changes)
        model.bert.double()
        ids = [3 + number % 17 for number in range(30)]
        batch = model._batch([(ids, [])])
        with torch.no_grad():
            states = model.bert(batch)[:, : model.bert.architecture.language_width]
            expected = model.bert.language_logits(states)
            reader = Reader(model.bert)
            for place, token in enumerate(batch.tokens.tolist()):
                torch.testing.assert_close(reader.read(token), expected[place], atol=1e-9, rtol=1e-9)

    def test_the_likeliest_by_hand(self, make_run: MakeRun) -> None:
        model = left_to_right(make_run)
        ids = [model.vocabulary.cls, *model.vocabulary.tokenizer.encode("once upon", add_special_tokens=False).ids]
        ordinary = set(model.vocabulary.ordinary.tolist())
        for _ in range(12):
            with torch.no_grad():
                batch = model._batch([(ids[1:], [])])
                logits = model.bert.language_logits(model.bert(batch))[-2]  # the last one is [SEP]'s
            ids.append(max(ordinary, key=lambda token: float(logits[token])))
        written = model.vocabulary.tokenizer.decode(ids[1:])
        assert model.generate("once upon", max_tokens=12, temperature=0) == written

    def test_choices_are_drawn_by_their_probabilities(self, make_run: MakeRun) -> None:
        model = left_to_right(make_run)
        logits = Reader(model.bert).read(model.vocabulary.cls)[torch.from_numpy(model.vocabulary.ordinary)]
        for settings, wanted in (
            ({"temperature": 0.7}, (logits.double() / 0.7).softmax(-1)),
            ({"top_k": 3}, torch.where(logits >= logits.topk(3).values[-1], logits.double(), -torch.inf).softmax(-1)),
        ):
            names = [model.vocabulary.tokenizer.decode([int(token)]) for token in model.vocabulary.ordinary]
            drawn = [model.generate(max_tokens=1, seed=seed, **settings) for seed in range(300)]
            if "top_k" in settings:
                assert set(drawn) <= {name for name, share in zip(names, wanted, strict=True) if share > 0}
            likeliest = int(wanted.argmax())
            share, expected = drawn.count(names[likeliest]) / 300, float(wanted[likeliest])
            assert abs(share - expected) < 5 * (expected * (1 - expected) / 300) ** 0.5

    def test_a_seed_repeats_and_stop_stops(self, make_run: MakeRun) -> None:
        model = left_to_right(make_run)
        text = model.generate("Once upon", max_tokens=30, seed=3)
        assert text.startswith("Once upon")
        assert text == model.generate("Once upon", max_tokens=30, seed=3)
        assert text != model.generate("Once upon", max_tokens=30, seed=4)
        stop = text[len("Once upon") :][10]
        stopped = model.generate("Once upon", max_tokens=30, seed=3, stop=stop)
        assert stopped[len("Once upon") :].count(stop) >= 1
        assert text.startswith(stopped)
        assert len(stopped) < len(text)

    @pytest.mark.parametrize(
        ("wrong", "said"), [({"temperature": -1.0}, "temperature=-1"), ({"temperature": 1e-320}, "0.001 or more"), ({"stop": ""}, "empty")]
    )
    def test_what_cannot_be_meant_is_refused(self, make_run: MakeRun, wrong: dict[str, Any], said: str) -> None:
        with pytest.raises(UserError, match=said):
            left_to_right(make_run).generate("Once", **wrong)

    def test_the_least_temperature_takes_the_likeliest(self, make_run: MakeRun) -> None:
        model = left_to_right(make_run)
        assert model.generate("Once", max_tokens=9, temperature=1e-3) == model.generate("Once", max_tokens=9, temperature=0)

    def test_it_ends_where_the_positions_do(self, make_run: MakeRun) -> None:
        short, endless = left_to_right(make_run), left_to_right(make_run, name="lstm", backbone="bilstm", directions="forward")
        count = len(short.vocabulary.tokenizer.encode(short.generate(max_tokens=500, seed=0, top_k=1), add_special_tokens=False).ids)
        assert count <= 48
        assert endless.generate("he " * 100, max_tokens=5, seed=0).startswith("he he")
        with pytest.raises(UserError, match="48 at most"):
            short.generate("he " * 100)

    def test_other_models_do_not_write(self, model: Model, make_run: MakeRun) -> None:
        with pytest.raises(UserError, match="use fill"):
            model.generate("once")
        with pytest.raises(UserError, match="from right to left"):
            bertlab.load(make_run(name="rtl", attention="anticausal", next_sentence=False)).generate("once")


class TestStates:
    def test_texts_of_all_lengths_in_their_order(self, model: Model, exported: Path) -> None:
        theirs, tokenizer = BertModel.from_pretrained(exported).eval(), AutoTokenizer.from_pretrained(exported)
        texts = ["he sat down.", "", "the " * 300, "paris is the capital of france", "he"] * 40
        found, embedded = model.states(texts), model.embed(texts)
        lowest, below = (model.states(texts, layer=layer) for layer in (0, -2))
        for place in (0, 1, 2, 3, 4, 103, 198):
            inputs = tokenizer(texts[place], return_tensors="pt", truncation=True, max_length=48)
            with torch.no_grad():
                expected = theirs(**inputs, output_hidden_states=True).hidden_states
            torch.testing.assert_close(found[place], expected[-1][0], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(lowest[place], expected[0][0], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(below[place], expected[-2][0], atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(embedded[place], expected[-1][0].mean(0), atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(model.embed(texts[:3], pooling="sequence")[0], found[0][0])
        assert model.embed([]).shape == (0, 16)

    def test_the_state_that_stands_for_a_text(self, make_run: MakeRun) -> None:
        for name, changes in (
            ("ltr", {"attention": "causal"}),
            ("elmo", {"attention": "causal", "backbone": "bilstm", "directions": "pair"}),
            ("bag", {"backbone": "cbow"}),
        ):
            model = bertlab.load(make_run(name=name, next_sentence=False, **changes))
            batch = model._batch([(model._ids("he sat"), []), (model._ids("paris is of france"), [])])
            with torch.no_grad():
                expected = model.bert.pool(model.bert(batch), batch.offsets)
            torch.testing.assert_close(model.embed(["he sat", "paris is of france"], pooling="sequence"), expected, atol=1e-6, rtol=1e-6)

    def test_what_is_not_there(self, model: Model) -> None:
        with pytest.raises(UserError, match="layers 0"):
            model.states(["he"], layer=3)
        with pytest.raises(UserError, match="choose mean or sequence"):
            model.embed(["he"], pooling="max")


def test_names_of_special_tokens_are_text_but_for_the_mask_of_fill(model: Model, vocabulary: Vocabulary) -> None:
    assert vocabulary.mask not in model._ids("a [MASK] [SEP]")
    assert "bertlab model pretrain-small" in repr(model)


def test_evaluating_leaves_the_process_as_it_was_and_what_was_trained_on_aside(
    make_run: MakeRun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BERTLAB_CACHE", str(tmp_path / "cache"))
    for folder in ("own", "other"):
        (tmp_path / folder).mkdir()
        for number in range(4):
            (tmp_path / folder / f"{number}.txt").write_text(f"he was {folder}. paris is the capital of france. " * (20 + number))
    run = make_run()
    (run / "config.yaml").write_text(f"corpus: {{kind: text, path: {tmp_path / 'own'}, held_out: 0.3}}")
    model = bertlab.load(run)

    def process() -> tuple[object, ...]:
        algorithms = torch.are_deterministic_algorithms_enabled(), torch.is_deterministic_algorithms_warn_only_enabled()
        return torch.get_num_threads(), *algorithms, list(warnings.filters), logging.getLogger("pytorch_lightning").level

    importlib.import_module("bertlab.training.machine")  # Lightning sets filters and levels of its own when it is imported
    monkeypatch.setattr(torch.utils.deterministic, "fill_uninitialized_memory", True)
    torch.set_num_threads(2)
    torch.use_deterministic_algorithms(False)
    try:
        before = process()
        figures = model.evaluate(tmp_path / "other", lengths=[16])[16]
        assert process() == before
        assert torch.utils.deterministic.fill_uninitialized_memory
        with pytest.raises(UserError, match=r"held_out=0\.5, documents that .* would count as held out"):
            model.evaluate(tmp_path / "own", lengths=[16], held_out=0.5)
        assert process() == before
    finally:
        torch.set_num_threads(1)
    assert figures["perplexity"] > 1


def test_without_a_path_the_text_of_every_installation_is_read_as_a_run_reads_it(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[PretrainConfig] = []
    monkeypatch.setattr("bertlab.training.evaluate.evaluate_model", lambda *given, **options: found.append(given[2]))
    model.evaluate(held_out=0.3)
    assert found[0].corpus == CorpusConfig(kind="builtin", held_out=0.3, filter=FilterConfig(duplicate_lines=True))


def test_a_run_is_evaluated_by_its_own_objective_and_masking(make_run: MakeRun, monkeypatch: pytest.MonkeyPatch) -> None:
    run = make_run(next_sentence=False)
    trained = {"objective": {"kind": "mlm", "segments": "pair"}, "masking": {"rate": 0.4, "mask": 1.0, "keep": 0.0, "random": 0.0}}
    (run / "config.yaml").write_text(yaml.safe_dump(trained))
    found: list[PretrainConfig] = []
    monkeypatch.setattr("bertlab.training.evaluate.evaluate_model", lambda *given, **options: found.append(given[2]))
    bertlab.load(run).evaluate()
    assert found[0].objective == ObjectiveConfig(kind="mlm", segments="pair")
    assert found[0].masking == MaskingConfig(rate=0.4, mask=1.0, keep=0.0, random=0.0)
