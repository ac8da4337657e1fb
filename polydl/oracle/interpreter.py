"""Runs C as it was parsed, with C's meaning: the reference that polydl's reading and its outputs are compared with.

Each function is translated to Python once, with its types resolved: what C leaves undefined is checked where it
happens, and is a verdict (`Undefined`) with its place.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, NoReturn, Protocol

from pycparser import c_ast

from polydl.base.records import dataclass
from polydl.oracle import c_arithmetic
from polydl.oracle.c_library import LIBRARY
from polydl.oracle.c_memory import NULL, Memory, Obj, PartlyUnset, Pointer, decoded, encoded
from polydl.oracle.c_program import CProgram, Translator
from polydl.oracle.c_types import Array, CType, Integer, PointerTo, Real, Record, Vector, Void, is_scalar, size_of
from polydl.oracle.c_values import Place, Scope
from polydl.oracle.c_verdicts import StepLimit, Undefined, Unsupported, place_of

__all__ = ["Memory", "Obj", "Pointer", "Ran", "StepLimit", "Tracer", "Undefined", "Unsupported", "call", "objects"]


class Tracer(Protocol):
    """Hears of a run. Traced functions keep every variable in memory, so that all accesses are told."""

    def load(self, obj: Obj, offset: int, size: int, node: c_ast.Node) -> None: ...

    def store(self, obj: Obj, offset: int, size: int, node: c_ast.Node) -> None: ...

    def statement(self, node: c_ast.Node) -> None:
        """In front of each statement that is an expression."""


@dataclass(frozen=True, slots=True)
class Ran:
    """What a call gave."""

    value: int | float | Pointer | bytes | tuple[Any, ...] | None
    """None of `void`; bytes of a structure, a tuple of a vector's lanes."""
    steps: int
    """Statements of the iterations and calls that ran, those of untaken branches included."""


def call(
    program: CProgram,
    name: str,
    arguments: Sequence[int | float | Pointer | bytes | tuple[Any, ...]],
    memory: Memory,
    *,
    steps: int = 1_000_000,
    tracer: Tracer | None = None,
) -> Ran:
    """Call a function of a program; objects with static storage are those of the memory (`objects`).

    Raises Undefined, StepLimit, Unsupported, and ValueError for arguments that do not fit the parameters.
    """
    function = program.functions.get(name)
    if function is None:
        raise program.unknown.get(name) or Unsupported(f"there is no function '{name}'", place_of(None))
    if len(arguments) != len(function.parameters):
        raise ValueError(f"'{name}' has {len(function.parameters)} parameters, {len(arguments)} arguments are given")
    given = [_given(value, kind) for value, (_, kind) in zip(arguments, function.parameters, strict=True)]
    environment = _environment(program, memory)
    left = environment.steps[0]
    environment.steps[0] = steps
    try:
        value = environment.functions(tracer)[name](*given)
        used = steps - environment.steps[0]
    except RecursionError as error:
        raise StepLimit("calls within calls are too deep", place_of(function.node)) from error
    finally:
        environment.steps[0] = left
    return Ran(_result(value, function.returns), used)


def objects(program: CProgram, memory: Memory) -> Mapping[str, Obj]:
    """The objects with static storage that a run in this memory uses, by name; they are made where they are missing."""
    environment = _environment(program, memory)
    return {name: environment.object(name) for name in program.globals}


def _given(value: Any, kind: CType) -> Any:
    if isinstance(kind, Integer) and isinstance(value, int) and kind.least <= value <= kind.most:
        return value
    if isinstance(kind, Real) and isinstance(value, int | float):
        return c_arithmetic.ROUND[kind.code](float(value))
    if isinstance(kind, PointerTo) and isinstance(value, tuple) and len(value) == 2:
        return (NULL if value[0] is None else value[0], value[1])
    if isinstance(kind, Record) and isinstance(value, bytes) and len(value) == kind.size:
        return value
    if isinstance(kind, Vector) and isinstance(value, tuple) and len(value) == kind.lanes:
        return value
    raise ValueError(f"{value!r} is no argument of type '{kind}'")


def _result(value: Any, kind: CType) -> Any:
    if isinstance(kind, Void) or value is None:
        return None
    if isinstance(kind, Integer):
        return int(value)
    if isinstance(kind, PointerTo):
        return Pointer(None if value[0] is NULL else value[0], value[1])
    return value


