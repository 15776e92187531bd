"""Random control flow does what Python does: on the CPU, in Triton's interpreter (see `test_triton_interpreter`), and,
where there is one, on a GPU. Triton, which is stricter than its interpreter, compiles it."""

import pytest
import torch

from benchmarks.trust import programs
from ninetoothed.backends.triton import emit
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.compilation.compile import compile_kernel
from ninetoothed.runtime.selection import machine as devices
from tests.conftest import needs_triton


@pytest.mark.parametrize("seed", range(24))
def test_random_programs_do_what_python_does(seed, device):
    in_python, application = programs.write(seed)
    kernel = programs.make(application)
    x = programs.inputs(device)
    for n in (0, 5, -3):
        y = torch.zeros_like(x)
        kernel(x, n, y)
        assert y.tolist() == [in_python(a, n, 3) for a in programs.INPUTS]


@needs_triton
@pytest.mark.parametrize("seed", range(6))
def test_triton_compiles_random_programs(seed):
    _, application = programs.write(seed)
    x = programs.inputs()
    variant = dispatch.launcher_of(programs.make(application)).trace((x, 5, x), {}, devices.H200)
    compile_kernel(emit(variant.program), devices.H200, 1, 3)
