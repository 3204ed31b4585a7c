"""Both packages side by side: the peer's wheel is the oracle."""

import pathlib
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "python"))

ip = pytest.importorskip("isopace.core")


@pytest.fixture(scope="session")
def peer():
    """mlx.core of the wheel."""
    return pytest.importorskip("mlx.core")
