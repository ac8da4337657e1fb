"""What an output depends on, as a rule of Make: `--depfile`, as compilers write it with -MD -MP."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from polydl.base.errors import InputError, ToolchainError
from polydl.base.files import write
from polydl.options import Options

SECONDS = 60
"""For `cc -M`."""


@dataclass(frozen=True, slots=True)
class Depfile:
    """What `--depfile` asks for."""

    path: Path
    more: tuple[Path, ...] = ()
    """Files that the options themselves were read from."""

    def write(self, output: Path, source: Path, options: Options) -> None:
        """Write what `output` depends on. Raises ToolchainError, InputError."""
        write(self.path, rule(output, prerequisites(source, options, self.more)))


def prerequisites(source: Path, options: Options, more: Iterable[Path] = ()) -> tuple[Path, ...]:
    """The files that the result of optimizing `source` depends on: itself, its headers, the machine file, the weights
    of the ranker, the schedule, objects that are linked, and `more`; each once, in this order, as they were named.

    Raises ToolchainError when the compiler does not list the headers.
    """
    named = (*options.link, options.ranker, str(options.machine or ""), str(options.schedule or ""))
    files = [Path(name) for name in named if name and Path(name).is_file()]
    return tuple(dict.fromkeys([source, *included(source, options), *files, *more]))


def included(source: Path, options: Options) -> tuple[Path, ...]:
    """Every header that a file includes, those of the system too, as `cc -M` lists them. Raises ToolchainError."""
    file = f"./{source}" if str(source).startswith("-") else str(source)
    command = [options.cc, "-M", "-x", "c", *options.unit_flags(), *options.cflags, file]
    try:
        done = subprocess.run(command, capture_output=True, timeout=SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ToolchainError(f"'{options.cc} -M' does not list the headers: {error}", hint="check --cc") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip()
        raise ToolchainError(f"'{options.cc} -M' does not list the headers: {said}", hint="check --cflags")
    return tuple(Path(name) for name in names(done.stdout.decode("utf-8", "surrogateescape")))[1:]


def rule(target: Path, files: Iterable[Path]) -> str:
    """A rule of Make by which the target depends on the files, and one without a recipe for each file but the first,
    so that Make goes on when a header is gone.

    Raises InputError for a name that Make cannot hold.
    """
    first, *rest = (escaped(file) for file in files)
    lines = [f"{escaped(target)}: {first}", *rest]
    text = " \\\n  ".join(lines) + "\n"
    return text + "".join(f"\n{name}:\n" for name in rest)


def escaped(path: Path) -> str:
    """A file name as Make reads it: spaces, # and the backslashes before them by a backslash, $ by another.

    Raises InputError for a line break, which Make has no way to write.
    """
    name = str(path)
    if "\n" in name or "\r" in name:
        raise InputError(f"{name!r} cannot stand in a makefile: it holds a line break", hint="rename it")
    made: list[str] = []
    backslashes = 0
    for character in name:
        if character in " \t#":
            made.append("\\" * (backslashes + 1))
        made.append("$$" if character == "$" else character)
        backslashes = backslashes + 1 if character == "\\" else 0
    return "".join(made)


def names(text: str) -> Iterator[str]:
    """The prerequisites in a rule of Make that a compiler wrote."""
    _, _, text = text.replace("\\\r\n", " ").replace("\\\n", " ").partition(": ")
    word = ""
    at = 0
    while at < len(text):
        end = at
        while end < len(text) and text[end] == "\\":
            end += 1
        count = end - at
        following = text[end : end + 1]
        if count and following in (" ", "\t", "#"):
            word += "\\" * (count // 2)
            if count % 2:
                word += following
                end += 1
        elif count:
            word += "\\" * count
        elif text.startswith("$$", at):
            word, end = word + "$", at + 2
        elif following.isspace():
            if word:
                yield word
            word, end = "", at + 1
        else:
            word, end = word + following, at + 1
        at = end
    if word:
        yield word
