"""`Kernel`: a C function that Python calls on arrays."""

from __future__ import annotations

import ctypes
import inspect
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from polydl.base import html
from polydl.base.errors import ArgumentTypeError, ArgumentValueError
from polydl.base.records import dataclass
from polydl.measure.compiler import CompilerTooSlow
from polydl.measure.unit import environment
from polydl.model.bfloat16 import widened
from polydl.model.types import ElementType
from polydl.native import shared
from polydl.native.call_arguments import Memory, check, check_apart, memory, scalar, torch_tensor
from polydl.native.forked import usable_threads
from polydl.native.index_checks import IndexCheck, check_indices
from polydl.native.packed_constants import Constants
from polydl.native.quick_arguments import QuickArguments
from polydl.native.shared import Unit
from polydl.native.signature import Parameter, Signature

Numbers = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True)
class Made:
    """How the code of a kernel was chosen."""

    how: str
    """`measured`, `ranked` or `as written`."""
    variant: str | None
    """Id of the variant. None: the loops as they are written."""
    recipe: str
    """The transforms, as text. Empty: none."""
    speedup: float | None
    """Time of the original over the time of this variant, as measured. None: nothing was measured."""
    threads: int
    """OpenMP threads of a call."""
    notes: tuple[str, ...] = ()
    """Notes for the user: assumptions, warnings."""
    packed: tuple[str, ...] = ()
    """Constant arrays of which the kernel keeps copies in another layout, in the order in which its function that packs
    takes them."""


def _loaded(signature: Signature, made: Made, unit: Unit) -> tuple[ctypes.CDLL, Path]:
    """The shared object of a kernel, and its file. Raises CompilerTooSlow, ToolchainError."""
    return shared.load(replace(unit, text=unit.text + _wrapper(signature, made.packed)))


