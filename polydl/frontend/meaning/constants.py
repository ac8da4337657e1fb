"""Constant expressions: enumerators, `const` variables with constant initialisers, literals."""

from __future__ import annotations

from pycparser.c_ast import Node

from polydl.frontend.meaning.affine import NotAffine, Symbols, universe
from polydl.frontend.meaning.symbols import Scope


def constant(node: Node, scope: Scope) -> int | None:
    """Value of a constant expression; None when it is not constant."""
    try:
        return Symbols(scope).evaluator.value(node, universe()).constant
    except NotAffine:
        return None
