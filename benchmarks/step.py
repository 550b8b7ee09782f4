"""A bare training step of bertlab against the same model in Hugging Face transformers: the ratio of positions a second.

    python benchmarks/step.py PEER --size tiny --length 128 --sequences 32 --vocab 30522
    python benchmarks/step.py PEER --all

PEER is a program that trains transformers' BertForPreTraining on synthetic batches and prints one JSON line (``step_ms``); it is
imported for its ``synthetic_batches`` and ``SIZES``. First the same weights are shown to give the same loss on the same batch without
dropout. Then the two programs run in turns, each time in a process of its own, and the medians are compared. Everything is
fp32 with dropout 0.1, gradient clipping and fused AdamW.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from bertlab.data.batches import Batch
    from bertlab.models import Bert

LINES = [(size, *shape, vocab) for size in ("tiny", "mini", "small") for shape in ((128, 32), (512, 8)) for vocab in (30522, 8192)]


def copy_weights(peer: Any, model: Bert) -> None:
    """Put the weights of a transformers ``BertForPreTraining`` (or a part of it) into ``model``."""
    import torch

    def copy(source: Any, target: Any) -> None:
        for name, parameter in target.named_parameters(recurse=False):
            parameter.copy_(getattr(source, name))

    with torch.no_grad():
        embeddings, own = peer.bert.embeddings, model.embeddings
        copy(embeddings.word_embeddings, own.words)
        copy(embeddings.position_embeddings, own.positions)
        copy(embeddings.token_type_embeddings, own.segments)
        copy(embeddings.LayerNorm, own.norm)
        backbone: Any = model.backbone
        for layer, block in zip(peer.bert.encoder.layer, backbone.layers, strict=True):
            parts = (layer.attention.self.query, layer.attention.self.key, layer.attention.self.value)
            block.attention.queries_keys_values.weight.copy_(torch.cat([part.weight for part in parts]))
            block.attention.queries_keys_values.bias.copy_(torch.cat([part.bias for part in parts]))
            copy(layer.attention.output.dense, block.attention.output)
            copy(layer.attention.output.LayerNorm, block.attention_norm)
            copy(layer.intermediate.dense, block.feed_forward.inner)
            copy(layer.output.dense, block.feed_forward.outer)
            copy(layer.output.LayerNorm, block.feed_forward_norm)
        assert model.pooler is not None
        copy(peer.bert.pooler.dense, model.pooler.dense)
        copy(peer.cls.predictions.transform.dense, model.language_head.dense)
        copy(peer.cls.predictions.transform.LayerNorm, model.language_head.norm)
        model.language_head.bias.copy_(peer.cls.predictions.bias)
        copy(peer.cls.seq_relationship, model.next_sentence_head)


def flat_batch(arrays: dict[str, np.ndarray], number: int) -> Batch:
    """Batch ``number`` of padded arrays (N, B, S) in transformers' layout, without its padding."""
    import torch

    from bertlab.data.batches import Batch

    each = {name: torch.from_numpy(values[number]) for name, values in arrays.items()}
    real = each["attention_mask"].bool()
    lengths, labels = real.sum(1), each["labels"][real]
    predicted = (labels >= 0).nonzero().view(-1)
    return Batch(
        tokens=each["input_ids"][real].long(),
        segments=each["token_type_ids"][real].long(),
        positions=torch.arange(real.shape[1]).expand(real.shape)[real],
        offsets=torch.cat((torch.zeros(1, dtype=torch.int64), lengths.cumsum(0))),
        predicted=predicted,
        targets=labels[predicted].long(),
        next_sentence=each["next_sentence_label"].long(),
        max_length=int(lengths.max()),
        predicted_in_step=len(predicted),
        sequences_in_step=len(lengths),
    )


def check_same_loss(peer: ModuleType, args: argparse.Namespace, arrays: dict[str, np.ndarray]) -> None:
    """Exit with a message unless the two programs compute the same loss from the same weights and batch."""
    import torch
    from transformers import BertConfig, BertForPreTraining

    from bertlab.models import Architecture, Bert
    from bertlab.objectives import mlm_nsp

    layers, hidden, heads = peer.SIZES[args.size]
    sizes = {"hidden_size": hidden, "num_hidden_layers": layers, "num_attention_heads": heads, "intermediate_size": 4 * hidden}
    theirs = BertForPreTraining(BertConfig(vocab_size=args.vocab, **sizes)).eval()
    ours = Bert(Architecture(args.vocab, layers, hidden, heads, 4 * hidden)).eval()
    copy_weights(theirs, ours)
    with torch.no_grad():
        expected = theirs(**{name: torch.from_numpy(values[0]).long() for name, values in arrays.items()}).loss.item()
        found = mlm_nsp.loss(ours, flat_batch(arrays, 0)).loss.item()
    if abs(expected - found) > 1e-4:
        sys.exit(f"the losses differ: {expected} in transformers, {found} here")
    print(f"same weights, same batch: loss {expected:.6f} and {found:.6f}", flush=True)


