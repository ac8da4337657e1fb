"""What rows gather: where accumulators start, what a step adds, how several become one, where the result goes."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from pycparser import c_ast, c_generator

from polydl.base.records import dataclass
from polydl.model.combiners import COMBINERS, Combiner, of_gathering
from polydl.model.types import F32, ElementType, integer_literal, spelled
from polydl.prove.integers import Unreadable
from polydl.prove.printed_program import Pointer
from polydl.prove.symbolic_values import (
    Accumulator,
    Literal,
    Load,
    Operation,
    Strides,
    Symbol,
    contains,
    place,
    symbol,
)
from polydl.prove.syntax import loop_start

_NAME = re.compile(r"(polydl\d*_acc\d+)(?:_(\d+))?")
_GATHERS = "|".join(row.gather for row in COMBINERS if row.gather)


@dataclass(frozen=True, slots=True)
class RowLine:
    """One statement of a row's step."""

    op: str
    value: Symbol
    target: Pointer | None
    accumulator: str = ""


@dataclass(frozen=True, slots=True)
class End:
    """What becomes of an accumulator."""

    op: str
    target: Pointer
    start: Symbol
    parts: Mapping[str, Symbol]
    """Its companions, and what is made of it when each of them is put to it, in their order."""
    zero: str
    """The function that finds the first zero; empty where none is looked for."""
    combiner: Combiner
    suffix: str
    """Behind the names of functions of <math.h> of this type."""
    scanned: bool = False
    """Whether running values are used."""

    def taken(self, mine: Symbol, x: Symbol) -> Symbol:
        """What a step makes of an accumulator and one more value."""
        row = self.combiner
        if row.compounds:
            return Operation(row.symbol, (mine, x))
        if row.better:
            better = Operation(row.better, (x, mine))
            renewed = Operation("||", (better, Operation("!=", (mine, mine)))) if row.renews else better
            return Operation("?:", (renewed, x, mine))
        return Operation(row.function + self.suffix, (mine, x), call=True)


def without_accumulators(node: Any) -> Any:
    """The body of a row without what is about its accumulators."""
    if isinstance(node, c_ast.If):
        return c_ast.If(node.cond, without_accumulators(node.iftrue), node.iffalse, node.coord)
    items = [i for i in node.block_items or [] if not _accumulates(i)]
    return c_ast.Compound([without_accumulators(i) if _set_apart(i) else i for i in items], node.coord)


def _accumulates(item: Any) -> bool:
    """Whether a statement of a row is about an accumulator."""
    if isinstance(item, c_ast.Decl):
        return _NAME.fullmatch(item.name) is not None
    return isinstance(item, c_ast.Assignment) or _found(item) is not None or _better(item) is not None


def _set_apart(item: Any) -> bool:
    """Whether this is the part of a row that takes several vectors at a time."""
    match item:
        case c_ast.If(iftrue=c_ast.Compound(block_items=inside), iffalse=None):
            return any(isinstance(i, c_ast.Decl) and _NAME.fullmatch(i.name) for i in inside or [])
    return False


def _found(item: Any) -> tuple[Any, Any] | None:
    """The declaration and the assignment of `{ const float polydl_found = …; *at = …; }`."""
    match item:
        case c_ast.Compound(block_items=[c_ast.Decl() as declared, c_ast.Assignment() as assigned]):
            return declared, assigned
    return None


def _better(item: Any) -> tuple[Any, Any, Any] | None:
    """The declaration, the condition and the assignment of `{ const short polydl_found = …; if (…) *at = …; }`."""
    match item:
        case c_ast.Compound(
            block_items=[
                c_ast.Decl() as declared,
                c_ast.If(cond=condition, iftrue=c_ast.Assignment() as assigned, iffalse=None),
            ]
        ):
            return declared, condition, assigned
    return None


def _items(whole: Any) -> Iterator[Any]:
    for item in whole.body.block_items or []:
        yield from item.iftrue.block_items if _set_apart(item) else [item]


