"""What passes between regions, groups and the plan: tensors of a graph, and why a node is left to eager."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch
    from torch import fx


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a node is run by eager PyTorch."""

    node: str
    """Name of the FX node."""
    target: str
    """The operator, as `aten.sort.default`."""
    why: str
    """A clause that follows "because": `complex64 has no lowering`."""
    place: str = ""
    """The line of the model that it comes from, `file:line`, where torch recorded it."""

    def __str__(self) -> str:
        where = f" ({self.place})" if self.place else ""
        return f"{self.node}: {self.target}: {self.why}{where}"


@dataclass(frozen=True, slots=True)
class Value:
    """A tensor in main memory that a group reads or writes."""

    node: fx.Node
    """The node whose `meta["val"]` it is; of an operator with several results, the `getitem` node."""
    dtype: torch.dtype
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    """In elements, one per size; 0 where a dimension is expanded."""

    @property
    def elements(self) -> int:
        """How many elements of memory it spans, from its first to behind its last: 0 if it is empty."""
        if 0 in self.sizes:
            return 0
        return 1 + sum((n - 1) * s for n, s in zip(self.sizes, self.strides, strict=True))


def value_of(node: fx.Node) -> Value:
    """The value of a node as eager would have it. `meta["val"]` must be a tensor with static sizes."""
    tensor = node.meta["val"]
    return Value(node, tensor.dtype, tuple(int(n) for n in tensor.shape), tuple(int(s) for s in tensor.stride()))
