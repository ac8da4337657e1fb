"""Progress bars on standard error."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

if TYPE_CHECKING:
    from polydl.measure import Progress as ProgressCallback

_STAGES = {
    "rank": "ranking",
    "fuse": "ranking what was fused",
    "compile": "compiling",
    "verify": "checking",
    "time": "timing",
    "sizes": "checking at other sizes",
}


@contextmanager
def progress(*, quiet: bool) -> Iterator[ProgressCallback]:
    """Show a progress bar for each stage on standard error, if that is a terminal and not `quiet`.

    Gives the function to call as `report(stage, steps done, steps)`.
    """
    console = Console(stderr=True)
    bars = Progress(
        TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(),
        TextColumn("at most"), TimeRemainingColumn(), TextColumn("left"),
        console=console, transient=True, disable=quiet or not console.is_terminal, auto_refresh=False,
    )  # fmt: skip
    tasks: dict[str, Any] = {}

    def report(stage: str, done: int, total: int) -> None:
        if stage not in tasks:
            tasks[stage] = bars.add_task(_STAGES.get(stage, stage), total=total)
        bars.update(tasks[stage], completed=done, total=total)
        bars.refresh()

    with bars:
        yield report
