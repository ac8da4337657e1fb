"""`--depfile`: writes the files that an output depends on as a rule of Make, as compilers do with -MD -MP."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from polydl.base.errors import InputError
from polydl.base.output_files import output_path, write
from polydl.cli.compile_commands import database
from polydl.options import Options


@dataclass(frozen=True, slots=True)
class Depfile:
    """What `--depfile` asks for."""

    path: Path
    more: tuple[Path, ...] = ()
    """Files that options were read from."""

    @classmethod
    def at(cls, source: Path, path: str, compile_commands: Path | None) -> Depfile:
        """The one that `--depfile path` asks for. Raises InputError when nothing can be written there."""
        return cls(output_path(source, path), () if compile_commands is None else (database(compile_commands),))

    def write(self, output: Path, source: Path, options: Options) -> None:
        """Write what `output` depends on. Raises ToolchainError, InputError."""
        write(self.path, rule(output, prerequisites(source, options, self.more)))


def prerequisites(source: Path, options: Options, more: Iterable[Path] = ()) -> tuple[Path, ...]:
    """The files that the result of optimizing `source` depends on, each once and named as the user did: the source,
    its headers, files that are linked, the weights of the ranker, the machine file, the schedule, and `more`.

    Raises ToolchainError when the compiler does not list the headers.
    """
    from polydl.measure.includes import included

    named = (*options.link, options.ranker, str(options.machine or ""), str(options.schedule or ""))
    files = [Path(name) for name in named if name and Path(name).is_file()]
    headers = included(source, options.cc, (*options.unit_flags(), *options.cflags))
    return tuple(dict.fromkeys([source, *headers, *files, *more]))


def rule(target: Path, files: Iterable[Path]) -> str:
    """A rule of Make that says what the target depends on. Each file but the first gets an empty rule of its own, so
    that Make does not stop when a header was removed.

    Raises InputError for a name that Make cannot hold.
    """
    first, *rest = (escaped(file) for file in files)
    lines = [f"{escaped(target)}: {first}", *rest]
    text = " \\\n  ".join(lines) + "\n"
    return text + "".join(f"\n{name}:\n" for name in rest)


def escaped(path: Path) -> str:
    """A file name as it is written in a makefile: `\\` before spaces and #, and `$$` for `$`.

    Raises InputError for a name with a line break, which makefiles cannot express.
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
