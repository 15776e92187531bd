"""`kernel.debug`: lines of the application with real tensors, for debuggers; overhang shown as such."""

import subprocess
import sys
import textwrap
import traceback

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.errors import ArgumentTypeError, ExecutionError


def arrangement(x, y):
    return x.tile((4,)), y.tile((4,))


def application(x, y):
    scaled = x * 2
    total = ntl.sum(scaled)
    for _ in range(2):
        scaled = scaled + total
    y = scaled - total


def make(application=application, arrangement=arrangement):
    return ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))


def test_lines_have_programs_values_and_places():
    lines, x, y = [], torch.arange(6.0), torch.empty(6)
    make().debug(x, y, on_line=lines.append)
    first = [line for line in lines if line.program == (0,)]
    base = application.__code__.co_firstlineno
    assert [line.location.line - base for line in first if line.values] == [1, 2, 4, 4, 5]
    assert first[0].values["scaled"].tolist() == [0, 2, 4, 6] and first[0].touched[0][2].tolist() == [0, 1, 2, 3]
    last = [line for line in lines if line.program == (1,)]
    assert (
        str(last[0].values["x"]) == "tensor([4, 5, --, --])"
        and str(last[0].values["scaled"]) == "tensor([8, 10, --, --])"
    )
    assert str(last[1].values["total"]) == "tensor(18.)"
    assert last[-1].touched[0][:2] == ("y", "written") and last[-1].touched[0][2].tolist() == [4, 5, -1, -1]
    called = torch.empty(6)
    make()(x, called)
    torch.testing.assert_close(y, called)


def test_a_trace_function_sees_real_tensors_at_the_lines_of_the_application():
    seen = []

    def trace(frame, event, argument):
        if frame.f_code.co_filename != __file__ or frame.f_code.co_name != "application":
            return None
        if event == "line" and "total" in frame.f_locals:
            seen.append((frame.f_lineno, frame.f_locals["program"], frame.f_locals["total"].item()))
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        make().debug(torch.arange(8.0), torch.empty(8))
    finally:
        sys.settrace(before)
    assert (application.__code__.co_firstlineno + 5, (1,), 44.0) in seen


def test_print_shows_overhang_as_such(capsys):
    def prints(x, y):
        print(x, ntl.max(x))
        y = x

    make(prints)(torch.tensor([1.5, 2, 3, 4, 5]), torch.empty(5))
    out = capsys.readouterr().out.splitlines()
    assert out[0].startswith("tensor([1.5000, 2.0000, 3.0000, 4.0000])") and out[1] == "tensor([5, --, --, --]) 5.0"


def test_overhang_follows_permuted_broadcast_and_reduced_axes(capsys):
    def shows(x, y):
        print(ntl.trans(x))
        print(ntl.sum(x, axis=0))
        y = x + ntl.sum(x, axis=0)[None, :]

    kernel = ninetoothed.make(lambda x, y: (x.tile((2, 4)), y.tile((2, 4))), shows, (Tensor(2), Tensor(2)))
    kernel(torch.ones(1, 3), torch.empty(1, 3))
    out = capsys.readouterr().out.splitlines()
    assert out == ["tensor([[1, --], [1, --], [1, --], [--, --]])", "tensor([1, 1, 1, --])"]


def test_poison_stops_at_the_line_with_program_and_place(monkeypatch):
    def shifted(x, y):
        y = x + 1.0

    def rows(x, y):
        y = y.tile((1, 4)).squeeze(1)
        y.dtype = y.dtype.squeeze(0)
        return x.tile((4,)), y

    monkeypatch.setenv("NINETOOTHED_POISON", "1")
    kernel = ninetoothed.make(rows, shifted, (Tensor(1), Tensor(2)))
    with pytest.raises(ExecutionError, match=r"program \(2\) .*overhang is stored to 'y'.*y\[2, 2\]") as error:
        kernel.debug(torch.ones(10), torch.empty(3, 4))
    frame = [each for each in traceback.walk_tb(error.tb) if each[0].f_code.co_name == "shifted"][-1]
    assert frame[1] == shifted.__code__.co_firstlineno + 1 and frame[0].f_locals["program"] == (2,)


def test_a_breakpoint_of_a_debugger_stops(tmp_path):
    script = tmp_path / "debugged.py"
    text = """
    import torch, ninetoothed
    from ninetoothed import Tensor
    def arrangement(x, y):
        return x.tile((4,)), y.tile((4,))
    def application(x, y):
        doubled = x + x
        y = doubled
    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))
    kernel.debug(torch.arange(6.0), torch.zeros(6))
    """
    script.write_text(textwrap.dedent(text))
    commands = f"b {script}:8\nc\np program, doubled\nc\np program, doubled\nc\nq\n"
    environment = {"PYTHONPATH": ":".join(filter(None, sys.path)), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(
        [sys.executable, "-m", "pdb", str(script)], input=commands, capture_output=True, text=True, env=environment
    )
    assert "((0,), tensor([0., 2., 4., 6.]))" in done.stdout, done.stdout + done.stderr
    assert "((1,), tensor([8, 10, --, --]))" in done.stdout


def test_tensors_elsewhere_are_refused():
    with pytest.raises(ArgumentTypeError, match="run on the CPU"):
        make().debug(torch.empty(4, device="meta"), torch.empty(4))
