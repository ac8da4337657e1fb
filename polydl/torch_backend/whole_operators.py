"""Keeps operators whole that PyTorch takes apart while it traces.

Resized images are four or sixteen gathers each in their parts, at indices that are computed of nothing. Those that have
loops as they are become these; others are taken apart by the backend if all of their parts become loops, and stay one
operator of eager PyTorch if not.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import RLock

import torch

_aten = torch.ops.aten
WHOLE = (
    _aten.upsample_linear1d.vec, _aten.upsample_bilinear2d.vec, _aten.upsample_bilinear2d.default,
    _aten.upsample_trilinear3d.vec, _aten.upsample_bicubic2d.vec, _aten.upsample_bicubic2d.default,
    _aten._upsample_nearest_exact1d.vec, _aten._upsample_nearest_exact1d.default,
    _aten._upsample_nearest_exact2d.vec, _aten._upsample_nearest_exact2d.default,
    _aten._upsample_nearest_exact3d.vec, _aten._upsample_nearest_exact3d.default,
    _aten._upsample_bilinear2d_aa.vec, _aten._upsample_bicubic2d_aa.vec, _aten._upsample_lanczos2d_aa.vec,
)  # fmt: skip
"""Operators with decompositions in Python at the keys where PyTorch traces (`torch/_decomp/decompositions.py`), whose
parts read at places that they compute."""
_KEYS = (torch._C.DispatchKey.Autograd, torch._C.DispatchKey.CompositeImplicitAutograd)
_lock = RLock()


@contextmanager
def whole() -> Iterator[None]:
    """While it lasts, what traces the operators finds PyTorch's kernels, as eager PyTorch does. What they do is the
    same; other threads that trace meanwhile find them, too."""
    with _lock:
        taken = [(op, key, op.py_kernels.pop(key)) for op in WHOLE for key in _KEYS if key in op.py_kernels]
        _forget()
        try:
            yield
        finally:
            for op, key, kernel in taken:
                op.py_kernels[key] = kernel
            _forget()


def _forget() -> None:
    """What PyTorch remembers of which kernel an operator has."""
    for op in WHOLE:
        op._dispatch_cache.clear()
