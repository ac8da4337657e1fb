"""Which cases of a test a run has, so that one compilation serves all of them."""

from __future__ import annotations

from typing import Any

import pytest


def asked(request: pytest.FixtureRequest, parameter: str, **others: object) -> tuple[Any, ...]:
    """The values of a parameter of the running test in the cases of it that this run has, each once, in their order:
    those with the given values of other parameters."""
    cases = [
        item.callspec.params
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.function is request.function and hasattr(item, "callspec")
    ]
    fitting = (case for case in cases if all(case[name] == value for name, value in others.items()))
    return tuple(dict.fromkeys(case[parameter] for case in fitting))
