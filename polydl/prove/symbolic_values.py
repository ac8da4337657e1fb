"""C expressions of the generated code as symbolic values: what one lane of a vector, or a scalar, is made of."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pycparser import c_ast, c_generator

from polydl.base.records import dataclass
from polydl.model.conversions import conversion_of
from polydl.model.functions import FUNCTIONS
from polydl.model.types import F32, F64, I32, TYPES, U32, spelled
from polydl.prove.integers import ZERO, Affine, Unreadable, affine, product
from polydl.prove.printed_program import Bounds, Pointer


@dataclass(frozen=True, slots=True)
class Load:
    """The element at an address."""

    at: Pointer


@dataclass(frozen=True, slots=True)
class Literal:
    """A number as written; `vector`: in a vector's type, whatever the literal's."""

    text: str
    vector: bool = False


@dataclass(frozen=True, slots=True)
class Integer:
    """A value made of loop variables."""

    value: Affine


@dataclass(frozen=True, slots=True)
class Operation:
    """A C operator, `?:`, a conversion (`conversion`) or a function of <math.h> with its operands."""

    name: str
    operands: tuple[Symbol, ...]
    call: bool = False


@dataclass(frozen=True, slots=True)
class Chosen:
    """The element of an array that values choose."""

    base: str
    subscripts: tuple[Symbol, ...]
    """As many as the array has dimensions."""


@dataclass(frozen=True, slots=True)
class Moved:
    """An element that is another one for each entry of a segment."""

    at: Pointer
    """For entry 0, where tables hold 0, in the first iteration of the loops inside."""
    entry: Affine
    """Elements from one entry to the next."""
    table: str
    """The table that leads to it; empty: none does."""
    by: Affine
    """Elements by which the next number in the table is further."""
    inner: tuple[Affine, ...]
    """Elements from one iteration of each loop inside to the next."""


@dataclass(frozen=True, slots=True)
class Segmented:
    """The sum over the entries of a segment, and over loops inside of it, of a product of elements."""

    bounds: Bounds
    extents: tuple[Affine, ...]
    """Iterations of the loops inside."""
    factors: tuple[Moved, ...]


@dataclass(frozen=True, slots=True)
class Made:
    """What the statement with this number has made, still in a register."""

    by: int


@dataclass(frozen=True, slots=True)
class Sum:
    """A generated microkernel's sum of products."""


@dataclass(frozen=True, slots=True)
class Accumulator:
    """A row's running sum or extreme, by its name."""

    name: str


STEPS = "steps"
"""The operation of all steps of a generated microkernel, one after the other, on what they start from."""


@dataclass(frozen=True, slots=True)
class Kept:
    """What code makes that is kept as it was written, with the integers that it is given."""

    values: tuple[tuple[str, Affine], ...]
    """By name."""


Symbol = Load | Literal | Integer | Operation | Made | Sum | Accumulator | Chosen | Segmented | Kept

TESTS = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!=", "and": "&&", "or": "||"}
MATH = {row.vector.name: row.name for row in FUNCTIONS if row.vector is not None}
MATH |= {row.word: row.name for row in FUNCTIONS if row.word}
MATH |= {f"{row.vector.name}_short": row.name for row in FUNCTIONS if row.vector is not None and row.vector.short}
"""By the function of the vector prologues the one of <math.h>, in double, that does the same in each lane."""
BITS = {row.name.removeprefix("polydl_"): row.name for row in FUNCTIONS if row.bits_of is not None}
"""By what the generated code calls it a function that gives the same bits as another type."""
_VECTOR_BITS = {
    f"{'to' if row.bits_of is F32 else 'of'}_bits": row.name for row in FUNCTIONS if row.bits_of in (F32, U32)
}
"""The same by the function of the vector prologues."""
PLUS_ONE = {
    f"{form.format(row.vector.name)}{end}": (row.name, place)
    for row in FUNCTIONS
    if row.vector is not None and row.vector.plus_one
    for place, form in enumerate(("{}_plus_one", "one_plus_{}"))
    for end in ("", "_short")
}
"""The functions that give 1 more: that of <math.h>, and at which place of the sum it is."""
_INLINE = "|".join(name for row in FUNCTIONS if row.inline for name in (row.of(F64), row.of(F32)) if name)
_UNSIGNED = {
    "u32_add": "+", "u32_sub": "-", "u32_mul": "*", "u32_shl": "<<", "u32_shr": ">>",
    "u32_lt": "<", "u32_le": "<=", "u32_gt": ">", "u32_ge": ">=", "u32_neg": "-",
}  # fmt: skip
"""Operators on unsigned numbers of 32 bits, by the function of the vector prologues."""
LANE_BY_LANE = (
    *TESTS,
    *MATH,
    *PLUS_ONE,
    *_VECTOR_BITS,
    *_UNSIGNED,
    "held",
    "truth",
    "i32_select",
    "negative",
    "not",
    "max",
    "min",
    "select",
)
"""Functions of the vector prologues that make each lane of the same lanes of their operands."""
_VECTOR = re.compile(r"polydl\d*_([fi]\d\d|[iu]\d+s)(?:x\d+)?_(\w+)")
"""Functions of a vector, or of one with fewer lanes (`x8`): what they do is asked of one lane."""
_NARROW_LOAD = re.compile(r"load_[a-z]+\d+(_part)?")
_WIDENED = re.compile(rf"(widened|{'|'.join(TESTS)})_([a-z]+\d*)")
"""An integer of another type in a lane, and what it is compared with."""
_CONVERSION = re.compile(r"convert_[a-z]+\d+_([a-z]+\d+)")


