"""What all tests share: the device that they run on."""

import os

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


def pytest_configure(config):
    """Parallel workers share the cores: one thread each."""
    if "PYTEST_XDIST_WORKER" in os.environ:
        torch.set_num_threads(1)


@pytest.fixture
def device() -> str:
    """The GPU where there is one, else the CPU."""
    return DEVICE
