"""Calls of compiled programs on adversarial data: the original, under the sanitizer of undefined behaviour, beside what
polydl made of it.

Arrays end or begin at a page that may not be touched. Every call runs in a child, which reports what it did in memory
that both share; one that dies is replaced, and what it died of belongs to the call that it was at.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tests.fuzz.parts import Array, Program
from tests.fuzz.values import CType

Values = npt.NDArray[Any]

SECONDS = 5
"""Of one call."""
FILLINGS = ("plain", "extreme", "ties", "zero", "special", "tiny")
"""How arrays are filled; what each means depends on the type."""
_PAGE = mmap.PAGESIZE
_SLOT = 1 << 21
"""Bytes of address space of an array, of which only those in use take memory."""
_BEGUN, _EQUAL, _DIFFERENT, _REFERENCE = 1, 2, 3, 4
_BROKEN = 77
_NUMPY = {"float": "f4", "double": "f8", "size_t": "u8", "int64_t": "i8", "uint32_t": "u4"}


@dataclass(frozen=True, slots=True)
class Case:
    """Data for a call, which it determines."""

    sizes: Mapping[str, int]
    filling: str
    seed: int
    threads: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of a call."""

    kind: str
    """`equal`, `different`, `crash`, `hang`, or of the original: `undefined`."""
    detail: str = ""


def dtype(ctype: CType) -> np.dtype[Any]:
    return np.dtype(_NUMPY.get(ctype.name, f"{ctype.kind}{ctype.bits // 8}"))


