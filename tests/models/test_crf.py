"""The linear-chain CRF against all taggings written out, and against an independent implementation."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor
from torchcrf import CRF
from toys import toy_batch

from bertlab.data.batches import Batch
from bertlab.models.crf import LinearChainCRF

torch.set_num_threads(1)
LENGTHS = [4, 1, 6, 3]
TAGS = 3


def built(dtype: torch.dtype = torch.float64) -> LinearChainCRF:
    torch.manual_seed(0)
    crf = LinearChainCRF(TAGS).to(dtype)
    with torch.no_grad():
        for parameter in crf.parameters():
            parameter.copy_(torch.randn_like(parameter))
    return crf


def drawn(lengths: list[int], scale: float = 2.0) -> tuple[Tensor, Tensor, Batch]:
    torch.manual_seed(1)
    total = sum(lengths)
    return torch.randn(total, TAGS, dtype=torch.float64) * scale, torch.randint(TAGS, (total,)), toy_batch(lengths, predict="next")


def score(crf: LinearChainCRF, emissions: Tensor, tags: list[int]) -> Tensor:
    total = crf.start[tags[0]] + crf.end[tags[-1]] + sum(emissions[place, tag] for place, tag in enumerate(tags))
    return total + sum(crf.transitions[before, after] for before, after in itertools.pairwise(tags))


def test_likelihood_and_best_tagging_are_those_of_all_taggings() -> None:
    crf = built()
    emissions, tags, sentences = drawn(LENGTHS)
    likelihood, best = crf.log_likelihood(emissions, tags, sentences), crf.decode(emissions, sentences)
    for number, (emission, tag, found) in enumerate(zip(emissions.split(LENGTHS), tags.split(LENGTHS), best.split(LENGTHS), strict=True)):
        every = list(itertools.product(range(TAGS), repeat=len(tag)))
        scores = torch.stack([score(crf, emission, list(each)) for each in every])
        expected = score(crf, emission, tag.tolist()) - scores.logsumexp(0)
        torch.testing.assert_close(likelihood[number], expected)
        assert tuple(found.tolist()) == every[int(scores.argmax())]


def test_another_implementation_agrees_on_loss_gradients_and_tags() -> None:
    lengths = [7, 19, 1, 12, 19, 3]
    ours = built()
    emissions, tags, sentences = drawn(lengths)
    theirs = CRF(TAGS, batch_first=True).double()
    with torch.no_grad():
        theirs.start_transitions.copy_(ours.start)
        theirs.end_transitions.copy_(ours.end)
        theirs.transitions.copy_(ours.transitions)
    mask = torch.arange(19) < torch.tensor(lengths)[:, None]
    laid = torch.zeros(len(lengths), 19, TAGS, dtype=torch.float64)
    laid[mask] = emissions
    wanted = torch.zeros(len(lengths), 19, dtype=torch.int64)
    wanted[mask] = tags
    emissions.requires_grad_()
    laid.requires_grad_()
    found = ours.log_likelihood(emissions, tags, sentences)
    expected = theirs(laid, wanted, mask, reduction="none")
    torch.testing.assert_close(found, expected)
    found.sum().backward()
    expected.sum().backward()
    torch.testing.assert_close(emissions.grad, laid.grad[mask])
    torch.testing.assert_close(ours.transitions.grad, theirs.transitions.grad)
    torch.testing.assert_close(ours.start.grad, theirs.start_transitions.grad)
    torch.testing.assert_close(ours.end.grad, theirs.end_transitions.grad)
    assert ours.decode(emissions, sentences).tolist() == list(itertools.chain(*theirs.decode(laid, mask)))


def test_a_fresh_crf_is_a_softmax_of_each_word() -> None:
    emissions, tags, sentences = drawn(LENGTHS)
    crf = LinearChainCRF(TAGS).double()
    per_word = emissions.log_softmax(1).gather(1, tags[:, None]).view(-1)
    expected = torch.stack([each.sum() for each in per_word.split(LENGTHS)])
    torch.testing.assert_close(crf.log_likelihood(emissions, tags, sentences), expected)
    assert torch.equal(crf.decode(emissions, sentences), emissions.argmax(1))


@pytest.mark.parametrize("lengths", [[0, 3, 0, 2], [0, 0], [1]])
def test_sentences_without_words(lengths: list[int]) -> None:
    crf = built()
    emissions, tags, sentences = drawn(lengths)
    sentences.max_length = max(1, sentences.max_length)
    likelihood = crf.log_likelihood(emissions, tags, sentences)
    assert [value == 0 for value in likelihood.tolist()] == [length == 0 for length in lengths]
    assert crf.decode(emissions, sentences).shape == tags.shape
    alone, its_tags, its_sentence = emissions[: lengths[1] if len(lengths) > 1 else 1], tags, toy_batch([3])
    if lengths == [0, 3, 0, 2]:
        torch.testing.assert_close(likelihood[1:2], crf.log_likelihood(alone, its_tags[:3], its_sentence))


def test_a_rectangle_wider_than_needed_changes_nothing() -> None:
    crf = built()
    emissions, tags, sentences = drawn(LENGTHS)
    expected = crf.log_likelihood(emissions, tags, sentences), crf.decode(emissions, sentences)
    sentences.max_length += 5
    torch.testing.assert_close(crf.log_likelihood(emissions, tags, sentences), expected[0])
    assert torch.equal(crf.decode(emissions, sentences), expected[1])


def test_half_precision_is_added_up_in_single() -> None:
    crf = built(torch.float32)
    emissions, tags, sentences = drawn([300])
    with torch.autocast("cpu", torch.bfloat16):
        found = crf.log_likelihood(emissions.bfloat16(), tags, sentences)
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, crf.log_likelihood(emissions.bfloat16().float(), tags, sentences))
