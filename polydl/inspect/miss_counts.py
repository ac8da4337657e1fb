"""What `polydl misses` shows: the cache misses of a scop, or of a variant of it, counted exactly."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from polydl import pipeline
from polydl.base.errors import InputError
from polydl.base.records import dataclass
from polydl.frontend import Program
from polydl.inspect.explain import variant_called
from polydl.locality.lines import line_trace
from polydl.locality.lru_misses import AccessMisses, of_simulation
from polydl.locality.lru_misses import misses as of_lines
from polydl.locality.simulate import Cache, simulate
from polydl.model.counting import Count, total
from polydl.model.nest import TimedAccess, TimedNest
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.schedule.timed import original_nest, timed
from polydl.target import Machine

MOST_SIMULATED = 1 << 23
"""Accesses that are simulated where somebody asks for it: about a minute."""


@dataclass(frozen=True, slots=True)
class Counted:
    """Some accesses of a scop and their misses."""

    statement: str
    array: str
    write: bool
    misses: AccessMisses

    def to_data(self, levels: Iterable[str]) -> dict[str, Any]:
        """The entry of these accesses in a document: numbers of accesses; what is not exact has bounds."""
        capacity = dict(zip(levels, map(_count, self.misses.capacity), strict=True))
        return {
            "statement": self.statement,
            "array": self.array,
            "write": self.write,
            "accesses": _count(self.misses.accesses),
            "compulsory": _count(self.misses.compulsory),
            "capacity": capacity,
        }


@dataclass(frozen=True, slots=True)
class Misses:
    """The misses of a scop in the caches of a machine, which begin empty, one iteration after the other."""

    scop: Scop
    machine: Machine
    variant: str | None
    """Id of the variant; None: the program as it is written."""
    accesses: tuple[Counted, ...]
    """In the order in which they happen in an iteration."""
    simulated: bool
    """In caches of sets and ways. Then `capacity` counts misses for conflicts, too."""
    notes: tuple[str, ...]
    """What is not counted."""

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(f"L{cache.level}" for cache in self.machine.caches)

    @property
    def total(self) -> AccessMisses:
        """Of all accesses."""
        return _added(one.misses for one in self.accesses)

    @property
    def exact(self) -> bool:
        """Whether every number is."""
        whole = self.total
        return all(size.exact for size in (whole.compulsory, *whole.capacity))

    def by_array(self) -> tuple[tuple[str, str, AccessMisses], ...]:
        """(statement, array, misses of its accesses), in the order in which they come first."""
        keys = dict.fromkeys((one.statement, one.array) for one in self.accesses)
        return tuple(
            (*key, _added(one.misses for one in self.accesses if (one.statement, one.array) == key)) for key in keys
        )

    def to_data(self) -> dict[str, Any]:
        """The entry of this scop in the document of `polydl misses --json`."""
        whole = Counted("", "", False, self.total).to_data(self.levels)
        return {
            "function": self.scop.function,
            "file": str(self.scop.source.path),
            "line": self.scop.span.line,
            "sizes": dict(self.scop.sizes),
            "machine": self.machine.name,
            "caches": [
                {"level": f"L{c.level}", "bytes": c.bytes, "line_bytes": c.line_bytes, "ways": c.ways}
                for c in self.machine.caches
            ],
            "variant": self.variant,
            "simulated": self.simulated,
            "exact": self.exact,
            "accesses": [one.to_data(self.levels) for one in self.accesses],
            "total": {key: whole[key] for key in ("accesses", "compulsory", "capacity")},
            "notes": list(self.notes),
        }


def _count(count: Count) -> int | dict[str, int]:
    return count.lower if count.exact else {"at_least": count.lower, "at_most": count.upper}


def _added(several: Iterable[AccessMisses]) -> AccessMisses:
    found = tuple(several)
    levels = zip(*(one.capacity for one in found), strict=True)
    return AccessMisses(
        total(one.accesses for one in found),
        total(one.compulsory for one in found),
        tuple(total(level) for level in levels),
    )


def misses(
    source: str | Path | Program | Scop,
    variant: str | None = None,
    options: Options | None = None,
    *,
    stored_rows: bool = False,
    simulated: bool = False,
) -> Misses:
    """Compulsory and capacity misses of a scop, or of the only one of a program or of C, at each level of the machine.

    Caches are fully associative, with LRU replacement, and empty at the beginning; all loops run in order, on one core
    that has every cache for itself. Scalars are taken to be in registers. `variant` is an id, a unique prefix of one,
    `best` or a loop string with blocks; its packed copies are not counted. Every row of an array begins with a line, as
    in HayStack; with `stored_rows` only the array does, so that a line may hold the end of a row and the beginning of
    the next, which takes longer and may give bounds. `simulated`: caches of sets and ways as the machine has them
    instead, and rows as they are stored, by running through all accesses.

    Raises InputError for sizes that are not given, for a variant that is none, and for statements that touch several
    elements at a time; QuotaExceeded for more than MOST_SIMULATED accesses to simulate.

    >>> import polydl
    >>> found = polydl.misses("examples/matmul.c", options=polydl.Options(machine="epyc-zen5"))
    >>> found.exact, found.total.compulsory.value
    (True, 7400)
    """
    scop, options = pipeline.scop_of(source, options or Options())
    machine = options.target()
    chosen = None if variant is None else variant_called(variant, scop, options)
    program = scop if chosen is None else chosen.program
    if program.parameters:
        raise InputError(
            f"the misses depend on {', '.join(program.parameters)}", scop.span, hint="give sizes with -D or --size"
        )
    nest = original_nest(program) if chosen is None else timed(program, chosen.tree)
    kept, notes = _counted_accesses(program, nest)
    line_bytes = machine.caches[0].line_bytes
    layouts = {name: array.layout for name, array in program.arrays.items()}
    packed = [array.name for array in program.arrays.values() if array.layout.packed is not None]
    if simulated and packed:
        raise InputError(
            f"the lines of '{packed[0]}' are no simple function of its rows, which have different lengths",
            program.arrays[packed[0]].span,
            hint="leave out --simulate: misses are counted with each row beginning a line",
        )
    notes += tuple(f"rows of {name}, of different lengths, are counted as if each began with a line" for name in packed)
    if simulated:
        run = simulate(
            line_trace(replace(nest, accesses=kept), line_bytes, layouts, flat=True),
            [Cache(cache.sets, cache.ways) for cache in machine.caches],
            MOST_SIMULATED,
        )
        found = of_simulation(run)
    else:
        trace = line_trace(replace(nest, accesses=kept), line_bytes, layouts if stored_rows else None)
        notes += () if stored_rows else _apart(program, kept, line_bytes)
        found = of_lines(trace, [cache.bytes // line_bytes for cache in machine.caches])
    rows = tuple(Counted(a.statement, a.array, a.write, one) for a, one in zip(kept, found, strict=True))
    if chosen is not None and any(structure.packs for structure in chosen.structures):
        notes += ("packed copies of operands are not counted: accesses are those of the arrays",)
    return Misses(scop, machine, None if chosen is None else chosen.id, rows, simulated, notes)


def _counted_accesses(scop: Scop, nest: TimedNest) -> tuple[tuple[TimedAccess, ...], tuple[str, ...]]:
    """The accesses that are counted, and notes about others. Raises InputError for one of several elements."""
    for statement in scop.statements:
        for access in statement.accesses:
            if access.exact and not access.relation.is_single_valued():
                raise InputError(
                    f"{statement.name} touches several elements of {access.array} at once, in no known order",
                    access.span or statement.span,
                    hint="misses are counted of loops, not of calls",
                )
    gathered = {a.array: None for s in scop.statements for a in s.accesses if not a.exact}
    notes = tuple(f"accesses of {name} whose elements data choose are not counted" for name in gathered)
    return tuple(a for a in nest.accesses if scop.arrays[a.array].extents), notes


def _apart(scop: Scop, accesses: Iterable[TimedAccess], line_bytes: int) -> tuple[str, ...]:
    """What is said of arrays whose rows are no whole number of lines."""
    found = []
    for name in dict.fromkeys(access.array for access in accesses):
        array = scop.arrays[name]
        row = array.shape[-1] if len(array.shape) > 1 else None
        if row is not None and row * array.element.bytes % line_bytes:
            found.append(f"rows of {name} ({row * array.element.bytes} bytes) are counted as if each began with a line")
    return tuple(found)
