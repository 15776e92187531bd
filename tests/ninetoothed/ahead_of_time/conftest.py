"""Folders that are built once for all tests of this folder, and a driver of CUDA that records launches."""

import contextlib
import pathlib
import shutil
import subprocess

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor, block_size
from ninetoothed.runtime import arguments, dispatch, executable, private, variants, workspace
from ninetoothed.runtime.launching import driver
from ninetoothed.runtime.loading import loaded, served
from ninetoothed_ops.kernels import mm

HERE = pathlib.Path(__file__).parent
STREAM = 0x77


@pytest.fixture(scope="session")
def without(tmp_path_factory):
    """without(name): a libcuda.so.1 that records, and is so old that it lacks a function."""
    pytest.importorskip("triton")
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")

    def make(name):
        path = tmp_path_factory.mktemp("driver") / "libcuda.so.1"
        options = ["-shared", "-fPIC", "-Wall", "-Werror", f"-DWITHOUT_{name}"]
        subprocess.run(["cc", *options, "-o", path, HERE / "libcuda.c"], check=True)
        return path

    return make


@pytest.fixture(scope="session")
def library(without):
    """A libcuda.so.1 that records."""
    return without("nothing")


def scaled(dtype, BLOCK=256):
    """z = x + alpha * y, of any size."""
    block = block_size() if BLOCK is None else BLOCK

    def arrangement(x, alpha, y, z):
        return x.tile((block,)), alpha, y.tile((block,)), z.tile((block,))

    def application(x, alpha, y, z):
        z = x + alpha * y

    return arrangement, application, (Tensor(1, dtype=dtype), Tensor(0), Tensor(1, dtype=dtype), Tensor(1, dtype=dtype))


def vectors(size, dtype, step=1):
    return tuple(torch.empty(size * step, dtype=dtype)[::step] for _ in range(3))


def scaled_call(size, dtype, alpha=0.5, step=1):
    x, y, z = vectors(size, dtype, step)
    return x, alpha, y, z


def scaled_calls(dtype, BLOCK=256):
    dtype = getattr(torch, str(dtype))
    return [scaled_call(4096, dtype), scaled_call(4095, dtype), scaled_call(1001, dtype, step=3)]


def halves(*shape):
    return torch.empty(shape, dtype=torch.float16)


def product(m, n, k):
    return halves(m, k), halves(k, n), halves(m, n)


# Of TMA and a persistent grid; of a workspace with semaphores.
PRODUCTS = (product(4096, 4096, 4096), product(64, 64, 16384))


def matrices():
    return mm.arrangement, mm.application, (Tensor(2), Tensor(2), Tensor(2))


@pytest.fixture(scope="session")
def scaled_folder(tmp_path_factory):
    pytest.importorskip("triton")
    path = tmp_path_factory.mktemp("scaled")
    configs = [((dtype,), {}, {"num_warps": 4}) for dtype in (ninetoothed.float16, ninetoothed.float32)]
    ninetoothed.build(
        scaled, configs, kernel_name="scaled", output_dir=path, gpus=("h200", "a100", "b200"), calls=scaled_calls
    )
    return path


@pytest.fixture(scope="session")
def mm_folder(tmp_path_factory):
    pytest.importorskip("triton")
    path = tmp_path_factory.mktemp("mm")
    ninetoothed.build(matrices, [((), {}, {})], kernel_name="mm", output_dir=path, gpus=("h200",), calls=PRODUCTS)
    return path


class _Device(loaded.Device):
    def made_current(self):
        return contextlib.nullcontext()


@pytest.fixture
def record(library, monkeypatch, tmp_path):
    """Let the driver record into a file, and tensors on the CPU be on an H200; gives its lines."""
    path = tmp_path / "record"
    path.touch()
    monkeypatch.setenv("NT_RECORD", str(path))
    monkeypatch.setattr(private, "current_stream", lambda device: STREAM)
    monkeypatch.setattr(private, "current_device", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    fake = driver.opened(str(library))
    monkeypatch.setattr(driver, "driver", lambda: fake)
    monkeypatch.setattr(loaded, "device_of", lambda place: _Device(0, "H200", 90, 132, 227 * 1024, fake))
    return lambda: path.read_text().splitlines()


@pytest.fixture
def state(monkeypatch):
    """The state of serving and recording, which is a fresh one for each test."""
    fresh = served.Served()
    monkeypatch.setattr(dispatch, "served", lambda: fresh)
    monkeypatch.setattr(served, "served", lambda: fresh)
    monkeypatch.setattr("ninetoothed.ahead_of_time.recording.served", lambda: fresh)
    return fresh


@pytest.fixture
def on_gpu(record, monkeypatch):
    """Let tensors on the CPU be taken for some on a GPU; count what is traced and compiled."""
    counts = {"traced": 0, "compiled": 0}

    def counted(name, function):
        def call(*args, **kwargs):
            counts[name] += 1
            return function(*args, **kwargs)

        return call

    check = arguments.device_of
    monkeypatch.setattr(torch.cuda, "device", contextlib.nullcontext)
    monkeypatch.setattr(arguments, "device_of", lambda *args: check(*args) and torch.device("cuda", 0))
    monkeypatch.setattr(workspace, "_semaphores", lambda device: workspace.Semaphores(torch.device("cpu")))
    monkeypatch.setattr(dispatch.machine, "current", lambda device=None: dispatch.machine.H200)
    monkeypatch.setattr(variants, "trace", counted("traced", variants.trace))
    monkeypatch.setattr(executable, "compile_kernel", counted("compiled", executable.compile_kernel))
    monkeypatch.setenv("NT_PARAMETERS", "8 8 4")
    return counts