def conversion(target: str) -> str:
    """The name of the operation that converts to a type, which is named as in the table of types: `(f32)`."""
    return f"({target})"


Strides = Mapping[str, tuple[Affine, ...]]
"""How arrays are subscripted: per name the elements between neighbours of each dimension (of a scalar none)."""


def pointer(node: Any, env: Mapping[str, Any], strides: Strides) -> Pointer:
    """The address that an expression denotes. Raises Unreadable."""
    match node:
        case c_ast.ID():
            value = env.get(node.name)
            if isinstance(value, Pointer):
                return value
            if len(strides.get(node.name, ())) == 1:
                return Pointer(node.name, ZERO)
        case c_ast.UnaryOp(op="&"):
            return place(node.expr, env, strides)
        case c_ast.BinaryOp(op="+"):
            base = pointer(node.left, env, strides)
            return Pointer(base.base, base.offset.plus(affine(node.right, env)))
        case c_ast.Cast():
            return pointer(node.expr, env, strides)
    raise Unreadable(f"the address {_shown(node)}")


def place(node: Any, env: Mapping[str, Any], strides: Strides) -> Pointer:
    """The element that an lvalue names. Raises Unreadable."""
    match node:
        case c_ast.UnaryOp(op="*"):
            return pointer(node.expr, env, strides)
        case c_ast.ID() if strides.get(node.name) == () and node.name not in env:
            return Pointer(node.name, ZERO)
        case c_ast.ArrayRef():
            subscripts: list[Any] = []
            base: Any = node
            while isinstance(base, c_ast.ArrayRef):
                subscripts.insert(0, base.subscript)
                base = base.name
            if isinstance(base, c_ast.ID):
                if isinstance(env.get(base.name), Pointer) and len(subscripts) == 1:
                    start = env[base.name]
                    return Pointer(start.base, start.offset.plus(affine(subscripts[0], env)))
                own = strides.get(base.name)
                if own is not None and base.name not in env and len(own) == len(subscripts):
                    offset = ZERO
                    for subscript, stride in zip(subscripts, own, strict=True):
                        offset = offset.plus(product(affine(subscript, env), stride))
                    return Pointer(base.name, offset)
    raise Unreadable(f"the element {_shown(node)}")


def _shown(node: Any) -> str:
    return str(c_generator.CGenerator().visit(node))


def _of_loops(node: Any, env: Mapping[str, Any]) -> bool:
    """Whether an expression is made of loop variables and integers alone, with at least one variable."""
    match node:
        case c_ast.ID():
            return isinstance(env.get(node.name), Affine)
        case c_ast.UnaryOp(op="-" | "+"):
            return _of_loops(node.expr, env)
        case c_ast.BinaryOp(op="+" | "-" | "*" | "/" | "%"):
            sides = (node.left, node.right)
            return all(_whole(s, env) for s in sides) and any(_of_loops(s, env) for s in sides)
        case c_ast.FuncCall(name=c_ast.ID()):
            return re.fullmatch(r"polydl\d*_(?:n_)?(min|max|floord)", node.name.name) is not None
        case c_ast.TernaryOp():
            return all(_whole(s, env) for s in (node.iftrue, node.iffalse)) and _tests_loops(node.cond, env)
    return False


def _whole(node: Any, env: Mapping[str, Any]) -> bool:
    """Whether an expression is an integer literal, with a sign or none, or made of loop variables."""
    inner = node.expr if isinstance(node, c_ast.UnaryOp) and node.op in ("-", "+") else node
    return (isinstance(inner, c_ast.Constant) and "int" in inner.type) or _of_loops(node, env)


