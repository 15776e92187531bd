"""Triton's interpreter runs the emitted text of the ten kernels, and agrees with the CPU backend and with PyTorch."""

from tests.conftest import needs_triton
from tests.ninetoothed.backends import interpreting
from tests.ninetoothed_ops.kernels import calls


@needs_triton
def test_the_ten_kernels_in_the_interpreter(tmp_path):
    printed = interpreting.run_module(tmp_path, "tests.ninetoothed_ops.kernels.interpret_kernels")
    assert printed.split() == [*calls.NAMES, *calls.OPTIONS, *calls.GRADIENTS]
