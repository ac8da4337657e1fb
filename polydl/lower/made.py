"""Scops that are made in Python, without a file: the C that they stand for is written from their statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from polydl.base.errors import Span
from polydl.lower.emit import generate
from polydl.model import isl
from polydl.model.scop import Array, Region, Scop, Source, Statement, Storage
from polydl.schedule.as_tree import written
from polydl.schedule.tree import Sequence as InOrder

_BEGIN, _END = "#pragma scop\n", "#pragma endscop\n"


def made(
    function: str,
    arrays: Iterable[Array],
    statements: Sequence[Statement],
    *,
    parameters: Sequence[str] = (),
    context: isl.Set | None = None,
    sizes: Mapping[str, int] | None = None,
) -> Scop:
    """A scop from its arrays and statements, which run in the order of their positions.

    Arrays that are no parameters of the function are its locals. `parameters`: the sizes that have no value, integer
    parameters of the function; `context`: what is known about them. The source of the scop is a file with this one
    function, as it would be written by hand: all that takes a scop that was read takes this one too. Nothing is
    checked: accesses must stay inside of the arrays. Raises QuotaExceeded.
    """
    every = {array.name: array for array in arrays}
    inner = [array for array in every.values() if array.storage is Storage.REGION]
    given = [array for array in every.values() if array.storage is Storage.PARAMETER]
    known = isl.Set(f"[{', '.join(parameters)}] -> {{ : }}") if context is None else context
    draft = Scop(
        function, Span(f"{function}.c", 1, 1), Source(Path(f"{function}.c"), ""), Region(0, 0, 0), tuple(parameters),
        known, every, tuple(statements), dict(sizes or {}),
        live_out=frozenset(every) - {array.name for array in inner},
    )  # fmt: skip
    body = generate(draft, InOrder((written(statements),)), in_locals=False)
    head = f"void {function}({', '.join([*(f'int {p}' for p in parameters), *(a.declaration for a in given)])})\n"
    before = "".join(f"{piece}\n" for piece in body.prologue)
    start = len(before) + len(head) + len("{\n") + len(_BEGIN)
    text = f"{before}{head}{{\n{_BEGIN}{body.region}\n{_END}}}\n"
    region = Region(start, start + len(body.region) + 1, len(before))
    return replace(draft, source=Source(Path(f"{function}.c"), text), region=region)
