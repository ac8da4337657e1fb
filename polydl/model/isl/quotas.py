"""How much isl may compute before it is told to stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from polydl.base.errors import QuotaExceeded
from polydl.model.isl.isl_types import Error, context

DEFAULT_QUOTA = 20_000_000
"""Elementary isl operations one step may take (isl_ctx_set_max_operations): of the order of some seconds."""


@contextmanager
def quota(what: str, operations: int = DEFAULT_QUOTA) -> Iterator[None]:
    """Run isl operations under a quota (isl's max_operations), so that no input hangs the tool.

    Raises QuotaExceeded, naming `what`, when the quota is used up. Nested quotas: the innermost counts.
    """
    ctx = context()
    outer = ctx.get_max_operations()
    ctx.set_max_operations(operations)
    ctx.reset_operations()
    try:
        yield
    except Error as error:
        if "maximal number of operations exceeded" in str(error):
            raise QuotaExceeded(
                f"{what} needs more than {operations} isl operations",
                hint="simplify the bounds and subscripts of the nest, or give its sizes with -D or --size",
            ) from error
        raise
    finally:
        ctx.set_max_operations(outer)
        ctx.reset_operations()