def _tests_loops(node: Any, env: Mapping[str, Any]) -> bool:
    """Whether a condition is about loop variables alone."""
    if isinstance(node, c_ast.UnaryOp) and node.op == "!":
        return _tests_loops(node.expr, env)
    if not isinstance(node, c_ast.BinaryOp):
        return False
    if node.op in ("&&", "||"):
        return _tests_loops(node.left, env) and _tests_loops(node.right, env)
    return node.op in ("<", "<=", ">", ">=", "==", "!=") and _whole(node.left, env) and _whole(node.right, env)


def symbol(node: Any, env: Mapping[str, Any], strides: Strides) -> Symbol:
    """The value of an expression. Raises Unreadable."""

    def of(inner: Any) -> Symbol:
        return symbol(inner, env, strides)

    if _of_loops(node, env):
        return Integer(affine(node, env))
    match node:
        case c_ast.Constant():
            return Literal(node.value)
        case c_ast.ID() | c_ast.ArrayRef() | c_ast.UnaryOp(op="*"):
            return _element(node, env, strides)
        case c_ast.UnaryOp(op="-" | "+" | "!" | "~"):
            return Operation(node.op, (of(node.expr),))
        case c_ast.BinaryOp():
            return Operation(node.op, (of(node.left), of(node.right)))
        case c_ast.TernaryOp(cond=c_ast.ID(name="cut")) if same_in_part(node.iftrue, node.iffalse):
            return of(node.iffalse)
        case c_ast.TernaryOp():
            return Operation("?:", (of(node.cond), of(node.iftrue), of(node.iffalse)))
        case c_ast.Cast():
            shown = _shown(node.to_type)
            element = spelled(shown)
            return Operation(conversion(shown if element is None else element.name), (of(node.expr),))
        case c_ast.FuncCall(name=c_ast.ID()):
            return _called(node, env, strides)
    raise Unreadable(f"the expression {_shown(node)}")


def same_in_part(masked: Any, whole: Any) -> bool:
    """Whether code for a remainder does with the lanes in `part` what other code does with all: `load_part(p, part)`
    beside `load(p)`, `keep(part, x, y)` beside `x`."""
    if not isinstance(masked, c_ast.FuncCall) or masked.args is None:
        return False
    name, arguments = str(masked.name.name), [_shown(a) for a in masked.args.exprs]
    if name.endswith("_keep"):
        return arguments[:1] == ["part"] and arguments[1:2] == [_shown(whole)]
    if not name.endswith("_part") or arguments.count("part") != 1 or not isinstance(whole, c_ast.FuncCall):
        return False
    arguments.remove("part")
    return name == f"{whole.name.name}_part" and arguments == [_shown(a) for a in whole.args.exprs]


def _element(node: Any, env: Mapping[str, Any], strides: Strides) -> Symbol:
    """What a name or an element of an array holds. Raises Unreadable."""
    name = node.expr if isinstance(node, c_ast.UnaryOp) else node
    if isinstance(name, c_ast.ID):
        known = env.get(name.name)
        if isinstance(known, Accumulator) or (name is node and isinstance(known, Symbol)):
            return known
        if name is node and known is None and name.name not in strides:
            return Literal(name.name)  # a constant of <math.h>, as INFINITY
    return _chosen(node, env, strides) or Load(place(node, env, strides))


def _chosen(node: Any, env: Mapping[str, Any], strides: Strides) -> Chosen | None:
    """The element where an element of an array is a part of a subscript; None of any other. Raises Unreadable."""
    subscripts: list[Any] = []
    while isinstance(node, c_ast.ArrayRef):
        subscripts.insert(0, node.subscript)
        node = node.name
    if not isinstance(node, c_ast.ID) or node.name in env or len(strides.get(node.name, ())) != len(subscripts):
        return None
    if not any(map(_has_element, subscripts)):
        return None
    return Chosen(node.name, tuple(symbol(one, env, strides) for one in subscripts))


def _has_element(node: Any) -> bool:
    return isinstance(node, c_ast.ArrayRef) or any(_has_element(child) for _, child in node.children())


def _called(node: Any, env: Mapping[str, Any], strides: Strides) -> Symbol:
    """The value of a call. Raises Unreadable."""
    arguments = node.args.exprs if node.args is not None else []
    found = _VECTOR.fullmatch(node.name.name)
    if found is not None:
        return _vector(found.group(2), "f" if found.group(1) == F32.name else "", arguments, env, strides)
    name = node.name.name
    bits = BITS.get(re.sub(r"polydl\d*_", "", name, count=1))
    if bits is not None:
        return Operation(bits, tuple(symbol(a, env, strides) for a in arguments), call=True)
    own = re.fullmatch(rf"polydl\d*_({_INLINE})", name)
    if own is not None:  # <math.h>'s, in a form that compilers vectorise
        name = own.group(1)
    converts = conversion_of(name)
    if converts is not None:
        return Operation(conversion(converts[1].name), tuple(symbol(a, env, strides) for a in arguments))
    if name.startswith("polydl"):
        raise Unreadable(f"the function {name}")
    return Operation(name, tuple(symbol(a, env, strides) for a in arguments), call=True)


