"""What the generated functions do: contracts from the comments above them, their scalar parts from their text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pycparser import c_ast, c_generator

from polydl.base.records import dataclass
from polydl.model.types import spelled
from polydl.prove.as_plain_c import MEANING, Parsed
from polydl.prove.element_forms import check_forms
from polydl.prove.gathered_rows import RowLine, accumulating, accumulators, scanning
from polydl.prove.integers import ZERO, Affine, Unreadable, affine, number, product
from polydl.prove.printed_program import Pointer
from polydl.prove.symbolic_values import (
    STEPS,
    Accumulator,
    Load,
    Made,
    Operation,
    Strides,
    Sum,
    Symbol,
    contains,
    conversion,
    place,
    pointer,
    same_in_part,
    symbol,
)
from polydl.prove.syntax import loop_start, loop_step
from polydl.prove.word_copies import Words


@dataclass(frozen=True, slots=True)
class Contract:
    """`C[i*c_row + j] … sum over r of A[i*a_row + r*a_steps] * B[j + r*b_steps]`, i < m, j < n."""

    name: str
    text: str
    m: int
    n: int
    parameters: tuple[str, ...]
    """Names of the arguments, from `m`, `n`, `A`, `B` and `C` on."""
    c_row: int | None
    """None, here and below: an argument of the call."""
    a_row: int | None
    extents: tuple[int | None, ...]
    """Per reduction."""
    a_steps: tuple[int | None, ...]
    b_steps: tuple[int | None, ...]
    product: str = ""
    """The inner product of words (polydl.target.products); empty: that of two elements."""
    step: str = ""
    """`C`, `a number`: what it starts from, where steps take the place of the sum of products; empty: they do not."""
    window: int = 0
    """By how many elements A moves from one column to the next: A[i*a_row + j*window + r*a_steps]."""
    scalar_b: bool = False
    """B does not: B[r*b_steps]."""
    a_tables: tuple[bool, ...] = ()
    """Per reduction whether A moves by elements of a table, `a_table0[r0]`, in place of the number of the iteration."""
    b_tables: tuple[bool, ...] = ()


@dataclass(frozen=True, slots=True)
class PackContract:
    """`packed[w / block][r][w % block] = source[w*width_stride + r*strides]`, w < width."""

    name: str
    text: str
    parameters: tuple[str, ...]
    block: int
    width_stride: int | None
    extents: tuple[int | None, ...]
    strides: tuple[int | None, ...]
    words: Words | None = None
    """Of a copy that converts its elements, or puts several into a word."""


_MOVED = r"(?: \+ (?:[ab]_table\d+\[r\d+\]|r\d+)\*(?:-?\d+|s))*"
_CONTRACT = re.compile(
    r"C\[i\*(?P<c>-?\d+|s) \+ j\] [-+]?= (?:alpha \* )?(?:sum over r < (?P<sum>[0-9nx]+) of )?(?:(?P<product>\w+)\()?"
    r"A\[i\*(?P<a>-?\d+|s)(?P<window> \+ j(?:\*(?P<apart>\d+))?)?"
    rf"(?P<a_steps>{_MOVED})\](?: \*|,) "
    rf"B\[(?P<b>j|0)(?P<b_steps>{_MOVED})\]\)?"
    r"(?: of (?P<start>C|a number) over r < (?P<over>[0-9nx]+))?, i < m <= (?P<m>\d+), j < n <= (?P<n>\d+)"
)
_PACKED = re.compile(
    r"packed\[w / (\d+)\]\[r\]\[w % \1\] = source\[w\*(-?\d+|s)((?: \+ r\d+\*(?:-?\d+|s))*)\], "
    r"w < width; zeros up to .*"
)


_CONVERTED = re.compile(
    r"copied\[w / (\d+)\]\[r\]\[w % \1\] = source\[w\*(-?\d+|s)((?: \+ r\d+\*(?:-?\d+|s))*)\] as [\w ]+?"
    r"(?: in words of (\d+) neighbours along r(\d+))?(?:, (\d+) of a step side by side)?, w < width; "
    r"zeros up to a multiple of \d+(?: and (\d+))?"
    r"(; highest bits inverted)?(?:; then (-?\d+) times the sums of the columns)?"
)


_STORE = re.compile(r"polydl\d*_(?:f\d\d(?:x\d)?|i32|[iu]\d+s)_(?:store(?:_[a-z]+\d+)?|round_([a-z]+\d+))")


def _step(text: str) -> int | None:
    return None if text == "s" else int(text)


def _steps(text: str) -> tuple[int | None, ...]:
    return tuple(map(_step, re.findall(r"\*(-?\d+|s)", text)))


def _tables(text: str) -> tuple[bool, ...]:
    return tuple(bool(table) for table in re.findall(r" \+ ([ab]_table\d+)?", text))


def _extents(text: str) -> tuple[int | None, ...]:
    return tuple(None if e == "n" else int(e) for e in text.split("x"))


def kernel_contract(parsed: Parsed, name: str) -> Contract:
    """The contract of a generated microkernel. Raises Unreadable."""
    text = parsed.kernels[name]
    found = _CONTRACT.fullmatch(text.strip())
    definition = parsed.functions.get(name)
    if found is None or definition is None:
        raise Unreadable(f"the contract of {name}: {text}")
    steps = _steps(found["a_steps"]), _steps(found["b_steps"])
    start = found["start"] or ""
    extents = _extents(found["over"] if start else found["sum"]) if steps[0] else ()
    if (found["product"] == "step") != bool(start):
        raise Unreadable(f"the contract of {name}: {text}")
    return Contract(
        name,
        text,
        int(found["m"]),
        int(found["n"]),
        tuple(p.name for p in definition.decl.type.args.params),
        _step(found["c"]),
        _step(found["a"]),
        extents,
        *steps,
        product="" if start else found["product"] or "",
        step=start,
        window=int(found["apart"] or 1) if found["window"] else 0,
        scalar_b=found["b"] == "0",
        a_tables=_tables(found["a_steps"]),
        b_tables=_tables(found["b_steps"]),
    )


def pack_contract(parsed: Parsed, name: str) -> PackContract:
    """The contract of a generated packing function. Raises Unreadable."""
    text, parameters = parsed.packs[name]
    if text.startswith("copied"):
        return _converting(name, text, parameters)
    found = _PACKED.fullmatch(text.strip())
    extents = re.search(r"_k([0-9nx]+)_[0-9a-f]{8}$", name)
    if found is None or extents is None:
        raise Unreadable(f"the contract of {name}: {text}")
    strides = _steps(found.group(3))
    known = _extents(extents.group(1)) if strides else ()
    return PackContract(name, text, parameters, int(found.group(1)), _step(found.group(2)), known, strides)


def _converting(name: str, text: str, parameters: tuple[str, ...]) -> PackContract:
    found = _CONVERTED.fullmatch(text.strip())
    types = re.search(r"_pack_([a-z]+\d+)_to_([a-z]+\d+)(?:x\d+)?_\d+_k([0-9nx]+)_[0-9a-f]{8}$", name)
    if found is None or types is None:
        raise Unreadable(f"the contract of {name}: {text}")
    block, width_stride, moved, group, grouped, side, filled, flips, sums = found.groups()
    source, copied, extents = types.groups()
    words = Words(
        source,
        copied,
        int(group or 1),
        int(grouped or 0),
        flips is not None,
        int(sums or 0),
        int(side or 1),
        int(filled or 0),
    )
    strides = _steps(moved)
    known = _extents(extents) if strides else ()
    return PackContract(name, text, parameters, int(block), _step(width_stride), known, strides, words)


def argument(known: int | None, name: str, bound: Mapping[str, Any]) -> Affine:
    """A stride or an extent: as the contract says, or what a call gives for it. Raises Unreadable."""
    value = number(known) if known is not None else bound.get(name)
    if not isinstance(value, Affine):
        raise Unreadable(f"the argument {name} of a generated function")
    return value


def finish(
    parsed: Parsed,
    contract: Contract,
    strides: Strides,
    operands: tuple[Pointer, Pointer, Pointer],
    bound: Mapping[str, Any],
    row: Affine,
    column: Affine,
) -> tuple[Symbol, Pointer]:
    """(value, address) that a kernel stores for one element of its block: its `_finish`, read with one lane. `bound`:
    the arguments behind the operands by their names.

    Raises Unreadable.
    """
    definition = parsed.functions.get(f"{contract.name}_finish")
    if definition is None:
        raise Unreadable(f"the function {contract.name}_finish cannot be read")
    names = [p.name for p in definition.decl.type.args.params]
    env: dict[str, Any] = {
        "sum": _made(parsed, contract, strides, operands[2], row, column, bound),
        "i": row,
        "v": column,
        "row0": ZERO,
        "column0": ZERO,
    }
    env |= dict(zip(("A", "B", "C"), operands, strict=True))
    unknown = set(names) - {*env, *bound, "cut", "part"}
    if unknown:
        raise Unreadable(f"{contract.name} is not given {', '.join(sorted(unknown))}")
    env |= bound
    stores: list[tuple[Pointer, Symbol]] = []
    for item in definition.body.block_items or []:
        _straight(item, env, strides, stores)
    c_row = argument(contract.c_row, "c_m", bound)
    target = Pointer(operands[2].base, operands[2].offset.plus(product(row, c_row)).plus(column))
    if len(stores) != 1 or stores[0][0] != target:
        raise Unreadable(f"{contract.name} stores something else than its block")
    return stores[0][1], target


def _made(
    parsed: Parsed,
    contract: Contract,
    strides: Strides,
    c: Pointer,
    row: Affine,
    column: Affine,
    bound: Mapping[str, Any],
) -> Symbol:
    """What a kernel hands to its `_finish`: a sum, or what steps make of what they start from."""
    if not contract.step:
        return Sum()
    if contract.step == "C":
        begin: Symbol = Load(
            Pointer(c.base, c.offset.plus(product(row, argument(contract.c_row, "c_m", bound))).plus(column))
        )
    else:
        begin = returned(parsed, f"{contract.name}_start", {}, strides)
    return Operation(STEPS, (begin,))


def returned(parsed: Parsed, name: str, env: Mapping[str, Any], strides: Strides) -> Symbol:
    """What a function of one expression gives, read with one lane. Raises Unreadable."""
    definition = parsed.functions.get(name)
    items = [] if definition is None else definition.body.block_items or []
    if (
        not items
        or not isinstance(items[-1], c_ast.Return)
        or not all(isinstance(i, c_ast.Cast | c_ast.ExprList) for i in items[:-1])
    ):
        raise Unreadable(f"the function {name} cannot be read")
    return symbol(items[-1].expr, env, strides)


def _straight(item: Any, env: dict[str, Any], strides: Strides, stores: list[tuple[Pointer, Symbol]]) -> None:
    """One statement of straight-line vector code. Raises Unreadable."""
    match item:
        case c_ast.Decl():
            kind: Any = item.type
            if isinstance(kind, c_ast.PtrDecl):
                env[item.name] = pointer(item.init, env, strides)
            elif (element := spelled(" ".join(kind.type.names))) is not None and element.is_int:
                env[item.name] = affine(item.init, env)
            else:
                env[item.name] = symbol(item.init, env, strides)
        case c_ast.DeclList():
            for one in item.decls:
                _straight(one, env, strides, stores)
        case c_ast.Assignment(op="=", lvalue=c_ast.ID(name=name)):
            env[name] = symbol(item.rvalue, env, strides)
        case c_ast.If(cond=c_ast.ID(name="cut" | "stream" as why)) if item.iffalse is not None:
            _straight(item.iffalse, env, strides, stores)
            other = item.iffalse.iffalse if isinstance(item.iffalse, c_ast.If) else item.iffalse
            if not (same_in_part if why == "cut" else _same_past_caches)(item.iftrue, other):
                raise Unreadable("a store of a remainder, or past the caches, that differs from the usual one")
        case c_ast.FuncCall(name=c_ast.ID(name=name)) if how := _STORE.fullmatch(name):
            to, made = item.args.exprs
            value = symbol(made, env, strides)
            if how.group(1):
                value = Operation(conversion(how.group(1)), (value,))
            stores.append((pointer(to, env, strides), value))
        case c_ast.Cast() | c_ast.EmptyStatement() | c_ast.ExprList():
            return
        case _:
            raise Unreadable(f"a {type(item).__name__} in a generated function")


def _same_past_caches(streaming: Any, usual: Any) -> bool:
    """`stream(p, x)` beside `store(p, x)`."""
    shown = c_generator.CGenerator().visit
    return str(shown(streaming)).replace("_stream(", "_store(", 1) == str(shown(usual))


@dataclass(frozen=True, slots=True)
class RowStep:
    """What a row does for one of its columns."""

    lines: tuple[RowLine, ...]


def row_step(
    parsed: Parsed, name: str, bound: Mapping[str, Any], column: Affine, strides: Strides, first: int, *, back: bool
) -> RowStep:
    """The statements of a row, read with one lane; `first` is the number that the first one will have, and `back` says
    that the first column is the last iteration.

    Raises Unreadable.
    """
    step, whole = parsed.functions.get(f"{name}_step"), parsed.functions.get(name)
    if step is None or whole is None:
        raise Unreadable(f"the function {name} cannot be read")
    if f"{name}_piece" in parsed.functions:
        raise Unreadable(f"{name} runs in pieces")
    check_forms(step)
    env: dict[str, Any] = {**bound, "polydl_column": column}
    ends = accumulators(whole, env, strides)
    env |= {a: Accumulator(a) for a in ends}
    lines: list[RowLine] = []
    made: dict[str, int] = {}
    values: dict[str, Symbol] = {}
    stores: list[tuple[Pointer, Symbol]] = []
    for item in step.body.block_items or []:
        if stores and isinstance(item, c_ast.Decl | c_ast.Compound | c_ast.For):
            raise Unreadable(f"{name} computes behind its stores")
        running = scanning(item, env, ends, strides)
        if running is not None:
            if back:
                raise Unreadable(f"{name} goes on from column to column, and counts down")
            env[item.name] = Made(first + len(lines))
            lines.append(running)
        elif isinstance(item, c_ast.Decl) and re.fullmatch(r"polydl\d*_v\d+", item.name):
            made[item.name] = len(lines)
            values[item.name] = symbol(item.init, env, strides)
            lines.append(RowLine("=", values[item.name], None))
            env[item.name] = Made(first + made[item.name])
        elif isinstance(item, c_ast.Compound):
            lines.append(accumulating(parsed.functions, item, env, values, ends, strides, back=back))
        else:
            _straight(item, env, strides, stores)
    for address, value in stores:
        match value:
            case Made(by):
                lines[by - first] = RowLine("=", lines[by - first].value, address)
            case Operation(rounds, (Made(by),)) if not any(contains(line.value, Made(by)) for line in lines):
                lines[by - first] = RowLine("=", Operation(rounds, (lines[by - first].value,)), address)
            case _:
                raise Unreadable(f"{name} stores something else than a statement's value")
    return RowStep(tuple(lines))


@dataclass(frozen=True, slots=True)
class Meant:
    """A function above which its meaning is stated."""

    name: str


def meant_step(
    parsed: Parsed, meant: Meant, bound: Mapping[str, Any], at: tuple[Affine, ...], strides: Strides
) -> RowStep:
    """The statement of a function's stated meaning, for one iteration of its loops. Raises Unreadable."""
    line = meant_line(parsed.functions, meant, bound, at, strides)
    for k, counter in enumerate(at):
        after = (*at[:k], counter.plus(number(1)), *at[k + 1 :])
        if line.target == meant_line(parsed.functions, meant, bound, after, strides).target:
            raise Unreadable(f"what {meant.name} does is a sum")
    return RowStep((line,))


