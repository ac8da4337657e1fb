"""The fixture `cluster`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.cluster.running import Cluster


@pytest.fixture
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A scheduler without workers."""
    with Cluster(tmp_path_factory.mktemp("cluster")) as made:
        yield made
