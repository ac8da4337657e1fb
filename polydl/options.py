"""What can be asked for: `Options`; its fields are the command line's options and the Python API's keywords."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import TypedDict, Unpack

from polydl.base.errors import InputError, one_of
from polydl.measure import Toolchain
from polydl.target import Machine, detect, preset, preset_names
from polydl.target import load as load_machine


class CommonChanges(TypedDict, total=False):
    """The keywords that set fields of `Options`, for type checkers: same names, same types. Some functions take some
    of the fields as parameters of their own; these are the others."""

    function: str | None
    defines: Mapping[str, str | int]
    undefines: tuple[str, ...]
    include_dirs: tuple[str | Path, ...]
    preprocessor_flags: tuple[str, ...]
    top_k: int
    threads: int | None
    strict_alias: bool
    reassociate: bool
    fast_math: bool
    fuse: bool
    seed: int
    cc: str
    cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    link: tuple[str, ...]
    timeout: float
    cold: bool
    loops: str
    blocks: str
    schedule: str | Path | None
    prepack: tuple[str, ...]
    prove: bool
    command: str


class RankChanges(CommonChanges, total=False):
    """The keywords of `rank`."""

    sizes: Mapping[str, int]


class CompileChanges(CommonChanges, total=False):
    """The keywords of `compile`."""

    space: str
    ranker: str
    machine: str | Path | None


class OptionChanges(CompileChanges, RankChanges, total=False):
    """All of the keywords."""


@dataclass(frozen=True, slots=True)
class Options:
    """What can be asked for; every field is an option of the command line and a keyword of the Python API.

    Making one raises InputError for a value out of range and TypeError for a string where a sequence is meant.
    """

    function: str | None = None
    """Only the scops of this function."""
    defines: Mapping[str, str | int] = field(default_factory=dict)
    """-D macros, name to value."""
    undefines: tuple[str, ...] = ()
    """-U macros."""
    include_dirs: tuple[str | Path, ...] = ()
    """-I folders."""
    preprocessor_flags: tuple[str, ...] = ()
    """More flags of the preprocessor (-isystem, -include, -std=…), one argument each, before those above."""
    sizes: Mapping[str, int] = field(default_factory=dict)
    """Values of integer function parameters to tune for."""
    space: str = "default"
    """`small`, `default` or `wide`."""
    ranker: str = "traffic"
    """How variants are ranked: `traffic`, `trace`, `cost`, `dnn`, `dnn-paper`, or a file of trained weights."""
    top_k: int = 5
    """Variants compiled, checked and timed, >= 1."""
    threads: int | None = None
    """Threads of the timed runs, >= 1; None: every core this process may use (of `machine`, when one is given)."""
    machine: str | Path | None = None
    """TOML file or preset name; None: detected."""
    strict_alias: bool = False
    """Refuse arrays that might overlap, instead of assuming that they do not."""
    reassociate: bool = True
    """Sums may be added up in another order."""
    fuse: bool = True
    """Variants with element-wise nests fused into others, and neighbouring nests into one, are candidates too."""
    fast_math: bool = False
    """Vectors may take quicker approximations of mathematical functions (polydl.kernels.vector_text.FAST)."""
    seed: int = 0
    """Of the input data, >= 0."""
    cc: str = "cc"
    """The C compiler: a name on PATH or a path, no flags."""
    cflags: tuple[str, ...] = ()
    """Added to -O3 -march=native -fopenmp, one argument each."""
    ldflags: tuple[str, ...] = ()
    """Added to -lm, one argument each."""
    link: tuple[str, ...] = ()
    """Object files and libraries with the microkernels."""
    timeout: float = 60.0
    """Seconds that one run of the nest may take, > 0."""
    cold: bool = False
    """Time with flushed caches."""
    loops: str = ""
    """A loop string (polydl.schedule.loopstring): this variant instead of a search; empty: a search."""
    blocks: str = ""
    """Tile sizes and microkernel of `loops`, as in `b=12,4;c=8;mk=14x32:k`."""
    schedule: str | Path | None = None
    """A schedule tree of isl's as YAML (polydl.interchange): this order instead of a search."""
    prepack: tuple[str, ...] = ()
    """Arrays that do not change from run to run: packed ahead of time by a function `<function>_pack` of the output,
    outside of what is timed."""
    prove: bool = False
    """Before anything is compiled, hold the C of each variant against the file (polydl.prove); what is shown to be
    wrong is dropped."""
    command: str = ""
    """The command line, for the output's header."""

    def __post_init__(self) -> None:
        for name in ("undefines", "include_dirs", "preprocessor_flags", "cflags", "ldflags", "link", "prepack"):
            if isinstance(getattr(self, name), str):
                raise TypeError(f"{name} is a sequence of strings, one for each argument, not one string")
        for name, least in (("top_k", 1), ("threads", 1), ("seed", 0)):
            value = getattr(self, name)
            if value is not None and value < least:
                raise InputError(f"{name} is {value}", hint=f"give {least} or more")
        if self.blocks and not self.loops:
            raise InputError("blocks without a loop string", hint="give --loops too, as in --loops aBc --blocks c=8")
        if self.schedule is not None and (self.loops or self.prepack):
            raise InputError("a schedule beside a loop string or packed arrays", hint="give one of them")
        if not 0 < self.timeout < math.inf:
            raise InputError(f"timeout is {self.timeout}", hint="give a positive number of seconds")

    def changed(self, **changes: Unpack[OptionChanges]) -> Options:
        """These options with some fields replaced. Raises TypeError for a name that is no field."""
        known = [f.name for f in fields(self)]
        for name in changes:
            if name not in known:
                raise TypeError(f"there is no option '{name}'; {one_of(name, known)}")
        return replace(self, **changes)

    def toolchain(self) -> Toolchain:
        """The compiler with the default flags and the user's. Raises InputError when a file to link is not there."""
        for item in self.link:
            if not item.startswith("-") and not Path(item).exists():
                raise InputError(f"there is no file {item} to link", hint="check --link; libraries are named as -lNAME")
        plain = Toolchain(cc=self.cc)
        return replace(
            plain,
            cflags=(*plain.cflags, *self.cflags),
            ldflags=(*plain.ldflags, *self.ldflags),
            link=(*plain.link, *self.link),
        )

    def unit_flags(self) -> tuple[str, ...]:
        """All flags of the preprocessor, in the order in which they are given."""
        return (
            *self.preprocessor_flags,
            *(f"-D{name}={value}" for name, value in self.defines.items()),
            *(f"-U{name}" for name in self.undefines),
            *(f"-I{folder}" for folder in self.include_dirs),
        )

    def target(self) -> Machine:
        """The machine to rank for. Raises InputError."""
        if self.machine is None:
            return detect()
        name, path = str(self.machine), Path(self.machine)
        if name in preset_names():
            return preset(name)
        if not path.exists() and path.suffix != ".toml":
            raise InputError(
                f"there is no machine file and no preset called '{name}'",
                hint=f"name a TOML file, or a preset: {one_of(name, preset_names())}",
            )
        return load_machine(path)

    def thread_count(self, machine: Machine) -> int:
        """Threads of the timed runs."""
        return self.threads or (machine.cores if self.machine else len(os.sched_getaffinity(0)))
