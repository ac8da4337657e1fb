"""Functions of C's library and gcc's builtins, by name.

Mathematics is the process's own libm, so that results are those of a compiled program, bit by bit.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable
from typing import Any

from pycparser import c_ast

from polydl.base.records import dataclass
from polydl.oracle.c_memory import NULL, Memory, Obj, PartlyUnset
from polydl.oracle.c_types import (
    DOUBLE,
    FLOAT,
    INT,
    LLONG,
    LONG,
    UINT,
    ULLONG,
    ULONG,
    VOID,
    CType,
    Function,
    Integer,
    PointerTo,
    Real,
)
from polydl.oracle.c_verdicts import Undefined, place_of

Reference = tuple[Obj, int]
"""A pointer inside of translated functions."""

POINTER = PointerTo(VOID)

_libm = ctypes.PyDLL("libm.so.6")  # without giving up the lock for each sine
_CTYPES: dict[CType, Any] = {
    DOUBLE: ctypes.c_double,
    FLOAT: ctypes.c_float,
    INT: ctypes.c_int,
    LONG: ctypes.c_long,
    LLONG: ctypes.c_longlong,
}

_TRIGONOMETRY = ["sin", "cos", "tan", "sinh", "cosh", "tanh"]
_ONE = [
    *_TRIGONOMETRY,
    *(f"a{name}" for name in _TRIGONOMETRY),
    *("exp", "exp2", "exp10", "expm1", "log", "log2", "log10", "log1p", "logb", "sqrt", "cbrt"),
    *("floor", "ceil", "trunc", "round", "roundeven", "rint", "nearbyint"),
    *("erf", "erfc", "tgamma", "lgamma", "j0", "j1", "y0", "y1"),
]
_TWO = ["pow", "fmod", "atan2", "hypot", "fmin", "fmax", "fdim", "copysign", "nextafter", "remainder"]
_TO_LONG = ["lround", "lrint"]


@dataclass(frozen=True, slots=True)
class Known:
    """A function of the library."""

    type: Function
    python: Callable[..., Any]
    placed: bool = False
    """Python's first arguments are the memory, the tracer and the node of the call."""


def _mathematics() -> dict[str, Known]:
    found: dict[str, Known] = {}

    def add(name: str, returns: CType, *parameters: CType) -> None:
        function = getattr(_libm, name, None)
        if function is None:
            return
        function.restype = _CTYPES[returns]
        function.argtypes = [_CTYPES[kind] for kind in parameters]
        found[name] = Known(Function(returns, parameters, variadic=False, prototype=True), function)

    for suffix, kind in (("", DOUBLE), ("f", FLOAT)):
        for name in _ONE:
            add(name + suffix, kind, kind)
        for name in _TWO:
            add(name + suffix, kind, kind, kind)
        for name in _TO_LONG:
            add(name + suffix, LONG, kind)
            add(f"l{name}{suffix}", LLONG, kind)
        add(f"fma{suffix}", kind, kind, kind, kind)
        add(f"ldexp{suffix}", kind, kind, INT)
        add(f"scalbn{suffix}", kind, kind, INT)
        add(f"ilogb{suffix}", INT, kind)
        simple = Function(kind, (kind,), variadic=False, prototype=True)
        found[f"fabs{suffix}"] = Known(simple, abs)
    return found


Told = Any
"""A tracer, or None."""


def _copied(memory: Memory, tracer: Told, node: c_ast.Node, to: Reference, source: Reference, size: int) -> Reference:
    """memmove."""
    if size == 0:
        for obj, _ in (to, source):
            if obj is NULL:
                raise Undefined("null", "a null pointer where memory is copied", place_of(node))
        return to
    data = source[0].read(source[1], size, node)
    if tracer is not None:
        tracer.load(source[0], source[1], size, node)
    to[0].write(to[1], data, node)
    if tracer is not None:
        tracer.store(to[0], to[1], size, node)
    return to


def _memcpy(memory: Memory, tracer: Told, node: c_ast.Node, to: Reference, source: Reference, size: int) -> Reference:
    if to[0] is source[0] and -size < to[1] - source[1] < size:
        raise Undefined("argument", "memcpy between places that overlap", place_of(node))
    return _copied(memory, tracer, node, to, source, size)


def _memset(memory: Memory, tracer: Told, node: c_ast.Node, to: Reference, byte: int, size: int) -> Reference:
    if size or to[0] is NULL:
        to[0].write(to[1], bytes([byte & 255]) * size, node)
        if tracer is not None:
            tracer.store(to[0], to[1], size, node)
    return to


def _memcmp(memory: Memory, tracer: Told, node: c_ast.Node, one: Reference, other: Reference, size: int) -> int:
    found = []
    for obj, offset in (one, other):
        data = obj.read(offset, size, node) if size else b""
        if isinstance(data, PartlyUnset):
            raise Undefined("uninitialised", f"'{obj.name}' is compared before it has a value", place_of(node))
        if tracer is not None and size:
            tracer.load(obj, offset, size, node)
        found.append(data)
    return (found[0] > found[1]) - (found[0] < found[1])


def _strlen(memory: Memory, tracer: Told, node: c_ast.Node, text: Reference) -> int:
    length = 0
    while text[0].load("u1", text[1] + length, node):
        length += 1
    return length


def _malloc(memory: Memory, tracer: Told, node: c_ast.Node, size: int) -> Reference:
    return memory.new("malloc", size, origin="heap"), 0


def _calloc(memory: Memory, tracer: Told, node: c_ast.Node, count: int, size: int) -> Reference:
    return memory.new("calloc", count * size, fill=0, origin="heap"), 0


def _aligned(memory: Memory, tracer: Told, node: c_ast.Node, alignment: int, size: int) -> Reference:
    return memory.new("aligned_alloc", size, origin="heap"), 0


