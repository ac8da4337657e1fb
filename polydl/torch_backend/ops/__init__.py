"""Lowerings of ATen's operators, a file per family. Importing this package registers them all."""

from polydl.torch_backend.ops import (
    access_maps,
    contraction_ops,
    convolution_ops,
    elementwise,
    norm_ops,
    reduction_ops,
    window_ops,
)

__all__ = [
    "access_maps",
    "contraction_ops",
    "convolution_ops",
    "elementwise",
    "norm_ops",
    "reduction_ops",
    "window_ops",
]
