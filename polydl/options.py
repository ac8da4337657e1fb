"""What can be asked for: `Options`. Its fields are the keywords of the Python API and the options of the command line.

An option is stated once, here: what it means, its type and default, which values it may have, how it is written on the
command line, and which commands take it.
"""

from __future__ import annotations

import math
import os
import platform
from collections.abc import Iterable, Mapping
from dataclasses import field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

from polydl.base.effort import Effort
from polydl.base.errors import InputError, one_of
from polydl.base.flags import check, definitions, files, option, seconds, shell_words, sizes
from polydl.base.records import dataclass

if TYPE_CHECKING:  # the command line reads this file to print its help, and these take their time
    from polydl.measure import MeasureOptions, Toolchain
    from polydl.target import Machine

SPACES = ("small", "default", "wide")
"""The names of the spaces of variants, the smallest first."""
_READING = ("optimize", "rank", "explain", "analyze", "misses", "fuse", "export")
"""The commands that read C."""
_RANKING = ("optimize", "rank", "explain", "misses")
_MEASURING = ("optimize", "explain")


def _rankers() -> Iterable[str]:
    from polydl.rank.plugged import installed
    from polydl.rank.rankers import NAMES

    return (*NAMES, *installed())


def _machines() -> Iterable[str]:
    from polydl.target import preset_names

    return preset_names()


def _isas() -> Iterable[str]:
    from polydl.target.isa import ISAS

    return tuple(one.name for one in ISAS)