def accumulators(whole: Any, env: Mapping[str, Any], strides: Strides) -> dict[str, End]:
    """Per accumulator of a row what becomes of it. Raises Unreadable."""
    starts: dict[str, Symbol] = {}
    joined: dict[str, list[Any]] = {}
    stored: list[tuple[str, str, str, bool, str, Any, str, float | None]] = []
    for item in _items(whole):
        found, better = _found(item), _better(item)
        if better is not None:
            declared, condition, assigned = better
            at, x = _shown(assigned.lvalue), declared.name
            row = of_gathering(_gathered(declared.init)[1])
            test = f"(n > 0) && ({x} {row.better} ({at}))" if row is not None and row.better else ""
            if row is None or (_shown(condition), assigned.op, _shown(assigned.rvalue)) != (test, "=", x):
                raise Unreadable(f"what {at} becomes")
            stored.append((*_gathered(declared.init), "=", assigned.lvalue, "", row.worst(_lanes(declared))))
        elif isinstance(item, c_ast.Decl) and _NAME.fullmatch(item.name):
            starts[item.name] = symbol(item.init, env, strides)
        elif found is not None:
            stored.append((*_gathered(found[0].init), "=", found[1].lvalue, _zero(*found, whole), None))
        elif isinstance(item, c_ast.Assignment) and isinstance(item.lvalue, c_ast.ID):
            joined.setdefault(item.lvalue.name, []).append(item.rvalue)
        elif isinstance(item, c_ast.Assignment):
            stored.append((*_gathered(item.rvalue), item.op, item.lvalue, "", None))
    inside = {**env, **{name: Accumulator(name) for name in starts}}
    ends: dict[str, End] = {}
    for name, kind, function, scanned, op, lvalue, zero, worst in stored:
        target = place(lvalue, env, strides)
        values = joined.pop(name, [])
        parts = {f"{name}_{k}": symbol(value, inside, strides) for k, value in enumerate(values, 1)}
        start = starts.get(name)
        row = of_gathering(kind)
        assert row is not None
        fits = ["="] if scanned else [one.op for one in row.compounds] or ["="]
        wanted = Load(target) if scanned else _idle(row, target)
        begins = [starts.pop(one, None) for one in (name, *parts)]
        fine = all(one == wanted if worst is None else _number(one) == worst for one in begins)
        if op not in fits or start is None or not fine:
            raise Unreadable(f"the start of {name}")
        ends[name] = End(op, target, start, parts, zero, row, function, scanned)
    if starts or joined:
        raise Unreadable("an accumulator that is not stored")
    return ends


def _lanes(declared: Any) -> ElementType:
    """The integers of a vector of which the lanes make one value of the same type. Raises Unreadable."""
    lanes = re.match(r"polydl\d*_([iu]\d+)s_", declared.init.name.name)
    held = spelled(_shown(declared.type).removeprefix("const "))
    if lanes is None or held is None or held.name != lanes.group(1):
        raise Unreadable(f"the accumulator {_shown(declared)}")
    return held


def _number(value: Symbol | None) -> int | None:
    """The integer that literals make; None of anything else."""
    match value:
        case Literal(text):
            found = integer_literal(text)
            return None if found is None else found[0]
        case Operation("-", (operand,)):
            inner = _number(operand)
            return None if inner is None else -inner
        case Operation("-", (left, right)):
            one, other = _number(left), _number(right)
            return None if one is None or other is None else one - other
    return None


def _idle(row: Combiner, target: Pointer) -> Symbol:
    """A value that changes nothing when it is combined with what there is, or was in the beginning."""
    if row.neutral is None:
        return Load(target)
    digits = Literal(row.neutral.lstrip("~"), vector=True)
    return Operation("~", (digits,)) if row.neutral.startswith("~") else digits


def scanning(item: Any, env: Mapping[str, Any], ends: Mapping[str, End], strides: Strides) -> RowLine | None:
    """`const v y = polydl_f32_scan_sum(acc, cut ? polydl_f32_keep(part, x, idle) : x, idle);`: the running value of an
    accumulator and x; None for anything else. Raises Unreadable."""
    match item:
        case c_ast.Decl(init=c_ast.FuncCall(name=c_ast.ID(name=function), args=c_ast.ExprList(exprs=[at, x, idle]))):
            kind = re.fullmatch(rf"polydl\d*_(?:f\d\d|[iu]\d+s)_scan_({_GATHERS})", function)
        case _:
            return None
    name = at.name if isinstance(at, c_ast.ID) else ""
    if kind is None:
        return None
    end = ends.get(name)
    if end is None or not end.scanned or of_gathering(kind.group(1)) is not end.combiner:
        raise Unreadable(f"the running value {_shown(item)}")
    cut = x.iftrue if isinstance(x, c_ast.TernaryOp) else None
    rest = _shown(cut.args.exprs[-1]) if isinstance(cut, c_ast.FuncCall) else ""
    if rest != _shown(idle) or symbol(idle, env, strides) != _idle(end.combiner, end.target):
        raise Unreadable(f"what lanes beyond a remainder add to {name}")
    value = symbol(x, env, strides)
    if end.combiner.compounds:
        return RowLine(end.combiner.op, value, end.target, name)
    return RowLine("=", end.taken(Load(end.target), value), end.target, name)


def _gathered(value: Any) -> tuple[str, str, str, bool]:
    """Accumulator and kind of `polydl_f32_sum(acc)`, what is behind the names of functions of its type, and whether it
    is the last of running values. Raises Unreadable."""
    match value:
        case c_ast.FuncCall(name=c_ast.ID(name=function), args=c_ast.ExprList(exprs=[c_ast.ID(name=name)])):
            kind = re.fullmatch(rf"polydl\d*_(f\d\d|[iu]\d+s)_(scanned_)?({_GATHERS})", function)
            if kind is not None:
                return name, kind.group(3), "f" if kind.group(1) == F32.name else "", kind.group(2) is not None
    raise Unreadable(f"the accumulator {_shown(value)}")


