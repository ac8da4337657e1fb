"""bfloat16 in NumPy, which has no such type: its bits as `uint16`, its values as `float32`."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

Bits = npt.NDArray[np.uint16]


def widened(bits: npt.NDArray[Any]) -> npt.NDArray[np.float32]:
    """The values of bits, of the same shape: every one is a float."""
    wide = np.asarray(bits.view(np.uint16).astype(np.uint32) << np.uint32(16))  # of shape () it is no array
    return wide.view(np.float32)


def narrowed(values: npt.NDArray[Any]) -> Bits:
    """The bits of the nearest bfloat16 to each value as a float, of two the even one; NaN stays NaN, and quiet. As
    `polydl_to_bf16` of polydl.h."""
    bits = np.ascontiguousarray(values, np.float32).reshape(np.shape(values)).view(np.uint32)
    nearest = bits + np.uint32(0x7FFF) + ((bits >> np.uint32(16)) & np.uint32(1))
    nan = (bits & np.uint32(0x7FFFFFFF)) > np.uint32(0x7F800000)
    return np.asarray(np.where(nan, bits | np.uint32(0x400000), nearest) >> np.uint32(16), np.uint16)
