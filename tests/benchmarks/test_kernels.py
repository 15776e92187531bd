"""`benchmarks.kernels` with the GPU replaced: what it selects, prints, writes and draws."""

import json
import os
import sys
from types import SimpleNamespace

import pytest
import torch

from benchmarks import cold, gradients, kernels, measure, peers, readme, tasks, upstream
from benchmarks.report import RESULTS

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")


@pytest.fixture
def pretend(monkeypatch):
    """A GPU that is the CPU, where every peer is PyTorch and takes as many milliseconds as its name has letters."""

    def functions(task, args):
        def broken(*args, **kwargs):
            raise RuntimeError("no such kernel\nlong story")

        return {"ninetoothed": task.eager, "triton": task.eager, "eager": task.eager, "liger": broken}

    arguments = tasks.arguments
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Pretend GPU-1")
    monkeypatch.setattr(tasks, "arguments", lambda task, case, dtype, device: arguments(task, case, dtype, "cpu"))
    monkeypatch.setattr(peers, "functions", functions)
    monkeypatch.setattr(measure, "ceilings", lambda dtype: measure.Ceilings(bytes=1e12, operations=1e15))
    monkeypatch.setattr(measure, "device_times", lambda calls, **_: {name: float(len(name)) for name in calls})
    monkeypatch.setattr(measure, "host_times", lambda calls: dict.fromkeys(calls, 1.0))


def test_table_json_and_picture(pretend, tmp_path, capsys):
    stem = tmp_path / "run"
    names = ("add", "mm", "rms_norm", "softmax")
    assert (
        kernels.main(["--quick", "--dtype", "float32", *sum((["--op", n] for n in names), []), "--output", str(stem)])
        == 0
    )
    printed = capsys.readouterr().out
    assert all(f"| {name} " in printed for name in names)
    saved = json.loads((tmp_path / "run.json").read_text())
    assert saved["torch"] == torch.__version__ and "date" in saved and saved["results"]["dtype"] == "float32"
    add = saved["results"]["kernels"][0]
    assert add["milliseconds"] == {"ninetoothed": 11.0, "triton": 6.0, "eager": 5.0}
    assert add["errors"]["liger"] == "RuntimeError: no such kernel"
    # Two vectors of 98432 floats read, one written, in 11 ms of which a terabyte a second would need 0.1 %.
    assert add["bytes"] == 3 * 98432 * 4 and add["roofline"] == pytest.approx(3 * 98432 * 4 / 1e12 / 11e-3)
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", tasks.MORE)
def test_operations_beyond_the_paper(pretend, name, tmp_path, capsys):
    assert {"paper", "quick", "cpu"} <= tasks.load(name).cases.keys() and peers.twin(tasks.load(name)) is None
    assert kernels.main(["--quick", "--dtype", "float32", "--op", name, "--output", str(tmp_path / "run")]) == 0
    assert f"| {name} " in capsys.readouterr().out


def test_gradients(pretend, tmp_path, capsys):
    stem = tmp_path / "run"
    assert kernels.main(["--quick", "--dtype", "float32", "--backward", "--op", "mm", "--output", str(stem)]) == 0
    (found,) = json.loads((tmp_path / "run.json").read_text())["results"]["kernels"]
    assert found["milliseconds"] == {"ninetoothed": 11.0, "eager": 5.0} and 0 < found["errors"]["ninetoothed"] < 1e-5
    assert found["operations"] % 3 == 0 and found["bytes"] > 0


