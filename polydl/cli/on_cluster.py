"""`optimize --cluster` and `collect --cluster`: run them and print the results."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from polydl.base.errors import PolyDLError
from polydl.cli.answer import Answer, print_json
from polydl.cluster.collect import collect_on_cluster
from polydl.cluster.optimize_job import ClusterResult, optimize_on_cluster
from polydl.learn.collect.collect_command import Selection, collected
from polydl.learn.collect.run import CollectOptions, Tally
from polydl.options import Options


class _FailedThere(PolyDLError):
    """What other machines could not do, with their own messages."""

    def __init__(self, done: ClusterResult) -> None:
        super().__init__("\n".join(done.failed))
        self.exit_code = done.exit_code

    def render(self, *, python: bool = False) -> str:
        return self.reason


def optimize(file: Path, output: str | None, options: Options, answer: Answer, address: str, only: str) -> None:
    """Optimize a file for every kind of machine of the cluster at `address`, or for those whose fingerprint starts with
    `only`; write the outputs and answer with the results.

    Raises what `optimize_on_cluster` does, and PolyDLError when some machine could not do it.
    """
    done = optimize_on_cluster(file, output, options, address, only, _write_line)
    for one in done.found:
        answer.note(one.document)
    if answer.as_json and done.found:
        print_json(document(done))
    elif not answer.as_json:
        for one in done.found:
            sys.stdout.write(f"for {one.machine}, measured at {one.machine.address}:\n{one.shown}")
    if done.failed:
        raise _FailedThere(done)


def document(done: ClusterResult) -> dict[str, Any]:
    """The JSON document: that of the first machine; where there are several kinds, `machines` has those of all."""
    documents = [one.document for one in done.found]
    return documents[0] if len(documents) == 1 else {**documents[0], "machines": documents}


def collect(
    selection: Selection, store: Path, options: CollectOptions, threads: int | None, address: str, only: str
) -> Tally:
    """Collect on the cluster at `address`, or on its machines whose fingerprint starts with `only`, and show the
    progress; `threads` of None means all processors of a machine.

    Raises what `collect_on_cluster` does, InputError; Interrupted after Ctrl-C; PolyDLError when some of the problems
    could not be measured.
    """
    selection.problems(1)  # what is wrong in the files is reported before the cluster is asked
    return collected(
        store,
        lambda opened, report: collect_on_cluster(address, selection.problems, opened, options, threads, report, only),
    )


def _write_line(line: str) -> None:
    """Write a line for people to standard error."""
    sys.stderr.write(line + "\n")
    sys.stderr.flush()
