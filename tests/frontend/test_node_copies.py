"""Copies of trees."""

from __future__ import annotations

from pycparser import c_ast

from polydl.frontend.core.node_copies import copied, with_in_place
from polydl.frontend.lower.member_nodes import Slot, written


def test_copies_are_other_nodes_that_are_written_the_same() -> None:
    whole = c_ast.BinaryOp("+", c_ast.ID("a"), c_ast.ArrayRef(c_ast.ID("b"), c_ast.ID("i")))
    made = copied(whole)
    assert written(made) == written(whole) and made.right is not whole.right and made.right.name is not whole.right.name
    assert written(with_in_place({id(whole.left): c_ast.ID("c")}, whole)) == "c + b[i]"
    assert written(whole) == "a + b[i]"


def test_members_are_still_written_as_they_stand() -> None:
    slot = Slot(c_ast.ID("p"), c_ast.Constant("int", "2"))
    slot.spelled = c_ast.StructRef(c_ast.ID("p"), "->", c_ast.ID("x"))
    assert written(copied(c_ast.UnaryOp("-", slot))) == "-p->x"
