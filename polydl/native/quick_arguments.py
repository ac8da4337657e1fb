"""Calls with usual arguments, in a microsecond.

A call of a small kernel takes less time than `call_arguments` needs to look at its arrays, whose checks say what is
wrong in words. What is asked here is the same, in C (templates/native_arguments.c), for NumPy arrays and tensors by
position with the sizes that the kernel was made for; whatever is not quite so is left to the other way, which takes it
or says why not (tests/api/test_quick_arguments.py holds both against each other).
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np

from polydl.base import resources
from polydl.measure import Toolchain
from polydl.model.types import BF16, BOOL, F32, F64, U8, ElementType, Kind
from polydl.native import shared
from polydl.native.signature import Parameter

MOST = 64
"""Parameters of a function that is called so."""
TENSORS_CHANGED = 2
"""What the function in C returns where tensors were written; 1 where only arrays were, 0 for unusual arguments."""
_KINDS = {Kind.SIGNED: 0, Kind.UNSIGNED: 1, Kind.FLOAT: 2, Kind.COMPLEX: 5}
"""DLDataTypeCode of DLPack."""
_BFLOAT, _BOOL = 4, 6
"""Those of types that are no more bits of such a kind."""
_FUNCTIONS = {
    "type": "PyObject_Type", "item": "PyTuple_GetItem", "number": "PyFloat_AsDouble", "buffer": "PyObject_GetBuffer",
    "release": "PyBuffer_Release", "attribute": "PyObject_GetAttr", "method": "PyObject_VectorcallMethod",
    "call": "PyObject_Vectorcall", "drop": "Py_DecRef", "clear": "PyErr_Clear", "unlock": "PyEval_SaveThread",
    "lock": "PyEval_RestoreThread",
}  # fmt: skip
_OBJECTS = {
    "is_false": False, "float_type": float, "array_type": np.ndarray,
    "requires_grad": sys.intern("requires_grad"), "is_neg": sys.intern("is_neg"), "is_conj": sys.intern("is_conj"),
}  # fmt: skip
_OF_TORCH = ("tensor_type", "parameter_type", "is_grad_enabled", "exchange")


class _Python(ctypes.Structure):
    """The interpreter's functions and objects, as C has them."""

    _fields_ = [(name, ctypes.c_void_p) for name in (*_FUNCTIONS, *_OBJECTS, *_OF_TORCH)]


class _Wanted(ctypes.Structure):
    """What an argument must be, as C has it."""

    _fields_ = [
        *((n, ctypes.c_int64) for n in ("at", "float_bytes", "dimensions", "counted", "least", "itemsize", "written")),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("formats", ctypes.POINTER(ctypes.c_char_p)),
        ("dtypes", ctypes.POINTER(ctypes.c_int64)),
    ]


class _Usual(ctypes.Structure):
    """The usual arguments of a kernel, as C has them."""

    _fields_ = [
        *((n, ctypes.c_int64) for n in ("given", "apart", "fixed")),
        ("wanted", ctypes.POINTER(_Wanted)),
        ("pairs", ctypes.POINTER(ctypes.c_int64)),
        ("fixed_at", ctypes.POINTER(ctypes.c_int64)),
        ("fixed_addresses", ctypes.POINTER(ctypes.c_void_p)),
    ]


