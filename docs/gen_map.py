"""The page code_map.md of the documentation: every module with the first line of its docstring, by floor.

A hook of mkdocs (see mkdocs.yml). python docs/gen_map.py prints the page.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "polydl"

HEAD = """\
# Map of the code

Made from the code when the site is built: the floors of `tests/test_layering.py`, lowest first, and the first line of
every module's docstring. A module imports only from floors before its own, and from its own package.
"""


def floors() -> tuple[frozenset[str], ...]:
    """The floors as the test of the layers has them, lowest first. Raises ValueError when there is no such table."""
    tree = ast.parse((ROOT / "tests" / "test_layering.py").read_text(encoding="utf-8"))
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == "FLOORS" for t in node.targets):
            return tuple(frozenset(names) for names in ast.literal_eval(node.value))
    raise ValueError("tests/test_layering.py has no FLOORS")


def first_line(path: Path) -> str:
    """The first line of a module's docstring, without the colon that a list may follow."""
    said = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return said.partition("\n")[0].removesuffix(":").replace("|", r"\|")


def page() -> str:
    """The page in Markdown."""
    lines = [HEAD]
    for number, names in enumerate(floors()):
        sources = [file for name in sorted(names) for file in _sources(name)]
        if not sources:
            continue
        lines += [f"## Floor {number}", "", "| module | |", "|---|---|", *_rows(sources), ""]
    return "\n".join(lines)


def _sources(name: str) -> list[Path]:
    folder, file = PACKAGE / name, PACKAGE / f"{name}.py"
    return sorted(folder.rglob("*.py")) if folder.is_dir() else [file] if file.is_file() else []


def _rows(sources: Iterable[Path]) -> list[str]:
    rows = []
    for path in sources:
        said = first_line(path)
        if said:
            rows.append(f"| `{path.relative_to(ROOT)}` | {said} |")
    return rows


def on_files(files: Any, config: Any) -> Any:
    """Add the page to the site; mkdocs calls this."""
    from mkdocs.structure.files import File

    files.append(File.generated(config, "code_map.md", content=page()))
    return files


if __name__ == "__main__":
    sys.stdout.write(page())
