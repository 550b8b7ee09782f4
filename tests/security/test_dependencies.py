from __future__ import annotations

import tomllib
from importlib.metadata import version
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

ROOT = Path(__file__).resolve().parents[2]
MALICIOUS = ("2.6.2", "2.6.3")  # GHSA-w37p-236h-pfx3


def lightning() -> SpecifierSet:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    wanted = [Requirement(each) for each in project["dependencies"]]
    (found,) = [each.specifier for each in wanted if each.name == "pytorch-lightning"]
    assert not [each for each in wanted if each.name == "lightning"]  # the same code under another name
    return found


@pytest.mark.parametrize("release", MALICIOUS)
def test_the_malicious_releases_of_lightning_are_refused(release: str) -> None:
    assert release not in lightning()
    assert f"!={release}" in str(lightning())  # not only because a newer one is asked for
    assert release != version("pytorch-lightning")


def test_what_is_pinned_is_what_may_be_installed() -> None:
    pinned = [Requirement(line) for line in (ROOT / "constraints.txt").read_text().splitlines() if line and not line.startswith("#")]
    (found,) = [each.specifier for each in pinned if each.name == "pytorch-lightning"]
    (release,) = [each.version for each in found]
    assert release in lightning()
    assert all(str(each.specifier).startswith("==") for each in pinned)
