"""The text of a command line as `Options`."""

from __future__ import annotations

import json
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polydl.base.errors import InputError

if TYPE_CHECKING:
    from polydl.options import Options


def _sizes(texts: list[str]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for part in (p for text in texts for p in text.split(",") if p.strip()):
        name, equals, value = (word.strip() for word in part.partition("="))
        try:
            number = int(value, 0)
        except ValueError:
            number, equals = 0, ""
        if not equals or not name.isidentifier():
            raise InputError(f"--size {part}: not NAME=INTEGER", hint="for example --size M=1024,N=512")
        if sizes.setdefault(name, number) != number:
            raise InputError(f"--size: {name} is {sizes[name]} and {number}", hint="give each name one value")
    return sizes


def _defines(texts: list[str]) -> dict[str, str]:
    defines = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not name.isidentifier():
            raise InputError(f"-D {text}: not NAME or NAME=VALUE", hint="for example -D N=1024")
        defines[name] = value if equals else "1"
    return defines


def _words(option: str, texts: list[str]) -> tuple[str, ...]:
    try:
        return tuple(word for text in texts for word in shlex.split(text))
    except ValueError as error:
        raise InputError(f"--{option}: {error}", hint="every quotation mark needs its partner") from None


def options(file: Path, compile_commands: Path | None, **given: Any) -> Options:
    """The options of a command on a file. Raises InputError."""
    from polydl.options import Options

    if compile_commands is not None:
        from polydl.cli.compile_commands import flags_for

        given["preprocessor_flags"] = flags_for(file, compile_commands)

    given["defines"] = _defines(given.pop("define"))
    given["sizes"] = _sizes(given.pop("size"))
    for name in ("cflags", "ldflags"):
        if name in given:
            given[name] = _words(name, given[name])
    ready: dict[str, Any] = {k: tuple(v) if isinstance(v, list) else v for k, v in given.items()}
    return Options(**ready, command=shlex.join(["polydl", *sys.argv[1:]]))


def print_json(document: object) -> None:
    sys.stdout.write(json.dumps(document, indent=2, allow_nan=False) + "\n")
