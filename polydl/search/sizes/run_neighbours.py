"""Runs the output at other sizes than the tuned ones, where its conditions must select loops that are right.

A variant is made for values of the function's integer parameters; for others the output runs the loops as they were
written. Both lie behind one `if`, which is run here, whole, at sizes beside the tuned ones: each parameter one more and
one less; where there are much data, once alone, since each size is run with several inputs. A leading dimension that is
a parameter so gets larger than the row.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from pathlib import Path

from polydl.base.errors import InputError, PolyDLError
from polydl.lower.emit import Generated
from polydl.lower.splice import for_parameters
from polydl.measure import MeasureOptions, Toolchain
from polydl.measure.compiler import CompilerTooSlow, find_compiler
from polydl.measure.session import Builder, setting_for
from polydl.measure.unit import size_guards
from polydl.measure.verify import verify
from polydl.model.scop import Scop
from polydl.search.default_sizes import touched_bytes

MOST = 6
"""Sizes that are tried."""
LARGE = 32 << 20
"""Bytes of data beyond which each parameter is changed once."""
_INT_MAX = 2**31 - 1

Reload = Callable[[Mapping[str, int]], Scop]
"""The same scop with other values of these parameters, all others as tuned. Raises InputError where the program does
not work with them."""


def neighbouring_sizes(scop: Scop, reload: Reload, *, twice: bool = True) -> Iterator[tuple[dict[str, int], Scop]]:
    """Sizes beside the scop's own, one parameter changed at a time, with the scop for them. Variables that are made of
    sizes (`int half = n / 2;`) follow from these: they are not changed by themselves. `twice`: each parameter is one
    more and one less; otherwise one less where one more is not possible."""
    tuned = {guard.name: guard.value for guard in size_guards(scop)}
    for name, value in tuned.items():
        for other in (value + 1, value - 1):
            if not 0 < other <= _INT_MAX:
                continue
            try:
                there = reload({name: other})
            except InputError:
                continue  # such as an array that is too short for one element more
            sizes = {guard.name: guard.value for guard in size_guards(there)}
            if sizes.keys() == tuned.keys():
                yield sizes, there
                if not twice:
                    break


def run_neighbours(
    scop: Scop,
    code: Generated,
    reload: Reload,
    toolchain: Toolchain,
    options: MeasureOptions,
    tell: Callable[[int, int], None] | None = None,
) -> tuple[dict[str, int], ...]:
    """Run `code` with its conditions against the original at neighbouring sizes; returns those that were tried.
    `tell` is called with how many were, of how many.

    Raises PolyDLError when it computes something else, CompilerTooSlow when it is too long for the compiler, another
    ToolchainError when the original fails there.
    """
    twice = touched_bytes(scop) <= LARGE
    places = list(islice(neighbouring_sizes(scop, reload, twice=twice), MOST))
    if not places:
        return ()
    output = for_parameters(scop, code)
    with tempfile.TemporaryDirectory(prefix="polydl-") as name:
        builder = Builder(places[0][1], toolchain, options, find_compiler(toolchain), Path(name))
        built, failed = builder.build({"output": output}, lambda stage, done, total: None)
        if failed and failed[0].late:
            raise CompilerTooSlow(failed[0].message.removeprefix("error: "), scop.span)
        if failed and failed[0].late:
            raise CompilerTooSlow(failed[0].message.removeprefix("error: "), scop.span)
        if failed:
            raise PolyDLError(f"the output for '{scop.function}' does not compile: {failed[0].message}")
        for number, (sizes, there) in enumerate(places):
            if tell:
                tell(number, len(places))
            setting = setting_for(there, Path(name), built[0], options)
            (found,) = verify(setting, built[0], built[1:], lambda done, total: None).checked
            if not found.measurement.verified:
                text = ", ".join(f"{k} = {v}" for k, v in sizes.items())
                raise PolyDLError(
                    f"the output for '{scop.function}' {found.measurement.message} with {text}",
                    scop.span,
                    "nothing was written: this is a mistake in polydl, please report it",
                )
    return tuple(sizes for sizes, _ in places)
