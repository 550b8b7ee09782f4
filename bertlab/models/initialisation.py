"""How weights start."""

from __future__ import annotations

from torch import nn


def initialise(module: nn.Module, deviation: float) -> None:
    """As the released BERT: normal weights cut off at two deviations, zero biases; norms start as the identity.

    The matrices of an LSTM keep PyTorch's uniform initialisation, which suits its gates; its biases are zero but for those of the forget
    gates, which are one so that they start open (Jozefowicz et al. 2015). Parts of ``module`` are not looked at: give it to
    ``nn.Module.apply``.
    """
    if isinstance(module, nn.Linear | nn.Embedding):
        nn.init.trunc_normal_(module.weight, 0.0, deviation, -2 * deviation, 2 * deviation)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)
    if isinstance(module, nn.LSTM):
        for name, bias in module.named_parameters():
            if name.startswith("bias"):
                nn.init.zeros_(bias)
            if name == "bias_ih_l0":  # gates in PyTorch's order: input, forget, cell, output
                nn.init.ones_(bias.detach()[module.hidden_size : 2 * module.hidden_size])


def start_anew(module: nn.Module, deviation: float) -> None:
    """Forget what ``module`` and its parts have learned, running statistics included; draws from PyTorch's global generator."""
    for part in module.modules():
        if isinstance(part, nn.LSTM | nn.LayerNorm | nn.BatchNorm1d):
            part.reset_parameters()
        initialise(part, deviation)
