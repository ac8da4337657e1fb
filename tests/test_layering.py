"""The rooms of polydl form a stack: a file imports only from rooms below its own, and no two files import each other.

Every import of every file is read, in functions too; a file of a room may import others of the same room, as long as
no circle comes of it.
"""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "polydl"

FLOORS = (
    {"base"},
    {"model"},
    {"oracle"},
    {"target"},
    {"frontend"},
    {"dependences"},
    {"equations"},
    {"rewrite"},
    {"schedule"},
    {"kernels"},
    {"locality"},
    {"rank"},
    {"lower"},
    {"prove"},
    {"measure"},
    {"options"},
    {"search"},
    {"results"},
    {"exchange"},
    {"pipeline"},
    {"native"},
    {"inspect"},
    {"learn"},
    {"cluster"},
    {"cli", "torch_backend"},
    {"__init__"},
    {"__main__"},
)
"""Lowest first. A file may import from the floors before its own, and from its own room."""

FLOOR = {name: number for number, names in enumerate(FLOORS) for name in names}


def room_of(path: Path) -> str:
    """`frontend` for a file anywhere under polydl/frontend, `options` for polydl/options.py."""
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


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


def upward(path: Path, text: str) -> list[str]:
    """Line and name of what the file imports from rooms that are not below its own."""
    mine = room_of(path)
    found = []
    for line, name in imported(ast.parse(text), path):
        parts = name.split(".")
        if parts[0] != "polydl" or len(parts) == 1:
            continue
        target = parts[1] if parts[1] in FLOOR else "__init__"
        if target != mine and FLOOR[target] >= FLOOR[mine]:
            where = f"{path.relative_to(PACKAGE.parent)}:{line}"
            found.append(f"{where}: {mine} imports {name}, which stands on a floor above")
    return found


def violations(path: Path, text: str) -> list[str]:
    """What the file imports and must not."""
    if room_of(path) not in FLOOR:
        return [f"{path.name}: '{room_of(path)}' has no floor in tests/test_layering.py"]
    wrong: list[str] = []
    for line, name in imported(ast.parse(text), path):
        first = name.split(".")[0]
        where = f"{path.relative_to(PACKAGE.parent)}:{line}"
        if first == "torch" and not (
            module_of(path)[:3] == ("polydl", "learn", "train") or room_of(path) == "torch_backend"
        ):
            wrong.append(f"{where}: only polydl.learn.train and polydl.torch_backend may import torch")
        if first in ("tests", "experiments"):
            wrong.append(f"{where}: imports {name}, which is not in the wheel")
    return wrong + upward(path, text)


SOURCES = sorted(PACKAGE.rglob("*.py"))
MODULES = {".".join(module_of(path)): path for path in SOURCES}


@pytest.mark.parametrize("path", SOURCES, ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_only_what_stands_below(path: Path) -> None:
    assert violations(path, path.read_text(encoding="utf-8")) == []


def test_no_circle_of_files() -> None:
    """Imports that only a type checker reads count: two files that know each other are one."""
    graph = {name: files_of(path) - {name} for name, path in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


def files_of(path: Path) -> set[str]:
    """Modules of polydl that a file imports."""
    names = (name for _, name in imported(ast.parse(path.read_text(encoding="utf-8")), path))
    return {module for name in names if (module := module_in(name)) in MODULES}


def module_in(name: str) -> str:
    """The module that a dotted name lies in: itself, or what stands before its last dot."""
    return name if name in MODULES else name.rpartition(".")[0]


def test_nothing_lies_loose() -> None:
    loose = {path.name for path in PACKAGE.glob("*.py")}
    assert loose == {"__init__.py", "__main__.py", "options.py", "pipeline.py", "results.py"}


@pytest.mark.parametrize(
    ("file", "text"),
    [
        ("model/x.py", "from polydl.frontend import parse"),
        ("model/x.py", "import polydl.lower.emit"),
        ("model/x.py", "from ..frontend import parse"),
        ("model/x.py", "def f():\n    from polydl.rank.cost import cost"),
        ("model/x.py", "from polydl import frontend"),
        ("model/x.py", "from polydl import optimize"),
        ("base/errors.py", "from polydl import model"),
        ("locality/x.py", "from importlib import import_module\nimport_module('polydl.pipeline')"),
        ("lower/x.py", "import torch.nn"),
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
        ("model/x.py", "from polydl.base.errors import Span\nfrom polydl.model.expr import Expr\nfrom .expr import E"),
        ("model/__init__.py", "from .expr import Expr\nfrom ..base.errors import Span"),
        ("learn/train/fit.py", "import torch\nfrom polydl.locality import x"),
        ("learn/train/loop.py", "from torch import nn"),
        ("torch_backend/x.py", "import torch\nfrom polydl.native import shared"),
        ("cli/optimize_command.py", "from polydl.pipeline import optimize\nfrom polydl.base import errors"),
    ],
)
def test_permitted_imports_pass(file: str, text: str) -> None:
    assert violations(PACKAGE / file, text) == []


def test_one_base_name_stands_in_one_room() -> None:
    """Who looks for a module by its name finds one."""
    names = [path.stem for path in PACKAGE.rglob("*.py") if not path.stem.startswith("__")]
    assert sorted({name for name in names if names.count(name) > 1}) == []
