"""The networks in torch, and their way to weights that NumPy can use."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import torch
from torch import nn

from polydl.rank.network import Layer
from polydl.rank.paper_model import ACTIVATIONS, HIDDEN
from polydl.rank.ranker import FloatArray

_MODULES = {"relu": nn.ReLU, "softsign": nn.Softsign, "silu": nn.SiLU, "none": nn.Identity}


class Network(nn.Module):
    """Linear layers with their activations."""

    def __init__(self, sizes: Sequence[int], activations: Sequence[str], dropout: float = 0.0) -> None:
        """`sizes`: inputs, then outputs of each layer; one activation per layer; dropout before all but the first."""
        super().__init__()
        self.activations = tuple(activations)
        self.linear = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(sizes))
        self.functions = nn.ModuleList(_MODULES[name]() for name in activations)
        self.dropout = nn.Dropout(dropout)

    def forward(self, values: torch.Tensor) -> torch.Tensor:
        """(N, outputs) for (N, inputs)."""
        for number, (linear, function) in enumerate(zip(self.linear, self.functions, strict=True)):
            values = function(linear(self.dropout(values) if number else values))
        return values

    def layers(self) -> tuple[Layer, ...]:
        """For `polydl.rank.network`."""
        found = []
        for linear, activation in zip(self.linear, self.activations, strict=True):
            assert isinstance(linear, nn.Linear)
            found.append(Layer(_array(linear.weight), _array(linear.bias), activation))
        return tuple(found)

    @staticmethod
    def of(layers: Sequence[Layer], dropout: float = 0.0) -> Network:
        """The network with these weights."""
        sizes = [layers[0].weight.shape[1], *(layer.weight.shape[0] for layer in layers)]
        network = Network(sizes, [layer.activation for layer in layers], dropout)
        with torch.no_grad():
            for linear, layer in zip(network.linear, layers, strict=True):
                assert isinstance(linear, nn.Linear)
                linear.weight.copy_(torch.from_numpy(np.asarray(layer.weight)))
                linear.bias.copy_(torch.from_numpy(np.asarray(layer.bias)))
        return network


def _array(parameter: torch.Tensor) -> FloatArray:
    # Through float32: what the file keeps.
    return np.asarray(parameter.detach().cpu().numpy().astype(np.float32), dtype=np.float64)


def paper_network() -> Network:
    """Section 5 of the PolyDL paper: see polydl.rank.paper_model."""
    return Network((8, *HIDDEN, 2), ACTIVATIONS)


def correction_network(inputs: int, hidden: Sequence[int], dropout: float) -> Network:
    """One member of `dnn`; its last layer starts near zero, so that it starts as the traffic model."""
    network = Network((inputs, *hidden, 1), [*("silu" for _ in hidden), "none"], dropout)
    last = network.linear[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.weight.mul_(0.1)
        last.bias.zero_()
    return network
