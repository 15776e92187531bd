"""On a GPU: what was built computes what it should, from C on memory of its own, and from Python in a fresh process."""

import json
import os
import shutil
import subprocess
import sys
import threading

import pytest
import torch

import ninetoothed
from ninetoothed.ahead_of_time import builder
from ninetoothed.built.formula import evaluate
from tests.ninetoothed.ahead_of_time import program
from tests.ninetoothed.ahead_of_time.cases import NAMES, cases, definition
from tests.ninetoothed.ahead_of_time.conftest import HERE, scaled

pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")]
TOLERANCE = 2e-3


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """Build each kernel for the GPU that is here, into a folder of its name."""
    root = tmp_path_factory.mktemp("built")
    for name, case in cases().items():
        made = builder.compiled(definition(case.kernel), [case.arguments], builder.machines(None))
        builder.write(root / name, case.kernel, tuple(made))
    return root


def fresh(*arguments, **environment):
    command = [sys.executable, HERE / "fresh.py", *map(str, arguments)]
    root = str(HERE.parents[2])
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": root, **environment}, capture_output=True, text=True, timeout=300
    )
    (line,) = (line for line in done.stdout.splitlines() if line.startswith("RESULT")) if not done.returncode else ("",)
    assert line, done.stderr[-3000:]
    return json.loads(line.removeprefix("RESULT"))


def test_a_fresh_process_launches_them_at_once_and_without_triton(folders):
    found = fresh("load", folders)
    assert not found["has_triton"] and set(found["launched"]) == set(NAMES)
    for name, (error, seconds) in found["launched"].items():
        assert error < TOLERANCE and seconds < 0.1, (name, error, seconds)


@pytest.mark.parametrize("name", NAMES)
def test_a_program_in_c_launches_them_on_its_own_memory(folders, tmp_path, name):
    if shutil.which("cc") is None:
        pytest.skip("needs a C compiler")
    case = cases()[name]
    folder = shutil.copytree(folders / name, tmp_path / name)
    source = program.written(folder, case.kernel, case.arguments, case.output)
    binary = folder / "program"
    sources = (source, folder / f"{case.kernel}.c")
    subprocess.run(["cc", "-O1", "-Wall", "-Werror", f"-I{folder}", *sources, "-o", binary, "-ldl"], check=True)
    done = subprocess.run([binary], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    numbers = torch.frombuffer(bytearray((folder / "output").read_bytes()), dtype=torch.float16)
    case.output.copy_(numbers.cuda().as_strided(case.output.shape, case.output.stride()))
    assert case.error() < TOLERANCE


def test_configurations_that_differ_in_speed_are_measured(tmp_path, monkeypatch):
    measured = []

    def fastest(runs, clock):
        measured.append(builder_fastest(runs, clock))
        return measured[-1]

    builder_fastest = builder.fastest
    monkeypatch.setattr(builder, "fastest", fastest)
    x, y, z = (torch.randn(1 << 24, device="cuda") for _ in range(3))
    configs = [((ninetoothed.float32,), {"BLOCK": block}, {"num_warps": 1}) for block in (32, 1024)]
    built = ninetoothed.build(
        scaled,
        configs,
        meta_parameters=("BLOCK",),
        kernel_name="scaled",
        output_dir=tmp_path,
        calls=[(x, 0.5, y, z)],
    )
    ((slow, fast),) = (tuple(seconds[number] for number in range(2)) for seconds in measured)
    (variant,) = built.variants
    assert 0 < fast < slow and evaluate(variant.grid[0], {"size_0_0": 1 << 24}) <= 1 << 14
    ninetoothed.load(tmp_path).scaled(x, 0.5, y, z)
    torch.testing.assert_close(z, x + 0.5 * y)


@pytest.mark.parametrize("device", ("cuda:0", "cuda:1"))
def test_graphs_of_each_gpu(folders, device):
    if device == "cuda:1" and torch.cuda.device_count() < 2:
        pytest.skip("needs two CUDA devices")
    for name, case in cases(device).items():
        kernel = ninetoothed.load(folders / name)[case.kernel]
        with torch.cuda.device(device):
            kernel(*case.arguments)
            graph = torch.cuda.CUDAGraph()
            # Without a stream of its own, a graph is captured on that of the GPU of the first.
            with torch.cuda.graph(graph, stream=torch.cuda.Stream(device)):
                kernel(*case.arguments)
            for _ in range(2):
                case.output.fill_(torch.nan)
                graph.replay()
                torch.cuda.synchronize()
                assert case.error() < TOLERANCE, name


def test_threads_streams_and_gpus_share_kernels(folders):
    """Two threads a GPU, each on a stream of its own, whichever GPU is the current one."""
    kernels = {name: ninetoothed.load(folders / name) for name in NAMES}
    devices = [f"cuda:{index}" for index in range(torch.cuda.device_count())[:2]] * 2
    barrier, errors = threading.Barrier(len(devices)), {}

    def work(number, device):
        own, stream = cases(device), torch.cuda.Stream(device)
        torch.cuda.synchronize(device)
        barrier.wait()
        with torch.cuda.stream(stream), torch.cuda.device(device if number < 2 else devices[0]):
            for _ in range(50):
                for name, case in own.items():
                    case.output.fill_(torch.nan)
                    kernels[name][case.kernel](*case.arguments)
        stream.synchronize()
        errors[number] = max(case.error() for case in own.values())

    threads = [threading.Thread(target=work, args=each) for each in enumerate(devices)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(errors) == len(devices) and max(errors.values()) < TOLERANCE, errors


def test_a_recorded_model_is_served_in_a_fresh_process(tmp_path):
    pytest.importorskip("transformers")
    recorded = fresh("record", tmp_path / "model", NINETOOTHED_CACHE_DIR=str(tmp_path / "recorded"))
    served = fresh("serve", tmp_path / "model", NINETOOTHED_CACHE_DIR=str(tmp_path / "served"))
    assert recorded["traced"] and recorded["compiled"] and not recorded["left_out"]
    assert served == {"tokens": recorded["tokens"], "traced": 0, "compiled": 0}
