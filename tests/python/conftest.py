"""Both packages side by side: the peer's wheel is the oracle."""

import mlx.core
import pytest

import isopace.core as ip


@pytest.fixture(scope="session")
def peer():
    """mlx.core of the wheel."""
    return mlx.core