def meant_loops(functions: Mapping[str, Any], meant: Meant) -> tuple[tuple[str, ...], Any]:
    """The counters of `for (ptrdiff_t i = 0; i < m; i++) for (ptrdiff_t j = 0; j < n; j++) …;`, m and n the first
    parameters, and the assignment inside. Raises Unreadable."""
    definition = functions[f"{meant.name}{MEANING}"]
    parameters = [p.name for p in definition.decl.type.args.params]
    items = definition.body.block_items or []
    counters: list[str] = []
    while len(items) == 1 and isinstance(items[0], c_ast.For) and len(counters) < len(parameters):
        loop = items[0]
        variable, first = loop_start(loop)
        match loop.cond:
            case c_ast.BinaryOp(op="<", left=c_ast.ID(name=left), right=c_ast.ID(name=right)) if (
                (left, right) == (variable, parameters[len(counters)])
                and affine(first, {}) == ZERO
                and loop_step(loop, variable) == 1
            ):
                counters.append(variable)
            case _:
                raise Unreadable(f"what is stated above {meant.name}")
        items = loop.stmt.block_items or [] if isinstance(loop.stmt, c_ast.Compound) else [loop.stmt]
    if counters and len(items) == 1 and isinstance(items[0], c_ast.Assignment):
        return tuple(counters), items[0]
    raise Unreadable(f"what is stated above {meant.name}")


def meant_line(
    functions: Mapping[str, Any], meant: Meant, bound: Mapping[str, Any], at: tuple[Affine, ...], strides: Strides
) -> RowLine:
    """What the stated loops do in an iteration (`meant_loops`). Raises Unreadable."""
    counters, made = meant_loops(functions, meant)
    env = {**bound, **dict(zip(counters, at, strict=True))}
    return RowLine(made.op, symbol(made.rvalue, env, strides), place(made.lvalue, env, strides))
