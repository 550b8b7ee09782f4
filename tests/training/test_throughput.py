from __future__ import annotations

import pytest
import torch

from bertlab.training.throughput import Speed, gpu_peak, measured_cpu_peak, peak_memory


def test_rates_of_a_window() -> None:
    speed = Speed(peak=1e9, device=torch.device("cpu"))
    for _ in range(4):
        speed.add(positions=1000, tokens=900, flops=5e7, seconds=0.5)
    row = speed.take(waited=0.1)
    assert (row["positions_per_second"], row["tokens_per_second"], row["updates_per_second"]) == (2000, 1800, 2)
    assert row["mfu"] == pytest.approx(4 * 5e7 / 2.0 / 1e9)
    assert row["data_wait"] == pytest.approx(0.05)
    speed.add(positions=1000, tokens=900, flops=5e7, seconds=0.25)
    assert speed.take(waited=0.0)["positions_per_second"] == 4000
    assert (speed.total.positions, speed.total.seconds, speed.total.updates) == (5000, 2.25, 5)


def test_no_peak_no_utilisation() -> None:
    speed = Speed(peak=None, device=torch.device("cpu"))
    speed.add(positions=1, tokens=1, flops=1.0, seconds=1.0)
    assert speed.take(waited=0.0)["mfu"] is None


def test_no_flops_no_utilisation() -> None:
    speed = Speed(peak=1e9, device=torch.device("cpu"))
    for _ in range(2):
        speed.add(positions=1, tokens=1, flops=None, seconds=1.0)
    assert speed.take(waited=0.0)["mfu"] is None


def test_the_measured_peak_is_that_of_a_machine() -> None:
    assert 1e9 < measured_cpu_peak("fp32", torch.get_num_threads()) < 1e15


def test_memory_grows_with_what_is_held() -> None:
    before = peak_memory(torch.device("cpu"))
    held = torch.ones(64 * 2**20)  # 256 MiB
    assert peak_memory(torch.device("cpu")) >= max(before, held.numel() * 4)


@pytest.mark.parametrize(
    ("name", "peak"),  # as the driver says it; TFLOP/s in bf16 of the data sheet
    [
        ("NVIDIA A40", 149.7),
        ("NVIDIA A100-SXM4-80GB", 312),
        ("NVIDIA A100 80GB PCIe", 312),
        ("NVIDIA H100 80GB HBM3", 989),
        ("NVIDIA H100 PCIe", 756),
        ("NVIDIA H100 NVL", 835),
        ("NVIDIA H200", 989),
        ("NVIDIA GH200 480GB", 989),
        ("NVIDIA B200", 2250),
        ("NVIDIA L4", 121),
        ("NVIDIA L40", 181),
        ("NVIDIA L40S", 362),
        ("NVIDIA A10", 125),
        ("Tesla T4", 8.1),
        ("Tesla V100-SXM2-16GB", 15.7),
        ("NVIDIA GeForce RTX 4090", 165.2),
        ("NVIDIA GeForce RTX 3090", 71),
        ("NVIDIA RTX A4000", None),
        ("NVIDIA A10G", None),
        ("NVIDIA T400", None),
        ("NVIDIA T4G", None),
        ("NVIDIA GB200", None),
        ("NVIDIA GeForce RTX 4090 Laptop GPU", None),
        ("NVIDIA GeForce RTX 4090 D", None),
        ("NVIDIA GeForce RTX 3090 Ti", None),
        ("NVIDIA A100-SXM4-40GB MIG 1g.5gb", None),
        ("NVIDIA GeForce GTX 1080", None),
    ],
)
def test_a_card_is_known_by_its_whole_name(name: str, peak: float | None) -> None:
    assert gpu_peak(name, "bf16") == (None if peak is None else pytest.approx(peak * 1e12))
