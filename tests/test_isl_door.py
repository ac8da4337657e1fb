"""Only polydl.model.isl knows isl's positions: every other file calls dimensions by name or coordinates by number.

What takes a position is read from islpy's own type stubs, so that a new version's methods are known too.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

import islpy
import pytest

PACKAGE = Path(__file__).parent.parent / "polydl"
DOOR = PACKAGE / "model" / "isl"
IMPORTER = DOOR / "isl_types.py"
SOURCES = sorted(path for path in PACKAGE.rglob("*.py") if DOOR not in path.parents)

ANOTHER_POSITION = re.compile(r"List$|^Ast|^Schedule|^Mat$|^Vec$|^Printer$|^Term$|^MultiVal$")
"""Classes whose positions are not of dimensions: elements of lists, children of nodes, rows and columns, factors."""
OTHER_METHODS = {"match", "insert", "child"}
"""Names that methods of Python's own classes, or of schedule trees, have too."""


def positional() -> frozenset[str]:
    """Methods of islpy that every class of sets, relations and functions takes a position for."""
    stubs = ast.parse((Path(islpy.__file__).parent / "_isl.pyi").read_text(encoding="utf-8"))
    taken: dict[str, bool] = {}
    for one in stubs.body:
        if not isinstance(one, ast.ClassDef) or ANOTHER_POSITION.search(one.name):
            continue
        for method in one.body:
            if isinstance(method, ast.FunctionDef):
                takes = any(
                    argument.arg == "pos" or "dim_type" in ast.unparse(argument.annotation or ast.Constant(""))
                    for argument in method.args.args
                )
                taken[method.name] = takes and taken.get(method.name, True)
    return frozenset(name for name, takes in taken.items() if takes) - OTHER_METHODS


POSITIONAL = positional()


def wrong(text: str) -> list[str]:
    """What a file outside of the door must not say."""
    found = []
    for node in ast.walk(ast.parse(text)):
        match node:
            case ast.Import(names):
                modules = [alias.name for alias in names]
                found += [f"{node.lineno}: imports {name}" for name in modules if name.split(".")[0] == "islpy"]
            case ast.ImportFrom(module=str(module)) if module.split(".")[0] == "islpy":
                found.append(f"{node.lineno}: imports {module}")
            case ast.ImportFrom(module="polydl.model.isl.positions" | "polydl.model.isl.isl_types"):
                found.append(f"{node.lineno}: imports what the door keeps to itself")
            case ast.Attribute(attr="dim_type") | ast.Name(id="dim_type"):
                found.append(f"{node.lineno}: dim_type")
            case ast.Call(func=ast.Attribute(attr=name)) if name in POSITIONAL:
                found.append(f"{node.lineno}: {name} takes a position; polydl.model.isl has it by name")
    return found


def test_stubs_are_read() -> None:
    assert {"project_out", "fix_val", "equate", "dim_max_val", "get_pw_aff", "get_coefficient_val"} <= POSITIONAL
    assert not {"intersect", "apply_range", "get_tuple_name", "coalesce"} & POSITIONAL


def test_one_file_imports_islpy() -> None:
    importers = [
        path
        for path in PACKAGE.rglob("*.py")
        if any("imports islpy" in line for line in wrong(path.read_text(encoding="utf-8")))
    ]
    assert importers == [IMPORTER]


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_dimensions_go_by_name(path: Path) -> None:
    assert wrong(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "import islpy as isl",
        "from islpy import Set",
        "import numpy, islpy._isl",
        "from polydl.model.isl.isl_types import SET",
        "isl.dim_type.set",
        "from x import dim_type\ndim_type.out",
        "s.project_out(kind, 0, 1)",
        "s.dim_max_val(0)",
    ],
)
def test_violations_are_seen(text: str) -> None:
    assert len(wrong(text)) == 1


@pytest.mark.parametrize(
    "text", ["from polydl.model import isl\nisl.bounds(s, 'i')", "s.get_tuple_name()", "s.set_tuple_name('T')"]
)
def test_names_pass(text: str) -> None:
    assert wrong(text) == []
