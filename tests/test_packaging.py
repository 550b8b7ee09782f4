"""What is installed elsewhere finds its YAML files: from a wheel, and from a wheel made of the source archive."""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import yaml

from bertlab.resources import conf_folder, sweeps_folder

CHECKOUT = Path(__file__).resolve().parents[1]


def build(source: Path, kind: str, into: Path) -> Path:
    command = [sys.executable, "-m", "hatchling", "build", "-t", kind, "-d", str(into)]
    subprocess.run(command, cwd=source, check=True, capture_output=True, timeout=120)
    (built,) = into.glob("*.whl" if kind == "wheel" else "*.tar.gz")
    return built


@pytest.fixture(scope="module", params=["checkout", "archive"])
def wheel(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    source = CHECKOUT
    if request.param == "archive":
        folder = tmp_path_factory.mktemp("archive")
        with tarfile.open(build(CHECKOUT, "sdist", folder)) as archive:
            archive.extractall(folder, filter="data")
        (source,) = (entry for entry in folder.iterdir() if entry.is_dir())
    return build(source, "wheel", tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    target = tmp_path_factory.mktemp("installed")
    command = [sys.executable, "-m", "pip", "install", "--no-deps", "--no-index", "--quiet", "--target", str(target), str(wheel)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return target


def run(installed: Path, *words: str) -> str:
    """A command of the installed package, from a folder that is not the checkout."""
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    command = [sys.executable, *words]
    return subprocess.run(command, cwd=installed, env=environment, check=True, capture_output=True, text=True, timeout=120).stdout


def test_the_installed_package_finds_its_files(installed: Path) -> None:
    program = "from bertlab import resources; print(resources.__file__, resources.conf_folder(), resources.sweeps_folder(), sep='\\n')"
    where, conf, sweeps = map(Path, run(installed, "-c", program).split())
    assert where == installed / "bertlab" / "resources.py"
    assert (conf, sweeps) == (installed / "bertlab" / "conf", installed / "bertlab" / "sweeps")
    for inside, original in ((conf, CHECKOUT / "conf"), (sweeps, CHECKOUT / "sweeps")):
        assert {file.relative_to(inside) for file in inside.rglob("*.yaml")} == {
            file.relative_to(original) for file in original.rglob("*.yaml")
        }


def test_the_installed_command_helps_and_composes(installed: Path) -> None:
    assert "pretrain" in run(installed, "-m", "bertlab", "--help")
    assert f"Choices are files in {installed / 'bertlab' / 'conf'}" in run(installed, "-m", "bertlab", "pretrain", "--help")
    printed = yaml.safe_load(run(installed, "-m", "bertlab", "pretrain", "model=large", "--cfg", "job"))
    assert (printed["model"]["name"], printed["model"]["layers"], printed["scale"]) == ("large", 24, "laptop")


def test_the_wheel_holds_the_package_and_its_files_alone(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"bertlab"}
    assert "bertlab/conf/pretrain.yaml" in names
    assert "bertlab/cli.py" in names
    (entry_points,) = (name for name in names if name.endswith("entry_points.txt"))
    assert b"bertlab = bertlab.cli:main" in zipfile.ZipFile(wheel).read(entry_points)


def test_a_checkout_uses_its_own_files() -> None:
    assert (conf_folder(), sweeps_folder()) == (CHECKOUT / "conf", CHECKOUT / "sweeps")