class QuickArguments:
    """The usual arguments of one kernel."""

    def __init__(
        self,
        parameters: Sequence[Parameter],
        extents: Mapping[str, Sequence[int | None]],
        defaults: Mapping[str, int],
        toolchain: Toolchain,
        *,
        all_apart: bool,
    ) -> None:
        """`extents`: those declared, at the sizes that the kernel was made for. `defaults`: the addresses of these
        sizes. `all_apart`: as `call_arguments.check_apart` takes it."""
        self._toolchain = toolchain
        given = [(i, p) for i, p in enumerate(parameters) if p.default is None]
        pairs = [
            at
            for (i, a), (j, b) in combinations([(i, p) for i, p in given if p.is_array], 2)
            if (a.written or b.written) and (all_apart or a.restrict or b.restrict)
            for at in (i, j)
        ]
        fixed = [(i, defaults[p.name]) for i, p in enumerate(parameters) if p.default is not None]
        self._wanted = wanted = [_wanted(i, p, extents.get(p.name, ())) for i, p in given]
        self._usual = _Usual(
            len(given), len(pairs) // 2, len(fixed), (_Wanted * max(len(given), 1))(*wanted), _numbers(*pairs),
            _numbers(*(i for i, _ in fixed)), (ctypes.c_void_p * max(len(fixed), 1))(*(a for _, a in fixed)),
        )  # fmt: skip
        self._address = ctypes.addressof(self._usual)
        self._addresses = ctypes.c_void_p * max(len(parameters), 1)
        self._written = [place for place, (_, p) in enumerate(given) if p.is_array and p.written]
        # Other numbers than floats, and very many arguments, are unusual.
        self._never = len(parameters) > MOST or any(not p.is_array and p.element not in (F32, F64) for _, p in given)

    def call(
        self, args: tuple[Any, ...], function: int | None, result: int | None, threads: int, packed: int | None = None
    ) -> Any:
        """Call the function at an address with arguments by position, without the interpreter's lock; without one only
        look at them. The array of the addresses of all arguments; None for unusual ones, with which nothing is done.
        Raises ToolchainError."""
        if self._never:
            return None
        addresses = self._addresses()
        if _PYTHON.exchange is None:
            _meet_torch()
        call = _function(self._toolchain)
        found = call(_PYTHON_ADDRESS, self._address, args, addresses, function, result, threads, packed)
        if not found:
            return None
        if found == TENSORS_CHANGED and function is not None:
            changed = [args[at] for at in self._written if type(args[at]) is not np.ndarray]
            sys.modules["torch"].autograd.graph.increment_version(changed)
        return addresses


@cache
def _function(toolchain: Toolchain) -> Any:
    """The function in C. Raises ToolchainError."""
    text = (resources.templates() / "native_arguments.c").read_text(encoding="utf-8")
    _, path = shared.load(shared.Unit(text, ("-O2",), toolchain))
    function = ctypes.PyDLL(str(path)).polydl_usual_call
    pointer = ctypes.c_void_p
    function.argtypes = [
        pointer, pointer, ctypes.py_object, pointer, pointer, pointer, ctypes.c_int, pointer,
    ]  # fmt: skip
    function.restype = ctypes.c_int
    return function


def _meet_torch() -> None:
    """Tell C what tensors are, where torch has been imported and shows their memory to C."""
    torch = sys.modules.get("torch")
    capsule = getattr(getattr(torch, "Tensor", None), "__dlpack_c_exchange_api__", None)
    if torch is None or capsule is None:
        return
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype, pointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
    exchange = pointer(capsule, b"dlpack_exchange_api")
    if ctypes.c_uint32.from_address(exchange).value != 1:
        return  # another version of DLPack's, which need not begin in this way
    for name, value in zip(_OF_TORCH, (torch.Tensor, torch.nn.Parameter, torch.is_grad_enabled), strict=False):
        setattr(_PYTHON, name, id(value))
    _PYTHON.exchange = exchange


def _numbers(*values: int) -> Any:
    """A C array, which has one element at least."""
    return (ctypes.c_int64 * max(len(values), 1))(*values)


def _wanted(at: int, p: Parameter, extents: Sequence[int | None]) -> _Wanted:
    if not p.is_array:
        return _Wanted(at=at, float_bytes=p.element.bytes)
    known = [e for e in extents if e is not None]
    counted = 0 if extents[0] is not None or (not known and p.least is None) else 2 if known else 1
    types = [t for t in dict.fromkeys((p.element, U8)) if t.torch in p.dtypes]
    tensors = map(_dlpack, types)
    formats = [*_formats([name for name in p.dtypes if name != BF16.torch]), None]
    return _Wanted(
        at, 0, len(known), counted, p.least or 0, p.element.bytes, p.written, _numbers(*known),
        (ctypes.c_char_p * len(formats))(*formats), _numbers(*tensors, 0),
    )  # fmt: skip


def _formats(names: Sequence[str]) -> list[bytes]:
    """What NumPy calls the types of elements in buffers: int64 is long, or long long."""
    alike = (np.dtype(code) for code in np.typecodes["All"] if code not in "SUVOMm")
    named = {np.dtype(name) for name in names}
    return [np.zeros(1, dtype).data.format.encode() for dtype in alike if dtype in named]


def _dlpack(element: ElementType) -> int:
    """Code and bits of a type, as C compares them."""
    kind = _BFLOAT if element.torch == BF16.torch else _BOOL if element is BOOL else _KINDS[element.kind]
    return kind << 16 | 8 * element.bytes


_PYTHON = _Python(
    *(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value for name in _FUNCTIONS.values()),
    *(id(value) for value in _OBJECTS.values()),
)
_PYTHON_ADDRESS = ctypes.addressof(_PYTHON)