def _environment(program: CProgram, memory: Memory) -> Environment:
    found = memory.environments.get(id(program))
    if found is None:
        found = memory.environments[id(program)] = Environment(program, memory)
    assert isinstance(found, Environment)
    return found


class _Functions(dict[str, Callable[..., Any]]):
    """Python functions by the names of C's, made when they are first called."""

    def __init__(self, make: Callable[[str], Callable[..., Any]]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, name: str) -> Callable[..., Any]:
        made = self[name] = self._make(name)
        return made


class Environment:
    """What a program's functions share in one memory."""

    def __init__(self, program: CProgram, memory: Memory) -> None:
        self.program, self.memory = program, memory
        self.steps = [0]
        self._plain = _Functions(partial(self._function, None))
        self._traced: tuple[Tracer, _Functions] | None = None
        self._objects: dict[str, Obj] = {}
        self._pointed: dict[str, Obj] = {}

    def functions(self, tracer: Tracer | None) -> _Functions:
        if tracer is None:
            return self._plain
        if self._traced is None or self._traced[0] is not tracer:
            self._traced = (tracer, _Functions(partial(self._function, tracer)))
        return self._traced[1]

    def object(self, name: str) -> Obj:
        """An object with static storage, with its first value."""
        found = self._objects.get(name)
        if found is not None:
            return found
        it = self.program.globals[name]
        elastic = isinstance(it.type, Array) and it.type.count is None
        size = None if elastic else size_of(it.type)
        made = self._objects[name] = self.memory.new(name.partition(".")[0], size, fill=0, origin="static")
        if it.node.init is not None:
            self._make("object", name, None)(made)
            made.readonly = _constant(it.node.type)
        return made

    def literal(self, data: bytes) -> Obj:
        return self.memory.new("string", len(data), fill=data, origin="literal", readonly=True)

    def function_object(self, name: str) -> Obj:
        """What a pointer to a function points to."""
        if name not in self._pointed:
            self._pointed[name] = self.memory.new(name, 1, fill=0, origin="function")
        return self._pointed[name]

    def _function(self, tracer: Tracer | None, name: str) -> Callable[..., Any]:
        function = self.program.functions.get(name)
        if function is None:
            raise self.program.unknown[name]
        return self._make("function", name, tracer)

    def _make(self, what: str, name: str, tracer: Tracer | None) -> Callable[..., Any]:
        key = (what, name, tracer is not None)
        maker = self.program.makers.get(key)
        if maker is None:
            maker = self.program.makers[key] = _translated(self.program, *key)
        made: Callable[..., Any] = maker(self, self.memory, self.steps, tracer, self.functions(tracer))
        return made

    def library(self, tracer: Tracer | None, name: str) -> Callable[..., Any]:
        known = LIBRARY[name]
        return partial(known.python, self.memory, tracer) if known.placed else known.python


def _constant(node: c_ast.Node) -> bool:
    while isinstance(node, c_ast.ArrayDecl):
        node = node.type
    return "const" in (getattr(node, "quals", None) or ())


def _translated(program: CProgram, what: str, name: str, traced: bool) -> Any:
    """The Python of a function or initialiser, compiled: a function that links it to an environment."""
    translator = Translator(program, Scope(program.scope), traced=traced)
    if what == "function":
        function = program.functions[name]
        translator.returns = function.returns
        translator.function(function.node)
    else:
        it = program.globals[name]
        translator.prepare(it.node)
        with translator.block("def f(o):"):
            assert it.node.init is not None
            if is_scalar(it.type) or isinstance(it.type, Vector):
                value = translator.first_value(it.type, it.node.init)
                translator.store(Place(it.type, it.node, obj="o"), value, it.node)
            else:
                translator.initialise(Place(it.type, it.node, obj="o"), it.node.init)
    head = ["def make(E, M, S, T, F):"]
    head += [f"    {code} = {link.replace('E.library(', 'E.library(T, ')}" for code, link in translator.links.items()]
    lines = [*head, *(line[4:] for line in translator.lines), "    return f"]
    names = {**_RUNTIME, "N": program.nodes, "X": program.refused}
    exec(compile("\n".join(lines), f"<{what} {name}>", "exec"), names)
    return names["make"]


# What translated functions call where C's rules are broken, or where Python has no short way to say it.


def _raises(kind: str, message: Callable[..., str]) -> Callable[..., NoReturn]:
    def raised(*arguments: Any) -> NoReturn:
        raise Undefined(kind, message(*arguments[:-1]), place_of(arguments[-1]))

    return raised


