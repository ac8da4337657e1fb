"""Lowerings of ATen's operators, a file per family. Importing this package registers them all."""

from polydl.torch_backend.ops import (
    access_maps,
    activation_ops,
    arithmetic_ops,
    attention_ops,
    contraction_ops,
    convolution_ops,
    creation_ops,
    indexing_ops,
    logic_ops,
    norm_ops,
    reduction_ops,
    sparse_ops,
    window_ops,
)

__all__ = [
    "access_maps",
    "activation_ops",
    "arithmetic_ops",
    "attention_ops",
    "contraction_ops",
    "convolution_ops",
    "creation_ops",
    "indexing_ops",
    "logic_ops",
    "norm_ops",
    "reduction_ops",
    "sparse_ops",
    "window_ops",
]
