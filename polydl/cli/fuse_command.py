"""The command `fuse`."""

from __future__ import annotations

from polydl.cli.answer import Answer
from polydl.cli.arguments import File, Output, takes_options
from polydl.options import Options


@takes_options
def fuse(*, file: File, output: Output = None, options: Options, answer: Answer) -> None:
    """Fuse element-wise nests into heavy ones and neighbouring nests into one, and say why not where not."""
    from polydl import pipeline
    from polydl.inspect import documents, terminal

    result = pipeline.fuse(file, output, options)
    answer.give(documents.fuse_json(result), lambda: terminal.show_fused(result))
