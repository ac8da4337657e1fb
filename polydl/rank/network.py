"""The forward pass of a small network in NumPy: ranking needs no torch. Training: polydl.learn.train.nets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polydl.base.records import dataclass
from polydl.rank.ranker import FloatArray

ACTIVATIONS = ("relu", "softsign", "silu", "none")


@dataclass(frozen=True, slots=True)
class Layer:
    """`activation(weight @ x + bias)`."""

    weight: FloatArray
    """(outputs, inputs)."""
    bias: FloatArray
    """(outputs,)."""
    activation: str
    """One of ACTIVATIONS."""


def activated(values: FloatArray, activation: str) -> FloatArray:
    """An activation function, element by element. Raises ValueError for an unknown one."""
    match activation:
        case "relu":
            return np.maximum(values, 0.0)
        case "softsign":
            return np.asarray(values / (1.0 + np.abs(values)))
        case "silu":
            return np.asarray(values / (1.0 + np.exp(-np.clip(values, -60.0, 60.0))))
        case "none":
            return values
    raise ValueError(f"no activation called {activation}")


def forward(layers: Sequence[Layer], inputs: FloatArray) -> FloatArray:
    """(N, outputs) of a network for (N, inputs)."""
    values = inputs
    for layer in layers:
        values = activated(values @ layer.weight.T + layer.bias, layer.activation)
    return values


def softmax(values: FloatArray) -> FloatArray:
    """Along the last axis."""
    shifted = np.exp(values - values.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def normalised(values: FloatArray, mean: FloatArray, scale: FloatArray, clip: float) -> FloatArray:
    """(values - mean) * scale, cut to +-clip: what lies far outside of the training data must not run away. Columns
    that were constant there have scale 0, so they say nothing."""
    return np.asarray(np.clip((values - mean) * scale, -clip, clip))
