"""Sizes at which what was chosen for the sizes that nobody tuned is timed, beside the original loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from polydl.model.at_sizes import at_sizes, instances
from polydl.model.scop import Scop
from polydl.search.default_sizes import touched_bytes
from polydl.search.sizes.size_points import nearest_possible
from polydl.target import Machine

_SMALL, _LARGE = 1 / 64, 64.0
"""By what factor sizes are smaller and larger than the tuned ones, at most."""
_STEP = 2.0**0.5
_STEPS = 32
"""Steps down at most to a size at which a run is short."""
_PAST = 2.0
"""Data that are past the last cache, in last caches."""
_MOST_BYTES = 1 << 26
"""Of data past which sizes don't grow, whatever the last cache holds: to make, run and compare a gigabyte takes 20
seconds and more."""
_RUN_SECONDS = 0.1
"""Of one run of the original at a size that is timed, at most, by its time at the tuned one."""
_TUNED_SECONDS = 0.3
"""Of one run at the tuned sizes, beyond which smaller ones stand for them: checking and timing takes dozens of runs."""
_OTHER_SHAPE = 4
"""By how much one size grows and another one shrinks."""


def sizes_to_time(scop: Scop, tuned: Mapping[str, int], seconds: float, machine: Machine) -> list[dict[str, int]]:
    """Up to four sizes, all different: the tuned ones (where a run takes long, the largest in their proportions that
    don't), some whose data fit in the first cache, some whose data don't fit in the last, and another shape; none whose
    run would take long. All but the tuned ones are odd numbers.

    `scop`: with its sizes as parameters; `seconds`: of one run of the original at the `tuned` ones.
    """
    ends = {name: (1, max(1, round(value * _LARGE))) for name, value in tuned.items()}
    is_short = is_quick(scop, tuned, seconds)

    def at(factors: Mapping[str, float]) -> Scop | None:
        """The program at sizes near these parts of the tuned ones; None where there are none, or a run is too long."""
        wanted = {name: max(1, round(value * factors[name])) | 1 for name, value in tuned.items()}
        possible = nearest_possible(scop.context, ends, wanted)
        return None if possible is None or not is_short(possible) else at_sizes(scop, possible)

    def scaled(first: float, end: float, enough: Callable[[Scop], bool]) -> Scop | None:
        """The program at the first multiple of the tuned sizes, from one on, that is enough; else at the last one."""
        found, factor = None, first
        while (there := at(dict.fromkeys(tuned, factor))) is not None:
            found = there
            if enough(there) or factor == end:
                break
            factor = max(end, factor / _STEP) if first < 1 else min(end, factor * _STEP)
        return found

    last = min(machine.caches[-1].bytes * _PAST, _MOST_BYTES)
    smaller = (_STEP**-n for n in range(1, _STEPS))
    shorter = next((factor for factor in smaller if at(dict.fromkeys(tuned, factor)) is not None), _SMALL)
    small = scaled(shorter, _SMALL, lambda there: touched_bytes(there) <= machine.caches[0].bytes)
    large = scaled(_STEP, _LARGE, lambda there: touched_bytes(there) >= last)
    instead = at(dict.fromkeys(tuned, shorter)) if seconds > _TUNED_SECONDS else None
    places = (instead, small, large, *(at(shape) for shape in _shapes(tuned)))
    found = [] if seconds > _TUNED_SECONDS else [dict(tuned)]
    for there in places:
        sizes = {} if there is None else {name: there.sizes[name] for name in tuned}
        if sizes and sizes not in found and len(found) < 4:
            found.append(sizes)
    return found


def is_quick(scop: Scop, tuned: Mapping[str, int], seconds: float) -> Callable[[Mapping[str, int]], bool]:
    """Whether one run of the original at some sizes is short, where it takes so many seconds at the tuned ones."""
    work = max(1.0, instances(at_sizes(scop, tuned)))
    return lambda sizes: seconds * instances(at_sizes(scop, sizes)) <= _RUN_SECONDS * work


def _shapes(tuned: Mapping[str, int]) -> Iterator[dict[str, float]]:
    """Factors that make another shape of the sizes: the largest shrinks, the smallest grows."""
    if len(tuned) > 1:
        least, *_, most = sorted(tuned, key=lambda name: tuned[name])
        yield {name: {least: float(_OTHER_SHAPE), most: 1 / _OTHER_SHAPE}.get(name, 1.0) for name in tuned}
    yield dict.fromkeys(tuned, 1 / _STEP**3)
