"""The command `optimize`: prints a cached result, or runs the optimizer."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path

from rich.console import Console

from polydl import pipeline
from polydl.base.errors import InputError, PolyDLError
from polydl.base.files import output_path, write
from polydl.cli import present
from polydl.cli.compile_commands import database
from polydl.cli.depfile import Depfile
from polydl.cli.diagnostics import Diagnostic, of_document
from polydl.cli.reading import print_json
from polydl.options import Options
from polydl.search import result_cache


def optimize_command(
    file: Path,
    output: str | None,
    options: Options,
    *,
    run: bool,
    fresh: bool,
    as_json: bool,
    depfile: Depfile | None,
    notes: list[Diagnostic],
    save: str | None = None,
) -> None:
    """Optimize a file, write the output, what it depends on and the record of the run (to `save`), print the result;
    add what there is to say about the file to `notes`.

    Raises InputError, ToolchainError, QuotaExceeded; PolyDLError when no variant computed what the original computes.
    """
    name = None
    record = output_path(file, save) if save is not None else None
    if run and file.is_file():
        target = output_path(file, output)
        if record is not None and record.absolute() == target.absolute():
            raise InputError(f"--save and the output are both {target}", hint="give them different names")
        try:
            name = result_cache.key(file, target, options)
        except OSError:
            found = None  # what cannot be read is told further down, or does not matter to the search
        else:
            found = None if fresh else result_cache.load(name)
        if found is not None and (record is None or found.record is not None):
            write(target, found.text)
            if depfile is not None:
                depfile.write(target, file, options)
            notes += of_document(found.document, file)
            _show_cached(found, as_json)
            if record is not None and found.record is not None:
                _write_record(record, found.record, as_json)
            return
    with present.progress(quiet=as_json) as progress:
        result = pipeline.optimize(file, output, options, run=run, progress=progress)
    if depfile is not None and result.output is not None:
        depfile.write(result.output, file, options)
    document = present.optimize_json(result)
    notes += of_document(document, file)
    if as_json:
        print_json(document)
    else:
        present.show_optimized(result, ran=run)
    recorded_run = None
    if record is not None:
        from polydl.inspect.recording import recorded
        from polydl.inspect.report.record import dumps

        recorded_run = dumps(recorded(result, options))
        _write_record(record, recorded_run, as_json)
    if not any(scop.usable for scop in result.scops):
        raise PolyDLError(
            "no variant computed what the original computes; nothing was written",
            hint="the reasons stand beside the variants; --top-k tries more of them",
        )
    if name is None or result.output is None:
        return
    if any(done.report is not None and done.report.disturbed for done in result.scops):
        if not as_json:
            present.say(present.output_console(), "not kept for the next run: the timing was disturbed")
    else:
        text = io.StringIO()
        present.show_optimized(result, ran=run, console=Console(file=text, width=10_000))
        entry = result_cache.CachedResult(result.text, document, text.getvalue(), time.time(), recorded_run)
        result_cache.save(name, entry, file, options)


def depfile_of(file: Path, path: str, compile_commands: Path | None) -> Depfile:
    """What `--depfile` asks for, its place checked. Raises InputError."""
    return Depfile(output_path(file, path), () if compile_commands is None else (database(compile_commands),))


def _write_record(path: Path, text: str, as_json: bool) -> None:
    write(path, text)
    if not as_json:
        present.say(present.output_console(), f"recorded the run in {path}: polydl report shows it")


def _show_cached(found: result_cache.CachedResult, as_json: bool) -> None:
    if as_json:
        print_json({**found.document, "kept_from": result_cache.when(found)})
        return
    sys.stdout.write(found.shown)
    present.say(present.output_console(), f"as measured on {result_cache.when(found)}; --fresh measures anew")