def _vector(name: str, suffix: str, arguments: list[Any], env: Mapping[str, Any], strides: Strides) -> Symbol:
    """One lane of what a function of the vector prologues computes. Raises Unreadable."""
    if name in ("load", "load_part") or _NARROW_LOAD.fullmatch(name):
        return Load(pointer(arguments[0], env, strides))
    if (widened := _WIDENED.fullmatch(name)) is not None:
        does, held = widened.groups()
        loaded: Symbol = Load(pointer(arguments[0], env, strides))
        if held != I32.name and next(row for row in TYPES if row.name == held).bytes <= I32.bytes:
            loaded = Operation(conversion(I32.name), (loaded,))  # what C makes of it
        return loaded if does == "widened" else Operation(TESTS[does], (loaded, Literal(arguments[1].value)))
    if re.fullmatch(r"all_[a-z]+\d+", name) and isinstance(arguments[0], c_ast.UnaryOp):  # the address of a parameter
        return symbol(arguments[0].expr, env, strides)
    if name in ("i32_all", "u32_all"):
        name = "all"
    if name == "zero":
        return Literal("0", vector=True)
    if name == "keep":
        return symbol(arguments[1], env, strides)
    if name == "all" and isinstance(arguments[0], c_ast.Constant):
        return Literal(arguments[0].value, vector=True)
    if name == "all" and isinstance(arguments[0], c_ast.UnaryOp) and isinstance(arguments[0].expr, c_ast.Constant):
        return Operation(arguments[0].op, (Literal(arguments[0].expr.value, vector=True),))
    lanes = tuple(symbol(a, env, strides) for a in arguments)
    if name == "all":
        return lanes[0]
    return of_lanes(name, suffix, lanes)


def of_lanes(name: str, suffix: str, lanes: tuple[Symbol, ...]) -> Symbol:
    """What a function of the vector prologues makes of a lane of each of its operands. Raises Unreadable."""
    converts = _CONVERSION.fullmatch(name)
    if converts is not None:
        return Operation(conversion(converts.group(1)), lanes)
    if name == "negative":
        return Operation("-", lanes)
    if name == "not":
        return Operation("!", lanes)
    if name in ("max", "min"):
        return Operation("?:", (Operation(">" if name == "max" else "<", lanes), *lanes))
    if name == "select":
        return Operation("?:", lanes)
    if name in TESTS:
        return Operation(TESTS[name], lanes)
    if name in MATH:
        return Operation(MATH[name] + suffix, lanes, call=True)
    if name in PLUS_ONE:
        function, place = PLUS_ONE[name]
        sides = Operation(function + suffix, lanes, call=True), Literal("1.0f", vector=True)
        return Operation("+", sides[::-1] if place else sides)
    if name == "i32_select":
        return Operation("?:", lanes)
    if name in _UNSIGNED:
        return Operation(_UNSIGNED[name], lanes)
    if name in _VECTOR_BITS:
        return Operation(_VECTOR_BITS[name], lanes, call=True)
    if name in ("held", "truth"):
        return lanes[0]
    raise Unreadable(f"the vector function {name}")


def contains(value: Symbol, part: Symbol) -> bool:
    """Whether a value is, or has inside, another."""
    return value == part or any(contains(one, part) for one in parts_of(value))


def parts_of(value: Symbol) -> tuple[Symbol, ...]:
    """The values that a value is made of directly."""
    match value:
        case Operation(_, operands) | Chosen(_, operands):
            return operands
    return ()


def loads(value: Symbol) -> list[Pointer]:
    """The addresses that a value is loaded from, without the elements that values choose (`chosen_arrays`)."""
    return [value.at] if isinstance(value, Load) else [at for part in parts_of(value) for at in loads(part)]


def chosen_arrays(value: Symbol) -> set[str]:
    """The arrays of which values choose an element."""
    own = {value.base} if isinstance(value, Chosen) else set()
    if isinstance(value, Segmented):
        own = {*value.bounds.arrays, *(name for one in value.factors for name in (one.at.base, one.table) if name)}
    return own.union(*map(chosen_arrays, parts_of(value)))
