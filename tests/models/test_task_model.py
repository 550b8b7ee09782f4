"""Task models of every shape: they run and learn, sequences do not touch, micro-batches add up, and nothing from the future comes in."""

from __future__ import annotations

import copy
import dataclasses
import itertools
from typing import Any

import pytest
import torch
from test_leakage import BACKBONES, built, other_words
from toys import LENGTHS, toy_batch, toy_model, toy_task_batch

from bertlab.data.task_batch import TaskBatch
from bertlab.errors import UserError
from bertlab.finetune_config import FeaturesConfig, HeadConfig
from bertlab.models.bert import Bert
from bertlab.models.dropout import seed_dropout
from bertlab.models.task_checks import FEATURES, OF_A_SEQUENCE, layers_of, reads_one_state
from bertlab.models.task_model import TaskModel
from bertlab.task_config import KINDS

torch.set_num_threads(1)
HEADS: dict[str, dict[str, Any]] = {
    "plain": {},
    "two layers": {"layers": 2},
    "convolution": {"convolution": 3, "filters": 10},
    "bilstm": {"bilstm": True, "bilstm_hidden": 5, "bilstm_layers": 2},
    "convolution and bilstm": {"layers": 2, "convolution": 2, "bilstm": True},
}
OF_SEQUENCES: dict[str, dict[str, Any]] = {
    "mean": {"pooling": "mean"},
    "ends": {"pooling": "ends", "layers": 2},
    "convolution, mean_max": {"convolution": 3, "pooling": "mean_max"},
    "bilstm, max": {"bilstm": True, "pooling": "max"},
    "no pooler": {"pooler": False},
}


def task_model(bert: Bert, kind: str, features: str = "none", **head: Any) -> TaskModel:
    torch.manual_seed(2)
    given = {"dropout": 0.1} | head
    return TaskModel(bert, kind, 3, HeadConfig(**given), FeaturesConfig(features, hidden=12))


def heads_of(kind: str, bert: Bert) -> list[dict[str, Any]]:
    heads = [*HEADS.values(), *(OF_SEQUENCES.values() if kind in OF_A_SEQUENCE else []), *([{"crf": True}] if kind == "tagging" else [])]
    return [head for head in heads if head.get("layers", 1) <= layers_of(bert.architecture)]


def loss_of(model: TaskModel, batch: TaskBatch) -> float:
    with torch.no_grad():
        return float(model.loss(batch).loss)


@pytest.mark.parametrize("kind", KINDS)
def test_logits_have_all_their_bits_under_bf16(kind: str) -> None:
    """Rounded to bf16, numbers tie that are not alike, and spans and thresholds are chosen among ties."""
    model = task_model(toy_model(), kind).eval()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        logits = model.outputs(toy_task_batch(kind, LENGTHS)).logits
    assert logits.dtype == torch.float32
    assert not torch.equal(logits, logits.bfloat16().float())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("objective", "backbone"),
    [(o, b) for o, b in itertools.product(("mlm_nsp", "mlm", "ltr", "rtl"), BACKBONES) if b[1] == "auto" or o in ("ltr", "rtl")],
)
def test_every_head_on_every_model_learns(objective: str, backbone: tuple[str, str], kind: str) -> None:
    """A small step along the negative gradient lowers the loss, and everything that is to be trained has a gradient."""
    batch = toy_task_batch(kind, LENGTHS)
    for norm, heads in (("layer", None), ("batch", [{}])):
        bert = built(objective, backbone[0], norm, directions=backbone[1])
        for head in heads or heads_of(kind, bert):
            model = task_model(copy.deepcopy(bert), kind, **head).train()
            model.loss(batch).loss.backward()
            trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
            assert all(parameter.grad is not None and parameter.grad.isfinite().all() for parameter in trained)
            model.eval().zero_grad()
            before = model.loss(batch).loss
            before.backward()
            size = float(torch.stack([parameter.grad.square().sum() for parameter in trained]).sum())
            with torch.no_grad():
                for parameter in trained:
                    parameter.sub_(parameter.grad, alpha=min(1e-2, 1e-3 / size))
            assert loss_of(model, batch) < float(before.detach())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("backbone", [("transformer", "auto"), ("bilstm", "auto"), ("cbow", "auto")])
