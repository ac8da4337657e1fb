"""What was made of a graph, for people: `GraphReport`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from polydl.torch_backend.graph_values import Reason


@dataclass(frozen=True, slots=True)
class GroupReport:
    """A group of operators that became one C function."""

    name: str
    nodes: tuple[str, ...]
    """Names of its FX nodes."""
    operators: tuple[str, ...]
    how: str
    """`ranked`, `measured` or `as written`."""
    variants: tuple[str, ...]
    notes: tuple[str, ...]
    """What the search told people."""
    work: float
    """Estimated floating-point operations plus bytes moved."""
    written: str = field(repr=False)
    """Its C as the operators say it."""
    text: str = field(repr=False)
    """The C that was compiled."""
    file: Path
    """The shared object."""


@dataclass(frozen=True, slots=True)
class RegionReport:
    """Groups that one call runs."""

    groups: tuple[GroupReport, ...]
    inputs: int
    outputs: int
    arena: int
    """Bytes of memory for values that only its groups read."""


@dataclass(frozen=True, slots=True)
class GraphReport:
    """What was made of a graph."""

    nodes: int
    """Operators of the graph after decomposition."""
    regions: tuple[RegionReport, ...]
    eager: tuple[Reason, ...]
    """Operators that eager PyTorch runs, and why."""
    folded: int
    """Tensors that are computed of parameters, when they change."""
    python: str
    """The function that runs the graph."""
    seconds: float
    """That it took to make it; what PyTorch did before is not in it."""

    @property
    def groups(self) -> tuple[GroupReport, ...]:
        return tuple(group for region in self.regions for group in region.groups)

    def __str__(self) -> str:
        lowered = sum(len(group.nodes) for group in self.groups)
        head = f"{self.nodes} operators: {lowered} in {len(self.groups)} groups of {len(self.regions)} regions"
        head += f", {len(self.eager)} eager; {self.folded} tensors computed of parameters ahead; {self.seconds:.2f} s"
        lines = [head]
        for number, region in enumerate(self.regions):
            lines.append(
                f"region {number}: {region.inputs} inputs, {region.outputs} outputs, arena {region.arena} bytes"
            )
            for group in region.groups:
                variant = f", {'+'.join(group.variants)}" if group.variants else ""
                lines.append(f"  {group.name}: {', '.join(group.operators)} ({group.how}{variant})")
                lines += [f"    {note}" for note in group.notes]
        lines += [f"eager: {reason}" for reason in self.eager]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Explained:
    """What `explain` found: a report for each graph that Dynamo cut the model into."""

    graphs: Sequence[GraphReport]

    def __str__(self) -> str:
        return "\n\n".join(f"graph {i}\n{report}" for i, report in enumerate(self.graphs)) or "no graph was compiled"
