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
        bool, typer.Option("--calibrate", help="Measure its speeds (under a minute) and store them for later runs.")
    ] = False,
    options: Options,
    json_: Json = False,
) -> None:
    """Show the figures of the machine that variants are ranked for, and where each comes from."""
    from polydl.inspect import documents, terminal
    from polydl.measure.calibration import calibrated

    found = calibrated(options.toolchain(), isa=options.isa) if calibrate else options.target()
    if json_:
        print_json(documents.machine_json(found))
    else:
        terminal.show_machine(found)