class Kernel:
    """A C function that Python calls on arrays. Made by `polydl.compile`.

    Arrays are passed by address; nothing is copied. NumPy arrays, torch tensors in main memory, and other objects that
    export DLPack or a buffer are accepted. They must have the element type and the extents that C declares, row-major
    without gaps; those that the kernel writes must be writable and must not overlap other arguments. Arguments are
    passed by name, or by position in C's order, without the integers that have a size. Such an integer may be passed
    by name; for a value that differs from its size the original loops run.

    An array that the kernel writes may be left out where its extents are declared: the call then makes one, filled
    with zeros, and returns it (several as a tuple). Otherwise it returns the value of the C function, None for void.

    Of arrays that are constant, as `polydl.compile` was told, it keeps a copy in the layout that it reads
    (`made.packed`), for each array object and, of a tensor, each version: a tensor may change in place between calls. A
    NumPy array has no version: after a change in place call `repack`.

    The call releases the lock of the interpreter, and several threads may call at once. In a process that was forked
    after a call, such as a worker of torch's DataLoader, calls run on one thread. It raises ArgumentTypeError (a
    TypeError) and ArgumentValueError (a ValueError) before anything runs; the latter also for values of arrays of
    integers that lead out of the arrays that they subscript, where `polydl.compile` was told to check them.
    """

    def __init__(self, signature: Signature, made: Made, unit: Unit, checks: Sequence[IndexCheck] = ()) -> None:
        try:
            library, self.path = _loaded(signature, made, unit)
        except CompilerTooSlow as error:
            if not unit.plain:
                raise
            note = f"the loops run as they are written: {error.reason}"
            made = Made("as written", None, "", None, made.threads, (*made.notes, note))
            unit = replace(unit, text=unit.plain, flags=(*unit.flags, "-O1"), plain="")
            library, self.path = _loaded(signature, made, unit)
        self.signature = signature
        self.checks = tuple(checks)
        self.made = made
        self.unit = unit
        self.__name__ = self.__qualname__ = signature.function
        self._parameters = signature.parameters
        self._positional = [p for p in signature.parameters if p.default is None]
        self._free = any(not p.is_array and p.element.is_int for p in self._positional)  # integers without a size
        self._known = {p.name for p in signature.parameters}
        self._defaults = {p.name: scalar(p, p.default) for p in signature.parameters if p.default is not None}
        self._any_size = any(p.any_value for p in signature.parameters)
        self._extents = sum(e is not None for p in signature.parameters for e in p.dims or ())
        self._library = library
        self._call = library.polydl_native_call
        self._call.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p]
        self._call.restype = None
        self._address = ctypes.cast(self._call, ctypes.c_void_p).value
        self._measure = library.polydl_native_extents
        self._measure.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
        self._measure.restype = None
        self._sized_extents: dict[str, list[int | None]] | None = None
        self._quick: QuickArguments | None = None
        order = [p.name for p in signature.parameters]
        places = [order.index(name) for name in made.packed]
        self._constants = Constants(library, places) if places else None
        self._constant_arguments = [[p.name for p in self._positional].index(name) for name in made.packed]

    def repack(self) -> None:
        """Forget the copies of constant arrays: the next calls make them anew."""
        if self._constants is not None:
            self._constants.forget()

    @property
    def source(self) -> str:
        """The C file that was compiled."""
        return self.unit.text

    @property
    def sizes(self) -> dict[str, int]:
        """Values of the integer parameters that the kernel was made for."""
        return {p.name: p.default for p in self._parameters if p.default is not None}

    @property
    def __signature__(self) -> inspect.Signature:
        kinds = inspect.Parameter
        positional = [kinds(p.name, kinds.POSITIONAL_OR_KEYWORD, annotation=_shown(p)) for p in self._positional]
        sized = [
            kinds(p.name, kinds.KEYWORD_ONLY, default=p.default, annotation=_shown(p))
            for p in self._parameters
            if p.default is not None
        ]
        return inspect.Signature([*positional, *sized])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._quick is not None and not self.checks and not kwargs and len(args) == len(self._positional):
            copies = None
            if self._constants is not None and (usual := self._quick.call(args, None, None, 0)) is not None:
                copies = self._constants.packed([args[at] for at in self._constant_arguments], usual)
            result = _result_cell(self.signature.result)
            into, packed = (None if one is None else one.ctypes.data for one in (result, copies))
            threads = usable_threads(self.made.threads)
            if self._quick.call(args, self._address, into, threads, packed) is not None:
                return _returned(result, self.signature.result, [])
        values = self._bound(args, kwargs)
        count = len(self._parameters)
        pointers = (ctypes.c_void_p * max(count, 1))()
        numbers: list[Numbers] = []  # kept alive while their addresses are in use
        for i, p in enumerate(self._parameters):
            if not p.is_array:
                numbers.append(scalar(p, values[p.name]) if p.name in values else self._defaults[p.name])
                pointers[i] = numbers[-1].__array_interface__["data"][0]
        sized = not self._any_size and all(
            p.name not in values or values[p.name] == p.default for p in self._parameters if p.default is not None
        )
        extents = self._declared(pointers, sized)
        found: list[Memory] = []
        made: list[Any] = []
        tensors = any(torch_tensor(value) for value in values.values())
        for i, p in enumerate(self._parameters):
            if not p.is_array:
                continue
            if p.name not in values:
                values[p.name] = _zeros(p, extents[p.name], tensors)
                made.append(values[p.name])
            one = memory(p, values[p.name])
            check(one, extents[p.name], sized=sized)
            found.append(one)
            pointers[i] = one.address
        check_apart(found, all_apart=self.made.variant is not None)
        check_indices(self.checks, {one.parameter.name: one for one in found})
        result = _result_cell(self.signature.result)
        self._run(pointers, result, [values[name] for name in self.made.packed] if sized else [])
        _mark_changed_tensors(found)
        return _returned(result, self.signature.result, made)

    def _run(self, pointers: Any, result: Numbers | None, constant: Sequence[Any]) -> None:
        """`constant`: the arrays that are packed, for sizes that the kernel was made for; none for others."""
        copies = self._constants.packed(constant, pointers) if self._constants is not None and constant else None
        self._call(
            ctypes.addressof(pointers), None if result is None else result.__array_interface__["data"][0],
            usable_threads(self.made.threads), None if copies is None else copies.ctypes.data,
        )  # fmt: skip

    def _bound(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """The arguments by name. Raises ArgumentTypeError for those that do not fit the signature."""
        name = self.signature.function
        if len(args) > len(self._positional):
            order = ", ".join(p.name for p in self._positional)
            raise ArgumentTypeError(
                f"{name} takes {len(self._positional)} arguments by position ({order}), not {len(args)}"
            )
        values = {p.name: value for p, value in zip(self._positional, args, strict=False)}
        for key, value in kwargs.items():
            if key not in self._known:
                raise ArgumentTypeError(f"{name} has no parameter '{key}'", hint=f"it is {self}")
            if key in values:
                raise ArgumentTypeError(f"argument '{key}' is given twice, by position and by name")
            values[key] = value
        for p in self._positional:
            if p.name not in values and not (p.is_array and p.written):
                raise ArgumentTypeError(f"argument '{p.name}' ({_shown(p)}) is missing", hint=f"it is {self}")
        return values

    def _declared(self, pointers: Any, sized: bool) -> dict[str, list[int | None]]:
        """The declared extents of each array for the integers of this call; None for an extent that is not declared.

        Raises ArgumentValueError for a negative one.
        """
        if self._sized_extents is not None and sized:
            return self._sized_extents
        values = (ctypes.c_long * max(self._extents, 1))()
        self._measure(ctypes.addressof(pointers), ctypes.addressof(values))
        following = iter(values)
        extents = {
            p.name: [None if e is None else next(following) for e in p.dims]
            for p in self._parameters
            if p.dims is not None
        }
        for name, its in extents.items():
            if any(e is not None and e < 0 for e in its):
                raise ArgumentValueError(f"array '{name}' would have the extents {its}", hint="check the integers")
        if sized and not self._free:
            self._sized_extents = extents
            addresses = {name: value.__array_interface__["data"][0] for name, value in self._defaults.items()}
            apart = self.made.variant is not None
            self._quick = QuickArguments(self._parameters, extents, addresses, self.unit.toolchain, all_apart=apart)
        return extents

    def __reduce__(self) -> tuple[type[Kernel], tuple[Signature, Made, Unit, tuple[IndexCheck, ...]]]:
        return Kernel, (self.signature, self.made, self.unit, self.checks)

    def __repr__(self) -> str:
        return f"<polydl kernel {self}, {self._code}, {self.made.threads} threads>"

    def __str__(self) -> str:
        shown = [f"{p.name}: {_shown(p)}" for p in self._positional]
        shown += [f"{name}={value}" for name, value in self.sizes.items()]
        return f"{self.signature.function}({', '.join(shown)})"

    @property
    def _code(self) -> str:
        return f"variant {self.made.variant}, {self.made.how}" if self.made.variant else "loops as written"

    def _repr_html_(self) -> str:
        known: dict[str, object] = {"code": self._code, "recipe": self.made.recipe, "threads": self.made.threads}
        if self.made.speedup is not None:
            known["speed-up"] = self.made.speedup
        notes = [html.line(note) for note in self.made.notes]
        return html.block(str(self), html.facts(known), *notes, html.code(self.source, "C text"))


def _shown(p: Parameter) -> str:
    extents = "" if p.dims is None else "".join(f"[{'' if e is None else e}]" for e in p.dims)
    return f"{'const ' if p.const and p.is_array else ''}{p.element}{extents}"


def _wrapper(signature: Signature, packed: Sequence[str]) -> str:
    """C that is appended to the file: a function that calls the kernel with arguments from an array of addresses."""
    parameters = signature.parameters
    arguments = [
        f"polydl_arguments[{i}]" if p.is_array else f"*(const {p.element} *)polydl_arguments[{i}]"
        for i, p in enumerate(parameters)
    ]
    text = (
        environment()
        .get_template("native_call.c.j2")
        .render(
            function=signature.function,
            integers=[
                {"name": p.name, "ctype": p.element.c, "at": i}
                for i, p in enumerate(parameters)
                if not p.is_array and p.element.is_int
            ],
            extents=[e for p in parameters for e in p.dims or () if e is not None],
            result=f"*({signature.result} *)polydl_result = " if signature.result else "",
            arguments=", ".join(arguments),
            packed=", ".join(f"polydl_arguments[{[p.name for p in parameters].index(name)}]" for name in packed),
        )
    )
    return str(text)


def _zeros(parameter: Parameter, extents: Sequence[int | None], tensor: bool) -> Any:
    """A new array of zeros, a torch tensor if `tensor`. Raises ArgumentTypeError where an extent is not declared, or
    NumPy has not the type."""
    if any(e is None for e in extents):
        raise ArgumentTypeError(
            f"argument '{parameter.name}' is missing, and C does not declare its size", hint="give an array"
        )
    shape = [e for e in extents if e is not None]
    if tensor:
        torch = sys.modules["torch"]
        return torch.zeros(shape, dtype=getattr(torch, str(parameter.element.torch)))
    if parameter.element.numpy is not None:
        return np.zeros(shape, dtype=parameter.element.numpy)
    more = sys.modules.get("ml_dtypes")  # where it is not imported, the caller has no such arrays
    if more is None:
        raise ArgumentTypeError(
            f"argument '{parameter.name}' is missing, and NumPy has no {parameter.dtypes[0]}",
            hint=f"give an array, or import ml_dtypes, which has {parameter.dtypes[0]} for NumPy",
        )
    return np.zeros(shape, dtype=getattr(more, parameter.dtypes[0]))


def _result_cell(element: ElementType | None) -> Numbers | None:
    """An array of shape () that receives the value of the C function, its bits where NumPy has not the type; None for
    void."""
    return None if element is None else np.zeros((), dtype=element.numpy or np.uint16)


def _returned(result: Numbers | None, element: ElementType | None, made: list[Any]) -> Any:
    """What the call returns: the value of the C function, of a type, and the arrays that the call made."""
    if result is not None:
        if element is not None and element.numpy is None:
            result = widened(result)
        value = result[()] if result.dtype == np.longdouble else result.item()
        return (value, *made) if made else value
    return None if not made else made[0] if len(made) == 1 else tuple(made)


def _mark_changed_tensors(found: Sequence[Memory]) -> None:
    """Raise torch's count of changes in place, which a backward pass checks, of the tensors that were written."""
    for one in found:
        if one.parameter.written and torch_tensor(one.owner) and not one.owner.is_inference():
            sys.modules["torch"].autograd.graph.increment_version(one.owner)
