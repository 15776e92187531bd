"""What someone who debugs a kernel on a laptop sees: prints, breakpoints, and errors that name the place."""

import subprocess
import sys
import textwrap

import pytest
import torch

from ninetoothed import dtypes, ir
from ninetoothed.errors import ExecutionError, UnsupportedError
from ninetoothed.expr import const, var
from tests.ninetoothed.backends.torch_programs import LOCATION, execute, rows, value

F32 = dtypes.float32


def partial_tile():
    """A tile of 3 that occupies 4 lanes."""
    return ir.Value(ir.TileType(F32, (const(3),), (4,)), "x")


def test_print_shows_the_tile_of_one_program_after_the_other(capsys):
    x = torch.arange(8.0).view(2, 4)
    loaded, index = partial_tile(), value(dtypes.int32)
    body = [
        ir.Load(loaded, rows("x", x)),
        ir.Index(index, var("program_0")),
        ir.Print(("program ", index, " has ", loaded), location=LOCATION),
    ]
    execute(body, {"x": x}, (2,))
    assert capsys.readouterr().out == ("program 0 has tensor([0., 1., 2.])\nprogram 1 has tensor([4., 5., 6.])\n")


def test_a_breakpoint_has_the_names_and_the_place_of_the_user(monkeypatch):
    x, seen = torch.arange(8.0).view(2, 4), []

    def hook():
        frame = sys._getframe(1)
        seen.append((frame.f_code.co_filename, frame.f_lineno, frame.f_locals["x"].tolist(), frame.f_locals["n"]))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    loaded = partial_tile()
    names = (("x", loaded), ("n", 2))
    execute([ir.Load(loaded, rows("x", x)), ir.Breakpoint(names, location=LOCATION)], {"x": x}, (2,))
    assert seen == [("kernel.py", 7, row[:3], 2) for row in x.tolist()]


DEBUGGED = """
    import torch

    import ninetoothed
    from ninetoothed import Tensor


    def arrangement(x, y):
        return x.tile((4,)), y.tile((4,))


    def application(x, y):
        doubled = x + x
        breakpoint()
        y = doubled


    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))
    x, y = torch.arange(4.0), torch.zeros(4)
    kernel(x, y)
    print("ends with", y)
"""


def test_the_debugger_stops_at_the_line_of_the_application(tmp_path):
    script = tmp_path / "debugged.py"
    script.write_text(textwrap.dedent(DEBUGGED))
    commands = "p doubled\nwhere\nc\n"
    done = subprocess.run(
        [sys.executable, str(script)], input=commands, capture_output=True, text=True, timeout=300, env=environment()
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "tensor([0., 2., 4., 6.])" in done.stdout
    assert "debugged.py(14)" in done.stdout and "breakpoint()" in done.stdout
    assert "ends with tensor([0., 2., 4., 6.])" in done.stdout


def environment():
    import os

    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "PYTHONBREAKPOINT": ""}


def test_an_assertion_names_the_program_that_breaks_it():
    x = torch.ones(5, 4)
    x[3, 1] = -1
    loaded, zero, wide, holds = value(F32, 4), value(F32), value(F32, 4), value(dtypes.int1, 4)
    body = [
        ir.Load(loaded, rows("x", x)),
        ir.Constant(zero, 0.0),
        ir.Apply((wide,), "full", (zero,)),
        ir.Apply((holds,), "gt", (loaded, wide)),
        ir.Apply((), "device_assert", (holds,), (("message", "x is positive"),), location=LOCATION),
    ]
    with pytest.raises(ExecutionError, match=r"program \(3\) \(kernel\.py:7\): x is positive"):
        execute(body, {"x": x}, (5,))


def test_an_exception_names_the_programs_and_the_line():
    x = torch.ones(5, 4)
    loaded, wrong = value(F32, 4), value(F32, 8)
    body = [ir.Load(loaded, rows("x", x)), ir.Apply((wrong,), "dot", (loaded, loaded), location=LOCATION)]
    with pytest.raises(ExecutionError) as error:
        execute(body, {"x": x}, (5,))
    assert "programs (0..4)" in str(error.value) and "`dot`" in str(error.value)
    assert "kernel.py:7: output = input" in str(error.value) and error.value.__cause__ is not None


def test_what_only_gpus_have_is_an_error_that_says_so():
    x = torch.ones(1, 4)
    loaded, result = value(F32, 4), value(F32, 4)
    apply = ir.Apply((result,), "inline_asm_elementwise", (loaded,), location=LOCATION)
    with pytest.raises(UnsupportedError, match="GPUs only"):
        execute([ir.Load(loaded, rows("x", x)), apply], {"x": x}, (1,))
