"""The command `machine`."""

from __future__ import annotations

from typing import Annotated

import typer

from polydl.cli.answer import print_json
from polydl.cli.arguments import Json, takes_options
from polydl.options import Options


@takes_options
def machine(
    *,
    calibrate: Annotated[
        bool,
        typer.Option(
            "--calibrate",
            help="Measure its speeds, and about fifty variants of small programs, and store both (two minutes).",
        ),
    ] = False,
    forget: Annotated[
        bool, typer.Option("--forget", help="Delete the times that were kept of optimize's own runs.")
    ] = False,
    options: Options,
    json_: Json = False,
) -> None:
    """Show the figures of the machine that variants are ranked for, and where each comes from; and what the times of
    earlier runs on it say of estimates."""
    from polydl.inspect import documents, terminal
    from polydl.learn.first_programs import timed_programs
    from polydl.measure.calibration import calibrated
    from polydl.search import own_times

    if forget:
        terminal.show_forgotten(own_times.forget(), own_times.place())
        return
    found = calibrated(options.toolchain(), isa=options.isa) if calibrate else options.target()
    if calibrate:
        timed_programs(options.changed(machine=None))
    correction = own_times.learned(found)
    if json_:
        print_json(documents.machine_json(found) | {"learned": documents.correction_json(correction)})
    else:
        terminal.show_machine(found)
        terminal.show_correction(correction, own_times.place())
