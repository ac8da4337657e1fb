"""The functions of C's library as the machine's own libm computes them, for running a core."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from functools import cache

from polydl.base.errors import Span
from polydl.frontend.typed.byte_memory import Datum, NotRun, Undefined
from polydl.model.functions import function_called, parameters_of, result_of
from polydl.model.types import F32, F64, I32, I64, U32, U64, ElementType

_BUILTIN = "__builtin_"
_C = {F64: ctypes.c_double, F32: ctypes.c_float, I32: ctypes.c_int, I64: ctypes.c_long,
      U32: ctypes.c_uint, U64: ctypes.c_ulong}  # fmt: skip


class _Own:
    """Functions that are macros or instructions, by the names of their rows."""

    isnan = staticmethod(lambda x: int(math.isnan(x)))
    isinf = staticmethod(lambda x: int(math.isinf(x)))
    isfinite = staticmethod(lambda x: int(math.isfinite(x)))
    signbit = staticmethod(lambda x: int(math.copysign(1.0, x) < 0))
    popcount = staticmethod(int.bit_count)
    parity = staticmethod(lambda x: x.bit_count() & 1)
    ffs = staticmethod(lambda x: (x & -x).bit_length())
    bswap16 = staticmethod(lambda x: int.from_bytes(x.to_bytes(2, "little"), "big"))
    bswap32 = staticmethod(lambda x: int.from_bytes(x.to_bytes(4, "little"), "big"))
    bswap64 = staticmethod(lambda x: int.from_bytes(x.to_bytes(8, "little"), "big"))
    expect = staticmethod(lambda x, _: x)


@cache
def _computing(name: str) -> tuple[Callable[..., Datum], ElementType | None]:
    """What computes a function, and the integer type that its magnitude has to fit."""
    row = function_called(name)
    assert row is not None, "it is of the table"
    result = result_of(name)
    if row.magnitude and result is not None and result.is_int:
        return abs, result
    own = getattr(_Own, row.name, None)
    if own is not None:
        return own, None
    kinds = (result, *parameters_of(name))
    found = getattr(ctypes.CDLL("libm.so.6"), name.removeprefix(_BUILTIN), None)
    if found is None or any(kind not in _C for kind in kinds):
        raise NotRun(f"'{name}'")
    found.restype, *found.argtypes = (_C[kind] for kind in kinds if kind is not None)
    return found, None


def computed(name: str, arguments: Sequence[Datum], span: Span) -> Datum:
    """The value of a call. Raises NotRun, Undefined."""
    function, fits = _computing(name)
    value = function(*arguments)
    if fits is not None and value > fits.maximum:
        raise Undefined("overflow", f"the absolute value of {arguments[0]}", span)
    return value
