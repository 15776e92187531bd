"""Kernels that are about to be launched compile side by side."""

import threading

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.errors import CompilationError
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection.machine import H200


def arrangement(x, y):
    return x.tile((4,)), y.tile((4,))


def double(x, y):
    y = x * 2


def triple(x, y):
    y = x * 3


def make(application):
    return ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))


def new_calls(size=9):
    given = torch.ones(size), torch.empty(size)
    return [(dispatch.launcher_of(make(application)), given) for application in (double, triple)]


@pytest.fixture
def compiled(monkeypatch):
    """The names of kernels that were compiled, none of which is until there are two."""
    names, both = [], threading.Barrier(2, timeout=20)

    def compile(definition, variant):
        names.append(definition.name)
        both.wait()

    monkeypatch.setattr(executable, "compiled", compile)
    return names


def test_new_kernels_compile_at_the_same_time_and_once(compiled):
    calls = new_calls()
    for _ in range(2):
        dispatch.compile_together(calls, H200)
    assert sorted(compiled) == ["double", "triple"]
    assert [len(launcher.variants) for launcher, _ in calls] == [1, 1]


def test_calls_that_launch_nothing_are_not_compiled(compiled):
    dispatch.compile_together(new_calls(0), H200)
    assert compiled == []


def test_kernels_that_are_tuned_are_left_to_their_calls(compiled, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_TUNE", "1")
    dispatch.compile_together(new_calls(), H200)
    assert compiled == []


def test_an_error_of_one_is_raised_in_its_turn_and_met_once(monkeypatch):
    launched, attempts = [], []

    def compile(definition, variant):
        attempts.append(definition.name)
        if definition.name == "triple":
            raise CompilationError("kernel `triple` cannot be compiled")

    monkeypatch.setattr(executable, "compiled", compile)
    monkeypatch.setattr(dispatch.machine, "current", lambda device: H200)
    real, plain = dispatch.compile_together, (torch.ones(9), torch.empty(9))  # fake tensors have no addresses
    monkeypatch.setattr(
        dispatch, "compile_together", lambda calls, gpu: real([(each, plain) for each, _ in calls], gpu)
    )
    monkeypatch.setattr(Launched, "__call__", lambda self, *args: launched.append(self.definition.name))
    kernels = [Launched(make(application)) for application in (double, triple, double)]
    with FakeTensorMode():
        given = torch.empty(9, device="cuda"), torch.empty(9, device="cuda")
    with pytest.raises(CompilationError, match="`triple` cannot be compiled"):
        dispatch.launch_all([(kernel, given) for kernel in kernels])
    assert launched == ["double"]  # What comes after it is not launched.
    assert sorted(attempts) == ["double", "double", "triple"]


def test_what_is_no_error_of_ours_is_left_to_its_call(monkeypatch):
    monkeypatch.setattr(executable, "compiled", lambda definition, variant: 1 / 0)
    assert dispatch.compile_together(new_calls(), H200) == {}


def test_on_a_host_kernels_run_in_order():
    x, y, z = torch.arange(9.0), torch.empty(9), torch.empty(9)
    dispatch.launch_all([(make(double), (x, y)), (make(triple), (y, z))])
    assert torch.equal(z, 6 * x)


class Launched:
    """A kernel whose launches are counted, and do nothing."""

    def __init__(self, kernel):
        self.definition, self.launches = kernel.definition, 0

    def __call__(self, *args):
        self.launches += 1


def test_on_a_gpu_kernels_that_are_new_compile_first_unless_it_is_one(monkeypatch):
    together = []
    monkeypatch.setattr(dispatch, "compile_together", lambda calls, gpu: together.append((len(calls), gpu)) or {})
    monkeypatch.setattr(dispatch.machine, "current", lambda device: H200)
    monkeypatch.setattr(executable, "compiled", lambda definition, variant: None)
    kernels = [Launched(make(application)) for application in (double, triple)]
    with FakeTensorMode():
        given = torch.empty(9, device="cuda"), torch.empty(9, device="cuda")
    dispatch.launch_all([(kernel, given) for kernel in kernels])
    assert together == [(2, H200)]
    dispatch.launcher_of(kernels[0]).compile_ahead((torch.ones(9), torch.ones(9)), H200)
    dispatch.launch_all([(kernel, given) for kernel in kernels])
    assert together == [(2, H200)] and [each.launches for each in kernels] == [2, 2]
