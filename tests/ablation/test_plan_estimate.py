from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from bertlab.ablation.costs import finetuning_cost, pretraining_cost
from bertlab.ablation.estimate import START_SECONDS, estimate
from bertlab.ablation.fairness import flops_of
from bertlab.ablation.graph import FINETUNING, PRETRAINING, Node, Plan, Record
from bertlab.ablation.records import write_record
from bertlab.config import BatchConfig, BudgetConfig, ModelConfig, PretrainConfig
from bertlab.finetune_config import FeaturesConfig, FinetuneConfig, HeadConfig, TuningConfig
from bertlab.models.architecture import Architecture
from bertlab.models.size import flops_per_token
from bertlab.task_config import ProbeConfig, TaskConfig
from bertlab.tasks.windows import SpanOptions, place_windows

PRETRAINED = Node("a" * 16, PRETRAINING, ("scale=smoke",), 1, positions=1e6, flops=1e12)
TUNED = Node("b" * 16, FINETUNING, ("task=x",), 1, source="a" * 16, flops=2e11)


def done(runs: Path, node: Node, seconds: float) -> None:
    folder = runs / f"{node.kind}-{node.key}"
    folder.mkdir(parents=True)
    (folder / "result.json").write_text("{}")
    write_record(runs, Record(node.key, "done", str(folder), seconds=seconds))


class TestStates:
    def test_done_failed_and_to_do(self, tmp_path: Path) -> None:
        nodes = [replace(PRETRAINED, key=key * 16) for key in "abc"]
        found = Plan({node.key: node for node in nodes})
        done(tmp_path, nodes[0], 60)
        write_record(tmp_path, Record(nodes[1].key, "failed", "", "why"))
        known = estimate(found, tmp_path, 1)
        assert [known.state(node.key) for node in nodes] == ["done", "failed before", "to do"]
        assert known.left(found) == nodes[1:]


