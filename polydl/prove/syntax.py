"""Questions about pycparser's nodes that the proof asks of the printed C."""

from __future__ import annotations

import re
from typing import Any

from pycparser import c_ast

from polydl.dependences.scalars import PRIVATE_BYTES
from polydl.prove.integers import Unreadable, affine, integer
from polydl.prove.vector_lanes import PURE, VECTOR, WORD


def generated_block(node: Any) -> Any:
    """The block of the generated code; None where there is none."""
    for _, child in node.children():
        found = generated_block(child)
        if found is not None:
            return found
    return node if begins(node) else None


def begins(node: Any) -> bool:
    """Whether this is a block of generated code."""
    return isinstance(node, c_ast.Compound) and any(
        isinstance(i, c_ast.FuncCall) and re.fullmatch(r"polydl\d*_instance_begin", i.name.name)
        for i in node.block_items or []
        if isinstance(getattr(i, "name", None), c_ast.ID)
    )


def line_of(item: Any) -> int:
    """Line of a node in the printed C; 0 where it has none."""
    return int(item.coord.line) if getattr(item, "coord", None) is not None else 0


def first_number(node: Any) -> int:
    """The constant that a sum begins with."""
    while isinstance(node, c_ast.BinaryOp) and node.op == "+":
        node = node.left
    return affine(node, {}).constant


def bytes_per_thread(node: Any) -> int:
    """Of the bytes that are asked for, `0 + (size_t)polydl_threads() * 4096`, those for each thread. Raises
    Unreadable."""
    match node:
        case c_ast.BinaryOp(op="+", right=c_ast.BinaryOp(op="*", left=threads, right=c_ast.Constant() as each)):
            calls = threads.expr if isinstance(threads, c_ast.Cast) else threads
            if isinstance(calls, c_ast.FuncCall) and re.fullmatch(r"polydl\d*_threads", calls.name.name):
                return integer(each.value)
        case c_ast.Constant() | c_ast.BinaryOp(op="+", right=c_ast.ID()):
            return 0
    raise Unreadable(f"line {line_of(node)}: how much memory is asked for")


def names_in(node: Any) -> list[str]:
    """The identifiers in an expression."""
    if node is None:
        return []
    own = [node.name] if isinstance(node, c_ast.ID) else []
    return own + [n for _, child in node.children() for n in names_in(child)]


def asks_for_room(condition: Any) -> str | None:
    """What runs where the answer is no, if a condition asks for memory or for short arrays; None of any other."""
    match condition:
        case c_ast.ID(name=name) if re.fullmatch(r"polydl\d*_memory", name):
            return "where there is no memory for copies, the loops as they were written run"
        case c_ast.BinaryOp(op="&&", left=left, right=right):
            return asks_for_room(left) and asks_for_room(right)
        case c_ast.BinaryOp(op="<=", right=c_ast.Constant(value=value)) if value == str(PRIVATE_BYTES):
            return "where rows are too long for a thread's stack, the loops as they were written run"
        case _:
            return None


def without_effect(item: Any) -> None:
    """Raise Unreadable for an expression statement that may do something."""
    parts = item.exprs if isinstance(item, c_ast.ExprList) else [item]
    if not all(isinstance(p, c_ast.Cast | c_ast.EmptyStatement) for p in parts):
        raise Unreadable(f"line {line_of(item)}: an expression as a statement")


def loop_start(item: Any) -> tuple[str, Any]:
    """Variable and first value of a loop. Raises Unreadable."""
    init = item.init
    if isinstance(init, c_ast.DeclList) and len(init.decls) == 1:
        return str(init.decls[0].name), init.decls[0].init
    raise Unreadable(f"line {line_of(item)}: a loop of another form")


def check_bounded(condition: Any, variable: str) -> None:
    """Raise Unreadable for a condition that may hold again for a larger value of a loop's variable than one for which
    it does not: such a loop ends before."""
    match condition:
        case c_ast.BinaryOp(op="&&"):
            check_bounded(condition.left, variable)
            check_bounded(condition.right, variable)
        case c_ast.BinaryOp(op="<" | "<=", left=c_ast.ID(name=name), right=bound) if name == variable:
            if variable in names_in(bound):
                raise Unreadable(f"line {line_of(condition)}: a loop with a bound that moves")
        case _:
            raise Unreadable(f"line {line_of(condition)}: a loop of another form")


def loop_step(item: Any, variable: str) -> int:
    """Step of a loop that counts upwards. Raises Unreadable."""
    after: Any = item.next
    if isinstance(after, c_ast.UnaryOp) and after.op in ("p++", "++") and getattr(after.expr, "name", None) == variable:
        return 1
    if isinstance(after, c_ast.Assignment) and after.op == "+=" and getattr(after.lvalue, "name", None) == variable:
        value = affine(after.rvalue, {})
        if value.constant > 0 and not value.terms:
            return value.constant
    raise Unreadable(f"line {line_of(item)}: a loop of another form")


def subscripted(node: Any) -> tuple[Any, list[Any]]:
    """What `a[i][j]` takes an element of, and the subscripts."""
    subscripts: list[Any] = []
    while isinstance(node, c_ast.ArrayRef):
        subscripts.insert(0, node.subscript)
        node = node.name
    return node, subscripts


def only_prefetches(node: Any) -> bool:
    """Whether a statement does nothing but fetch ahead."""
    match node:
        case c_ast.FuncCall(name=c_ast.ID(name="__builtin_prefetch")):
            return True
        case c_ast.Compound():
            return all(only_prefetches(i) for i in node.block_items or [])
        case c_ast.For():
            return only_prefetches(node.stmt)
    return False


def matters(node: Any, counter: str, arrays: set[str], closed: str) -> bool:
    """Whether a counter does more than move addresses and tell calls that are not looked into which one they are: it is
    an argument, a subscript of a local array, or decides."""
    match node:
        case None:
            return False
        case c_ast.FuncCall(name=c_ast.ID(name="__builtin_prefetch")):
            return False
        case c_ast.FuncCall(name=c_ast.ID(name=name)) if not VECTOR.fullmatch(name) and not (
            name in PURE or WORD.fullmatch(name) or (closed and name.endswith(closed))
        ):
            return node.args is not None and counter in names_in(node.args)
        case c_ast.If() if only_prefetches(node.iftrue) and node.iffalse is None:
            return False
        case c_ast.If() | c_ast.TernaryOp() | c_ast.Switch() if counter in names_in(node.cond):
            return True
        case c_ast.For() if counter in names_in(node.cond) + names_in(node.init):
            return True
        case c_ast.ArrayRef():
            base, subscripts = subscripted(node)
            if isinstance(base, c_ast.ID) and base.name in arrays and any(counter in names_in(s) for s in subscripts):
                return True
    return any(matters(child, counter, arrays, closed) for _, child in node.children())


def counted(after: Any) -> tuple[str, int] | None:
    """A loop's counter and by how much it grows: what it counts first."""
    one = after.exprs[0] if isinstance(after, c_ast.ExprList) else after
    match one:
        case c_ast.UnaryOp(op="p++" | "++", expr=c_ast.ID(name=name)):
            return str(name), 1
        case c_ast.Assignment(op="+=", lvalue=c_ast.ID(name=name), rvalue=c_ast.Constant(value=value)):
            return str(name), integer(value)
        case c_ast.Assignment(
            op="+=",
            lvalue=c_ast.ID(name=name),
            rvalue=c_ast.BinaryOp(op="*", left=c_ast.Constant(value=times), right=c_ast.Constant(value=value)),
        ):
            return str(name), integer(times) * integer(value)
    return None