def _out_of_steps(node: c_ast.Node) -> NoReturn:
    raise StepLimit("more steps than allowed", place_of(node))


def _refused(number: int, refused: list[Unsupported]) -> NoReturn:
    raise refused[number]


def _function_of(obj: Obj, offset: int, node: c_ast.Node) -> str:
    if obj.origin != "function" or offset:
        raise Undefined("null", "a call through what is no pointer to a function", place_of(node))
    return obj.name


def _renewed(old: Obj | None, memory: Memory, name: str, size: int, fill: int | None) -> Obj:
    if old is not None:
        old.end_life()
    return memory.new(name, size, fill=fill, origin="automatic")


def _ended(*objects: Obj | None) -> None:
    for one in objects:
        if one is not None:
            one.end_life()


def _lanes_of(data: bytes, code: str, node: c_ast.Node) -> tuple[Any, ...]:
    if isinstance(data, PartlyUnset):
        raise Undefined("uninitialised", "a vector is read before all of it has a value", place_of(node))
    width = int(code[1:])
    return tuple(decoded(code, data[at : at + width], NULL.memory) for at in range(0, len(data), width))


def _bytes_of(lanes: tuple[Any, ...], code: str) -> bytes:
    return b"".join([encoded(code, lane) for lane in lanes])


def _lane_count(count: int, bits: int, node: c_ast.Node) -> int:
    if not 0 <= count < bits:
        raise Undefined("shift", f"a lane is shifted by {count}", place_of(node))
    return count


def _lane_divided(divide: Callable[[int, int], int]) -> Callable[[int, int, c_ast.Node], int]:
    def of(one: int, other: int, node: c_ast.Node) -> int:
        if other == 0:
            raise Undefined("division", "division by zero", place_of(node))
        return divide(one, other)

    return of


def _lane_to_integer(value: float, least: int, most: int, node: c_ast.Node) -> int:
    if not least - 1 < value < most + 1:
        raise Undefined("conversion", f"{value} is outside of the integer type", place_of(node))
    return int(value)


def _is_normal(value: float, code: str) -> bool:
    least = {"f4": 2.0**-126, "f8": 2.0**-1022, "f2": 2.0**-14, "b2": 2.0**-126}[code]
    return least <= abs(value) < math.inf


_RUNTIME: dict[str, Any] = {
    "NULL": NULL,
    "NAN": math.nan,
    "INF": math.inf,
    "C4": memoryview(bytearray(4)).cast("B").cast("f"),
    "copysign": math.copysign,
    "is_normal": _is_normal,
    "quotient": c_arithmetic.quotient,
    "remainder": c_arithmetic.remainder,
    "divided": c_arithmetic.divided,
    "to_real": c_arithmetic.to_real,
    "to_float": c_arithmetic.to_float,
    "to_half": c_arithmetic.to_half,
    "to_brain": c_arithmetic.to_brain,
    "ROUND": c_arithmetic.ROUND,
    "lanes_of": _lanes_of,
    "bytes_of": _bytes_of,
    "lane_count": _lane_count,
    "lane_quotient": _lane_divided(c_arithmetic.quotient),
    "lane_remainder": _lane_divided(c_arithmetic.remainder),
    "lane_to_integer": _lane_to_integer,
    "renewed": _renewed,
    "ended": _ended,
    "function_of": _function_of,
    "refused": _refused,
    "out_of_steps": _out_of_steps,
    "overflow": _raises("overflow", lambda value, kind: f"{value} does not fit in '{kind}'"),
    "by_zero": _raises("division", lambda: "division by zero"),
    "shift_count": _raises("shift", lambda count, kind: f"'{kind}' is shifted by {count}"),
    "shifted": _raises("shift", lambda value, count: f"{value} << {count} is not defined"),
    "no_integer": _raises("conversion", lambda value: f"{value} is outside of the integer type"),
    "two_objects": _raises("pointer", lambda one, other: f"pointers into {one!r} and {other!r} are compared"),
    "bad_index": _raises("bounds", lambda index, count: f"element {index} of an array of {count}"),
    "bad_length": _raises("bounds", lambda count: f"an array of {count} elements"),
    "no_value": _raises("uninitialised", lambda name: f"'{name}' is read before it has a value"),
    "no_result": _raises("return", lambda: "the function returned nothing"),
    "unsequenced": _raises("unsequenced", lambda: "effects on one object have no order"),
}
