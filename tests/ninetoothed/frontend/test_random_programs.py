"""Random control flow does what Python does: on the CPU, in Triton's interpreter (see `test_triton_interpreter`), and,
where there is one, on a GPU. Triton, which is stricter than its interpreter, compiles it."""

import importlib.util

import pytest
import torch

from benchmarks.trust import programs
from ninetoothed.backends.triton import emit
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.build.compile import compile_kernel
from ninetoothed.runtime.selection import machine as devices


@pytest.mark.parametrize("seed", range(40))
def test_random_programs_do_what_python_does(seed, device):
    in_python, application = programs.write(seed)
    kernel = programs.make(application)
    x = programs.inputs(device)
    for n in (0, 5, -3):
        y = torch.zeros_like(x)
        kernel(x, n, y)
        assert y.tolist() == [in_python(a, n, 3) for a in programs.INPUTS]


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
@pytest.mark.parametrize("seed", range(12))
def test_triton_compiles_random_programs(seed, tmp_path, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))
    _, application = programs.write(seed)
    x = programs.inputs()
    variant = dispatch.launcher_of(programs.make(application)).trace((x, 5, x), {}, devices.H200)
    compile_kernel(emit(variant.program), devices.H200, 1, 3)
