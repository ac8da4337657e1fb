"""Strides that a kernel or a copy is told: its body is run with a number for each, which stands for all.

An address in a body is a sum of strides with small factors. The numbers are so far apart that sums with different
factors differ: what holds of the addresses for them holds for all strides, as long as these do nothing but move
addresses, which is shown of the text. (Kronecker's substitution: one number in place of several variables.)
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from pycparser import c_ast

from polydl.frontend.meaning.symbols import nodes
from polydl.model.types import I64, spelled
from polydl.prove.contracts import Contract, PackContract
from polydl.prove.integers import Affine, Unreadable, number
from polydl.prove.syntax import line_of, names_in, subscripted
from polydl.prove.vector_lanes import ALIGNED, NARROW, VECTOR

_APART = 1 << 40
"""By what factor each stride is larger than the one before: more than the elements of any array."""


def with_strides(functions: Mapping[str, Any], contract: Contract) -> tuple[Contract, dict[str, Affine]]:
    """A kernel's contract with numbers for all strides, and those that its function is told. Raises Unreadable where
    they do more than moving addresses."""
    told: dict[str, int] = {}

    def known(stride: int | None, name: str) -> int:
        return stride if stride is not None else told.setdefault(name, _APART ** (len(told) + 1))

    settled = replace(
        contract,
        c_row=known(contract.c_row, "c_m"),
        a_row=known(contract.a_row, "a_m"),
        a_steps=tuple(known(step, f"a_stride{k}") for k, step in enumerate(contract.a_steps)),
        b_steps=tuple(known(step, f"b_stride{k}") for k, step in enumerate(contract.b_steps)),
    )
    _check_moves(functions, contract.name, set(told))
    return settled, {name: number(value) for name, value in told.items()}


def pack_with_strides(functions: Mapping[str, Any], contract: PackContract) -> tuple[PackContract, dict[str, Affine]]:
    """The same of a copy."""
    told: dict[str, int] = {}

    def known(stride: int | None, name: str) -> int:
        return stride if stride is not None else told.setdefault(name, _APART ** (len(told) + 1))

    settled = replace(
        contract,
        width_stride=known(contract.width_stride, "width_stride"),
        strides=tuple(known(step, f"stride{k}") for k, step in enumerate(contract.strides)),
    )
    _check_moves(functions, contract.name, set(told))
    return settled, {name: number(value) for name, value in told.items()}


def strides_of(functions: Mapping[str, Any], name: str) -> dict[str, Affine]:
    """The same of a function that says in C what it does: a number for each of the strides that it is told. Raises
    Unreadable."""
    told = [p.name for p in functions[name].decl.type.args.params if is_stride(p)]
    _check_moves(functions, name, set(told))
    return {stride: number(_APART ** (k + 1)) for k, stride in enumerate(told)}


def is_stride(parameter: Any) -> bool:
    """Whether a parameter is an address's stride: `polydl_e0_j` behind `polydl_e0`."""
    kind = parameter.type
    return (
        re.fullmatch(r"polydl\d*_e\d+_[ij]", parameter.name) is not None
        and isinstance(kind, c_ast.TypeDecl)
        and spelled(" ".join(getattr(kind.type, "names", ()))) is I64
    )


def _check_moves(functions: Mapping[str, Any], stem: str, strides: set[str]) -> None:
    """In the functions whose names begin so, strides only move addresses. Raises Unreadable."""
    for name, definition in functions.items():
        if strides and name.startswith(stem):
            pointers = {p.name for p in definition.decl.type.args.params if isinstance(p.type, c_ast.PtrDecl)}
            for node in nodes(definition.body):
                if isinstance(node, c_ast.Decl) and _is_address(node.type):
                    pointers.add(node.name)
            for node in nodes(definition.body):
                if _decides(node, functions, pointers, strides):
                    raise Unreadable(f"line {line_of(node)}: a stride that does more than move an address")


def _is_address(kind: Any) -> bool:
    while isinstance(kind, c_ast.ArrayDecl):
        kind = kind.type
    return isinstance(kind, c_ast.PtrDecl)


def _made_of(node: Any) -> list[str]:
    """The names that the value of an expression is made of, without those that only say where in memory it is."""
    match node:
        case c_ast.ID():
            return [node.name]
        case c_ast.ArrayRef() | c_ast.UnaryOp(op="*"):
            return []
        case c_ast.FuncCall(name=c_ast.ID(name=name)) if _takes_addresses(name):
            return []
    return [name for _, child in node.children() for name in _made_of(child)]


def _takes_addresses(name: str) -> bool:
    """Whether a function is one of the vectors' prologues, or asks where memory lies."""
    return any(kind.fullmatch(name) for kind in (VECTOR, NARROW, ALIGNED))


def _decides(node: Any, functions: Mapping[str, Any], pointers: set[str], strides: set[str]) -> bool:
    """Whether a statement or an operator may do something else with a stride than move an address by it."""

    def told(part: Any) -> bool:
        return part is not None and not strides.isdisjoint(_made_of(part))

    match node:
        case c_ast.If() | c_ast.TernaryOp() | c_ast.Switch() | c_ast.For() | c_ast.While() | c_ast.DoWhile():
            return told(node.cond)
        case c_ast.BinaryOp() if node.op not in ("+", "-", "*"):
            return told(node.left) or told(node.right)
        case c_ast.BinaryOp(op="*"):
            return told(node.left) and told(node.right)
        case c_ast.UnaryOp(op="!" | "~" | "++" | "--" | "p++" | "p--"):
            return told(node.expr)
        case c_ast.Decl():
            return told(node.init) and not _is_address(node.type)
        case c_ast.Assignment():
            target, _ = subscripted(node.lvalue)
            moved = isinstance(target, c_ast.ID) and target.name in pointers
            return (told(node.rvalue) and not moved) or (isinstance(target, c_ast.ID) and target.name in strides)
        case c_ast.FuncCall(name=c_ast.ID(name=name)) if node.args is not None and not _takes_addresses(name):
            definition = functions.get(name)
            if definition is None:
                return False  # a hint for the compiler, or unreadable
            return any(
                told(given) and not isinstance(one.type, c_ast.PtrDecl) and names_in(given) != [one.name]
                for one, given in zip(definition.decl.type.args.params, node.args.exprs, strict=True)
            )
    return False
