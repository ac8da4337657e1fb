"""`optimize --cluster` and `collect --cluster`: what they print."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from polydl.base.errors import PolyDLError
from polydl.cli.diagnostics import Diagnostic, of_document
from polydl.cli.reading import print_json
from polydl.cluster.collect import collect_on_cluster
from polydl.cluster.optimize import OnCluster, optimize_on_cluster
from polydl.learn.collect.command import chosen_problems, collected
from polydl.learn.collect.problems import Problem
from polydl.learn.collect.run import CollectOptions, Tally
from polydl.options import Options


class _Elsewhere(PolyDLError):
    """What other machines could not do, in their own words."""

    def __init__(self, done: OnCluster) -> None:
        super().__init__("\n".join(done.failed))
        self.exit_code = done.exit_code

    def render(self) -> str:
        return self.reason


def optimize_command(
    file: Path,
    output: str | None,
    options: Options,
    address: str,
    only: str,
    *,
    as_json: bool,
    notes: list[Diagnostic],
) -> None:
    """Optimize a file on a cluster, write the outputs, print the results; add what there is to say about the file to
    `notes`.

    Raises what `optimize_on_cluster` does, and PolyDLError when some machine could not do it.
    """
    done = optimize_on_cluster(file, output, options, address, only, say)
    for one in done.found:
        notes += of_document(one.document, file)
    if as_json and done.found:
        print_json(document(done))
    elif not as_json:
        for one in done.found:
            sys.stdout.write(f"for {one.machine}, measured at {one.machine.address}:\n{one.shown}")
    if done.failed:
        raise _Elsewhere(done)


def document(done: OnCluster) -> dict[str, Any]:
    """That of the first machine; where there are several kinds, `machines` has those of all."""
    documents = [one.document for one in done.found]
    return documents[0] if len(documents) == 1 else {**documents[0], "machines": documents}


def collect_command(
    layers: Sequence[Path],
    store: Path,
    address: str,
    only: str,
    *,
    samples: int,
    images: int | None,
    most_operations: float,
    workloads: Sequence[str],
    threads: int | None,
    space: str,
    seed: int,
) -> Tally:
    """Collect on a cluster and say how far it is. Raises what `collect_on_cluster` does, InputError; Interrupted after
    Ctrl-C; PolyDLError when some of the problems could not be measured."""
    options = CollectOptions(count=samples, space=space, seed=seed, most_operations=most_operations)

    def problems_for(count: int) -> list[Problem]:
        return chosen_problems(layers, images or count, workloads)

    problems_for(1)  # what is wrong in the files shows before the cluster is asked
    return collected(
        store, lambda opened, tell: collect_on_cluster(address, problems_for, opened, options, threads, tell, only)
    )


def say(line: str) -> None:
    """A line for people."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
