"""Probe tasks: made of any corpus's raw text, so that no labelled data is needed. One file each."""

from bertlab.tasks.probes.build import build_probe

__all__ = ["build_probe"]
