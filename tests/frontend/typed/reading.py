"""C for tests of the core: text and files as the front end parses them, before anything is rewritten."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from polydl.base.recursion import deep
from polydl.frontend.text.parse import Unit, parse
from polydl.frontend.text.pragmas import find_pragmas
from polydl.frontend.text.preprocess import preprocess
from polydl.frontend.text.scan import SourceText, without_digraphs
from polydl.frontend.typed.nodes import Program
from polydl.frontend.typed.resolve import resolve


def unit_of(text: str, name: str = "in.c", folder: str = ".", flags: Sequence[str] = ()) -> Unit:
    """The parsed file. Raises InputErrors."""
    source = SourceText(name, without_digraphs(text))
    pragmas, _ = find_pragmas(source)
    preprocessed = preprocess(source, pragmas, flags, folder, "cc")
    active = {int(number) for number in re.findall(r"#pragma polydl (\d+)", preprocessed.text)}
    return parse(source, [one for one in pragmas if one.index in active], preprocessed, True)


def core_of(text: str, name: str = "in.c", folder: str = ".", flags: Sequence[str] = ()) -> Program:
    with deep():
        return resolve(unit_of(text, name, folder, flags))


def core_of_file(path: Path, flags: Sequence[str] = ()) -> Program:
    return core_of(path.read_text(encoding="utf-8"), str(path), str(path.parent), flags)