@dataclass(frozen=True, slots=True)
class Options:
    """What can be asked for; every field is an option of the command line and a keyword of the Python API.

    `polydl COMMAND --help` and docs/cli.md list them. Making one raises InputError for a value that is not allowed and
    TypeError for a string where a sequence is meant.
    """

    defines: Mapping[str, str | int] = option(
        {}, "Define a macro, as for the compiler.", _READING, "-D", metavar="NAME[=VALUE]", read=definitions
    )
    undefines: tuple[str, ...] = option((), "Undefine a macro.", _READING, "-U", metavar="NAME")
    include_dirs: tuple[str | Path, ...] = option((), "Search a folder for headers.", _READING, "-I", metavar="DIR")
    preprocessor_flags: tuple[str, ...] = ()
    """More flags of the preprocessor (-isystem, -include, -std=…), one argument each, before those above. On the
    command line they come from a compile_commands.json."""
    sizes: Mapping[str, int | range] = option(
        {},
        "Tune for these values of integer function parameters; LEAST..GREATEST: for all of these, by estimates.",
        _READING,
        "--size",
        metavar="N=V,…",
        read=sizes,
    )
    function: str | None = option(None, "Only the scops of this function.", _READING, metavar="F")
    ranker: str = option(
        "traffic",
        "How variants are ranked: the name of a ranker, as traffic or dnn, or a file of trained weights.",
        _RANKING,
        metavar="R",
        words=_rankers,
        suffix=".safetensors",
    )
    top_k: int = option(
        5, "Variants compiled, checked and timed.", ("optimize",), "--top-k", "-k", metavar="K", least=1
    )
    threads: int | None = option(
        None,
        "Threads of the timed runs; with one, no loop of the code is parallel; default: every core this process may "
        "use, or those of --machine.",
        (*_RANKING, "collect"),
        metavar="T",
        least=1,
    )
    space: str = option(
        "default",
        "How many variants are ranked.",
        (*_RANKING, "collect"),
        metavar="|".join(SPACES),
        words=lambda: SPACES,
        only_words=True,
    )
    machine: str | Path | None = option(
        None,
        "The machine to rank for, a TOML file or the name of a preset; default: this one, as detected.",
        (*_RANKING, "analyze", "machine"),
        metavar="TOML",
        words=_machines,
        suffix=".toml",
    )
    isa: str | None = option(
        None,
        "Keep to this vector instruction set: avx512, avx2 or generic; default: the widest that the machine has.",
        (*_RANKING, "collect", "machine"),
        metavar="ISA",
        words=_isas,
        only_words=True,
    )
    strict: bool = option(False, "Refuse a file of which one region is refused.", _READING)
    strict_alias: bool = option(
        False,
        "Refuse arrays that might overlap where the output cannot ask, instead of assuming that they do not.",
        _READING,
    )
    assume_pure: tuple[str, ...] = option(
        (), "Take it that this function has no effects and uses its arguments alone.", _READING, metavar="FUNCTION"
    )
    reassociate: bool = option(
        True, "Sums may be added up in another order.", (*_RANKING, "export"), off="Keep the order of every sum."
    )
    learn: bool = option(
        True,
        "Keep the times of a run, and choose what later runs on this machine time by what they say of estimates.",
        ("optimize",),
        off="Neither keep times nor use those that were kept.",
    )
    fast_math: bool = option(
        False,
        "Approximate exp, tanh and erf in vectors (relative error 2^-17); drop tests that skip products with zero.",
        _RANKING,
    )
    seed: int = option(0, "Seed of the input data.", (*_MEASURING, "collect"), metavar="SEED", least=0)
    cc: str = option(
        "cc", "The C compiler: a name on PATH or a path, without flags.", (*_READING, "doctor"), metavar="COMPILER"
    )
    cflags: tuple[str, ...] = option(
        (), "More compiler flags, after -O3 -march=native -fopenmp.", _MEASURING, metavar="FLAGS", read=shell_words
    )
    ldflags: tuple[str, ...] = option(
        (), "More linker flags, after -lm.", _MEASURING, metavar="FLAGS", read=shell_words
    )
    link: tuple[str, ...] = option((), "Object or library with your microkernels.", _MEASURING, metavar="FILE.o")
    timeout: float | None = option(
        None,
        "Seconds that one run of the nest may take; default: 60 for a variant, any number for the original.",
        _MEASURING,
        metavar="SECONDS",
    )
    budget: float | None = option(
        20.0,
        "Seconds for compiling, checking and timing a file's variants, runs of the original not counted, and for code "
        "for other sizes: variants not begun when they are spent are left out, and with less than 20 for each region "
        "fewer ways are compared at fewer sizes; none: no limit.",
        ("optimize",),
        metavar="SECONDS|none",
        read=seconds,
    )
    data: Mapping[str, Any] = option(
        {},
        "Measure with these data in an array, such as the subscripts of a real mesh; from Python also values.",
        ("optimize",),
        metavar="NAME=FILE.npy",
        read=files,
    )
    cold: bool = option(False, "Time with flushed caches.", _MEASURING)
    loops: str = option(
        "", "The variant of this loop string, as bcaBCb, instead of a search.", ("optimize", "misses"), metavar="STRING"
    )
    blocks: str = option(
        "", "Tile sizes and microkernel of --loops, as b=12,4;c=8;mk=14x32:k.", ("optimize", "misses"), metavar="SIZES"
    )
    schedule: str | Path | None = option(
        None,
        "The order of this schedule tree (isl's YAML) instead of a search.",
        ("optimize", "rank"),
        metavar="FILE.yaml",
        suffix=".yaml",
    )
    prove: bool = option(
        False, "Read the variants' C back and prove it equivalent, before any of them runs.", ("optimize",)
    )
    oracle: bool = option(
        True,
        "Call the output beside the source on tiny sizes and adversarial data.",
        ("optimize",),
        off="Do not call the output beside the source.",
    )
    fuse: bool = option(
        True,
        "Try variants with element-wise nests fused into others, and neighbouring nests into one.",
        ("optimize",),
        off="Leave the nests apart.",
    )
    prepack: tuple[str, ...] = option(
        (),
        "An array that stays the same from run to run: packed once, by a function FUNCTION_pack, untimed.",
        ("optimize",),
        metavar="ARRAY",
    )
    scratch: int | None = option(
        None,
        "Bytes of memory of its own that a variant may take for one thread (packed copies, parts of arrays), what "
        "threads share counted in full; default: any number.",
        ("optimize",),
        metavar="BYTES",
        least=0,
    )
    curve: int = option(
        0,
        "Time the output at so many sizes beside the original, within the budget; with --no-run, estimate it.",
        ("optimize",),
        metavar="POINTS",
        least=0,
    )
    effort: Effort = field(default_factory=Effort)
    """What bounds the search for code for the sizes that were not tuned."""
    command: str = ""
    """The command line, for the output's header."""

    def __post_init__(self) -> None:
        check(self)
        if self.blocks and not self.loops:
            raise InputError("blocks without a loop string", hint="give --loops too, as in --loops aBc --blocks c=8")
        if self.schedule is not None and (self.loops or self.prepack):
            raise InputError("a schedule beside a loop string or packed arrays", hint="give one of them")
        if self.timeout is not None and not 0 < self.timeout < math.inf:
            raise InputError(f"timeout is {self.timeout}", hint="--timeout takes a positive number of seconds")
        if self.budget is not None and not 0 < self.budget < math.inf:
            raise InputError(f"budget is {self.budget}", hint="--budget takes a positive number of seconds, or none")

    @property
    def tuned(self) -> dict[str, int]:
        """A value for each of `sizes`: of a range a quarter of the greatest, where it holds that."""
        return {n: max(v.start, (v.stop - 1) // 4) if isinstance(v, range) else v for n, v in self.sizes.items()}

    def changed(self, **changes: Unpack[OptionChanges]) -> Options:
        """These options with some fields replaced. Raises TypeError for a name that is no field."""
        known = [f.name for f in fields(self)]
        for name in changes:
            if name not in known:
                raise TypeError(f"there is no option '{name}'; {one_of(name, known)}")
        return replace(self, **changes)

    def including(self, folders: tuple[Path, ...]) -> Options:
        """These options with more folders to look for what a file includes, after the others."""
        return replace(self, include_dirs=(*self.include_dirs, *folders)) if folders else self

    def toolchain(self) -> Toolchain:
        """The compiler with the default flags and the user's. Raises InputError when a file to link is not there."""
        from polydl.measure import Toolchain
        from polydl.target import length_flags, narrowing_flags

        for item in self.link:
            if not item.startswith("-") and not Path(item).exists():
                raise InputError(f"there is no file {item} to link", hint="check --link; libraries are named as -lNAME")
        plain = Toolchain(cc=self.cc)
        own = length_flags(self.target()) if self.long and platform.machine() == "aarch64" else ()
        return replace(
            plain,
            cflags=(*plain.cflags, *narrowing_flags(self.isa), *own, *self.cflags),
            ldflags=(*plain.ldflags, *self.ldflags),
            link=(*plain.link, *self.link),
        )

    @property
    def long(self) -> str:
        """The long vectors of a fixed length that the code is made for: those that a machine is said to have. No
        machine is found to have them: what their length is compilers must be told."""
        from polydl.target.isa import long_vectors

        return "" if self.machine is None else long_vectors(self.target().simd.isa)

    def measuring(self, threads: int) -> MeasureOptions:
        """How variants are checked and timed; without the budget, which is for a whole file."""
        from polydl.measure import MeasureOptions

        how = MeasureOptions(threads=threads, seed=self.seed, cold=self.cold, data=self.data)
        return how if self.timeout is None else replace(how, timeout=self.timeout, original_timeout=self.timeout)

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
        from polydl.target import detect, load, narrowed, preset, preset_names

        if self.machine is None:
            return detect(isa=self.isa)
        if self.isa is not None:
            return narrowed(replace(self, isa=None).target(), self.isa)
        name, path = str(self.machine), Path(self.machine)
        if name in preset_names():
            return preset(name)
        if not path.exists() and path.suffix != ".toml":
            raise InputError(
                f"there is no machine file and no preset called '{name}'",
                hint=f"name a TOML file, or a preset: {one_of(name, preset_names())}",
            )
        return load(path)

    def thread_count(self, machine: Machine) -> int:
        """Threads of the timed runs."""
        return self.threads or (machine.cores if self.machine else len(os.sched_getaffinity(0)))


# The keywords that set fields of `Options`, for type checkers, which cannot derive them from the dataclass. The text
# below is made from the fields: after a change, `pytest tests/api/test_keywords.py --update-golden` writes it anew.


class CommonChanges(TypedDict, total=False):
    """The keywords that every function takes."""

    defines: Mapping[str, str | int]
    undefines: tuple[str, ...]
    include_dirs: tuple[str | Path, ...]
    preprocessor_flags: tuple[str, ...]
    function: str | None
    top_k: int
    threads: int | None
    isa: str | None
    strict: bool
    strict_alias: bool
    assume_pure: tuple[str, ...]
    reassociate: bool
    learn: bool
    fast_math: bool
    seed: int
    cc: str
    cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    link: tuple[str, ...]
    timeout: float | None
    budget: float | None
    data: Mapping[str, Any]
    cold: bool
    loops: str
    blocks: str
    schedule: str | Path | None
    prove: bool
    oracle: bool
    fuse: bool
    prepack: tuple[str, ...]
    scratch: int | None
    curve: int
    effort: Effort
    command: str


class RankChanges(CommonChanges, total=False):
    """The keywords of `rank`, of which some fields are parameters."""

    sizes: Mapping[str, int | range]


class CompileChanges(CommonChanges, total=False):
    """The keywords of `compile`, of which some fields are parameters."""

    ranker: str
    space: str
    machine: str | Path | None


class OptionChanges(CompileChanges, RankChanges, total=False):
    """All keywords."""
