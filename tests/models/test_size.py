from __future__ import annotations

import dataclasses
import itertools
import subprocess
import sys

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode
from toys import TINY, toy_batch

from bertlab.config import PretrainConfig
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert
from bertlab.models.size import flops_per_token, memory_estimate, parameter_table
from bertlab.objectives import objective_of

# name: layers, hidden, heads
SIZES = {
    "tiny": (2, 128, 2),
    "mini": (4, 256, 4),
    "small": (4, 512, 8),
    "medium": (8, 512, 8),
    "base": (12, 768, 12),
    "large": (24, 1024, 16),
    "l3_h768_a12": (3, 768, 12),
    "l6_h768_a3": (6, 768, 3),
    "l6_h768_a12": (6, 768, 12),
    "l12_h1024_a16": (12, 1024, 16),
}
COMBINATIONS = list(
    itertools.product(("mlm_nsp", "mlm", "ltr", "rtl"), ("transformer", "bilstm", "cbow"), ("layer", "batch"), ("post", "pre"))
)


def built(architecture: Architecture) -> Bert:
    with torch.device("meta"):
        return Bert(architecture)


def sized(name: str) -> Architecture:
    layers, hidden, heads = SIZES[name]
    return Architecture(layers=layers, hidden=hidden, heads=heads, intermediate=4 * hidden)


@pytest.mark.parametrize(("name", "published"), [("base", 109_482_240), ("large", 335_141_888)])
def test_the_published_sizes(name: str, published: int) -> None:
    model = built(sized(name))
    assert model.pooler is not None
    parts = (model.embeddings, model.backbone, model.pooler)
    assert sum(parameter.numel() for part in parts for parameter in part.parameters()) == published
    assert parameter_table(sized(name)).encoder_with_pooler == published


@pytest.mark.parametrize("name", SIZES)
def test_every_size_counts_what_transformers_counts(name: str) -> None:
    from transformers import BertConfig, BertForPreTraining

    layers, hidden, heads = SIZES[name]
    with torch.device("meta"):
        peer = BertForPreTraining(
            BertConfig(hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden)
        )
    expected = sum(parameter.numel() for parameter in set(peer.parameters()))
    assert parameter_table(sized(name)).total == expected
    assert parameter_table(sized(name)).encoder_with_pooler == sum(parameter.numel() for parameter in peer.bert.parameters())


def config_of(objective: str, backbone: str, norm: str, placement: str) -> PretrainConfig:
    config = PretrainConfig()
    config.objective.kind, config.backbone.kind, config.norm.kind, config.norm.placement = objective, backbone, norm, placement
    config.model.layers, config.model.hidden, config.model.heads, config.model.intermediate = 3, 24, 4, 56
    return config


@pytest.mark.parametrize(("objective", "backbone", "norm", "placement"), COMBINATIONS)
def test_the_table_counts_what_is_built(objective: str, backbone: str, norm: str, placement: str) -> None:
    architecture = Architecture.of(config_of(objective, backbone, norm, placement), vocab_size=71)
    assert parameter_table(architecture).total == sum(parameter.numel() for parameter in built(architecture).parameters())


@pytest.mark.parametrize("directions", ["forward", "both"])
def test_the_table_counts_other_directions(directions: str) -> None:
    config = config_of("ltr", "bilstm", "layer", "post")
    config.backbone.directions = directions
    architecture = Architecture.of(config, vocab_size=71)
    assert parameter_table(architecture).total == sum(parameter.numel() for parameter in built(architecture).parameters())


def test_flops_are_the_products_that_run() -> None:
    """PyTorch's own count of a step in which every sequence is full, through the attention that is made of plain products."""
    architecture = dataclasses.replace(TINY, vocab_size=97, hidden=32, intermediate=128, heads=2, attention_dropout=0.1)
    model, batch = Bert(architecture), toy_batch([24] * 6, vocab_size=97)
    # As many predicted words in each sequence, none of them the first: then no row of the rectangle of scores is empty.
    predicted_words = torch.arange(6).repeat_interleave(4) * 24 + torch.tensor([3, 4, 11, 20]).repeat(6)
    batch = dataclasses.replace(batch, predicted=predicted_words, targets=torch.arange(24))
    objective = objective_of(PretrainConfig())
    with FlopCounterMode(display=False) as counter:
        objective.loss(model, batch).loss.backward()
    tokens, predicted = batch.tokens.numel(), batch.predicted.numel()
    uncounted = 2 * predicted * 97 * 32  # PyTorch's counter does not know the in-place product that adds to the table's gradient
    assert counter.get_total_flops() + uncounted == pytest.approx(flops_per_token(architecture, 24, predicted / tokens) * tokens)