def test_sequences_do_not_touch_each_other(backbone: tuple[str, str], kind: str) -> None:
    bert = built("ltr", backbone[0], directions=backbone[1])
    batch = toy_task_batch(kind, LENGTHS)
    inside = torch.zeros_like(batch.inputs.tokens, dtype=torch.bool)
    inside[batch.inputs.offsets[3] : batch.inputs.offsets[4]] = True  # the fourth sequence
    changed = dataclasses.replace(batch, inputs=other_words(batch.inputs, inside))
    for head, features in [*((head, "none") for head in heads_of(kind, bert)), ({}, "weighted_sum_all"), ({}, "embeddings")]:
        model = task_model(bert, kind, features, **head).eval()
        with torch.no_grad():
            before, after = model.outputs(batch).logits, model.outputs(changed).logits
        moved = ~torch.isclose(before, after, atol=1e-6).reshape(len(before), -1).all(1)
        if kind == "span":
            own = inside
        elif kind == "tagging":
            own = inside[batch.word_tokens]
        else:
            own = torch.arange(len(before)) == 3
        assert not moved[~own].any()
        assert moved[own].any()


@pytest.mark.parametrize(("objective", "backbone"), itertools.product(("ltr", "rtl"), [("transformer", "auto"), ("bilstm", "one")]))
@pytest.mark.parametrize("features", ["none", "last"])
def test_what_a_causal_model_gives_its_head_knows_nothing_of_what_follows(objective: str, backbone: tuple[str, str], features: str) -> None:
    """Up to the head: every state. With the head: a plain tagger and a plain span; a BiLSTM on top is there to look further."""
    bert = built(objective, backbone[0], directions=backbone[1]).eval()
    for kind, place in itertools.product(("tagging", "span"), (1, 5, 12)):
        batch = toy_task_batch(kind, LENGTHS)
        future = batch.inputs.positions > place if objective == "ltr" else batch.inputs.positions < place
        changed = dataclasses.replace(batch, inputs=other_words(batch.inputs, future))
        with torch.no_grad():
            for before, after in zip(bert.states(batch.inputs), bert.states(changed.inputs), strict=True):
                assert torch.equal(before[~future], after[~future])
            seen = ~future if kind == "span" else ~future[batch.word_tokens]
            if features == "none":
                model = task_model(bert, kind).eval()
                before, after = model.outputs(batch).logits, model.outputs(changed).logits
                assert torch.equal(before[seen], after[seen])
                assert not torch.equal(before, after)
            model = task_model(bert, kind, features, bilstm=features == "none").eval()
            assert not torch.isclose(model.outputs(batch).logits[seen], model.outputs(changed).logits[seen]).all()


@pytest.mark.parametrize(("objective", "backbone"), itertools.product(("mlm", "ltr", "rtl"), BACKBONES[:2]))
def test_the_pooled_state_has_seen_every_word(objective: str, backbone: tuple[str, str]) -> None:
    batch = toy_task_batch("classification", [9])
    for head in ({}, {"bilstm": True}, {"pooling": "mean"}):
        model = task_model(built(objective, backbone[0]), "classification", **head).eval()
        for token in range(9):
            changed = dataclasses.replace(batch, inputs=other_words(batch.inputs, torch.tensor([token])))
            with torch.no_grad():
                assert not torch.equal(model.outputs(batch).logits, model.outputs(changed).logits)


