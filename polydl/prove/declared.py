"""Reads declarations in printed code: buffers in scratch memory, sizes in locals, what the output asks at run time."""

from __future__ import annotations

import re
from typing import Any

from pycparser import c_ast

from polydl.dependences.scalars import private_storage
from polydl.model.scop import Storage
from polydl.model.types import spelled
from polydl.prove import finiteness as finite
from polydl.prove import printed_segments
from polydl.prove.integers import ZERO, Affine, Unreadable, Wrong, affine
from polydl.prove.printed_program import Buffer, Pointer
from polydl.prove.syntax import bytes_per_thread, first_number, line_of, names_in
from polydl.prove.walk_state import Place, Walk

_BYTES = "_bytes"
"""Ends the names of sizes that are known at run time alone."""
_PAGE = 4096


def declare(walk: Walk, item: Any, at: Place) -> None:
    """A declaration; its effect is on the block that it stands in."""
    name, text = item.name, names_in(item.init)
    if name in walk.scop.arrays:
        if walk.scop.arrays[name].storage is Storage.SCRATCH and at.depth == 0:
            _buffer(walk, name, item, False, walk.program.scratch)
            return
        own = walk.scop.arrays[name].storage is Storage.REGION or (
            not walk.scop.arrays[name].is_scalar and name in private_storage(walk.scop)
        )
        inside = own and at.depth == 0
        if item.init is not None or not inside:
            raise Unreadable(f"line {line_of(item)}: the declaration of {name}")
        return
    if isinstance(item.type, c_ast.PtrDecl):
        if any(re.fullmatch(r"polydl\d*_scratch", n) for n in text):
            asked = item.init.args.exprs[0]
            walk.program.memory[False] = first_number(asked)
            walk.reserved = bytes_per_thread(asked)
            if _sized(asked) != tuple(walk.program.sizes):
                raise Wrong(f"line {line_of(item)}: memory is not asked for of each array that needs some")
            return
        own, memory = (any(re.fullmatch(rf"polydl\d*_{w}", n) for n in text) for w in ("own", "memory"))
        if re.fullmatch(r"polydl\d*_own", name):
            start, behind = _place(item.init)
            if start < walk.program.memory[False] or behind != tuple(walk.program.sizes):
                raise Wrong(f"line {line_of(item)}: the threads' copies overlap the shared ones")
            return
        if own or memory:
            _pointer(walk, item, own, at)
            return
    elif isinstance(item.type, c_ast.TypeDecl):
        if re.fullmatch(r"polydl\d*_each", name):
            _each(walk, item)
            return
        if item.init is not None and not re.fullmatch(r"polydl\d*_sum", name) and not finite.asks(item):
            _integer(walk, item, at)
        return
    if not printed_segments.declared(walk, item, at):
        raise Unreadable(f"line {line_of(item)}: the declaration of {name}")


def _integer(walk: Walk, item: Any, at: Place) -> None:
    array = item.name.removesuffix(_BYTES)
    if array != item.name and array in walk.scop.arrays and at.depth == 0:
        walk.program.sizes[array] = _pages(item.init, at)
    elif not printed_segments.bound(walk, item, at):
        at.env[item.name] = affine(item.init, at.env)


def _pointer(walk: Walk, item: Any, own: bool, at: Place) -> None:
    """A pointer to a buffer. Raises Wrong."""
    name = item.name
    if own and not _of_thread(item.init):
        raise Wrong(f"line {line_of(item)}: {name} is not in the memory of the thread at work")
    part = re.fullmatch(r"polydl\d*_part_(\w+)", name)
    if part is not None and part[1] in walk.scop.arrays:
        at.env[name] = _part(walk, part[1], item, own)
    else:
        _buffer(walk, name, item, own, walk.program.buffers)
        at.env[name] = Pointer(name, ZERO)


def _each(walk: Walk, item: Any) -> None:
    """How many bytes each thread has. Raises Wrong."""
    walk.program.memory[True] = affine(item.init, {}).constant
    if walk.program.memory[True] > walk.reserved:
        raise Wrong(f"line {line_of(item)}: the threads' copies do not fit into their memory")


