from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace

import pytest
import torch
from small_runs import MakeConfig

from bertlab.config import TrainerConfig
from bertlab.errors import UserError
from bertlab.models.architecture import Architecture
from bertlab.models.size import parameter_table
from bertlab.training.devices import check_devices, check_memory, device_kind, warn_of_cores
from bertlab.training.machine import set_up_process


@pytest.fixture
def restored() -> Iterator[None]:
    yield
    torch.use_deterministic_algorithms(True, warn_only=True)


def have_gpus(count: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: count > 0)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)


@pytest.mark.usefixtures("restored")
@pytest.mark.parametrize(
    ("accelerator", "backbone", "deterministic", "level"),  # PyTorch's: 0 anything goes, 1 warns, 2 refuses
    [
        ("gpu", "transformer", True, 2),
        ("gpu", "bilstm", True, 2),
        ("gpu", "cbow", True, 1),
        ("gpu", "transformer", False, 0),
        ("cpu", "transformer", True, 1),
        ("cpu", "transformer", False, 1),
    ],
)
def test_flash_attention_is_reproducible_only_under_the_strict_rule(
    accelerator: str, backbone: str, deterministic: bool, level: int, make_config: MakeConfig
) -> None:
    changes = {"trainer.accelerator": accelerator, "backbone.kind": backbone, "trainer.deterministic": deterministic}
    config = make_config(**changes)
    assert set_up_process(config.trainer, config.backbone.kind) == accelerator
    assert torch.get_deterministic_debug_mode() == level


@pytest.mark.parametrize(
    ("accelerator", "devices", "there", "key"),
    [
        ("gpu", 1, 0, "trainer.accelerator=cpu trainer.precision=fp32"),
        ("gpu", 2, 1, "trainer.devices=1"),
        ("auto", 4, 2, "trainer.devices=2"),
    ],
)
def test_gpus_that_are_not_there(accelerator: str, devices: int, there: int, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    have_gpus(there, monkeypatch)
    with pytest.raises(UserError, match=key):
        check_devices(TrainerConfig(accelerator=accelerator, devices=devices))


@pytest.mark.parametrize(
    ("accelerator", "devices", "there", "kind"),
    [("cpu", 2, 1, "cpu"), ("auto", 2, 0, "cpu"), ("auto", 1, 0, "cpu"), ("auto", 1, 1, "gpu"), ("gpu", 2, 2, "gpu")],
)
def test_devices_that_are_there(accelerator: str, devices: int, there: int, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    have_gpus(there, monkeypatch)
    config = TrainerConfig(accelerator=accelerator, devices=devices)
    check_devices(config)
    assert device_kind(config) == kind


def test_threads_that_would_end_the_process_are_refused() -> None:
    check_devices(TrainerConfig(accelerator="cpu", threads=64))
    with pytest.raises(UserError, match=r"trainer\.threads=1000000 is more than any CPU can use"):
        check_devices(TrainerConfig(accelerator="cpu", threads=1_000_000))


def test_more_processes_than_cores_are_warned_of(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    have_gpus(0, monkeypatch)
    monkeypatch.setattr("bertlab.training.devices.available_cores", lambda: 2)
    for accelerator in ("cpu", "auto"):
        warn_of_cores(TrainerConfig(accelerator=accelerator, devices=2))
        assert capsys.readouterr().err == ""
        warn_of_cores(TrainerConfig(accelerator=accelerator, devices=3))
        assert "trainer.devices=3 is more processes than there are cores (2)" in capsys.readouterr().err
    monkeypatch.setenv("LOCAL_RANK", "1")  # another of the run's processes, which is silent
    warn_of_cores(TrainerConfig(accelerator="cpu", devices=3))
    assert capsys.readouterr().err == ""


def test_the_processes_of_a_machine_need_its_memory_together(make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    def with_memory(total: int) -> None:
        monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=total))

    def needed(devices: int, strategy: str = "auto") -> int:
        """Found by halving, between none and very much."""
        config = make_config(**{"trainer.devices": devices, "trainer.strategy": strategy, "batch.sequences": 8 * devices})
        low, high = 0, 1 << 40
        while high - low > 1:
            middle = (low + high) // 2
            try:
                with_memory(middle)
                check_memory(config)
                high = middle
            except UserError:
                low = middle
        with_memory(low)
        with pytest.raises(UserError, match="GiB of memory" + (f" with trainer.devices={devices}" if devices > 1 else ", but")):
            check_memory(config)
        return high

    another = needed(3) - needed(2)
    assert another == needed(4) - needed(3) > needed(1)  # the model, its activations and what a process takes by itself
    weights = 16 * parameter_table(Architecture.of(make_config(), make_config().tokenizer.vocab_size)).total
    assert needed(3) - needed(3, "fsdp") == 2 * weights  # of which each process holds its part


@pytest.mark.parametrize("strategy", ["auto", "fsdp"])
def test_a_vocabulary_that_takes_most_of_the_memory_is_named(strategy: str, make_config: MakeConfig) -> None:
    changes = {"tokenizer.vocab_size": 10**8 - 1, "trainer.strategy": strategy, "trainer.devices": 2}
    with pytest.raises(UserError, match=r"most of it is for the words of tokenizer\.vocab_size=99999999: choose a smaller vocabulary"):
        check_memory(make_config(**changes))
    with pytest.raises(UserError, match=r"a smaller model, or let a device work on fewer sequences at once"):
        check_memory(make_config(**{"model.hidden": 2 * 10**5, "model.heads": 2}))


def test_more_memory_than_there_is_is_refused(make_config: MakeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    config = make_config()
    check_memory(config)
    parameters = parameter_table(Architecture.of(config, config.tokenizer.vocab_size)).total
    monkeypatch.setattr("psutil.virtual_memory", lambda: SimpleNamespace(total=16 * parameters))  # weights, gradients and two moments
    with pytest.raises(UserError, match=r"needs about 0 GiB of memory"):
        check_memory(config)  # and the activations
    config.trainer.accelerator = "gpu"
    check_memory(config)
