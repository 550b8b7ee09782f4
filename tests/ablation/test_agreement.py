from __future__ import annotations

from math import factorial

import pytest

from bertlab.ablation.agreement import rank_agreement, sign_agreement
from bertlab.ablation.comparable import Quantity, comparable


def test_signs() -> None:
    assert sign_agreement(-0.02, -0.1, resolved=True).agrees
    assert sign_agreement(0.02, -0.1, resolved=True).contradicts
    assert not sign_agreement(0.02, -0.1, resolved=False).contradicts
    assert sign_agreement(0.0, -0.1, resolved=False).agrees is None
    assert not sign_agreement(0.02, 0.0, resolved=True).contradicts


def test_ranks_are_over_rows_that_both_have() -> None:
    here = {"bert": 0.8, "no_nsp": 0.7, "ltr": 0.6, "bilstm": 0.65, "random": 0.1}
    same = rank_agreement(here, {"bert": 84.4, "no_nsp": 83.9, "ltr": 82.1, "bilstm": 82.2, "other": 1.0})
    assert (same.rows, same.kendall, same.spearman) == (4, 1, 1)
    assert same.kendall_p == pytest.approx(2 / factorial(4))  # of 4! orders, this one and its reverse
    reverse = rank_agreement(here, {"bert": 1, "no_nsp": 2, "ltr": 4, "bilstm": 3})
    assert (reverse.kendall, reverse.spearman) == (-1, -1)
    one_pair = rank_agreement(here, {"bert": 4, "no_nsp": 3, "ltr": 2, "bilstm": 1})
    assert one_pair.kendall == pytest.approx((5 - 1) / 6)
    assert one_pair.spearman == pytest.approx(1 - 6 * 2 / (4 * 15))


def test_two_rows_or_equal_ones_have_no_order() -> None:
    assert rank_agreement({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 2.0}).kendall is None
    assert rank_agreement({"a": 1.0, "b": 2.0, "c": 3.0}, {"a": 1.0, "b": 1.0, "c": 1.0}).kendall is None


def test_perplexities_stand_beside_their_like_only() -> None:
    mlm = Quantity("perplexity", "d1", "mlm", "v1", "15% masked")
    assert comparable(mlm, mlm) is None
    assert "different things" in str(comparable(mlm, Quantity("perplexity", "d1", "ltr", "v1")))
    assert "vocabularies" in str(comparable(mlm, Quantity("perplexity", "d1", "mlm", "v2")))
    assert "different data" in str(comparable(mlm, Quantity("perplexity", "d2", "mlm", "v1")))
    assert "measured differently" in str(comparable(mlm, Quantity("perplexity", "d1", "mlm", "v1", "40% masked")))
    assert "different metrics" in str(comparable(mlm, Quantity("accuracy", "d1", "mlm", "v1")))
    # What is not known to be the same vocabulary is not: no verdict on a guess.
    assert comparable(mlm, Quantity("perplexity", "d1", "mlm", None)) is not None


def test_a_task_s_metric_may_stand_beside_any_model_s() -> None:
    assert comparable(Quantity("f1", "squad", "mlm", "v1"), Quantity("f1", "squad", "ltr", "v2")) is None
