"""The packages of polydl form a stack: each imports only what stands below it."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "polydl"

FLOORS = (
    {"errors", "html", "resources", "_version"},
    {"compile_commands", "diagnostics"},
    {"machine"},
    {"model"},
    {"frontend"},
    {"dependences"},
    {"variants"},
    {"locality"},
    {"rank"},
    {"fusion"},
    {"scheduling"},
    {"codegen"},
    {"prove"},
    {"measure"},
    {"report"},
    {"options", "output", "results"},
    {"fused", "choices", "kept", "offer", "scoring", "header", "proofs", "depfile", "exchange"},
    {"nearby"},
    {"inline"},
    {"pipeline", "analysis"},
    {"native"},
    {"explain", "given", "collect", "doctor", "recording"},
    {"train"},
    {"present"},
    {"side_by_side", "show_fused"},
    {"cluster"},
    {"cli"},
    {"__init__", "__main__"},
)
"""Lowest first. A module of one floor may import those of the floors before it, and its own package's."""

FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}


def package_of(path: Path) -> str:
    """`frontend` for polydl/frontend/affine.py, `errors` for polydl/errors.py, `__init__` for polydl/__init__.py."""
    first = path.relative_to(PACKAGE).parts[0]
    return first.removesuffix(".py")


def module_of(path: Path) -> tuple[str, ...]:
    """The dotted name of a file as a tuple, package markers left out."""
    parts = ("polydl", *path.relative_to(PACKAGE).with_suffix("").parts)
    return parts[:-1] if parts[-1] == "__init__" else parts


def imported(tree: ast.AST, path: Path) -> list[tuple[int, str]]:
    """(line, absolute dotted name) of everything imported anywhere in a file, in functions too."""
    found: list[tuple[int, str]] = []
    package = module_of(path) if path.name == "__init__.py" else module_of(path)[:-1]
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [(node.lineno, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = [] if node.level == 0 else list(package[: len(package) - node.level + 1])
            module = ".".join([*base, *([node.module] if node.module else [])])
            found += [(node.lineno, f"{module}.{alias.name}") for alias in node.names]
        elif (
            isinstance(node, ast.Call)
            and (isinstance(node.func, ast.Name) and node.func.id in ("import_module", "__import__"))
            and node.args
            and isinstance(node.args[0], ast.Constant)
        ):
            found.append((node.lineno, str(node.args[0].value)))
    return found


def violations(path: Path, text: str) -> list[str]:
    """What the file imports and must not."""
    mine = package_of(path)
    wrong: list[str] = []
    if mine not in FLOOR:
        return [f"{path.name}: '{mine}' has no floor in tests/test_layering.py"]
    for line, name in imported(ast.parse(text), path):
        parts = name.split(".")
        where = f"{path.relative_to(PACKAGE.parent)}:{line}"
        if parts[0] == "torch" and module_of(path)[:2] != ("polydl", "train"):
            wrong.append(f"{where}: only polydl.train may import torch")
        if parts[0] in ("tests", "experiments"):
            wrong.append(f"{where}: imports {name}, which is not in the wheel")
        if parts[0] != "polydl" or len(parts) == 1:
            continue
        target = parts[1] if parts[1] in FLOOR else "__init__"
        if target != mine and FLOOR[target] >= FLOOR[mine]:
            wrong.append(f"{where}: {mine} imports {name}, which stands on a floor above or beside it")
    return wrong


SOURCES = sorted(PACKAGE.rglob("*.py"))


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_only_what_stands_below(path: Path) -> None:
    assert violations(path, path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("model/x.py", "from polydl.frontend import parse"),
        ("model/x.py", "import polydl.codegen.emit"),
        ("model/x.py", "from ..frontend import parse"),
        ("model/x.py", "def f():\n    from polydl.rank.cost import cost"),
        ("model/x.py", "from polydl import frontend"),
        ("model/x.py", "from polydl import optimize"),
        ("errors.py", "from polydl import resources"),
        ("locality/x.py", "from importlib import import_module\nimport_module('polydl.pipeline')"),
        ("codegen/x.py", "import torch.nn"),
        ("rank/x.py", "from torch import nn"),
        ("rank/x.py", "from tests.oracle import programs"),
        ("novelty/x.py", "import ast"),
    ],
)
def test_violations_are_seen(file: str, text: str) -> None:
    assert len(violations(PACKAGE / file, text)) == 1


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("model/x.py", "from polydl.errors import Span\nfrom polydl.model.expr import Expr\nfrom .expr import Expr"),
        ("model/__init__.py", "from .expr import Expr\nfrom ..errors import Span"),
        ("train/fit.py", "import torch\nfrom polydl.locality import x"),
        ("train/loop.py", "from torch import nn"),
        ("cli/tune.py", "from polydl.pipeline import optimize\nfrom polydl import errors"),
    ],
)
def test_permitted_imports_pass(file: str, text: str) -> None:
    assert violations(PACKAGE / file, text) == []