class TestTimes:
    def test_runs_that_cost_the_same_take_the_same(self, tmp_path: Path) -> None:
        other = replace(PRETRAINED, key="c" * 16, seed=2)
        tuned = replace(TUNED, flops=PRETRAINED.flops)  # of the same cost, but of another kind
        done(tmp_path, PRETRAINED, 123)
        done(tmp_path, tuned, 321)
        assert estimate(Plan({node.key: node for node in (PRETRAINED, other, tuned)}), tmp_path, 1).seconds[other.key] == 123

    def test_other_runs_by_the_rate_of_their_kind(self, tmp_path: Path) -> None:
        larger = replace(PRETRAINED, key="c" * 16, flops=3e12)
        done(tmp_path, PRETRAINED, START_SECONDS + 100)
        known = estimate(Plan({node.key: node for node in (PRETRAINED, larger)}), tmp_path, 1)
        assert known.seconds[larger.key] == pytest.approx(START_SECONDS + 300)
        assert known.basis == "runs of this plan"

    def test_by_earlier_runs_of_the_folder(self, tmp_path: Path) -> None:
        config = PretrainConfig(model=ModelConfig(layers=1, hidden=8, heads=2), batch=BatchConfig(4, 16), budget=BudgetConfig(steps=10))
        architecture = Architecture.of(config, 100)
        result = {
            "identity": {
                "architecture": architecture.to_dict(),
                "masking": {"rate": 0.15},
                "budget": {"steps": 10, "minutes": None, "stages": [[10, 16, 4]]},
            },
            "seconds": 2.0,
        }
        (tmp_path / "pretrain-x").mkdir()
        (tmp_path / "pretrain-x" / "result.json").write_text(json.dumps(result))
        (tmp_path / "pretrain-y").mkdir()
        (tmp_path / "pretrain-y" / "result.json").write_text("{")  # damaged
        rate = 640 * flops_per_token(architecture, 16, 0.15) / 2.0
        known = estimate(Plan({PRETRAINED.key: PRETRAINED}), tmp_path, 1)
        assert known.seconds[PRETRAINED.key] == pytest.approx(START_SECONDS + 1e12 / rate)
        assert "earlier runs" in known.basis

    def test_fine_tunings_by_earlier_ones_which_predict_no_words(self, tmp_path: Path) -> None:
        architecture = Architecture(vocab_size=100, hidden=8, layers=1, heads=2, intermediate=16, next_sentence=False)
        result = {"identity": {"architecture": architecture.to_dict()}, "tokens": 640, "seconds": 2.0}
        (tmp_path / "finetune-x").mkdir()
        (tmp_path / "finetune-x" / "result.json").write_text(json.dumps(result))
        # A layer: 4 H² + 2 H I weights, and attention over the usual 50 tokens, 2 L H.
        rate = 640 * 6 * (4 * 64 + 2 * 8 * 16 + 2 * 50 * 8) / 2.0
        known = estimate(Plan({TUNED.key: TUNED}), tmp_path, 1)
        assert known.seconds[TUNED.key] == pytest.approx(START_SECONDS + 2e11 / rate)

    @pytest.mark.parametrize(
        "content",
        [
            "[1]",
            "{}",
            '{"identity": []}',
            '{"identity": {"architecture": 1}}',
            '{"identity": {"architecture": {}}, "tokens": 9, "seconds": "x"}',
        ],
    )
    def test_results_that_tell_no_rate_are_passed_over(self, tmp_path: Path, content: str, monkeypatch: pytest.MonkeyPatch) -> None:
        for kind in ("pretrain", "finetune"):
            (tmp_path / f"{kind}-x").mkdir()
            (tmp_path / f"{kind}-x" / "result.json").write_text(content)
        found = Path.glob
        gone = tmp_path / "pretrain-gone" / "result.json"  # deleted since it was listed
        monkeypatch.setattr(Path, "glob", lambda self, pattern: [gone, *found(self, pattern)])
        plan = Plan({node.key: replace(node, overrides=("trainer=cpu",)) for node in (PRETRAINED, TUNED)})
        assert "earlier runs" not in estimate(plan, tmp_path, 1).basis

    def test_minutes_take_minutes(self, tmp_path: Path) -> None:
        node = replace(PRETRAINED, overrides=("budget.minutes=3",), flops=0.0)
        assert estimate(Plan({node.key: node}), tmp_path, 1).seconds[node.key] == 180 + START_SECONDS

    def test_half_of_the_machine_takes_twice_as_long(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("bertlab.ablation.estimate._cpu_peak", lambda: 1e10)
        plan = Plan({TUNED.key: replace(TUNED, overrides=("trainer=cpu",))})
        whole, half = (estimate(plan, tmp_path, jobs).seconds[TUNED.key] for jobs in (1, 2))
        assert whole is not None
        assert half is not None
        assert half - START_SECONDS == pytest.approx(2 * (whole - START_SECONDS))

    def test_runs_at_a_time_share_the_time_but_none_begins_before_its_source(self, tmp_path: Path) -> None:
        measured = [replace(PRETRAINED, key="0" * 16), replace(TUNED, key="1" * 16, source="0" * 16)]
        for node, seconds in zip(measured, (100, 20), strict=True):
            done(tmp_path, node, seconds)
        to_do = [PRETRAINED, *(replace(TUNED, key=key * 16) for key in "cdef")]  # the fine-tunings start from it
        plan = Plan({node.key: node for node in (*measured, *to_do)})
        known = {jobs: estimate(plan, tmp_path, jobs) for jobs in (1, 2, 3, 4)}
        assert known[2].left(plan) == to_do
        assert {jobs: each.seconds_to_do(plan) for jobs, each in known.items()} == {1: 180.0, 2: 120.0, 3: 120.0, 4: 120.0}

    def test_without_any_run_by_the_machine(self, tmp_path: Path) -> None:
        known = estimate(Plan({TUNED.key: replace(TUNED, overrides=("trainer=cpu",))}), tmp_path, 1)
        seconds = known.seconds[TUNED.key]
        assert seconds is not None
        assert seconds > START_SECONDS


def lstm_flops(inputs: int, width: int, layers: int) -> int:
    """Six a token and weight of PyTorch's, of ``width`` in either direction."""
    named = torch.nn.LSTM(inputs, width, layers, bidirectional=True).named_parameters()
    return 6 * sum(weight.numel() for name, weight in named if name.startswith("weight"))


class TestCosts:
    def test_a_pretraining(self) -> None:
        config = PretrainConfig(batch=BatchConfig(4, 16), budget=BudgetConfig(steps=10))
        assert pretraining_cost(config).tokens == 640
        assert pretraining_cost(config).flops == flops_of(config)
        assert pretraining_cost(replace(config, budget=BudgetConfig(minutes=1))).flops == 0

    def test_a_fine_tuning_grows_with_what_it_sees(self) -> None:
        task = TaskConfig(name="p", kind="classification", format="probe", probe=ProbeConfig(train=100, dev=50))
        config = FinetuneConfig(task=task, tuning=TuningConfig(epochs=2.0))
        architecture = Architecture(hidden=8, layers=1, heads=2, intermediate=16)
        cost = finetuning_cost(config, architecture)
        assert cost.tokens == 2 * 100 * 50
        twice = finetuning_cost(replace(config, tuning=TuningConfig(epochs=4.0)), architecture)
        assert cost.flops < twice.flops < 2 * cost.flops + 1e9
        fewer = finetuning_cost(replace(config, tuning=TuningConfig(epochs=2.0, train_examples=10, eval_examples=10)), architecture)
        assert fewer.tokens == cost.tokens / 10

    def test_a_fine_tuning_by_hand(self) -> None:
        """A training step is three times a forward pass, which an evaluation takes alone: 2 / 0.5 of them, and at the end one a split."""
        task = TaskConfig(kind="classification", format="probe", evaluate=["dev", "test"], probe=ProbeConfig(train=100, dev=40))
        config = FinetuneConfig(task=task, tuning=TuningConfig(epochs=2.0, evaluate_every=0.5, eval_examples=30))
        architecture = Architecture(hidden=8, layers=4, heads=2, intermediate=16)
        examples = 2 * 100 + 30 * (4 + 2) / 3
        encoder = examples * 50 * flops_per_token(architecture, 50, 0.0, read_share=1.0)
        assert finetuning_cost(config, architecture).flops == pytest.approx(encoder)
        on_top = replace(config, head=HeadConfig(bilstm=True, bilstm_hidden=5, bilstm_layers=2))
        assert finetuning_cost(on_top, architecture).flops == pytest.approx(encoder + examples * 50 * lstm_flops(8, 5, 2))
        frozen = replace(config, features=FeaturesConfig(kind="concat_last_4", hidden=10, layers=2))
        forward = (100 + 30) / 3 * 50 * flops_per_token(architecture, 50, 0.0, read_share=1.0)
        assert finetuning_cost(frozen, architecture).flops == pytest.approx(forward + examples * 50 * lstm_flops(4 * 8, 5, 2))

    @pytest.mark.parametrize(("length", "stride"), [(384, 128), (128, 64), (128, 112), (64, 16)])
    def test_a_long_context_is_read_in_windows(self, length: int, stride: int) -> None:
        """An example of 13 tokens of question and 157 of context, as the task itself would part it."""
        task = TaskConfig(name="p", kind="span", format="probe", max_length=length, stride=stride, probe=ProbeConfig(train=100, dev=50))
        cost = finetuning_cost(FinetuneConfig(task=task, tuning=TuningConfig(epochs=1.0)), Architecture())
        windows = place_windows(np.array([13]), np.array([157]), SpanOptions(length, stride, task.max_query_length))
        assert cost.tokens == 100 * (windows.lengths + 16).sum()

    def test_frozen_features_run_the_encoder_once(self) -> None:
        task = TaskConfig(name="p", kind="tagging", format="probe", probe=ProbeConfig(train=100, dev=50))
        config = FinetuneConfig(task=task, tuning=TuningConfig(epochs=10.0))
        architecture = Architecture()
        frozen = replace(config, features=FeaturesConfig(kind="last", hidden=16, layers=1))
        assert finetuning_cost(frozen, architecture).flops < finetuning_cost(config, architecture).flops / 10
