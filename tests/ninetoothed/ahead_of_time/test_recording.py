"""A program is recorded, and another process serves the same from what was built: it compiles and traces nothing."""

import logging
import os
import runpy
import subprocess
import sys

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.__main__ import main
from ninetoothed.built.identity import identity
from ninetoothed.errors import LoadError
from ninetoothed.runtime import executable
from tests.conftest import DEVICE
from tests.ninetoothed.ahead_of_time.conftest import halves

pytestmark = [
    pytest.mark.skipif(DEVICE != "cpu", reason="stands in for a GPU"),
    pytest.mark.usefixtures("state"),
]
SCALE = 2.0


def times(a):
    return a * SCALE


def arrangement(x, y):
    return x.tile((64,)), y.tile((64,))


def application(x, y):
    y = times(x) + 1


def make():
    """A kernel made anew, as another process makes it: under other names of its tensors."""
    Tensor(1), Tensor(2)
    return ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)), kernel_name="scale")


def test_what_was_recorded_is_served_and_nothing_is_compiled(tmp_path, record, request, monkeypatch):
    kernel = make()
    for _ in range(3):  # Calls before count for nothing: they are as new.
        kernel(halves(1024), halves(1024))
    with ninetoothed.recording(tmp_path, gpus=("h200",)) as made:
        for size in (1024, 1023, 0, 1024):
            kernel(halves(size), halves(size))
    assert not made.left_out and [each.kernel for each in made.folder.variants] == ["scale", "scale"]
    counts = request.getfixturevalue("on_gpu")
    loaded = ninetoothed.load(tmp_path)
    loaded.serve(missing="refuse")
    for size in (1024, 1024, 2048, 1023, 2047, 0):
        x, y = halves(size), halves(size)
        kernel(x, y)
        if size:
            assert record()[-1].startswith(f"launch scale ({-(-size // 64)}, 1, 1) ")
            assert x.data_ptr().to_bytes(8, "little").hex() in record()[-1]
    assert counts == {"traced": 0, "compiled": 0} and len(record()) == 5
    with pytest.raises(LoadError, match="`scale` is not compiled here.*`x` was built as a tensor of float16"):
        kernel(halves(64).float(), halves(64))
    monkeypatch.setitem(times.__globals__, "SCALE", 3.0)
    with pytest.raises(LoadError, match="`scale` is not compiled here, as was asked for: no kernel like it was built"):
        kernel(halves(1024), halves(1024))


def test_what_is_missing_is_compiled_and_said(tmp_path, state, on_gpu, caplog, monkeypatch):
    with ninetoothed.recording(tmp_path, gpus=("h200",)):
        pass
    assert ninetoothed.load(tmp_path).kernels == {}
    state.kernels = {"another": ()}
    monkeypatch.setattr(executable, "launch_of", lambda *args: lambda given: None)
    with caplog.at_level(logging.WARNING, "ninetoothed"):
        make()(halves(64), halves(64))
    assert on_gpu == {"traced": 1, "compiled": 1}
    assert "kernel scale is compiled now: no kernel like it was built" in caplog.text


def test_a_wrong_answer_to_what_is_missing_is_refused(tmp_path):
    with ninetoothed.recording(tmp_path, gpus=("h200",)):
        pass
    with pytest.raises(ninetoothed.ArgumentError, match="missing='perhaps'; give 'compile' or 'refuse'"):
        ninetoothed.load(tmp_path).serve(missing="perhaps")


def test_operators_are_recorded_and_served(tmp_path, record, request, monkeypatch):
    import ninetoothed_ops

    weight = torch.randn(512).half()

    def run(x):
        return ninetoothed_ops.softmax(x, -1), ninetoothed_ops.rms_norm(x, (512,), weight), ninetoothed_ops.silu(x)

    for _ in range(4):
        run(torch.randn(8, 512).half())
    with ninetoothed.recording(tmp_path, gpus=("h200", "a100")) as made:
        run(torch.randn(8, 512).half())
    kernels = {each.kernel for each in made.folder.variants}
    assert {"softmax", "rms_norm", "silu"} <= kernels
    assert {each.architecture for each in made.folder.variants} == {80, 90}
    counts = request.getfixturevalue("on_gpu")
    monkeypatch.setenv("NT_PARAMETERS", "")
    ninetoothed.load(tmp_path).serve(missing="refuse")
    for number in range(5):  # new, found again, recorded by the operator, replayed
        run(torch.randn(40, 512).half())
        names = [line.split(" ")[1] for line in record() if line.startswith("launch ")]
        assert len(names) == 3 * (number + 1) and {"softmax", "rms_norm", "silu"} == set(names)
    assert counts == {"traced": 0, "compiled": 0}


PROGRAM = """
import sys, torch, ninetoothed
from ninetoothed import Tensor

def arrangement(x, y):
    return x.tile((64,)), y.tile((64,))

def application(x, y):
    y = x * 2

kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)), kernel_name="twice")
for dtype in sys.argv[1:]:
    kernel(torch.ones(100, dtype=getattr(torch, dtype)), torch.empty(100))
if len(sys.argv) > 1:
    sys.exit()
"""


def test_a_program_is_recorded_from_the_command_line(tmp_path, capsys):
    program, output = tmp_path / "program.py", tmp_path / "built"
    program.write_text(PROGRAM)
    main(["build", "--output", str(output), "--gpu", "h100", str(program), "float16", "float32"])
    assert f"built 2 variants of 1 kernels into {output}" in capsys.readouterr().out
    loaded = ninetoothed.load(output)
    assert [each.arguments[0].dtype for each in loaded.twice.variants] == ["float16", "float32"]


def test_identities_are_the_same_in_other_processes(tmp_path, monkeypatch):
    program = tmp_path / "program.py"
    told = "from ninetoothed.built.identity import identity; print(identity(kernel.definition).digest)"
    program.write_text(f"{PROGRAM}\n{told}\n")
    command = [
        sys.executable,
        "-c",
        f"import ninetoothed, runpy; ninetoothed.Tensor(3); runpy.run_path({str(program)!r})",
    ]
    environment = {**os.environ, "PYTHONHASHSEED": "7"}
    other = subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout
    monkeypatch.setattr(sys, "argv", [str(program)])
    own = identity(runpy.run_path(str(program))["kernel"].definition).digest
    assert other.strip() == own and len(own) == 64


def test_what_cannot_be_built_is_left_out_and_said(tmp_path, caplog):
    def by_text(x, y, kind):
        y = x + 1 if kind == "one" else x

    tensors = (Tensor(1), Tensor(1), Tensor(0, constexpr=True))
    kernel = ninetoothed.make(lambda x, y, k: (*arrangement(x, y), k), by_text, tensors, kernel_name="by_text")
    y = torch.empty(5)
    with caplog.at_level(logging.WARNING, "ninetoothed"), ninetoothed.recording(tmp_path, gpus=("h200",)) as made:
        kernel(torch.ones(5), y, "one")
        make()(torch.ones(5), y[:])
    assert [each.kernel for each in made.folder.variants] == ["scale"]
    assert (
        "`kind` is 'one', which is no number" in made.left_out["by_text"]
        and "kernel by_text is not built" in caplog.text
    )
    assert y.eq(3).all()  # both ran
