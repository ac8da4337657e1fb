"""What runs at other values of a function's integer parameters than those that it was tuned for, and what times it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from polydl.base.errors import InputError, InputErrors, QuotaExceeded
from polydl.lower.emit import Generated
from polydl.measure import MeasureOptions, Report
from polydl.model.scop import Scop
from polydl.options import Options
from polydl.rank.ranker import FloatArray
from polydl.search.loading import with_sizes
from polydl.search.proofs import proved_for_all_sizes
from polydl.search.sizes.blocks import every_size_in_blocks
from polydl.search.sizes.code import EverySize, Setting, Symbolic, Timer
from polydl.search.sizes.curve import way_times
from polydl.search.sizes.searched import every_size_of_searched
from polydl.search.sizes.timed_sizes import is_quick, sizes_to_time
from polydl.search.variant import Variant
from polydl.target import Machine

_LARGER = 32
"""By what factor sizes for which nothing is tuned are larger than the one that was given, at most."""


def code_for_other_sizes(
    scop: Scop, o: Options, searched: Sequence[Variant], machine: Machine, threads: int, timer: Timer | None = None
) -> EverySize | str:
    """Contractions in blocks, or the first and others of the variants that were searched with sizes as parameters; or
    why there is nothing but the original."""
    tuned = {guard.name: guard.value for guard in scop.guards if not guard.macro}
    if not tuned:
        return ""
    if (rows := pointed(scop)) is not None:
        return f"'{rows}' is an array of pointers to rows"
    if scop.only_with_sizes:
        return f"the loops are a region only where sizes are given: {scop.only_with_sizes}"
    try:
        symbolic = scop.symbolic or scop
        around = {name: _around(o.sizes.get(name, value)) for name, value in tuned.items()}
        program = Symbolic.of(symbolic, reassociate=o.reassociate)
        setting = Setting(machine, threads, o.reassociate, o.prove, o.effort)
        made = every_size_in_blocks(program, around, setting, timer)
        if isinstance(made, str):
            found = every_size_of_searched(program, around, searched, setting, timer)
            made = f"{made}; {found}" if isinstance(found, str) else found
        return proved_for_all_sizes(program, made, o)
    except InputErrors as error:
        return error.errors[0].reason
    except (InputError, QuotaExceeded) as error:
        return error.reason


def _around(given: int | range) -> tuple[int, int]:
    """The least and the greatest value of a parameter for which variants are compared."""
    if isinstance(given, range):
        return max(1, given.start), max(1, given.stop - 1)
    return 1, max(1, given * _LARGER)


def pointed(scop: Scop) -> str | None:
    """An array of pointers to rows."""
    return next((array.name for array in scop.arrays.values() if array.rows is not None), None)


def timer_of(scop: Scop, o: Options, report: Report, machine: Machine, options: MeasureOptions) -> Timer | None:
    """Times variants for any size, within `options.seconds`; None where no size is a parameter of the function."""
    tuned = {guard.name: guard.value for guard in scop.guards if not guard.macro}
    if not tuned or scop.symbolic is None or pointed(scop) is not None:
        return None

    def timed(codes: Mapping[int, Generated], sizes: Sequence[Mapping[str, int]]) -> FloatArray:
        names = [guard.name for guard in scop.guards if not guard.macro]
        own = [{name: one[name] for name in names if name in one} for one in sizes]
        first = report.original.median

        def reload(one: Mapping[str, int]) -> Scop:
            return with_sizes(scop, o, one)

        return way_times(scop, first, reload, codes, own, o.toolchain(), options)

    once = report.original.median
    quick = is_quick(scop.symbolic, tuned, once)
    return Timer(sizes_to_time(scop.symbolic, tuned, once, machine), timed, quick)
