"""`torch.compile(model, backend="polydl")`: PyTorch models through polydl. Importing this package loads no torch.

    Dynamo graph ─▶ aot_autograd ─▶ ATen graph ─ normalise ─▶ support: node → Reason | None ─ levels ─▶ regions, islands
                                                                                                        │
    one .so per graph ◀─ build_groups ◀─ C text of each group ◀─ groups: nodes of a region → Group ◀────┘
       └─ plan: steps (call groups, run ATen nodes, views) ─ call: one C entry per run of groups

The interface between what finds regions and runs them, and what turns their nodes into loops:

- `graph_values.Value`: a tensor that a group reads or writes: the FX node that gives it (the `getitem` node of
  an operator with several results), dtype, sizes and strides (elements). `graph_values.Reason`: why a node is eager.
- `support.lowering(node) -> Reason | None`: None if the node can be lowered. Depends on the node, its arguments and
  their `meta["val"]` only; never raises. `getitem` of a lowered operator is lowered. Sizes are ints (graphs with
  symbolic sizes are traced at several sizes, `sized_graph`).
- `groups.groups(nodes, wanted) -> list[Group]`: `nodes` are the lowered nodes of a region in graph order, `wanted`
  those of them whose values must be in memory afterwards, never views (views that leave a region are run by the plan as
  ATen views of their base; a view that is read by nodes of the region is among `nodes` and becomes an access). Groups
  come in an order in which they can run. What a group reads that no group of the region wrote is a node outside of the
  region, with the strides of its `meta["val"]`.
- `Group.inputs`, `Group.outputs`: tuples of `Value`. Each wanted node is an output of exactly one group, with the
  strides of its `meta["val"]`; an output that only other groups of the region read may have strides of its own. A group
  writes each element of an output that belongs to the tensor, before it reads it; buffers of outputs hold anything
  before. Two inputs may overlap each other (or be the same memory); outputs overlap nothing.
- `Group.scratch`: bytes of memory that the function is given behind its outputs and may leave anything in.
- `Group.text(name) -> str`: a C file that includes what it needs and has `void NAME(const T *a0, …, T *o0, …)`:
  inputs, outputs, then scratch memory, in order (array parameters are the same to C); region marked by
  `#pragma scop`. Names of arrays and sizes follow the order of first use, so that equal groups give equal text for
  equal names. Literals stand in the text with all their digits. FX nodes are named in comments only if equal groups
  still give equal text.
- `Group.work -> float`: estimated floating-point operations plus bytes moved, for the order of the search.
- Addresses of inputs need not be aligned beyond their element; those of outputs and of values between groups are
  multiples of 64.
- `Group.nodes`: the FX nodes that it computes; they are run by eager PyTorch if the group cannot be built.
- `decompositions.expand(gm)`: nothing is decomposed before autograd but what PyTorch itself decomposes. Afterwards a
  node without a lowering is replaced by its core-ATen decomposition if every node of that has a lowering, and stays
  whole for eager otherwise; so there is no list of what is kept: `support.lowering` decides.

One base name stands in one room of polydl only, so that `nests`, `emit`, `build`, `regions`, `memory`, `weights` and
`options` have other names here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polydl.torch_backend.backend import explain, export, polydl, refresh, register
    from polydl.torch_backend.block_sparse import block_sparse_linears

__all__ = ("block_sparse_linears", "explain", "export", "polydl", "refresh", "register")


def __getattr__(name: str) -> Any:
    if name in __all__:
        room = "block_sparse" if name == "block_sparse_linears" else "backend"
        return getattr(import_module(f"polydl.torch_backend.{room}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
