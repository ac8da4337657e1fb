"""Which calls compare an output with its source: of every function that holds a region with code of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence

from polydl.measure.check_calls import Subject
from polydl.measure.source_check import Checked, check
from polydl.model.scop import Scop, Source
from polydl.options import Options
from polydl.search.loading import with_sizes
from polydl.search.sizes.code import EverySize
from polydl.search.sizes.decision_tree import tuned_sizes

_TRIED = (1, 2, 3, 5, 8, 16, 17, 32, 33, 64, 65, 100, 128, 129, 200, 256, 257, 400, 512, 513, 700, 1000, 1025)
"""Values of all sizes at once, among which those are looked for at which other variants run."""


def runs_here(o: Options) -> bool:
    """Whether what is written can be compiled and run on this machine."""
    return shutil.which(o.toolchain().cc) is not None


def called_beside_source(
    source: Source, text: str, regions: Sequence[tuple[Scop, EverySize | str]], o: Options
) -> Checked:
    """Calls of the functions of an output beside those of its source. `regions`: those with code of their own, as they
    were read, and what runs at sizes that were not tuned. Raises ToolchainError."""
    by_function: dict[str, list[tuple[Scop, EverySize | str]]] = {}
    for one in regions:
        by_function.setdefault(one[0].function, []).append(one)
    subjects = []
    not_called = {}
    for function, several in by_function.items():
        read = tuple(scop for scop, _ in several)
        head = read[0].region.header
        if function == "main" or head is None:
            not_called[function] = "main is not called" if head is not None else "how it is declared is not known"
            continue
        subjects.append(Subject(function, head, read, _at(read, o), tuple(_other_variants(several))))
    found = check(source, text, subjects, o.toolchain(), reassociate=o.reassociate)
    return Checked(found.calls, found.faults, found.undefined, {**not_called, **found.not_called})


def _at(read: Sequence[Scop], o: Options) -> Callable[[Mapping[str, int]], tuple[Scop, ...]]:
    """Regions with other sizes; see `Subject.at`."""
    return lambda sizes: tuple(with_sizes(scop, o, sizes) for scop in read)


def _other_variants(regions: Sequence[tuple[Scop, EverySize | str]]) -> Iterator[Mapping[str, int]]:
    """Sizes beside the tuned ones, and the least at which each variant for other sizes runs."""
    for scop, others in regions:
        tuned = tuned_sizes(scop)
        for name, value in tuned.items():
            yield {**tuned, name: value + 1}
        if not tuned or isinstance(others, str):
            continue
        seen = {"original"}
        for value in _TRIED:
            sizes = dict.fromkeys(tuned, value)
            variant = others.tree.variant_at(sizes)
            if variant not in seen:
                seen.add(variant)
                yield sizes
