"""`pytest --since REV`: only the tests that what has changed since a commit may reach.

File by file: a test is reached when its module is changed, or imports a changed file, directly or through others. A
name of `polydl` itself leads to the module that it comes from. A file that is no Python (a C program, a preset, a page)
is reached by the modules beside it and by those that mention its name, or that of its folder.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
ROOTS = ("polydl", "tests", "experiments")
"""Folders with modules."""
LAZY = "polydl/__init__.py"
"""Imports a name from its module when it is first used."""
EVERYTHING = re.compile(r"(.*/)?conftest\.py|pyproject\.toml|\.ci/.*|tests/(compiling|tiers|since|short_timings)\.py")
"""Files that decide how all tests run."""


def changed_files(revision: str) -> list[str]:
    """Paths from the root, of files that git does not know yet as well. Raises subprocess.CalledProcessError where git
    does not know the revision."""
    found: list[str] = []
    for words in (["diff", "--name-only", revision], ["ls-files", "--others", "--exclude-standard"]):
        done = subprocess.run(["git", *words], cwd=ROOT, check=True, capture_output=True, text=True)
        found += done.stdout.splitlines()
    return found


def reached(changed: Iterable[str]) -> set[str] | None:
    """The modules of tests, as paths from the root, that changed files may reach; None: all of them."""
    changed = list(changed)
    if any(EVERYTHING.fullmatch(path) for path in changed):
        return None
    modules, users = _modules(), _users()
    touched = {path for path in changed if path in modules}
    for path in changed:
        if path not in modules:
            touched |= _mentioning(path, modules)
    waiting = list(touched)
    while waiting:
        for path in users.get(waiting.pop(), set()) - touched:
            touched.add(path)
            waiting.append(path)
    return {path for path in touched if Path(path).name.startswith("test_")}


@cache
def _modules() -> Mapping[str, str]:
    """The text of every module by its path."""
    paths = (path for folder in ROOTS for path in sorted((ROOT / folder).rglob("*.py")))
    return {path.relative_to(ROOT).as_posix(): path.read_text(encoding="utf-8") for path in paths}


@cache
def _users() -> Mapping[str, set[str]]:
    """By file, the modules that import it."""
    users: dict[str, set[str]] = {}
    for path, text in _modules().items():
        for one in set(_imported(path, text, _modules())):
            users.setdefault(one, set()).add(path)
    return users


def _mentioning(path: str, modules: Mapping[str, str]) -> set[str]:
    """Modules whose text has the name of a file, or of its folder, or which lie beside it."""
    file = Path(path)
    names = {file.name, file.stem, file.parent.name} - {"", "."}
    pattern = re.compile("|".join(rf"\b{re.escape(name)}\b" for name in names))
    beside = {one for one in modules if Path(one).parent == file.parent}
    return beside | {one for one, text in modules.items() if pattern.search(text)}


def _imported(path: str, text: str, modules: Mapping[str, str]) -> Iterator[str]:
    """Files of the modules that a module imports, wherever it does, with those of the packages around them."""
    if path == LAZY:
        return
    tree = ast.parse(text)
    packages: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield from _around(alias.name, modules)
                packages[alias.asname or alias.name.partition(".")[0]] = (
                    alias.name if alias.asname else alias.name.partition(".")[0]
                )
        elif isinstance(node, ast.ImportFrom) and node.module:
            for alias in node.names:
                yield from _named(node.module, alias.name, modules)
                packages[alias.asname or alias.name] = f"{node.module}.{alias.name}"
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in packages:
            yield from _named(packages[node.value.id], node.attr, modules)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.startswith("polydl."):
            yield from _around(node.value, modules)  # a module by name: importlib, monkeypatch


def _around(name: str, modules: Mapping[str, str]) -> Iterator[str]:
    """The file of a module, and those of the packages that it is in."""
    parts = name.split(".")
    for count in range(1, len(parts) + 1):
        yield from _files("/".join(parts[:count]), modules)


def _files(stem: str, modules: Mapping[str, str]) -> Iterator[str]:
    for prefix in ("", "experiments/"):
        for path in (f"{prefix}{stem}.py", f"{prefix}{stem}/__init__.py"):
            if path in modules:
                yield path


def _named(module: str, name: str, modules: Mapping[str, str]) -> Iterator[str]:
    """What `from module import name` reads: the module, and the one that has the name, where that is another."""
    yield from _around(f"{module}.{name}", modules)
    if module == "polydl" and name in (origins := _origins(modules[LAZY])):
        yield from _around(origins[name], modules)


@cache
def _origins(text: str) -> Mapping[str, str]:
    """By name, the module that a package takes it from."""
    return {
        alias.asname or alias.name: f"{node.module}.{alias.name}"
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