def time_own_step(args: argparse.Namespace) -> None:
    """Train on the batches in ``args.own`` and print one JSON line as the peer does."""
    from bertlab.allocator import tune_allocator

    tune_allocator()
    import numpy as np
    import torch

    from bertlab.models import Architecture, Bert
    from bertlab.models.dropout import seed_dropout
    from bertlab.objectives import mlm_nsp

    torch.set_num_threads(args.threads)
    torch.manual_seed(0)
    arrays = dict(np.load(args.own))
    batches = [flat_batch(arrays, number) for number in range(len(arrays["labels"]))]
    layers, hidden, heads = args.shape
    model = Bert(Architecture(args.vocab, layers, hidden, heads, 4 * hidden)).train()
    parameters = list(model.parameters())
    optimizer = torch.optim.AdamW(parameters, lr=1e-4, weight_decay=0.01, fused=True)
    seconds, losses = [], []
    for step in range(args.warmup + args.steps):
        start = time.perf_counter()
        seed_dropout(1, step, 0, 0)
        with torch.autocast("cpu", torch.bfloat16, enabled=args.bf16):
            loss = mlm_nsp.loss(model, batches[step % len(batches)]).loss
        loss.backward()
        norm = torch.nn.utils.get_total_norm([each.grad for each in parameters if each.grad is not None])
        optimizer.grad_scale = norm.clamp(min=1.0)  # type: ignore[attr-defined]  # the fused kernel reads it
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        seconds.append(time.perf_counter() - start)
        losses.append(loss.item())
    median = statistics.median(seconds[args.warmup :])
    print(json.dumps({"program": "bertlab", "step_ms": round(1e3 * median, 2), "first_losses": [round(x, 5) for x in losses[:3]]}))


def step_ms(command: list[str]) -> float:
    """The median step of a program that prints a JSON line last."""
    printed = subprocess.run([sys.executable, *command], check=True, capture_output=True, text=True).stdout
    return float(json.loads(printed.strip().splitlines()[-1])["step_ms"])


def compare(peer: ModuleType, args: argparse.Namespace) -> None:
    """Print one line of the table."""
    import numpy as np

    arrays = peer.synthetic_batches(4, args.sequences, args.length, args.vocab, 0)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "batches.npz"
        np.savez(path, **arrays)
        if not args.no_check:
            check_same_loss(peer, args, arrays)
        common = ["--vocab", str(args.vocab), "--steps", str(args.steps), "--warmup", str(args.warmup), "--threads", str(args.threads)]
        theirs = [args.peer, "--size", args.size, "--seq", str(args.length), "--batch", str(args.sequences), *common]
        ours = [__file__, args.peer, "--own", str(path), "--shape", *map(str, peer.SIZES[args.size]), *common]
        pairs = [(step_ms(theirs), step_ms([*ours, *(["--bf16"] if args.bf16 else [])])) for _ in range(args.rounds)]
    peer_ms, own_ms = (statistics.median(each) for each in zip(*pairs, strict=True))
    rates = [round(args.sequences * args.length / each * 1e3) for each in (peer_ms, own_ms)]
    print(
        f"{args.size} {args.length}×{args.sequences}, {args.vocab}: transformers {peer_ms:.1f} ms, {rates[0]} positions/s; "
        f"bertlab {own_ms:.1f} ms, {rates[1]} positions/s; ratio {peer_ms / own_ms:.2f}",
        flush=True,
    )


def load(path: str) -> ModuleType:
    """The peer program as a module."""
    spec = importlib.util.spec_from_file_location("peer", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("peer", help="the program to compare with")
    parser.add_argument("--all", action="store_true", help="every line of the table")
    parser.add_argument("--size", default="tiny")
    parser.add_argument("--length", type=int, default=128)
    parser.add_argument("--sequences", type=int, default=32)
    parser.add_argument("--vocab", type=int, default=30522)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--warmup", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--bf16", action="store_true", help="bertlab's side under autocast: no fair comparison, a look at this processor")
    parser.add_argument("--no-check", action="store_true", help="do not compare the losses first")
    parser.add_argument("--own", help=argparse.SUPPRESS)
    parser.add_argument("--shape", type=int, nargs=3, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.own:
        time_own_step(args)
        return
    peer = load(args.peer)
    lines = LINES if args.all else [(args.size, args.length, args.sequences, args.vocab)]
    for args.size, args.length, args.sequences, args.vocab in lines:
        compare(peer, args)


if __name__ == "__main__":
    main()
