"""`polydl optimize --cluster`: searches on one machine of each kind, and writes one output for each kind."""

from __future__ import annotations

import json
import warnings
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from polydl import pipeline
from polydl.base.errors import InputError, Interrupted
from polydl.base.output_files import output_path, write
from polydl.cluster.pool import Done, Job, Kind, Machine, Pool
from polydl.cluster.program_files import options_to_data, pack
from polydl.options import Options


@dataclass(frozen=True, slots=True)
class MachineResult:
    """What `optimize` found for one kind of machine."""

    machine: Machine
    """The one that measured."""
    output: Path | None
    """The file written; None when no variant computed what the original computes."""
    text: str
    document: dict[str, Any]
    """As `polydl optimize --json` prints it, with `machine`."""
    shown: str
    """The table, for people."""


@dataclass(frozen=True, slots=True)
class ClusterResult:
    """What `optimize_on_cluster` found on all machines."""

    found: tuple[MachineResult, ...]
    """One for each kind of machine, in the order of their fingerprints."""
    failed: tuple[str, ...]
    """A message for each machine that could not do it."""
    exit_code: int
    """0, or the largest of the failures'."""


def optimize_on_cluster(
    path: Path,
    output: str | Path | None,
    options: Options,
    address: str,
    only: str = "",
    report: Callable[[str], None] = lambda line: None,
) -> ClusterResult:
    """Optimize a file for every kind of machine in a Dask cluster, or for those whose fingerprint starts with `only`.

    One machine of each kind does the whole search: it ranks for itself, compiles with its own compiler, checks and
    times all candidates side by side. An output is written as soon as its machine is done: to `output` (default
    FILE.polydl.c) where there is one kind of machine, else with the fingerprint before the suffix. `report` is called
    with lines for people.

    Raises InputError, also for what is wrong in the file; ToolchainError; PolyDLError when the cluster cannot be used.
    """
    if options.machine is not None:
        raise InputError("--machine and --cluster together", hint="leave --machine out: each worker says what it is")
    output_path(path, output)
    source = pipeline.load(path, options).source
    options.toolchain()
    try:
        files = pack(source, options)
    except OSError as error:
        raise InputError(f"cannot read what {path} needs: {error}") from error
    found: list[MachineResult] = []
    failed: list[str] = []
    codes = [0]
    with Pool(address, only, report) as pool:
        targets = outputs_for(path, output, {machine.kind for machine in pool.machines})

        def jobs_for(machine: Machine) -> Sequence[Job]:
            if machine.kind not in targets:
                report(f"{machine} came too late for {path}")
                return ()
            job = {
                "do": "optimize", "files": files, "folder": str(Path.cwd()), "file": str(path),
                "output": str(targets[machine.kind]), "options": options_to_data(options),
            }  # fmt: skip
            report(f"{path}: searching for {machine}")
            return (Job(str(path), json.dumps(job)),)

        def done(end: Done) -> None:
            for text in end.result.get("warnings", ()):
                warnings.warn(f"{end.machine.address}: {text}", stacklevel=2)
            if "error" in end.result:
                failed.append(f"{end.machine}, at {end.machine.address}:\n{end.result['error']}")
                codes.append(int(end.result["exit_code"]))
                return
            found.append(_written(end, targets[end.machine.kind]))
            if found[-1].output is None:
                failed.append(f"{end.machine}: error: no variant computed what the original computes")
                codes.append(1)

        try:
            pool.run(jobs_for, done)
        except KeyboardInterrupt:
            written = ", ".join(str(one.output) for one in found if one.output is not None)
            if written:
                raise Interrupted(f"interrupted: {written} had been written") from None
            raise
    return ClusterResult(tuple(sorted(found, key=lambda one: one.machine.kind)), tuple(failed), max(codes))


def outputs_for(path: Path, output: str | Path | None, kinds: Collection[Kind]) -> dict[Kind, Path]:
    """The output file for each kind of machine: of several kinds, `out.c` becomes `out.FINGERPRINT.c`, or
    `out.FINGERPRINT-PROCESSORS.c` where two differ only in the number of processors. Raises InputError."""
    target = output_path(path, output)
    if len(kinds) == 1:
        return dict.fromkeys(kinds, target)
    count = Counter(fingerprint for fingerprint, _ in kinds)
    names = {kind: kind[0] if count[kind[0]] == 1 else f"{kind[0]}-{kind[1]}" for kind in kinds}
    return {
        kind: output_path(path, target.with_name(f"{target.stem}.{name}{target.suffix}"))
        for kind, name in names.items()
    }


def _written(end: Done, target: Path) -> MachineResult:
    result, machine = end.result, end.machine
    output = target if result["usable"] else None
    if output is not None:
        write(output, result["text"])
    described = {
        "fingerprint": machine.fingerprint, "name": machine.name, "processors": machine.processors,
        "compiler": machine.compiler, "worker": machine.address, "threads": result["threads"],
    }  # fmt: skip
    return MachineResult(machine, output, result["text"], {**result["document"], "machine": described}, result["shown"])