def filled(array: Array, count: int, case: Case, number: int, exact: bool) -> Values:
    """The values of an array before a call."""
    rng = np.random.default_rng((case.seed, number))
    if array.members:
        kinds = np.dtype([(name, dtype(ctype)) for name, ctype in array.members], align=True)
        done = np.zeros(count, kinds)
        for name, _ in array.members:
            done[name] = rng.integers(-9, 10, count)
        return done
    kind = dtype(array.type)
    if array.content is not None:
        return _subscripts(array, count, case, rng).astype(kind)
    if array.type.kind == "f" and not exact:
        return _floats(kind, count, case.filling, rng)
    low, high = (int(end) for end in array.fill)
    middle = rng.integers(max(low, -9), min(high, 9), count, endpoint=True)
    match case.filling:
        case "extreme":
            ends = [x for x in (low, high, low + 1, high - 1, 0, 1, -1, high // 2, high // 2 + 1) if low <= x <= high]
            done = np.array(ends, dtype=object)[rng.integers(0, len(ends), count)]
            return np.where(rng.random(count) < 0.6, done, middle).astype(kind)
        case "ties":
            return middle.astype(kind) // 5 if kind.kind != "f" else np.trunc(middle / 5).astype(kind)
        case "zero":
            return np.zeros(count, kind)
        case "special":
            return np.array([low + int(x * (high - low)) for x in rng.random(count)], dtype=object).astype(kind)
        case _:
            return middle.astype(kind)


def _floats(kind: np.dtype[Any], count: int, filling: str, rng: np.random.Generator) -> Values:
    values = rng.standard_normal(count).astype(kind)
    about = np.finfo(kind)
    tiny = about.smallest_subnormal
    odd = np.array(
        [np.nan, np.inf, -np.inf, 0, -0.0, tiny, -tiny, about.max, -about.max, 1, -1, 16777217, 1e30, -1e30], kind
    )
    match filling:
        case "zero":
            return np.zeros(count, kind)
        case "ties":
            return np.trunc(values).astype(kind)
        case "extreme" | "special":
            chosen = rng.random(count) < (0.7 if filling == "extreme" else 0.15)
            values[chosen] = odd[rng.integers(3 if filling == "extreme" else 0, len(odd), int(chosen.sum()))]
            return values
        case "tiny":
            return (values * np.array(1e-30 if kind.itemsize == 4 else 1e-300)).astype(kind)
        case _:
            return values


def _subscripts(array: Array, count: int, case: Case, rng: np.random.Generator) -> Values:
    assert array.content is not None
    end = array.content.value(case.sizes)
    match case.filling:
        case "zero":
            done = np.zeros(count, np.int64)
        case "ties":
            done = rng.integers(0, min(2, end), count)
        case "extreme":
            done = np.where(rng.random(count) < 0.5, end - 1, 0)
        case "special":
            done = (np.arange(count) * 7 + 3) % end
        case _:
            done = rng.integers(0, end, count)
    return np.sort(done) if array.ordered else done


class Memory:
    """Address space for the arrays of one call."""

    def __init__(self, slots: int) -> None:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.mmap.restype, libc.mmap.argtypes = (
            ctypes.c_void_p,
            [ctypes.c_void_p, ctypes.c_size_t, *[ctypes.c_int] * 3, ctypes.c_long],
        )
        libc.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
        base = libc.mmap(
            None, slots * _SLOT + _PAGE, mmap.PROT_READ | mmap.PROT_WRITE, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, -1, 0
        )
        assert base not in (None, ctypes.c_void_p(-1).value), "no memory"
        self.base = base
        for slot in range(slots + 1):
            libc.mprotect(base + slot * _SLOT, _PAGE, 0)

    def put(self, slot: int, values: Values, at_end: bool) -> tuple[int, Values]:
        """The values there; their address and a view of them."""
        room = _SLOT - _PAGE
        assert values.nbytes <= room, values.nbytes
        first = self.base + slot * _SLOT + _PAGE
        address = first + room - values.nbytes if at_end else first
        if not values.nbytes:
            return address, values
        view = np.frombuffer((ctypes.c_char * values.nbytes).from_address(address), dtype=values.dtype)
        view[:] = values
        return address, view


def call(library: ctypes.CDLL, name: str, program: Program, case: Case, memory: Memory, at_end: int) -> list[Values]:
    """Every array after a call, and what is returned. Arrays end at a page that may not be touched, with 1, or begin
    behind one, with 0; with 2 some do the one, some the other."""
    values: list[Any] = [
        (ctypes.c_int if s.type.bits == 32 else ctypes.c_long)(case.sizes[s.name]) for s in program.sizes if not s.macro
    ]
    views, kept = [], []
    for number, array in enumerate(program.arrays):
        count = array.elements().value(case.sizes)
        before = filled(array, max(count, 0), case, number, program.exact)
        address, view = memory.put(number, before, bool(at_end == 1 or (at_end and (case.seed + number) % 2)))
        views.append(view)
        if array.style == "pointers" and len(array.dims) == 2:
            rows, width = (dim.value(case.sizes) for dim in array.dims)
            pointers = (ctypes.c_void_p * max(rows, 1))(*(address + i * width * view.itemsize for i in range(rows)))
            kept.append(pointers)
            values.append(ctypes.cast(pointers, ctypes.c_void_p))
        else:
            values.append(ctypes.c_void_p(address))
    function = getattr(library, name)
    function.restype = None
    if program.result is not None:
        kind = dtype(program.result)
        function.restype = np.ctypeslib.as_ctypes_type(kind)
    result = function(*values)
    after = [view.copy() for view in views]
    if program.result is not None:
        after.append(np.array([result], dtype=dtype(program.result)))
    return after


def differing(program: Program, expected: Sequence[Values], got: Sequence[Values]) -> str:
    """Where and how results differ; empty where they don't."""
    names = [*(array.name for array in program.arrays), "result"]
    for name, one, other in zip(names, expected, got, strict=False):
        parts = [(f".{m}", one[m], other[m]) for m in one.dtype.names] if one.dtype.names else [("", one, other)]
        for member, x, y in parts:
            same = x == y
            if x.dtype.kind == "f":
                same |= np.isnan(x) & np.isnan(y)
                if not program.exact:
                    same &= (np.signbit(x) == np.signbit(y)) | np.isnan(x)
            if not same.all():
                place = int(np.argmin(same))
                differ = f"{int((~same).sum())} of {len(x)} differ"
                return f"{name}[{place}]{member} is {y[place]!s}, not {x[place]!s} ({differ})"
    return ""


def verdicts(
    program: Program, reference: Path, written: Path, names: tuple[str, str], cases: Sequence[Case]
) -> list[Verdict]:
    """What became of each call of `names`: the function in the library of the original, and in that of the output. No
    call follows one whose result is not equal."""
    shared = mmap.mmap(-1, 4096)
    done: list[Verdict] = []
    while len(done) < len(cases):
        shared[:4096] = bytes(4096)
        child = os.fork()
        if child == 0:
            try:
                _child(program, reference, written, names, cases[len(done) :], shared)
            except BaseException:  # noqa: BLE001  (the parent raises it)
                text = traceback.format_exc().encode()[-3000:]
                shared[1024 : 1024 + len(text)] = text
                os._exit(_BROKEN)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.WIFEXITED(status) and os.WEXITSTATUS(status) == _BROKEN:
            raise RuntimeError(shared[1024:4096].rstrip(b"\0").decode())
        for place in range(len(cases) - len(done)):
            state = shared[place]
            if state == _EQUAL:
                done.append(Verdict("equal"))
                continue
            if state == _DIFFERENT:
                done.append(Verdict("different", shared[1024:4096].rstrip(b"\0").decode()))
            elif state in (_BEGUN, _REFERENCE):
                number = os.WTERMSIG(status) if os.WIFSIGNALED(status) else 0
                kind = "undefined" if state == _BEGUN else "hang" if number == signal.SIGALRM else "crash"
                done.append(Verdict(kind, signal.Signals(number).name if number else f"exit {status}"))
            else:
                done.append(Verdict("crash", f"nothing was called: {status}"))
            return done
    return done


def _child(
    program: Program, reference: Path, written: Path, names: tuple[str, str], cases: Sequence[Case], shared: mmap.mmap
) -> None:
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    for one in (signal.SIGALRM, signal.SIGSEGV, signal.SIGBUS, signal.SIGFPE, signal.SIGABRT):
        signal.signal(one, signal.SIG_DFL)
    libraries = ctypes.CDLL(str(reference)), ctypes.CDLL(str(written))
    memory = Memory(len(program.arrays))
    threads = ctypes.CDLL("libgomp.so.1").omp_set_num_threads
    for place, case in enumerate(cases):
        signal.alarm(SECONDS)
        shared[place] = _BEGUN
        expected = call(libraries[0], names[0], program, case, memory, 1)
        shared[place] = _REFERENCE
        threads(case.threads)
        got = call(libraries[1], names[1], program, case, memory, 2)
        detail = differing(program, expected, got)
        if detail:
            text = detail.encode()[:3000]
            shared[1024 : 1024 + len(text)] = text
            shared[place] = _DIFFERENT
            return
        shared[place] = _EQUAL
