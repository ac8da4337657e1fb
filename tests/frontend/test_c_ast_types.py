"""The types of pycparser's nodes (typings/) say what pycparser has, and no file of the front end goes without them."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from pycparser import c_ast

ROOT = Path(__file__).parents[2]
STUBS = ROOT / "typings" / "pycparser" / "c_ast.pyi"
MOST_ANYS = 20
"""Lines of the front end that say `Any`, imports apart."""


def test_each_node_has_its_parts() -> None:
    classes = {node.name: node for node in ast.parse(STUBS.read_text()).body if isinstance(node, ast.ClassDef)}
    there = {name for name, one in vars(c_ast).items() if isinstance(one, type) and issubclass(one, c_ast.Node)}
    assert classes.keys() == there
    for name in there - {"Node"}:
        typed = [one.target.id for one in classes[name].body if isinstance(one, ast.AnnAssign)]  # type: ignore[union-attr]
        slots = [slot for slot in getattr(c_ast, name).__slots__ if slot not in ("coord", "__weakref__")]
        assert typed == slots, name


def test_the_front_end_is_typed() -> None:
    lines = [
        f"{path.name}: {line.strip()}"
        for path in sorted((ROOT / "polydl" / "frontend").rglob("*.py"))
        for line in path.read_text().splitlines()
        if re.search(r"\bAny\b", line) and "import" not in line
    ]
    assert len(lines) <= MOST_ANYS, "\n".join(lines)
