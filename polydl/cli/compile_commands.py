"""Reads the flags that a build system compiles a file with from its compile_commands.json.

Format: JSON Compilation Database Format Specification (Clang documentation). Only the flags of the preprocessor are
taken, since the optimisations that a file is compiled with do not change what it computes.
"""

from __future__ import annotations

import json
import shlex
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path

from polydl.base.errors import InputError, one_of
from polydl.base.records import dataclass

NAME = "compile_commands.json"
_WITH_WORD = ("-D", "-U")
"""Options with a value that is no path; it may be the next argument."""
_WITH_FOLDER = ("-I", "-isystem", "-iquote", "-idirafter", "-isysroot", "--sysroot")
"""Options with a path, relative to the folder of the command."""
_WITH_HEADER = ("-include", "-imacros")
"""Options with a header. One that is no file in the folder of the command is searched for like `#include "…"`."""
_WITHOUT_VALUE = ("-ansi", "-nostdinc", "-undef", "-pthread", "-fopenmp", "-trigraphs")
_STANDARD = ("-std=", "--std=")
_MOST_NESTED = 8
"""Depth to which response files may name each other."""


@dataclass(frozen=True, slots=True)
class _Command:
    """One entry: a command that compiles a file."""

    file: Path
    folder: Path
    arguments: tuple[str, ...]


def database(path: Path) -> Path:
    """The database that a folder or a file stands for. Raises InputError when there is none."""
    found = path / NAME if path.is_dir() else path
    if not found.is_file():
        hint = "CMake writes it with -DCMAKE_EXPORT_COMPILE_COMMANDS=ON, for Make there is Bear"
        raise InputError(f"there is no compilation database {found}", hint=hint)
    return found


def flags_for(source: Path, database_or_folder: Path) -> tuple[str, ...]:
    """The preprocessor flags that a file is compiled with, in their order, with absolute paths.

    `database_or_folder` is a compile_commands.json or its folder. Of several entries for the file the first counts,
    with a warning when another has different flags. Raises InputError when the database cannot be read or has no entry
    for the file.
    """
    path = database(database_or_folder)
    commands = list(_commands(path))
    resolved = source.resolve()
    found = [c for c in commands if c.file.resolve() == resolved]
    if not found:
        names = [c.file.name for c in commands]
        near = one_of(source.name, dict.fromkeys(names)) if 0 < len(names) <= 20 else f"it has {len(names)} files"
        raise InputError(
            f"{path} does not say how {source} is compiled", hint=f"build it once, or give -D and -I; {near}"
        )
    flags = [preprocessor_flags(c.arguments, c.folder) for c in found]
    if any(other != flags[0] for other in flags[1:]):
        warnings.warn(f"{path} compiles {source} with different flags: the first ones are taken", stacklevel=2)
    return flags[0]


def _commands(path: Path) -> Iterator[_Command]:
    """The entries of a database. Raises InputError where it is not of the format."""
    try:
        entries = json.loads(path.read_bytes())
    except OSError as error:
        raise InputError(f"cannot read {path}: {error.strerror}") from error
    except ValueError as error:
        raise InputError(f"{path} is no JSON: {error}", hint="let the build system write it again") from error
    if not isinstance(entries, list):
        raise InputError(f"{path} is no compilation database: not a list", hint="let the build system write it again")
    for number, entry in enumerate(entries):
        match entry:
            case {"directory": str(folder), "file": str(file), "arguments": list(arguments)}:
                words = tuple(str(a) for a in arguments)
            case {"directory": str(folder), "file": str(file), "command": str(command)}:
                try:
                    words = tuple(shlex.split(command))
                except ValueError as error:
                    raise InputError(f"{path}: the command of entry {number} ({file}): {error}") from error
            case _:
                raise InputError(
                    f"{path}: entry {number} is no command", hint="it needs directory, file, and arguments or command"
                )
        # A relative folder is relative to that of the database.
        place = path.absolute().parent / folder
        yield _Command(place / file, place, words)


def preprocessor_flags(arguments: Sequence[str], folder: Path) -> tuple[str, ...]:
    """The preprocessor flags in a compiler's command line, with paths made absolute against `folder`. Raises InputError
    for a response file that cannot be read."""
    flags: list[str] = []
    words = iter(list(_expanded(arguments[1:], folder, 0)))
    for word in words:
        if word in _WITHOUT_VALUE or word.startswith(_STANDARD):
            flags.append(word)
            continue
        option = _option(word)
        if option is None:
            continue
        joined = word[len(option) :].removeprefix("=" if option.startswith("--") else "")
        value = joined or next(words, "")
        if option in _WITH_WORD:
            flags.append(option + value)
        elif option == "-I":
            flags.append(f"-I{folder / value}")
        elif option in _WITH_FOLDER:
            flags += [option, str(folder / value)]
        else:
            flags += [option, str(folder / value) if (folder / value).is_file() else value]
    return tuple(flags)


def _option(word: str) -> str | None:
    """The option with a value that an argument is, or begins with where the value is joined to it, as in `-Ifolder`."""
    for option in (*_WITH_FOLDER, *_WITH_HEADER):
        if word == option or (option != "-I" and word.startswith(option) and option.startswith("-i")):
            return option
        if option.startswith("--") and word.startswith(f"{option}="):
            return option
    return next((option for option in (*_WITH_WORD, "-I") if word.startswith(option)), None)


def _expanded(arguments: Sequence[str], folder: Path, depth: int) -> Iterator[str]:
    """The arguments, with the contents of response files in place of `@FILE`."""
    for word in arguments:
        if not word.startswith("@"):
            yield word
            continue
        if depth == _MOST_NESTED:
            raise InputError(f"response files are nested more than {_MOST_NESTED} deep: {word}")
        try:
            text = (folder / word[1:]).read_text(encoding="utf-8", errors="surrogateescape")
            inside = shlex.split(text)
        except (OSError, ValueError) as error:
            raise InputError(f"cannot read the response file {word[1:]}: {error}") from error
        yield from _expanded(inside, folder, depth + 1)