def _free(memory: Memory, tracer: Told, node: c_ast.Node, what: Reference) -> None:
    if what[0] is NULL:
        return
    if what[0].origin != "heap" or what[1] != 0 or not what[0].alive:
        raise Undefined("lifetime", "free of what malloc did not give", place_of(node))
    what[0].end_life()


def _absolute(kind: Integer) -> Callable[..., int]:
    def of(memory: Memory, tracer: Told, node: c_ast.Node, value: int) -> int:
        if value == kind.least:
            raise Undefined("overflow", f"the absolute value of {value} is no {kind}", place_of(node))
        return abs(value)

    return of


def _assertion(memory: Memory, tracer: Told, node: c_ast.Node, *_: object) -> None:
    raise Undefined("assertion", "an assertion does not hold", place_of(node))


def _abort(memory: Memory, tracer: Told, node: c_ast.Node, *_: object) -> None:
    raise Undefined("abort", "the program ends itself", place_of(node))


def _unreachable(memory: Memory, tracer: Told, node: c_ast.Node) -> None:
    raise Undefined("unreachable", "what is said to be unreachable is reached", place_of(node))


def _counted(bits: int, *, leading: bool) -> Callable[..., int]:
    def of(memory: Memory, tracer: Told, node: c_ast.Node, value: int) -> int:
        if value == 0:
            raise Undefined("argument", "the zeros of 0 are counted", place_of(node))
        return bits - value.bit_length() if leading else (value & -value).bit_length() - 1

    return of


def _swapped(size: int) -> Callable[[int], int]:
    return lambda value: int.from_bytes(value.to_bytes(size, "little"), "big")


def _frexp(code: str) -> Callable[..., float]:
    def of(memory: Memory, tracer: Told, node: c_ast.Node, value: float, exponent: Reference) -> float:
        fraction, power = math.frexp(value)
        exponent[0].store("i4", exponent[1], power, node)
        return fraction

    return of


def _modf(code: str) -> Callable[..., float]:
    def of(memory: Memory, tracer: Told, node: c_ast.Node, value: float, whole: Reference) -> float:
        fraction, integral = math.modf(value)
        whole[0].store(code, whole[1], integral, node)
        return fraction

    return of


def _table() -> dict[str, Known]:
    known = _mathematics()

    def add(
        name: str,
        returns: CType,
        parameters: tuple[CType, ...],
        python: Callable[..., Any],
        *,
        placed: bool = True,
        variadic: bool = False,
    ) -> None:
        known[name] = Known(Function(returns, parameters, variadic, prototype=True), python, placed)

    add("memcpy", POINTER, (POINTER, POINTER, ULONG), _memcpy)
    add("memmove", POINTER, (POINTER, POINTER, ULONG), _copied)
    add("memset", POINTER, (POINTER, INT, ULONG), _memset)
    add("memcmp", INT, (POINTER, POINTER, ULONG), _memcmp)
    add("strlen", ULONG, (POINTER,), _strlen)
    add("malloc", POINTER, (ULONG,), _malloc)
    add("calloc", POINTER, (ULONG, ULONG), _calloc)
    add("aligned_alloc", POINTER, (ULONG, ULONG), _aligned)
    add("free", VOID, (POINTER,), _free)
    for name, kind in (("abs", INT), ("labs", LONG), ("llabs", LLONG)):
        add(name, kind, (kind,), _absolute(kind))
    add("__assert_fail", VOID, (POINTER, POINTER, UINT, POINTER), _assertion)
    add("abort", VOID, (), _abort)
    add("trap", VOID, (), _abort)
    add("exit", VOID, (INT,), _abort)
    add("unreachable", VOID, (), _unreachable)
    for suffix, wide in (("", UINT), ("l", ULONG), ("ll", ULLONG)):
        add(f"clz{suffix}", INT, (wide,), _counted(wide.bits, leading=True))
        add(f"ctz{suffix}", INT, (wide,), _counted(wide.bits, leading=False))
        add(f"popcount{suffix}", INT, (wide,), int.bit_count, placed=False)
        add(f"parity{suffix}", INT, (wide,), lambda value: value.bit_count() & 1, placed=False)
    add("bswap32", UINT, (UINT,), _swapped(4), placed=False)
    add("bswap64", ULONG, (ULONG,), _swapped(8), placed=False)
    reals: tuple[tuple[str, Real], ...] = (("", DOUBLE), ("f", FLOAT))
    for suffix, real in reals:
        for name in ("inf", "huge_val"):
            add(name + suffix, real, (), lambda: math.inf, placed=False)
        add(f"nan{suffix}", real, (POINTER,), lambda _: math.nan, placed=False)
        add(f"frexp{suffix}", real, (real, PointerTo(INT)), _frexp(real.code))
        add(f"modf{suffix}", real, (real, PointerTo(real)), _modf(real.code))
    add("prefetch", VOID, (POINTER,), lambda *_: None, placed=False, variadic=True)
    add("assume_aligned", POINTER, (POINTER, ULONG), lambda pointer, *_: pointer, placed=False, variadic=True)
    for name, value in (
        ("omp_get_thread_num", 0),
        ("omp_get_max_threads", 1),
        ("omp_get_num_threads", 1),
        ("omp_in_parallel", 0),
        ("omp_get_num_procs", 1),
    ):
        add(name, INT, (), lambda value=value: value, placed=False)
    return known


LIBRARY = _table()
"""What calls of functions find that the program does not define; builtins without their prefix."""


def library_name(name: str) -> str | None:
    """The name in LIBRARY of a function or builtin; None of what is not known."""
    short = name.removeprefix("__builtin_")
    return short if short in LIBRARY else None
