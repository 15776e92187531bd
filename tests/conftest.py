"""What all tests share: the device that they run on."""

import pytest
import torch

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@pytest.fixture
def device() -> str:
    """The GPU where there is one, else the CPU."""
    return DEVICE
