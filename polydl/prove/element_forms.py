"""Whether vector functions load and store elements as what they are: `load_bf16` of an array of bfloat16."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, TypeGuard

from pycparser import c_ast

from polydl.frontend.meaning.symbols import mentions, nodes
from polydl.model.scop import Array
from polydl.model.types import spelled
from polydl.prove.integers import Unreadable, Wrong
from polydl.prove.printed_program import Pointer
from polydl.prove.syntax import line_of

_FORM = re.compile(r"polydl\d*_(f\d\d|[iu]\d+(?=s))s?_(?:load|store|stream|all)(?:_([a-z]+\d+))?(?:_part)?")


def check_forms(definition: Any) -> None:
    """Every load and store in a function is of elements of the type that the parameter points to. Raises Wrong,
    Unreadable."""
    held = {p.name: _pointee(p) for p in definition.decl.type.args.params if isinstance(p.type, c_ast.PtrDecl)}
    scalars = {
        p.name: _named(p.type) for p in definition.decl.type.args.params if not isinstance(p.type, c_ast.PtrDecl)
    }
    for node in nodes(definition.body):
        if not _is_call(node) or (found := _FORM.fullmatch(node.name.name)) is None:
            continue
        form, argument = found.group(2) or found.group(1), node.args.exprs[0]
        if "_all" in node.name.name:
            known = scalars if found.group(2) else {}  # of others C converts what is given
        else:
            known = held
        types = [known[name] for name in mentions(argument) if name in known]
        if known is held and len(types) != 1:
            raise Unreadable(f"line {line_of(node)}: what {node.name.name} is given")
        if any(one != form for one in types):
            raise Wrong(f"line {line_of(node)}: {node.name.name} on elements of type {types[0]}")


def check_passed(call: Any, parameter: Any, operand: Pointer, arrays: Mapping[str, Array]) -> None:
    """An array is passed to a parameter that points to such elements. Raises Wrong."""
    array = arrays.get(operand.base)
    if array is not None and _pointee(parameter) != array.element.name:
        raise Wrong(f"line {line_of(call)}: {operand.base} is passed as an array of {_pointee(parameter)}")


def _is_call(node: Any) -> TypeGuard[c_ast.FuncCall]:
    return isinstance(node, c_ast.FuncCall) and isinstance(node.name, c_ast.ID) and node.args is not None


def _pointee(parameter: Any) -> str:
    return _named(parameter.type.type)


def _named(node: Any) -> str:
    """A type by its name in the table of types; as C spells it where it is none of these."""
    text = " ".join(node.type.names) if isinstance(node.type, c_ast.IdentifierType) else ""
    element = spelled(text)
    return text if element is None else element.name