@pytest.mark.parametrize("defect", (lambda a, b: a - b, lambda a, b: a.new_full(a.shape, float("nan")), lambda a: a))
def test_a_defect_of_ours_is_shown_and_told(defect, pretend, monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(
        peers, "functions", lambda task, args: {"ninetoothed": defect, "triton": torch.add, "eager": torch.add}
    )
    assert kernels.main(["--quick", "--op", "add", "--output", str(tmp_path / "run")]) == 1
    captured = capsys.readouterr()
    assert "| add " in captured.out and "wrong: add (quick)" in captured.err and (tmp_path / "run.json").exists()


UPSTREAM = """
import torch

class torch_namespace:
    rotary_position_embedding = staticmethod(lambda input, sin, cos: input * 0)

    @staticmethod
    def add(input, other):
        raise ValueError("no such tile")
"""


def test_upstream_is_run_by_an_interpreter_of_its_own(monkeypatch, tmp_path):
    (tmp_path / "ntops.py").write_text(UPSTREAM + "\ntorch_library, torch = torch, torch_namespace\n")
    # Stands in for the clock and the GPU of the other interpreter.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\n"
        f"sys.path.append({str(upstream.__file__.rsplit('/', 2)[0])!r})\n"
        "from benchmarks import measure, tasks\n"
        "arguments = tasks.arguments\n"
        "tasks.arguments = lambda task, case, dtype, device: arguments(task, case, dtype, 'cpu')\n"
        "measure.device_times = lambda calls: {name: 2.5 for name in calls}\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    assert upstream.measured(sys.executable, "rope", "quick", "float32") == (2.5, 1.0)
    assert upstream.measured(sys.executable, "add", "quick", "float32") == (None, "ValueError: no such tile")


def test_first_calls_start_from_empty_caches(monkeypatch):
    """The first process must find no cache, the second what the first left."""
    found = []

    def run(command, env, **options):
        found.append([os.path.exists(env[name]) for name in cold.CACHES])
        for name in cold.CACHES:
            os.makedirs(env[name], exist_ok=True)
        return SimpleNamespace(returncode=0, stdout=f'noise\n{{"add": {len(found)}}}\n')

    monkeypatch.setattr(cold.subprocess, "run", run)
    assert cold.first_calls("ninetoothed", ("add",), "quick", "float32") == {"cold": {"add": 1}, "warm": {"add": 2}}
    assert found == [[False] * len(cold.CACHES), [True] * len(cold.CACHES)]
    assert 0 < cold.measure("ninetoothed", "add", "quick", torch.float32, "cpu") < 60


def test_the_twin_of_conv2d_gets_a_filter_that_was_repacked_before(monkeypatch):
    from benchmarks.twins import launch

    weights = []
    monkeypatch.setattr(launch, "conv2d", lambda input, weight, **options: weights.append(weight))
    task = tasks.load("conv2d")
    args, kwargs = tasks.arguments(task, "quick", torch.float32, "cpu")
    call = peers.calls(task, args, kwargs)["triton"]
    call(), call()
    assert weights[0] is weights[1] and weights[0].is_contiguous(memory_format=torch.channels_last)
    torch.testing.assert_close(weights[0], args[1])
    assert peers.calls(task, args, kwargs)["ninetoothed"]().is_contiguous()


def test_our_gradients_of_conv2d_are_those_of_a_swapped_model():
    task = tasks.load("conv2d")
    args, kwargs = tasks.arguments(task, "cpu", torch.float32, "cpu")
    found = gradients.calls(task, args, kwargs)["ninetoothed"]()
    expected = gradients.reference(task, args, kwargs)
    torch.testing.assert_close([each.double() for each in found], list(expected), rtol=1e-4, atol=1e-3)
    assert found[0].is_contiguous() and found[1].is_contiguous(memory_format=torch.channels_last)


def test_readme_has_the_committed_figures():
    text = readme.README.read_text()
    assert readme.filled(text, RESULTS / "kernels-nvidia-h200-float16.json") == text
    assert all(f"| {name} " in text for name in tasks.NAMES) and "filter repacked before" in text


def test_cases():
    def pairs(**options):
        return list(kernels.selected(SimpleNamespace(**{"op": None, "case": "paper", "quick": False, **options})))

    assert pairs() == [(name, "paper") for name in tasks.NAMES]
    assert pairs(case="transposed") == [("bmm", "transposed"), ("mm", "transposed")]
    assert ("mm", "size 8192") in pairs(case="all") and ("mm", "cpu") not in pairs(case="all")


def test_without_a_gpu_it_says_so(monkeypatch, capsys):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert kernels.main([]) == 2 and "CUDA device" in capsys.readouterr().err


@pytest.mark.parametrize(
    "name, operations",
    {
        "mm": 2 * 512**3,
        "addmm": 2 * 512**3,
        "bmm": 2 * 2 * 256**3,
        "conv2d": 2 * (12 * 12) * 64 * 64 * 9,
        "sdpa": 4 * 8 * 256 * 256 * 64,
        "softmax": 0,
    }.items(),
)
def test_work(name, operations):
    task = tasks.load(name)
    args, kwargs = tasks.arguments(task, "cpu", torch.float32, "cpu")
    result = task.eager(*args, **kwargs)
    work = tasks.work(task, args, kwargs, result)
    assert work.operations == operations
    assert work.bytes == 4 * sum(value.numel() for value in (*args, result) if isinstance(value, torch.Tensor))


@pytest.mark.parametrize("name", (*tasks.NAMES, *tasks.MORE))
def test_our_gradients_are_those_of_float64(name):
    """Of whole tiles, too, as 128 rows are: our kernels warn of nothing there."""
    task = tasks.load(name)
    args, kwargs = tasks.arguments(task, "quick", torch.float32, "cpu")
    leaves = gradients._leaves(task, peers.given(task, args, "ninetoothed"))
    found = gradients._step(peers.ours(task), leaves, kwargs, gradients._grad(task, args, kwargs))
    for ours, exact in zip(found, gradients.reference(task, args, kwargs), strict=True):
        assert (ours.double() - exact).norm() <= 1e-5 * exact.norm()
