"""Kernels compiled in this process reach the driver as those that were built: nothing of Triton's launches them."""

import sys
import threading

import pytest
import torch

import ninetoothed
from ninetoothed.errors import CompilationError
from ninetoothed.runtime import dispatch
from ninetoothed.runtime.selection import machine
from tests.conftest import DEVICE
from tests.ninetoothed.ahead_of_time import launches
from tests.ninetoothed.ahead_of_time.conftest import PRODUCTS, STREAM, matrices, scaled, scaled_call

# What stands for the addresses of a workspace and of semaphores.
OWN = 0xABCDE0, 0xABCDE1
pytestmark = pytest.mark.skipif(DEVICE != "cpu", reason="stands in for a GPU")


def definition(premake, *args, **options):
    return ninetoothed.make(*premake(*args), **options).definition


@pytest.fixture(autouse=True)
def _never_through_triton(monkeypatch):
    """No kernel is launched by Triton, which has a C compiler make a launcher for that."""
    build = pytest.importorskip("triton.runtime.build")
    for name in [name for name in dir(build) if name.startswith("compile_module")]:
        monkeypatch.setattr(build, name, lambda *args, **options: pytest.fail("a module in C is compiled"))
    driver = sys.modules.get("triton.backends.nvidia.driver")
    if driver is not None:
        monkeypatch.setattr(driver.CudaLauncher, "__init__", lambda *args: pytest.fail("Triton's launcher is made"))


@pytest.mark.parametrize("dtype", (torch.float16, torch.float32))
@pytest.mark.parametrize("size, step", ((4096, 1), (4095, 1), (1001, 3)))
def test_pointers_and_numbers(on_gpu, record, monkeypatch, dtype, size, step):
    kernel = definition(scaled, dtype, num_warps=4, kernel_name="scaled")
    launcher, expected = dispatch.Launcher(kernel), []
    for alpha in (0.5, -2.0, 1e300):  # a new plan, one found by its signature, a fast path
        x, _, y, z = scaled_call(size, dtype, alpha, step)
        given = x, alpha if alpha < 1e300 else float("inf"), y, z
        line, parameters, widths = launches.launch(kernel, given, machine.H200, STREAM)
        monkeypatch.setenv("NT_PARAMETERS", " ".join(map(str, widths)))
        expected.append(f"{line} {' '.join(parameters)}")
        launcher((x, alpha, y, z), {})
    assert record() == expected


def test_descriptors_and_shared_memory(on_gpu, record, monkeypatch):
    kernel = definition(matrices, kernel_name="mm")
    line, parameters, widths = launches.launch(kernel, PRODUCTS[0], machine.H200, STREAM)
    assert widths.count(128) == 3
    monkeypatch.setenv("NT_PARAMETERS", " ".join(map(str, widths)))
    launcher = dispatch.Launcher(kernel)
    for _ in range(3):
        launcher(PRODUCTS[0], {})
    shared, *lines = record()
    assert shared.startswith("shared mm 8 ") and lines == [f"{line} {' '.join(parameters)}"] * 3


def test_a_workspace(on_gpu, record, monkeypatch):
    kernel, arguments = definition(matrices, kernel_name="mm"), PRODUCTS[1]
    head, parameters, widths = launches.launch(kernel, arguments, machine.H200, STREAM, OWN)
    monkeypatch.setenv("NT_PARAMETERS", " ".join(map(str, widths)))
    dispatch.Launcher(kernel)(arguments, {})
    line = record()[-1]
    found = line.split(" ")[-len(widths) :]
    own = [i for i, text in enumerate(parameters) if int.from_bytes(bytes.fromhex(text), "little") in OWN]
    assert line.startswith(head) and len(own) == 2 and found[own[0]] != found[own[1]]
    for i in own:
        found[i] = parameters[i]
    assert found == parameters


def test_threads_load_a_kernel_once(on_gpu, record, monkeypatch):
    kernel = definition(scaled, torch.float32, kernel_name="scaled")
    launcher, barrier = dispatch.Launcher(kernel), threading.Barrier(4)

    def launch(number):
        barrier.wait()
        for _ in range(50):
            launcher(scaled_call(4096, torch.float32, float(number)), {})

    threads = [threading.Thread(target=launch, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(record()) == 200 and on_gpu["compiled"] == 1


def test_code_that_the_driver_refuses_is_an_error_by_its_name(on_gpu, record, monkeypatch):
    monkeypatch.setenv("NT_FAILS", "222")
    launcher = dispatch.Launcher(definition(scaled, torch.float32, kernel_name="scaled"))
    with pytest.raises(CompilationError, match="`scaled` could not be loaded: CUDA's driver 12.8 could not load"):
        launcher(scaled_call(4096, torch.float32), {})
    assert record() == []
    monkeypatch.setenv("NT_FAILS", "0")
    launcher(scaled_call(4096, torch.float32), {})
    assert len(record()) == 1
