from __future__ import annotations

from dataclasses import replace

import pytest

from bertlab.ablation.fairness import allotted, flops_of, flops_per_position, in_words, positions_of
from bertlab.config import (
    BatchConfig,
    BudgetConfig,
    LengthsConfig,
    MaskingConfig,
    ModelConfig,
    ObjectiveConfig,
    PretrainConfig,
    StageConfig,
    TokenizerConfig,
)
from bertlab.errors import UserError


def configured(objective: str = "mlm", layers: int = 1, budget: BudgetConfig | None = None) -> PretrainConfig:
    """A model of width 4 over 100 words; 60% of the steps are 4 sequences of length 8, the others 2 of length 16."""
    return PretrainConfig(
        model=ModelConfig(layers=layers, hidden=4, heads=2, intermediate=16),
        objective=ObjectiveConfig(kind=objective),
        masking=MaskingConfig(rate=0.25),
        tokenizer=TokenizerConfig(vocab_size=100),
        batch=BatchConfig(sequences=2, length=16),
        lengths=LengthsConfig(stages=[StageConfig(0.6, 8, 4), StageConfig(0.4, 16, 3)]),
        budget=budget or BudgetConfig(steps=10),
    )


# By hand. A layer: 4 H² of attention and 2 H I of the feed-forward, 64 + 128 = 192 weights; attention over L tokens 2 L H; the head
# predicts a share of the positions with H² + H V = 16 + 400 = 416 weights. Six FLOPs for each. Of a position that predicts nothing the
# one layer, which is the highest, needs keys and values alone, 2 H² = 32 weights.
def by_hand(seen: float, share: float) -> float:
    return 6 * (32 + share * (160 + 2 * seen * 4) + share * 416)


class TestCounts:
    def test_positions(self) -> None:
        assert positions_of(configured()) == 6 * 4 * 8 + 4 * 3 * 16

    def test_flops_of_a_masked_model(self) -> None:
        expected = 6 * 32 * by_hand(8, 0.25) + 4 * 48 * by_hand(16, 0.25)
        assert flops_of(configured()) == pytest.approx(expected, rel=1e-12)
        assert flops_per_position(configured()) == pytest.approx(expected / (6 * 32 + 4 * 48), rel=1e-12)

    def test_flops_of_a_left_to_right_model(self) -> None:
        expected = 6 * 32 * by_hand(4.5, 1.0) + 4 * 48 * by_hand(8.5, 1.0)
        assert flops_of(configured("ltr")) == pytest.approx(expected, rel=1e-12)

    def test_minutes_have_neither(self) -> None:
        config = configured(budget=BudgetConfig(minutes=5))
        assert positions_of(config) is None
        assert flops_of(config) is None
        assert flops_per_position(config) > 0


class TestBudgets:
    def test_the_same_positions(self) -> None:
        """A row with other batches gets other steps, and one with the same keeps what it has."""
        baseline = configured()
        other = replace(configured("ltr"), lengths=LengthsConfig(), batch=BatchConfig(sequences=3, length=16))
        assert allotted(configured("ltr"), baseline, "tokens", 1.0, 9) == BudgetConfig(steps=10)
        assert allotted(other, baseline, "tokens", 1.0, 9) == BudgetConfig(tokens=384.0)
        assert positions_of(replace(other, budget=allotted(other, baseline, "tokens", 1.0, 9))) == 384

    def test_the_same_flops(self) -> None:
        baseline, row = configured(budget=BudgetConfig(tokens=1e6)), configured("ltr", layers=2, budget=BudgetConfig(tokens=1e6))
        given = replace(row, budget=allotted(row, baseline, "flops", 1.0, 9))
        assert given.budget.tokens is not None
        assert given.budget.tokens < 1e6
        assert flops_of(given) == pytest.approx(flops_of(baseline), rel=1e-3)  # whole steps
        assert allotted(baseline, baseline, "flops", 1.0, 9) == baseline.budget

    def test_minutes(self) -> None:
        assert allotted(configured(), configured(), "minutes", 2.0, 9) == BudgetConfig(minutes=18)
        by_command = configured(budget=BudgetConfig(minutes=5))
        assert allotted(configured(budget=BudgetConfig(minutes=5)), by_command, "tokens", 1.0, 9) == BudgetConfig(minutes=5)
        assert allotted(configured(budget=BudgetConfig(minutes=5)), by_command, "tokens", 2.0, 9) == BudgetConfig(minutes=10)

    def test_minutes_have_no_flops_to_be_alike(self) -> None:
        by_command = configured(budget=BudgetConfig(minutes=5))
        with pytest.raises(UserError, match=r"--budget flops counts positions, but budget.minutes=5 does not set their number"):
            allotted(by_command, by_command, "flops", 1.0, 9)

    @pytest.mark.parametrize("budget", ["tokens", "flops"])
    def test_a_multiple(self, budget: str) -> None:
        baseline = configured(budget=BudgetConfig(tokens=1e6))
        given = allotted(baseline, baseline, budget, 2.0, 9)
        assert given.tokens == pytest.approx(2e6, rel=1e-3)


class TestSentences:
    def test_tokens(self) -> None:
        rows = {"bert": configured(), "ltr": configured("ltr")}
        said = in_words(rows, "bert", "tokens", {"bert": 1.0, "ltr": 1.0})
        ratio = (flops_of(rows["ltr"]) or 0) / (flops_of(rows["bert"]) or 1)
        assert "the same 384 positions" in said
        assert f"1 to {ratio:.3g} times the FLOPs of bert" in said
        assert "predict 25 to 100% of the positions" in said

    def test_flops_minutes_and_multiples(self) -> None:
        base = configured()
        assert "the same 384 positions (except twice ×2)" in in_words({"bert": base}, "bert", "tokens", {"bert": 1, "twice": 2})
        assert "the same" in in_words({"bert": base}, "bert", "flops", {})
        assert "5 minutes" in in_words({"bert": configured(budget=BudgetConfig(minutes=5))}, "bert", "minutes", {})
