"""The exact check of a whole variant."""

from __future__ import annotations

from collections.abc import Sequence

from polydl.dependences.analysis import Dependence
from polydl.model.scop import Scop
from polydl.schedule.tree import Node
from polydl.schedule.tree_check import Checked, broken


def check(
    scop: Scop,
    tree: Node,
    found: Sequence[Dependence],
    *,
    reassociate: bool = True,
    checked: Checked | None = None,
) -> str | None:
    """The exact legality check of a program's tree: why it is illegal, or None. `checked`: see `tree_check.broken`.
    Raises QuotaExceeded."""
    return broken(scop, scop.statements, tree, found, reassociate=reassociate, checked=checked)
