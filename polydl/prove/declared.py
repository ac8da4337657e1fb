"""Reads declarations in printed code: buffers in scratch memory, sizes in locals, what the output asks at run time."""

from __future__ import annotations

import re
from typing import Any

from pycparser import c_ast

from polydl.model.scop import Storage
from polydl.model.types import spelled
from polydl.prove import finite
from polydl.prove.integers import ZERO, Unreadable, Wrong, affine
from polydl.prove.program import Buffer, Pointer
from polydl.prove.syntax import bytes_per_thread, first_number, line_of, names_in
from polydl.prove.walk import Place, Walk


def declare(walk: Walk, item: Any, at: Place) -> None:
    """A declaration; its effect is on the block that it stands in."""
    name, text = item.name, names_in(item.init)
    if name in walk.scop.arrays:
        if walk.scop.arrays[name].storage is Storage.SCRATCH and at.depth == 0:
            _buffer(walk, name, item, False, walk.program.scratch)
            return
        inside = walk.scop.arrays[name].storage is Storage.REGION and at.depth == 0
        if item.init is not None or not inside:
            raise Unreadable(f"line {line_of(item)}: the declaration of {name}")
        return
    if isinstance(item.type, c_ast.PtrDecl):
        if any(re.fullmatch(r"polydl\d*_scratch", n) for n in text):
            walk.program.memory[False] = first_number(item.init.args.exprs[0])
            walk.reserved = bytes_per_thread(item.init.args.exprs[0])
            return
        own, memory = (any(re.fullmatch(rf"polydl\d*_{w}", n) for n in text) for w in ("own", "memory"))
        if re.fullmatch(r"polydl\d*_own", name):
            if first_number(item.init.right) < walk.program.memory[False]:
                raise Wrong(f"line {line_of(item)}: the threads' copies overlap the shared ones")
            return
        if own or memory:
            _buffer(walk, name, item, own, walk.program.buffers)
            at.env[name] = Pointer(name, ZERO)
            return
    elif isinstance(item.type, c_ast.TypeDecl):
        if re.fullmatch(r"polydl\d*_each", name):
            walk.program.memory[True] = affine(item.init, {}).constant
            if walk.program.memory[True] > walk.reserved:
                raise Wrong(f"line {line_of(item)}: the threads' copies do not fit into their memory")
            return
        if item.init is None or re.fullmatch(r"polydl\d*_sum", name) or finite.asks(item):
            return
        at.env[name] = affine(item.init, at.env)
        return
    raise Unreadable(f"line {line_of(item)}: the declaration of {name}")


def _buffer(walk: Walk, name: str, item: Any, own: bool, among: dict[str, Buffer]) -> None:
    init = item.init.expr if isinstance(item.init, c_ast.Cast) else item.init
    if not (isinstance(init, c_ast.BinaryOp) and isinstance(init.right, c_ast.Constant)):
        raise Unreadable(f"line {line_of(item)}: the place of the buffer {name}")
    element = spelled(" ".join(item.type.type.type.names))
    if element is None:
        raise Unreadable(f"line {line_of(item)}: the type of the buffer {name}")
    found = Buffer(name, own, affine(init.right, {}).constant, element.bytes)
    if among.setdefault(name, found) != found:
        raise Unreadable(f"two buffers are called {name}")
