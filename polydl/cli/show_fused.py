"""What `polydl fuse` says: the decisions, as text and as JSON."""

from __future__ import annotations

from typing import Any

from polydl.cli.present import output_console, say
from polydl.results import FuseResult
from polydl.rewrite.fuse import FusedScop


def fused_json(fused: FusedScop) -> dict[str, Any]:
    """The decisions about one scop."""
    return {
        "function": fused.scop.function,
        "line": fused.scop.span.line,
        "decisions": [
            {
                "into": d.heavy,
                "nest": d.light,
                "before": d.before,
                "fused": d.failure is None,
                "condition": d.failure.condition.name.lower() if d.failure else None,
                "reason": str(d.failure) if d.failure else None,
            }
            for d in fused.decisions
        ],
        "merged": [{"nest": m.second, "into": m.first, "loops": list(m.loops)} for m in fused.merges],
        "contracted": list(fused.contracted),
    }


def fuse_json(result: FuseResult) -> dict[str, Any]:
    """The document of `polydl fuse --json`."""
    return {"output": str(result.output), "scops": [fused_json(f) for f in result.scops]}


def show_fused(result: FuseResult) -> None:
    """The decisions on standard output."""
    console = output_console()
    for fused in result.scops:
        lines = fused.lines() or ["nothing to fuse"]
        for line in lines:
            say(console, f"{fused.scop.function}: {line}")
    say(console, f"wrote {result.output}")
