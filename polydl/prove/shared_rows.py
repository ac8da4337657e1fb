"""Loops over rows that are shared out by entries (`lower.passes.balanced_rows`), read as one parallel loop.

What shares out gives each row to one part, or among those that are cut, whatever the array holds. So the two loops that
go through all parts, and through what is cut, run each row once, if both do the same with it.
"""

from __future__ import annotations

import re
from typing import Any

from pycparser import c_ast
from pycparser.c_generator import CGenerator

from polydl.kernels.segment_sum import MOST_PARTS
from polydl.prove.integers import Unreadable, Wrong, affine
from polydl.prove.syntax import line_of, loop_start
from polydl.prove.walk_state import Walk

TRUST = "each row is in one part, or cut, whatever the array holds"


def without_shares(walk: Walk, node: Any) -> Any:
    """The tree with a parallel loop over the rows in place of each block that shares them out. The tree is changed.
    Raises Unreadable for a block of another form."""
    if isinstance(node, c_ast.Compound):
        made = _one_loop(walk, node.block_items or [])
        if made is not None:
            node.block_items = made
    for _, child in node.children():
        without_shares(walk, child)
    return node


def _one_loop(walk: Walk, items: list[Any]) -> list[Any] | None:
    """The parallel loop in place of a block that shares out rows; None for another block. Raises Unreadable."""
    calls = [call for i in items if (call := _sharing(i)) is not None]
    if not calls:
        return None
    call = calls[0]
    if len(calls) > 1 or call.name.name not in walk.parsed.shares:
        raise Unreadable(f"line {line_of(items[0])}: rows that are shared out in another way")
    first_row, rows, every, least, at, large = call.args.exprs
    loops: list[Any] = [i for i in items if isinstance(i, c_ast.For)]
    declared: dict[str, Any] = {i.name: i.init for i in items if isinstance(i, c_ast.Decl)}
    begins = [name for name in declared if re.fullmatch(r"polydl\d*_begin", name)]
    pragma: Any = next((i for i in items if _omp(i).startswith("parallel for schedule(static, 1)")), None)
    if pragma is None or len(begins) != 1 or not loops or not isinstance(first_row, c_ast.UnaryOp):
        raise Unreadable(f"line {line_of(call)}: rows that are shared out in another way")
    outer = loops[-1]
    part, begin = loop_start(outer)[0], begins[0]
    inside = outer.stmt.block_items or []
    inner = inside[-1]
    row = loop_start(inner)[0]
    cut = len(loops) == 2
    body = list(inner.stmt.block_items or [])
    all_, places, cuts = (_text(each) for each in (every, at, large))
    sizes = {
        i.name: affine(i.type.dim, {}).constant for i in items if isinstance(getattr(i, "type", None), c_ast.ArrayDecl)
    }
    fit = sizes.get(places, 0) > MOST_PARTS and sizes.get(cuts, 0) > 10 * MOST_PARTS * cut
    if not fit or _text(declared.get(all_)) != "polydl_parts()":
        raise Wrong(f"line {line_of(call)}: rows are shared out among more parts than there is room for")
    type_ = " ".join(inner.init.decls[0].type.type.names)
    expected = [
        f"for(int {part}=0;{part}<{all_};{part}++)",
        f"for({type_} {row}={begin}+{places}[{part}];{row}<({begin}+{places}[{part}+1]);{row}++)",
    ]
    found = [_head(outer), _head(inner)]
    if cut:
        first, k = loops[0], loop_start(loops[0])[0]
        following = inside[0].name
        expected += [
            f"for(int {k}=0;{k}<{_cuts(items)};{k}++)",
            f"const {type_} {row}={begin}+{cuts}[{k}]",
            f"const long*{following}={cuts}",
            f"while((*{following})<{places}[{part}]){following}++;",
            f"if(({row}-{begin})==(*{following})){{{following}++;continue;}}",
        ]
        found += [_head(first), *(_text(i) for i in (first.stmt.block_items[0], *inside[:-1], body[0]))]
        body = body[1:]
        alone = _text(c_ast.Compound(first.stmt.block_items[1:]))
        if alone.replace("_on_threads(", "(") != _text(c_ast.Compound(body)):
            raise Unreadable(f"line {line_of(first)}: rows that are cut do something else than the others")
    if found != expected or len(inside) != (3 if cut else 1) or (not cut and _text(least) != "0"):
        raise Unreadable(f"line {line_of(outer)}: rows that are shared out in another way")
    walk.program.trusted[f"{call.name.name}: {TRUST}"] = None
    clauses = _omp(pragma).removeprefix("parallel for schedule(static, 1)")
    where = outer.coord
    pragma.args.exprs[0].value = f'"parallel for{clauses}"'
    low = declared[begin]
    high = c_ast.BinaryOp("+", low, rows, where)
    again = c_ast.For(
        _starting(inner, low), c_ast.BinaryOp("<", c_ast.ID(row, where), high, where), inner.next,
        c_ast.Compound(body, where), where,
    )  # fmt: skip
    return [pragma, again]


def _sharing(item: Any) -> Any:
    """The call that shares out rows in a statement; None where there is none."""
    one = item.init if isinstance(item, c_ast.Decl) else item
    one = one.expr if isinstance(one, c_ast.Cast) else one
    match one:
        case c_ast.FuncCall(name=c_ast.ID(name=name)) if re.fullmatch(r"polydl\d*_shares_\w+", name):
            return one
    return None


def _cuts(items: list[Any]) -> str:
    """The variable that says how many rows are cut."""
    return next((str(i.name) for i in items if isinstance(i, c_ast.Decl) and _sharing(i) is not None), "")


def _starting(loop: Any, first: Any) -> Any:
    """The declaration of a loop's variable with another first value."""
    (one,) = loop.init.decls
    made = c_ast.Decl(one.name, [], [], [], [], one.type, first, None, one.coord)
    return c_ast.DeclList([made], loop.init.coord)


def _omp(item: Any) -> str:
    match item:
        case c_ast.FuncCall(name=c_ast.ID(name="polydl_omp"), args=c_ast.ExprList(exprs=[said])):
            text: Any = said
            return str(text.value).strip('"')
    return ""


def _head(loop: Any) -> str:
    empty = c_ast.For(loop.init, loop.cond, loop.next, c_ast.EmptyStatement())
    return _text(empty).removesuffix(";")


def _text(node: Any) -> str:
    """C without spaces that no words need."""
    shown = re.sub(r"\s+", " ", str(CGenerator().visit(node))).strip()
    return re.sub(r" ?([^\w ]) ?", r"\1", shown)
