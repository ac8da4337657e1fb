"""The command `analyze`."""

from __future__ import annotations

from polydl.cli.answer import Answer
from polydl.cli.arguments import File, takes_options
from polydl.options import Options


@takes_options
def analyze(*, file: File, options: Options, answer: Answer) -> None:
    """Show what was extracted: domains, accesses, dependences, parallel loops, flow, working sets."""
    from polydl import pipeline
    from polydl.inspect import analyses, terminal

    program = pipeline.load(file, options, require_sizes=False)
    results = [analyses.analyze(scop, options.target()) for scop in program.scops]
    answer.give({"scops": [r.to_data() for r in results]}, lambda: terminal.show_analyses(results))
