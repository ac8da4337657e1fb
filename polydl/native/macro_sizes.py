"""Tells sizes of macros from sizes of variables, which `polydl.compile` takes together by name."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import index
from pathlib import Path

from polydl.base.errors import InputError, one_of
from polydl.base.flags import by_name
from polydl.frontend import Parsed
from polydl.native.signature import variables
from polydl.options import Options

_INTEGER = r"\b(?:char|short|int|long|signed|unsigned|\w+_t)"
"""What stands before the name of an integer variable where it is declared."""


def with_sizes(
    path: Path, sizes: Mapping[str, int | range], options: Options, read: Callable[[Options], Parsed]
) -> Options:
    """The options with these sizes added: those of variables of the file to `sizes`, the others to `defines`. `read`
    parses the file.

    Raises InputError for a name that does not occur in the file, and for a size that is no integer.
    """
    by_name("sizes", sizes, integers=True)
    if not sizes:
        return options
    values = {name: value if isinstance(value, range) else index(value) for name, value in sizes.items()}
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
        known = variables(read(options).unit)
    except OSError:
        return replace(
            options, defines={**options.defines, **_integers(values)}
        )  # reading the file for its scops reports the error
    except InputError:
        # The file may not be readable without the macros; what stands behind a type is none of them.
        known = frozenset(name for name in values if re.search(rf"{_INTEGER}\s+{re.escape(name)}\b", text))
    macros = {name: value for name, value in values.items() if name not in known}
    if ranges := [name for name, value in macros.items() if isinstance(value, range)]:
        raise InputError(f"'{ranges[0]}' is no parameter of a function: it has one value", hint="give an integer")
    for name in macros:
        if not re.search(rf"\b{re.escape(name)}\b", text) and "#include" not in text.replace(" ", ""):
            words = sorted(known | set(re.findall(r"^\s*#\s*(?:define|ifndef|ifdef)\s+(\w+)", text, re.MULTILINE)))
            raise InputError(f"{path} has nothing called '{name}'", hint=one_of(name, words) if words else None)
    for name, given in {**options.defines, **options.sizes}.items():
        if name in values and str(given) != str(values[name]):
            raise InputError(f"'{name}' is {values[name]} and {given}", hint="give it once")
    variable_sizes = {name: value for name, value in values.items() if name in known}
    return replace(options, defines={**options.defines, **_integers(macros)}, sizes={**options.sizes, **variable_sizes})


def _integers(values: Mapping[str, int | range]) -> dict[str, int]:
    return {name: value for name, value in values.items() if isinstance(value, int)}
