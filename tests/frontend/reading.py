"""Reading C snippets in tests, and comparing isl objects with isl text."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import islpy as isl

from polydl.frontend import load
from polydl.model.scop import Access, Scop, Statement


def scop(folder: Path, code: str, **options: Any) -> Scop:
    """The only scop of a snippet; sizes stay symbolic unless the test says otherwise."""
    path = folder / "snippet.c"
    path.write_text(code)
    options.setdefault("require_sizes", False)
    (found,) = load(path, **options).scops
    return found


def region(folder: Path, body: str, head: str = "void f(int N, int M, double A[N][M])", **options: Any) -> Scop:
    """The scop of a function with this head and this region."""
    return scop(folder, f"{head}\n{{\n#pragma scop\n{body}\n#pragma endscop\n}}\n", **options)


def same_set(found: isl.Set, text: str) -> bool:
    """Equality of sets, parameters by name."""
    expected = isl.Set(text)
    assert found.get_tuple_name() == expected.get_tuple_name()
    return bool(found.is_equal(expected))


def same_map(found: isl.Map, text: str) -> bool:
    """Equality of maps, parameters by name."""
    expected = isl.Map(text)
    assert found.get_tuple_name(isl.dim_type.out) == expected.get_tuple_name(isl.dim_type.out)
    return bool(found.is_equal(expected))


def write(statement: Statement) -> Access:
    """The only write of a statement."""
    (access,) = (access for access in statement.accesses if access.write)
    return access


def reads(statement: Statement, array: str) -> list[Access]:
    """Reads of an array."""
    return [access for access in statement.accesses if not access.write and access.array == array]
