"""Programs of the repository and random ones: their cores run as the reference interpreter of C does."""

from __future__ import annotations

import zlib

import pytest

from tests.frontend.typed.comparing import EQUAL, compared_file, compared_functions, compared_seed
from tests.oracle.comparing import Case, cases

ONE_OF = 12
"""Of the files, one of so many is in the tests; `python -m tests.frontend.typed.comparing` has them all."""
CHOSEN = [case for case in cases() if zlib.crc32(case.name.encode()) % ONE_OF == 0]
NOT_RUN = ("undefined: ", "not run by the oracle: ", "no data: ", "not run: text that is kept")


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
def test_files(case: Case) -> None:
    for one in compared_file(case, 1):
        assert one.verdict == EQUAL or one.verdict.startswith(NOT_RUN), one


@pytest.mark.parametrize("seed", range(0, 600, 60))
def test_random_programs(seed: int) -> None:
    one = compared_seed(seed)
    assert one.verdict == EQUAL or one.verdict.startswith(NOT_RUN), one


@pytest.mark.parametrize("seed", range(12))
def test_random_functions(seed: int) -> None:
    for one in compared_functions(seed):
        assert one.verdict == EQUAL or one.verdict.startswith(NOT_RUN), one