@pytest.mark.parametrize(("norm", "rows"), [("layer", 12), ("layer", 144), ("batch", 144)])
def test_flops_of_states_that_are_not_read_are_not_counted(norm: str, rows: int) -> None:
    architecture = dataclasses.replace(TINY, hidden=32, intermediate=128, heads=2, attention_dropout=0.1, norm=norm, next_sentence=False)
    model, batch = Bert(architecture), toy_batch([24] * 6)
    with FlopCounterMode(display=False) as counter:
        model(batch, rows=torch.arange(0, 144, 144 // rows)).sum().backward()
    assert counter.get_total_flops() == pytest.approx(flops_per_token(architecture, 24, 0.0, read_share=rows / 144) * 144)


def test_causal_attention_sees_half() -> None:
    full, causal = (dataclasses.replace(TINY, attention=each, next_sentence=False) for each in ("bidirectional", "causal"))
    missing = flops_per_token(full, 24, 1.0) - flops_per_token(causal, 24, 1.0)
    assert missing == pytest.approx(12 * TINY.layers * TINY.hidden * (24 - 12.5))


def test_memory_of_base_is_four_numbers_a_parameter_and_activations() -> None:
    memory = memory_estimate(sized("base"), 128, 32)
    assert memory.weights + memory.gradients + memory.optimizer == 16 * parameter_table(sized("base")).total
    assert memory_estimate(sized("base"), 128, 64).activations == 2 * memory.activations


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_memory_is_what_autograd_keeps(precision: str, placement: str) -> None:
    """The bytes behind every tensor that the encoder's forward pass saves: activations, and under bf16 copies of the weights."""
    architecture = dataclasses.replace(TINY, placement=placement, layers=3, hidden=64, intermediate=256, heads=2, dropout=0.0)
    model, batch = Bert(architecture), toy_batch([24] * 6)
    parameters = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, torch.Tensor] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in parameters:
            kept[tensor.untyped_storage().data_ptr()] = tensor
        return tensor

    with (
        torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor),
        torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"),
    ):
        hidden = model(batch)
    assert hidden.requires_grad
    shapes = {tuple(parameter.shape) for parameter in model.parameters()}
    sizes = {id(tensor): tensor.untyped_storage().nbytes() for tensor in kept.values()}
    copies = sum(sizes[id(tensor)] for tensor in kept.values() if {tuple(tensor.shape), tuple(tensor.shape[::-1])} & shapes)
    memory = memory_estimate(architecture, 24, 6, precision=precision)
    assert memory.activations == pytest.approx(sum(sizes.values()) - copies, rel=0.02)
    dense = sum(each.weight.numel() for each in model.backbone.modules() if isinstance(each, torch.nn.Linear))
    assert copies == (2 * dense if precision == "bf16" else 0)
    whole = parameter_table(architecture).total
    assert memory.weights == (6 if precision == "bf16" else 4) * whole  # the heads' copies too


def test_counting_needs_no_pytorch() -> None:
    imports = "from bertlab.models import Architecture; import bertlab.models.size, bertlab.allocator, bertlab.objectives"
    code = f"import sys; {imports}; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


PARTED = """
import sys, torch
from torch.distributed import init_process_group
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor
from torch.testing._internal.distributed.fake_pg import FakeStore
from bertlab.models.architecture import Architecture
from bertlab.models.bert import Bert
from bertlab.training.parted import part

world = int(sys.argv[1])
init_process_group("fake", rank=0, world_size=world, store=FakeStore())
model = Bert(Architecture(vocab_size=30522, layers=3, hidden=256, heads=4, intermediate=1024))
part(model, init_device_mesh("cpu", (world,)))
parameters = list(model.parameters())
assert all(isinstance(parameter, DTensor) for parameter in parameters)
outside = sum(p.numel() for n, p in model.named_parameters() if not n.startswith("backbone"))
print(sum(parameter.to_local().numel() for parameter in parameters), outside, sum(p.numel() for p in model.backbone.layers[0].parameters()))
"""


@pytest.mark.parametrize("world", [2, 8])
def test_memory_of_parted_weights_is_what_a_device_holds(world: int) -> None:
    """The rows that the first of so many devices holds, of a model that is really parted, though by a single process."""
    finished = subprocess.run([sys.executable, "-c", PARTED, str(world)], capture_output=True, text=True, check=True, timeout=300)
    held, outside, layer = map(int, finished.stdout.split())
    architecture = Architecture(vocab_size=30522, layers=3, hidden=256, heads=4, intermediate=1024)
    memory = memory_estimate(architecture, 128, 4, parted_among=world)
    assert memory.weights == memory.gradients == memory.optimizer / 2 == pytest.approx(4 * held, rel=1e-3)
    assert memory.gathered == 4 * (2 * outside + 3 * layer)  # weights and gradients outside; of two layers weights, of one its gradients
    assert memory.activations == memory_estimate(architecture, 128, 4).activations
    whole = parameter_table(architecture).total
    bf16 = memory_estimate(architecture, 128, 4, parted_among=world, precision="bf16")
    assert bf16.gathered - memory.gathered == 2 * whole
    again = memory_estimate(architecture, 128, 4, parted_among=world, precision="bf16", recomputed=True)
    assert again.gathered - memory.gathered == 2 * (outside + 2 * layer)


def test_memory_of_recomputed_activations_is_inputs_and_the_inside_of_a_layer() -> None:
    """What a layer adds to what autograd keeps is its inside; there is one of it at a time, and the inputs of all layers in fp32."""
    two, five = (dataclasses.replace(TINY, layers=layers, hidden=64, intermediate=256, heads=2, dropout=0.0) for layers in (2, 5))
    inside = (bytes_kept(five) - bytes_kept(two)) / 3
    inputs = 4 * 24 * 6 * 64
    expected = inputs + 5 * inputs + inside  # the first of them is the sum that is normalised in the embeddings
    assert memory_estimate(five, 24, 6, recomputed=True).activations == pytest.approx(expected, rel=0.02)


def bytes_kept(architecture: Architecture) -> int:
    """Behind the tensors that a forward pass saves for the backward pass, parameters aside."""
    model, batch = Bert(architecture), toy_batch([24] * 6)
    parameters = {parameter.data_ptr() for parameter in model.parameters()}
    kept: dict[int, int] = {}

    def keep(tensor: torch.Tensor) -> torch.Tensor:
        if tensor.data_ptr() not in parameters:
            kept[tensor.untyped_storage().data_ptr()] = tensor.untyped_storage().nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        hidden = model(batch)
    assert hidden.requires_grad
    return sum(kept.values())
