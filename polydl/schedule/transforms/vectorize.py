"""Innermost loops as vector functions."""

from __future__ import annotations

from polydl.schedule.jam import jammed
from polydl.schedule.loops import Rows
from polydl.schedule.tree import Node, TreeTransform, in_rows


class Vectorize(TreeTransform, frozen=True):
    """Run innermost loops without a microkernel as vector functions, wherever their statements allow it: those of a
    nest, or of a region with a schedule of its own.

    before:    for j in [0, N): T = f(x[j]); y[j] = T > 0 ? T : 0
    after:     row(N, &x[0], &y[0])
    before:    for i in [0, M): for j in [0, N): s[i] += A[i][j] * x[j]
    after:     for i in steps of 4: row(N, &s[i], &A[i][0], &x[0], …, &s[i + 3], &A[i + 3][0]), with a jam of 4
    requires:  no dependence between the iterations of a row but a sum or an extreme (kernels.rows);
               the order that a jam makes keeps all dependences (schedule.jam)
    """

    stream: tuple[str, ...] = ()
    """Arrays that are stored past the caches."""
    keep_order: int = 0
    """1: sums stay in their order, which leaves them out."""
    jam: tuple[int, ...] = ()
    """Iterations of the loop around a row that it takes together, then of the one around that; empty: one."""

    @property
    def rows(self) -> Rows:
        """What is marked at the statements."""
        return Rows(self.stream, self.keep_order, self.jam)

    def applied(self, tree: Node) -> Node:
        vectors = in_rows(tree, self.rows)
        return jammed(vectors, self.jam) if self.jam else vectors
