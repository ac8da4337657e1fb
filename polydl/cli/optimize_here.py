"""`optimize` on this machine: prints a cached result, or runs the optimizer and caches what it found."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

from polydl.base.errors import InputError, OutputError, PolyDLError
from polydl.base.output_files import output_path, write
from polydl.cli.answer import Answer, print_json
from polydl.cli.depfile import Depfile
from polydl.options import Options
from polydl.search import result_cache


def optimize_here(
    file: Path,
    output: str | None,
    options: Options,
    answer: Answer,
    *,
    run: bool,
    fresh: bool,
    depfile: Depfile | None,
    save: str | None = None,
) -> None:
    """Optimize a file: write the output, the rule for Make (`depfile`) and the record of the run (to `save`); answer
    with the result.

    Raises InputError, ToolchainError, QuotaExceeded; PolyDLError when no variant computed what the original computes.
    """
    key = None
    record = output_path(file, save) if save is not None else None
    if (run or output is not None) and file.is_file():
        target = output_path(file, output)
        if record is not None and record.absolute() == target.absolute():
            raise InputError(f"--save and the output are both {target}", hint="give them different names")
        try:
            key = result_cache.key(file, target, options, run=run)
        except OSError:
            cached = None  # what cannot be read is reported further down, or does not matter to the search
        else:
            cached = None if fresh else result_cache.load(key)
        if cached is not None and (record is None or cached.record is not None):
            write(target, cached.text)
            if depfile is not None:
                depfile.write(target, file, options)
            answer.note(cached.document)
            _show_cached(cached, answer, measured=run)
            if record is not None and cached.record is not None:
                _write_record(record, cached.record, answer)
            return
    # Not before: a cached result is shown in less time than this takes to import.
    from polydl import pipeline
    from polydl.cli.progress import progress
    from polydl.inspect.documents import optimize_json
    from polydl.inspect.terminal import output_console, page, say, show_optimized

    with progress(quiet=answer.as_json) as report:
        result = pipeline.optimize(file, output, options, run=run, progress=report)
    if depfile is not None and result.output is not None:
        depfile.write(result.output, file, options)
    document = optimize_json(result)
    answer.give(document, lambda: show_optimized(result, ran=run))
    recorded_run = None
    if record is not None:
        from polydl.inspect.recording import recorded
        from polydl.inspect.report.record import dumps

        recorded_run = dumps(recorded(result, options))
        _write_record(record, recorded_run, answer)
    if not any(scop.usable for scop in result.scops):
        raise PolyDLError(
            "no variant computed what the original computes; nothing was written",
            hint="the reasons stand beside the variants; --top-k tries more of them",
        )
    if result.checked.faults:
        told = "; ".join(map(str, result.checked.faults))
        raise OutputError(
            f"the output did not do what the source does: {told}",
            hint="its loops stay as they were written; this is a mistake in polydl: please report the file",
        )
    if key is None or result.output is None:
        return
    if any(done.report is not None and done.report.disturbed for done in result.scops):
        if not answer.as_json:
            say(output_console(), "not cached for the next run: the timing was disturbed")
    else:
        text = io.StringIO()
        show_optimized(result, ran=run, console=page(text))
        entry = result_cache.CachedResult(result.text, document, text.getvalue(), time.time(), recorded_run)
        result_cache.save(key, entry, file, options)


def _write_record(path: Path, text: str, answer: Answer) -> None:
    write(path, text)
    if not answer.as_json:
        from polydl.inspect.terminal import output_console, say

        say(output_console(), f"recorded the run in {path}: polydl report shows it")


def _show_cached(cached: result_cache.CachedResult, answer: Answer, *, measured: bool) -> None:
    if answer.as_json:
        print_json({**cached.document, "kept_from": result_cache.when(cached)})
        return
    found, again = ("measured", "measures") if measured else ("found", "searches")
    sys.stdout.write(f"{cached.shown}as {found} on {result_cache.when(cached)}; --fresh {again} anew\n")