def _part(walk: Walk, array: str, item: Any, own: bool) -> Buffer:
    """Memory in which a part of an array is at a time: elements that nothing else holds and nobody reads afterwards.
    Raises Wrong."""
    if array in walk.scop.live_out:
        raise Wrong(f"line {line_of(item)}: only a part of {array} is kept, which is read after the region")
    _buffer(walk, array, item, own, walk.program.parts)
    if walk.scop.arrays[array].element is not spelled(" ".join(item.type.type.type.names)):
        raise Unreadable(f"line {line_of(item)}: {array} as another type")
    walk.parts[item.name] = array
    walk.strides = {other: strides for other, strides in walk.strides.items() if other != array}
    return walk.program.parts[array]


def _buffer(walk: Walk, name: str, item: Any, own: bool, among: dict[str, Buffer]) -> None:
    start, behind = _place(item.init.expr if isinstance(item.init, c_ast.Cast) else item.init)
    element = spelled(" ".join(item.type.type.type.names))
    if element is None:
        raise Unreadable(f"line {line_of(item)}: the type of the buffer {name}")
    found = Buffer(name, own, start, element.bytes, behind)
    if among.setdefault(name, found) != found:
        raise Unreadable(f"two buffers are called {name}")


def _of_thread(node: Any) -> bool:
    """Whether a place is in a thread's own memory, `polydl_own + (size_t)polydl_thread() * polydl_each + 4096`."""
    match node.expr if isinstance(node, c_ast.Cast) else node:
        case c_ast.BinaryOp(
            op="+",
            left=c_ast.BinaryOp(
                op="+",
                left=c_ast.ID(name=own),
                right=c_ast.BinaryOp(
                    op="*", left=c_ast.Cast(expr=c_ast.FuncCall(name=c_ast.ID(name=thread))), right=c_ast.ID(name=each)
                ),
            ),
            right=c_ast.Constant(),
        ):
            said = zip((own, thread, each), ("own", "thread", "each"), strict=True)
            return all(re.fullmatch(rf"polydl\d*_{word}", name) for name, word in said)
    return False


def _place(node: Any) -> tuple[int, tuple[str, ...]]:
    """Of a place in the memory, `polydl_memory + 8192 + polydl_T_bytes`, the number, and the arrays whose sizes are
    added to it. Raises Unreadable."""
    added: list[Any] = []
    while isinstance(node, c_ast.BinaryOp) and node.op == "+":
        node, added = node.left, [node.right, *added]
    if isinstance(node, c_ast.ID) and added and isinstance(added[0], c_ast.Constant):
        sized = [one.name if isinstance(one, c_ast.ID) else "" for one in added[1:]]
        # A thread's own copies begin at a number behind that of the thread, in parentheses or not.
        if all(one.endswith(_BYTES) for one in sized):
            return affine(added[0], {}).constant, tuple(one.removesuffix(_BYTES) for one in sized)
    if added and isinstance(added[-1], c_ast.Constant) and not any(isinstance(n, c_ast.Constant) for n in added[:-1]):
        return affine(added[-1], {}).constant, ()
    raise Unreadable(f"line {line_of(node)}: a place in the memory for copies")


def _sized(node: Any) -> tuple[str, ...]:
    """The arrays whose run-time sizes are among the bytes that are asked for."""
    return tuple(name.removesuffix(_BYTES) for name in names_in(node) if name.endswith(_BYTES))


def _pages(node: Any, at: Place) -> Affine:
    """Of a size in whole pages, `(x + 4095) / 4096 * 4096`, x. Raises Unreadable."""
    match node:
        case c_ast.BinaryOp(
            op="*",
            left=c_ast.BinaryOp(op="/", left=c_ast.BinaryOp(op="+", left=wanted, right=rest), right=page),
            right=again,
        ) if [affine(n, {}).constant for n in (rest, page, again)] == [_PAGE - 1, _PAGE, _PAGE]:
            return affine(wanted, at.env)
    raise Unreadable(f"line {line_of(node)}: a size that is known at run time alone")
