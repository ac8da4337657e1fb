"""The command `doctor`."""

from __future__ import annotations

import typer

from polydl.cli.answer import print_json
from polydl.cli.arguments import Json, takes_options
from polydl.options import Options


@takes_options
def doctor(*, options: Options, json_: Json = False) -> None:
    """Check compiler, OpenMP, vectors, permissions, limits and optional parts, and say how to repair each."""
    from rich.text import Text

    from polydl.cli.doctor_checks import Status, examine, to_data, usable
    from polydl.inspect.terminal import output_console

    checks = examine(options.cc)
    if json_:
        print_json(to_data(checks))
    else:
        console = output_console()
        styles = {Status.OK: "green", Status.WARNING: "yellow", Status.ABSENT: "dim", Status.FAILED: "bold red"}
        width = max(len(check.name) for check in checks)
        for check in checks:
            line = Text(f"{check.status:<8}", style=styles[check.status])
            console.print(line.append(f"{check.name:<{width}}  {check.found}", style="default"), soft_wrap=True)
            if check.remedy:
                console.print(Text(f"{'':8}{'':{width}}  -> {check.remedy}"), soft_wrap=True)
        verdict = "polydl can be used here" if usable(checks) else "polydl cannot be used here: repair what failed"
        console.print(Text(verdict, style="bold"), soft_wrap=True)
    if not usable(checks):
        raise typer.Exit(1)