def _zero(declared: Any, assigned: Any, whole: Any) -> str:
    """The function in `found = greatest(acc); *at = found == 0 && *at != 0 ? …_zero(n, …) : found;`. Raises
    Unreadable."""
    at, value = _shown(assigned.lvalue), assigned.rvalue
    if isinstance(value, c_ast.TernaryOp) and isinstance(value.iftrue, c_ast.FuncCall) and assigned.op == "=":
        test = f"({declared.name} == 0) && (({at}) != 0)"
        given = [_shown(argument) for argument in value.iftrue.args.exprs]
        parameters = [p.name for p in whole.decl.type.args.params]
        if (_shown(value.cond), _shown(value.iffalse), given) == (test, declared.name, parameters):
            return str(value.iftrue.name.name)
    raise Unreadable(f"what {at} becomes")


def accumulating(
    functions: Mapping[str, Any], item: Any, env: Mapping[str, Any], made: Mapping[str, Symbol],
    ends: Mapping[str, End], strides: Strides, *, back: bool,
) -> RowLine:  # fmt: skip
    """`{ const v polydl_x = e; *acc = *acc + (cut ? … : polydl_x); }`; `made`: the values of the step so far. `back`:
    the first column is the last iteration.

    Raises Unreadable.
    """
    declared, assigned = item.block_items
    name = assigned.lvalue.expr.name
    end = ends[name]
    if end.scanned:
        raise Unreadable(f"the step of {name}")
    x = symbol(declared.init, env, strides)
    value = symbol(assigned.rvalue, {**env, declared.name: x}, strides)
    cut: Any = assigned.rvalue if end.op == "=" else assigned.rvalue.right
    chosen = cut.iftrue if isinstance(cut, c_ast.TernaryOp) else None
    rest = _shown(chosen.args.exprs[-1]) if isinstance(chosen, c_ast.FuncCall) else ""
    row = end.combiner
    start = row.neutral
    neutral = f"*{name}" if start is None else "_zero()" if start == "0" else f"_all({start})"
    if isinstance(cut, c_ast.TernaryOp) and not rest.endswith(neutral):
        raise Unreadable(f"what lanes beyond a remainder add to {name}")
    mine = Accumulator(name)
    for part, joined in end.parts.items():
        if joined != end.taken(mine, Accumulator(part)):
            raise Unreadable(f"what {part} adds to {name}")
    guards: list[Symbol] = []
    inner = value
    while inner != end.taken(mine, x):
        match inner:
            case Operation("?:", (test, one, other), call=False) if mine in (one, other) and not contains(test, mine):
                guards.append(test)
                inner = one if other == mine else other
            case _:
                raise Unreadable(f"the step of {name}")
    if end.zero:
        _check_zero(functions.get(end.zero), x, env, made, strides, back=back)
    if not row.compounds:
        return RowLine("=", _replaced(value, mine, Load(end.target)), end.target, name)
    if guards:
        raise Unreadable(f"the sum {name}")
    return RowLine(end.op, x, end.target, name)


def _check_zero(
    definition: Any, x: Symbol, env: Mapping[str, Any], made: Mapping[str, Symbol], strides: Strides, *, back: bool
) -> None:
    """A function that looks for the first zero looks at the values that the step takes, in the order of the iterations.
    Raises Unreadable."""
    items: list[Any] = definition.body.block_items if definition is not None else []
    items = [i for i in items if not isinstance(i, c_ast.Cast)]
    match items:
        case [
            c_ast.For(stmt=c_ast.Compound(block_items=[*before, c_ast.Decl() as value, test])) as loop,
            c_ast.Return(),
        ]:
            variable, first = loop_start(loop)
            inside = {**env, variable: env["polydl_column"]}
            same = all(
                isinstance(m, c_ast.Decl) and made.get(m.name) == symbol(m.init, inside, strides) for m in before
            )
            counted = _shown(first), _shown(loop.cond), _shown(loop.next)
            whole = counted == (
                ("n - 1", f"{variable} >= 0", f"{variable}--") if back else ("0", f"{variable} < n", f"{variable}++")
            )
            returned = _shown(test).split() == f"if ({value.name} == 0) return {value.name};".split()
            if same and whole and returned and symbol(value.init, inside, strides) == x:
                return
    raise Unreadable("how the first zero is found")


def _replaced(value: Symbol, old: Symbol, new: Symbol) -> Symbol:
    """A value with one part replaced."""
    if value == old:
        return new
    if isinstance(value, Operation):
        return Operation(value.name, tuple(_replaced(o, old, new) for o in value.operands), value.call)
    return value


def _shown(node: Any) -> str:
    return str(c_generator.CGenerator().visit(node))
