"""The command `report`."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from polydl.base.errors import InputError, one_of


class Format(StrEnum):
    """The format of a report."""

    HTML = "html"
    SVG = "svg"
    PNG = "png"
    MD = "md"
    CSV = "csv"


def report(
    run: Annotated[
        Path,
        typer.Argument(metavar="RUN.json", show_default=False, help="What `optimize --save` wrote.", readable=False),
    ],
    output: Annotated[
        str | None, typer.Option("-o", "--output", metavar="FILE", show_default=False, help="Default: beside RUN.json.")
    ] = None,
    format_: Annotated[
        Format | None, typer.Option("--format", show_default=False, help="Default: the ending of -o, else html.")
    ] = None,
    chart: Annotated[
        str | None, typer.Option("--chart", metavar="NAME", show_default=False, help="Only this chart (svg, png).")
    ] = None,
    function: Annotated[
        str | None, typer.Option("--function", metavar="F", show_default=False, help="Only this function's charts.")
    ] = None,
) -> None:
    """Show a run of optimize: one HTML page that works offline, its charts, tables or variants."""
    from polydl.base.output_files import output_path, write, write_bytes
    from polydl.inspect.report import draw, markdown, page
    from polydl.inspect.report.figures import charts
    from polydl.inspect.report.record import load
    from polydl.inspect.terminal import output_console, say

    chosen = _format(output, format_)
    if chosen not in (Format.SVG, Format.PNG) and (chart or function):
        raise InputError("--chart and --function are for svg and png", hint="add --format svg")
    target = output_path(run, output or str(run.with_suffix(f".{chosen}")))
    found = load(run)
    if chosen in (Format.SVG, Format.PNG):
        scops = [s for s in found.scops if function in (None, s.function)]
        if not scops:
            raise InputError(f"no function '{function}'", hint=one_of(str(function), [s.function for s in found.scops]))
        drawn = [c for s in scops for c in charts(s, found.machine)]
        shown = [c for c in drawn if chart in (None, c.name)]
        if not shown:
            names = list(dict.fromkeys(c.name for c in drawn))
            hint = one_of(chart or "", names) if names else "the run has no figures to draw: --format html says why"
            raise InputError(f"no chart '{chart}'" if names else "there is nothing to draw", hint=hint)
        if chosen is Format.PNG:
            write_bytes(target, draw.png(shown))
        else:
            write(target, draw.document(shown))
    elif chosen is Format.HTML:
        write(target, page.html(found, str(run)))
    else:
        write(target, markdown.markdown(found) if chosen is Format.MD else markdown.variants_csv(found))
    say(output_console(), f"wrote {target}")


def _format(output: str | None, chosen: Format | None) -> Format:
    """The format that was asked for, else the one that the name of the output ends in. Raises InputError."""
    if chosen is not None:
        return chosen
    ending = Path(output).suffix.lstrip(".").lower() if output else Format.HTML.value
    ending = {"htm": "html", "markdown": "md"}.get(ending, ending)
    if ending not in list(Format):
        raise InputError(
            f"'{output}' does not say what to write", hint=f"--format: {one_of(ending, [a.value for a in Format])}"
        )
    return Format(ending)
