from __future__ import annotations

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from toys import LENGTHS, TINY, toy_batch, toy_model

from bertlab.config import PretrainConfig
from bertlab.models.norms import TokenBatchNorm, make_norm
from bertlab.objectives import objective_of

torch.set_num_threads(1)

RANK = """
import sys, torch, torch.distributed as dist
from bertlab.models.norms import TokenBatchNorm
torch.set_num_threads(1)
rank, folder = int(sys.argv[1]), sys.argv[2]
dist.init_process_group("gloo", init_method=f"file://{folder}/meeting", rank=rank, world_size=2)
torch.manual_seed(0)
x, weights = torch.randn(11, 5, dtype=torch.float64) * 3 + 2, torch.randn(11, 5, dtype=torch.float64)
part = slice(0, 4) if rank == 0 else slice(4, 11)
x = x[part].requires_grad_()
norm = TokenBatchNorm(5, eps=1e-5).double()
y = norm(x)
(y * weights[part]).sum().backward()
torch.save((y.detach(), x.grad, norm.weight.grad, norm.bias.grad, norm.running_mean, norm.running_var), f"{folder}/{rank}.pt")
dist.destroy_process_group()
"""


def test_batch_norm_is_over_real_tokens_alone() -> None:
    norm, x = TokenBatchNorm(6), torch.randn(50, 6) * 4 + 1
    y = norm(x)
    torch.testing.assert_close(y.mean(0), torch.zeros(6), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.var(0, unbiased=False), torch.ones(6), atol=1e-4, rtol=0)
    torch.testing.assert_close(norm.running_mean, 0.1 * x.mean(0))
    torch.testing.assert_close(norm.running_var, 0.9 + 0.1 * x.var(0))


def test_evaluation_uses_what_training_saw() -> None:
    norm, x = TokenBatchNorm(6, momentum=1.0), torch.randn(50, 6) * 4 + 1
    norm(x)
    norm.eval()
    probe = torch.randn(3, 6)
    torch.testing.assert_close(norm(probe), (probe - x.mean(0)) / torch.sqrt(x.var(0) + norm.eps))


ATTENTION = {"mlm": "bidirectional", "ltr": "causal", "rtl": "anticausal"}
READERS = [
    *((objective, backbone, "both") for objective in ATTENTION for backbone in ("transformer", "cbow")),
    *(("mlm", "bilstm", directions) for directions in ("both", "forward")),
    *((objective, "bilstm", "pair") for objective in ("ltr", "rtl")),
]


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize(("objective", "backbone", "directions"), READERS)
def test_in_training_every_norm_sees_the_real_tokens_and_no_padding(objective: str, backbone: str, directions: str, placement: str) -> None:
    changes = {"backbone": backbone, "directions": directions, "attention": ATTENTION[objective], "placement": placement}
    model = toy_model(norm="batch", next_sentence=False, dropout=0.1, attention_dropout=0.1, **changes).train()
    config = PretrainConfig()
    config.objective.kind = objective
    chosen = objective_of(config)
    batch = toy_batch(LENGTHS, predict=chosen.predict)  # of very different lengths
    rows: dict[str, list[int]] = {}
    for name, module in model.named_modules():
        if isinstance(module, TokenBatchNorm):
            rows[name] = []
            module.register_forward_pre_hook(lambda _module, inputs, name=name: rows[name].append(len(inputs[0])))
    chosen.loss(model, batch).loss.backward()
    of_the_head = rows.pop("language_head.norm")
    assert of_the_head == [len(batch.predicted) * (2 if directions == "pair" else 1)]
    assert len(rows) >= (1 if placement == "pre" else 2)
    assert all(seen == [len(batch.tokens)] for seen in rows.values()), rows


def test_statistics_are_in_fp32_under_bf16() -> None:
    """Numbers of a large mean and a small spread: in bf16 the spread would be lost."""
    norm, x = TokenBatchNorm(4), torch.randn(4096, 4) * 0.5 + 100
    with torch.autocast("cpu", torch.bfloat16):
        y = norm(x)
    torch.testing.assert_close(y, norm.train()(x), atol=1e-3, rtol=1e-3)
    assert norm(x.bfloat16()).dtype == torch.bfloat16


def test_one_token_alone_does_not_break_training() -> None:
    norm = TokenBatchNorm(4)
    y = norm(torch.randn(1, 4))
    assert torch.isfinite(y).all()
    assert torch.equal(norm.running_var, torch.ones(4))


def test_ranks_share_their_statistics_and_gradients(tmp_path: Path) -> None:
    """Two processes with parts of a batch against one with all of it."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    processes = [subprocess.Popen([sys.executable, "-c", RANK, str(rank), str(tmp_path)], env=environment) for rank in range(2)]
    assert [process.wait(timeout=120) for process in processes] == [0, 0]
    parts = [torch.load(tmp_path / f"{rank}.pt") for rank in range(2)]
    torch.manual_seed(0)
    x, weights = torch.randn(11, 5, dtype=torch.float64) * 3 + 2, torch.randn(11, 5, dtype=torch.float64)
    x.requires_grad_()
    norm = TokenBatchNorm(5, eps=1e-5).double()
    y = norm(x)
    (y * weights).sum().backward()
    torch.testing.assert_close(torch.cat([part[0] for part in parts]), y.detach())
    torch.testing.assert_close(torch.cat([part[1] for part in parts]), x.grad)
    torch.testing.assert_close(parts[0][2] + parts[1][2], norm.weight.grad)
    torch.testing.assert_close(parts[0][3] + parts[1][3], norm.bias.grad)
    for part in parts:
        torch.testing.assert_close(part[4], norm.running_mean)
        torch.testing.assert_close(part[5], norm.running_var)


def test_layer_norm_has_the_papers_epsilon_and_batch_norm_a_safe_one() -> None:
    assert make_norm(TINY).eps == 1e-12
    assert make_norm(dataclasses.replace(TINY, norm="batch")).eps == 1e-5


def test_every_batch_norm_of_a_model_has_the_momentum_asked_for() -> None:
    model = toy_model(norm="batch", momentum=0.3)
    assert {module.momentum for module in model.modules() if isinstance(module, TokenBatchNorm)} == {0.3}
