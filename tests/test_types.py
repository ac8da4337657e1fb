"""The table of element types stands alone: no other module has the names of types in a table, or compares them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from polydl.model.types import TYPES

PACKAGE = Path(__file__).parent.parent / "polydl"
TABLE = PACKAGE / "model" / "types.py"

NAMES = {name for t in TYPES for name in (t.name, t.c, *t.also, t.numpy, t.torch) if name is not None}
SHARED = {"int", "char", "bool"}
"""Names of types that are names of other things too: of nodes of isl's and pycparser's trees, of C tokens."""
ROUNDING = {name for t in TYPES if t.rounds for name in (t.name, t.c, *t.also, t.numpy, t.torch) if name is not None}


def words(node: ast.AST, names: set[str]) -> list[str]:
    """The names among the strings that an expression is, or a literal of a collection holds."""
    if isinstance(node, ast.Dict):
        return [w for one in (*node.keys, *node.values) if one is not None for w in words(one, names)]
    if isinstance(node, ast.Tuple | ast.List | ast.Set):
        return [w for one in node.elts for w in words(one, names)]
    return [node.value] if isinstance(node, ast.Constant) and node.value in names else []


def faults(text: str) -> list[str]:
    """Where a module knows types by name: in comparisons, in collections, and anywhere those of types that round."""
    found = []
    tree = ast.parse(text)
    for node in ast.walk(tree):
        match node:
            case ast.Compare(left, _, others):
                wrong = [w for side in (left, *others) for w in words(side, NAMES - SHARED)]
            case ast.MatchValue(value):
                wrong = words(value, NAMES - SHARED)
            case ast.Call(ast.Attribute(_, "startswith" | "endswith" | "removeprefix" | "removesuffix" | "get"), args):
                wrong = [w for one in args for w in words(one, NAMES - SHARED)]
            case ast.Dict() | ast.Tuple() | ast.List() | ast.Set():
                wrong = words(node, NAMES)
                wrong = wrong if len(set(wrong)) > 1 else []
            case ast.Constant(str() as value) if value in ROUNDING:
                wrong = [value]
            case _:
                wrong = []
        found += [f"line {node.lineno}: {word!r}" for word in wrong]  # type: ignore[attr-defined]
    return found


ORACLE = set((PACKAGE / "oracle").glob("*.py"))
"""It shares no table with what it is held against."""
SOURCES = sorted(set(PACKAGE.rglob("*.py")) - {TABLE} - ORACLE)


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_no_other_module_knows_types_by_name(path: Path) -> None:
    assert faults(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        'size = 8 if ctype == "double" else 4',
        'x = "double" if wide else y',
        'if ctype in ("long", "short"): pass',
        'BYTES = {"char": 1, "short": 2}',
        'match ctype:\n    case "unsigned char": pass',
        'if name.startswith("uint8"): pass',
        'dtype = "float32"',
        'peak = peaks.get("int8")',
    ],
)
def test_faults_are_seen(text: str) -> None:
    assert faults(text)


@pytest.mark.parametrize(
    "text",
    [
        "size = array.element.bytes",
        'index = "int" if small else "long"',
        'if node.type == "char": pass',
        'KINDS = {F32: "ps"}',
        '"""A module about float."""',
        'raise E("float is not supported")',
    ],
)
def test_the_rest_passes(text: str) -> None:
    assert faults(text) == []