@pytest.mark.parametrize("features", ["none", "weighted_sum_all"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_gradients_of_micro_batches_add_up_to_the_whole_batch(kind: str, features: str) -> None:
    lengths = [9, 24, 1, 13, 24, 2, 7, 5, 12, 3]
    bert = toy_model(dtype=torch.float64)
    for crf in {False, kind == "tagging"}:
        model = task_model(bert, kind, features, dropout=0.0, crf=crf).double().train()
        whole = toy_task_batch(kind, lengths)
        trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
        outcome = model.loss(whole)
        expected = torch.autograd.grad(outcome.loss, trained)
        total = [torch.zeros_like(parameter) for parameter in trained]
        sums: dict[str, float] = {"task_loss": 0.0, "items": 0}
        for part in split(whole, [2, len(whole.examples) - 2]):
            micro = model.loss(part)
            total = [a + b for a, b in zip(total, torch.autograd.grad(micro.loss, trained), strict=True)]
            sums = {name: value + float(micro.sums[name]) for name, value in sums.items()}
        torch.testing.assert_close(total, list(expected))
        assert sums["items"] == int(outcome.sums["items"]) == whole.count_in_step
        assert sums["task_loss"] == pytest.approx(float(outcome.sums["task_loss"]))
        assert float(outcome.loss.detach()) == pytest.approx(sums["task_loss"] / whole.count_in_step)


def split(batch: TaskBatch, counts: list[int]) -> list[TaskBatch]:
    """The batch in parts of so many examples."""
    sequences = [int(each.sum()) for each in batch.sequences_per_example.split(counts)]
    bounds = batch.inputs.offsets[torch.tensor([0, *itertools.accumulate(sequences)])].tolist()
    words = None if batch.words_per_example is None else [int(each.sum()) for each in batch.words_per_example.split(counts)]
    parts = []
    for number, examples in enumerate(batch.examples.split(counts)):
        first, end = bounds[number], bounds[number + 1]
        begin = sum(sequences[:number])
        offsets = batch.inputs.offsets[begin : begin + sequences[number] + 1] - first
        inputs = dataclasses.replace(
            batch.inputs,
            tokens=batch.inputs.tokens[first:end],
            segments=batch.inputs.segments[first:end],
            positions=batch.inputs.positions[first:end],
            offsets=offsets,
            max_length=int(offsets.diff().max()),
        )
        of_words = {} if words is None else {name: getattr(batch, name).split(words)[number] for name in ("word_tokens", "tags")}
        if of_words:
            of_words |= {"word_tokens": of_words["word_tokens"] - first, "words_per_example": batch.words_per_example.split(counts)[number]}
        parts.append(
            dataclasses.replace(
                batch,
                inputs=inputs,
                examples=examples,
                sequences_per_example=batch.sequences_per_example.split(counts)[number],
                labels=None if batch.labels is None else batch.labels.split(counts)[number],
                starts=None if batch.starts is None else batch.starts.split(sequences)[number],
                ends=None if batch.ends is None else batch.ends.split(sequences)[number],
                **of_words,
            )
        )
    return parts


def test_losses_are_those_of_a_loop() -> None:
    for kind in KINDS:
        model = task_model(toy_model(), kind).eval()
        batch = toy_task_batch(kind, LENGTHS)
        logits = model.outputs(batch).logits
        if kind == "choice":
            each = [
                part.log_softmax(0)[label]
                for part, label in zip(logits.split(batch.sequences_per_example.tolist()), batch.labels, strict=True)
            ]
            expected = -torch.stack(each).mean()
            best = [int(part.argmax()) for part in logits.split(batch.sequences_per_example.tolist())]
            assert model.predictions(model.outputs(batch), batch).tolist() == best
            shares = model.log_probabilities(model.outputs(batch), batch).exp().split(batch.sequences_per_example.tolist())
            torch.testing.assert_close(torch.stack([part.sum() for part in shares]), torch.ones(len(shares)))
        elif kind == "span":
            windows = logits.split(LENGTHS)
            losses = [
                -(window[:, 0].log_softmax(0)[start] + window[:, 1].log_softmax(0)[end]) / 2
                for window, start, end in zip(windows, batch.starts, batch.ends, strict=True)
            ]
            expected = torch.stack(losses).mean()
        elif kind == "regression":
            expected = (logits - batch.labels).square().mean()
            assert torch.equal(model.predictions(model.outputs(batch), batch), logits)
        else:
            targets = batch.labels if kind == "classification" else batch.tags
            expected = -logits.log_softmax(1)[torch.arange(len(targets)), targets].mean()
            assert torch.equal(model.predictions(model.outputs(batch), batch), logits.argmax(1))
        torch.testing.assert_close(model.loss(batch).loss, expected)


def test_words_whose_tag_is_unknown_do_not_count() -> None:
    model = task_model(toy_model(), "tagging").eval()
    batch = toy_task_batch("tagging", LENGTHS)
    known = torch.arange(len(batch.tags)) % 3 != 0
    logits = model.outputs(batch).logits
    expected = -logits.log_softmax(1)[torch.arange(len(batch.tags)), batch.tags][known].sum()
    batch.tags = torch.where(known, batch.tags, -1)
    found = model.loss(batch)
    torch.testing.assert_close(found.sums["task_loss"], expected.detach())
    assert int(found.sums["items"]) == int(known.sum())


def test_a_crf_decodes_and_is_part_of_the_loss() -> None:
    model = task_model(toy_model(), "tagging", crf=True).eval()
    batch = toy_task_batch("tagging", LENGTHS)
    outputs = model.outputs(batch)
    plain = loss_of(model, batch)
    model.head.crf.transitions.data.fill_diagonal_(30.0)  # a tag all but never changes within a sentence
    tags = model.predictions(outputs, batch)
    for sentence in tags.split(batch.words_per_example.tolist()):
        assert len(set(sentence.tolist())) <= 1
    assert loss_of(model, batch) > plain + 1


def test_the_pretrained_pooler_is_used_where_it_reads_what_it_always_read() -> None:
    bert = toy_model()
    for head, used in (
        ({}, True),
        ({"pooling": "first"}, True),
        ({"pooling": "mean"}, False),
        ({"layers": 2}, False),
        ({"bilstm": True}, False),
    ):
        model = task_model(bert, "classification", **head)
        assert model.head.takes_pretrained_pooler == used
        assert (model.head.pooler is None) == used
        assert all(parameter.requires_grad == used for parameter in model.bert.pooler.parameters())
    assert task_model(toy_model(next_sentence=False), "classification").head.pooler is not None
    without = task_model(bert, "classification", pooler=False)
    assert not without.head.takes_pretrained_pooler
    assert without.head.pooler is None


def test_fresh_layers_start_as_bert_does() -> None:
    torch.manual_seed(0)
    model = TaskModel(
        toy_model(hidden=64, heads=4, initializer_range=0.06), "classification", 3, HeadConfig(convolution=3, bilstm=True), FeaturesConfig()
    )
    for weight in (model.head.convolution.weights.weight, model.head.pooler.dense.weight, model.head.classifier.weight):
        assert weight.abs().max() <= 0.12
        assert 0.03 < weight.std() < 0.07
    assert not model.head.classifier.bias.any()
    gates = model.head.reader.layers[0]["rightward"].bias_ih_l0
    assert torch.equal(gates.view(4, -1).mean(1), torch.tensor([0.0, 1, 0, 0]))


def test_dropout_follows_its_seed() -> None:
    model = task_model(toy_model(), "classification", dropout=0.5).train()
    batch = toy_task_batch("classification", LENGTHS)
    results = []
    for step in (0, 1, 0):
        seed_dropout(1, step, 0, 0)
        results.append(loss_of(model, batch))
    assert results[0] == results[2] != results[1]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("objective", "backbone"), [("mlm_nsp", "transformer"), ("ltr", "transformer"), ("mlm", "bilstm")])
def test_logits_are_those_of_a_head_on_the_states_of_all_tokens(objective: str, backbone: str, kind: str) -> None:
    bert = built(objective, backbone)
    for head in heads_of(kind, bert):
        model, batch = task_model(bert, kind, **head).eval(), toy_task_batch(kind, LENGTHS)
        states = torch.cat(model.bert.states(batch.inputs)[-model.layers :], -1)
        expected = model.head(states, batch.inputs, batch.word_tokens if kind == "tagging" else None, model.bert.pooler)
        torch.testing.assert_close(model(batch), expected)


def test_a_plain_head_asks_for_no_state_that_it_does_not_read() -> None:
    asked: list[int | None] = []
    for kind, head in itertools.product(KINDS, ({}, {"bilstm": True})):
        model, batch = task_model(toy_model(), kind, **head), toy_task_batch(kind, LENGTHS)
        model.bert.backbone.register_forward_pre_hook(lambda _module, inputs: asked.append(len(inputs[2]) if len(inputs) > 2 else None))
        model(batch)
        words = None if batch.word_tokens is None else len(batch.word_tokens)
        expected = None if head or kind == "span" else words or len(LENGTHS)
        assert asked.pop() == expected, (kind, head)
        assert reads_one_state(kind, HeadConfig(**head), model.bert.architecture) == (kind in OF_A_SEQUENCE and not head)


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize(("backbone", "directions"), [("transformer", "auto"), ("bilstm", "auto"), ("bilstm", "one"), ("cbow", "auto")])
def test_states_are_those_of_the_forward_pass(backbone: str, directions: str, placement: str) -> None:
    bert = built("ltr", backbone, placement=placement, directions=directions, layers=3).eval()
    batch = toy_batch(LENGTHS)
    seen: list[torch.Tensor] = []
    if backbone == "transformer":
        for layer in bert.backbone.layers:
            layer.register_forward_hook(lambda _module, _inputs, output: seen.append(output))
    with torch.no_grad():
        states, forward = bert.states(batch), bert(batch)
        assert torch.equal(states[0], bert.embeddings(batch)[0])
    assert len(states) == 1 + layers_of(bert.architecture)
    assert torch.equal(states[-1], forward)
    if backbone == "transformer":
        for number in range(1, 4 if placement == "post" else 3):
            assert torch.equal(states[number], seen[number - 1])


@pytest.mark.parametrize(
    ("blind", "changes"),
    [
        ("first", {"attention": "causal"}),
        ("last", {"attention": "anticausal"}),
        ("first", {"attention": "causal", "backbone": "cbow"}),
        ("first", {"attention": "causal", "backbone": "bilstm", "directions": "forward"}),
        ("last", {"attention": "anticausal", "backbone": "bilstm", "directions": "backward"}),
        # A masked language model may be a single LSTM as well.
        ("first", {"backbone": "bilstm", "directions": "forward"}),
        ("last", {"backbone": "bilstm", "directions": "backward"}),
    ],
)
def test_a_state_that_has_seen_no_word_is_not_pooled(blind: str, changes: dict[str, str]) -> None:
    bert = toy_model(next_sentence=False, **changes).eval()
    batch = toy_batch([5, 5])
    batch.tokens[[0, 5]], batch.tokens[[4, 9]] = 2, 3  # different words between the same [CLS] and [SEP]
    with torch.no_grad():
        ends = {"first": bert(batch)[[0, 5]], "last": bert(batch)[[4, 9]]}
    assert torch.equal(ends[blind][0], ends[blind][1])
    seeing = {"first": "last", "last": "first"}[blind]
    assert not torch.equal(ends[seeing][0], ends[seeing][1])
    with pytest.raises(UserError, match=f"head.pooling={blind} takes a state that has seen no word.*head.pooling={seeing}"):
        task_model(bert, "classification", pooling=blind)
    task_model(bert, "classification", pooling=seeing)
    task_model(bert, "classification", pooling=blind, bilstm=True)  # which reads both ways


@pytest.mark.parametrize("changes", [{}, {"backbone": "bilstm"}, {"backbone": "cbow"}])
def test_of_a_model_that_reads_both_ways_either_end_may_be_pooled(changes: dict[str, str]) -> None:
    for pooling in ("first", "last"):
        task_model(toy_model(**changes), "classification", pooling=pooling)


def test_a_head_that_cannot_be_is_refused_in_a_sentence() -> None:
    for kind, head, features, word in (
        ("span", {"crf": True}, "none", "head.crf"),
        ("tagging", {"pooling": "mean"}, "none", "head.pooling"),
        ("classification", {"pooling": "average"}, "none", "average"),
        ("classification", {"layers": 3}, "none", "head.layers"),
        ("classification", {"layers": 0}, "none", "head.layers"),
        ("classification", {"filters": 8}, "none", "head.convolution"),
        ("classification", {"bilstm_layers": 2}, "none", "head.bilstm=true"),
        ("classification", {"dropout": 1.0}, "none", "head.dropout"),
        ("classification", {"bilstm": True}, "last", "features"),
        ("classification", {"convolution": 3}, "last", "features"),
        ("classification", {"layers": 2}, "last", "features"),
        ("classification", {}, "lst", "last"),
        ("classification", {}, "concat_last_4", "has 2 layers: choose features=concat_all"),
        ("tagging", {}, "weighted_sum_last_4", "has 2 layers: choose features=weighted_sum_all"),
        ("parsing", {}, "none", "kind of task"),
    ):
        with pytest.raises(UserError, match=word):
            task_model(toy_model(), kind, features, **head)
    kinds = {"embeddings", "second_to_last", "last", "weighted_sum_last_4", "concat_last_4", "weighted_sum_all", "concat_all"}
    assert set(FEATURES) == {"none", *kinds}
