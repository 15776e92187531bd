"""What an application names outside is looked at in each call: with other values it is another program."""

import enum
import types

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from tests.conftest import DEVICE

SCALE = 2
SETTINGS = types.SimpleNamespace(scale=2)


class Mode(enum.Enum):
    DOUBLE = 2
    TRIPLE = 3


MODE = Mode.DOUBLE


def scaled(x):
    return x * 2


def of_global(x, y):
    y = x * SCALE


def of_object(x, y):
    y = x * SETTINGS.scale


def of_helper(x, y):
    y = scaled(x)


def of_enum(x, y):
    if MODE is Mode.DOUBLE:
        y = x * 2
    else:
        y = x * 3


def made(application):
    return ninetoothed.make(lambda x, y: (x.tile((4,)), y.tile((4,))), application, (Tensor(1), Tensor(1)))


def check(kernel, factor, times=4):
    for _ in range(times):
        x = torch.arange(8.0, device=DEVICE)
        kernel(x, y := torch.empty_like(x))
        assert torch.equal(y, x * factor)


CHANGES = {
    of_global: lambda patch: patch.setitem(globals(), "SCALE", 3),
    of_object: lambda patch: patch.setattr(SETTINGS, "scale", 3),
    of_helper: lambda patch: patch.setitem(globals(), "scaled", lambda x: x * 3),
    of_enum: lambda patch: patch.setitem(globals(), "MODE", Mode.TRIPLE),
}


@pytest.mark.parametrize("application", CHANGES)
def test_a_name_that_changes_is_read_again(application, monkeypatch):
    kernel = made(application)
    check(kernel, 2)
    with monkeypatch.context() as patch:
        CHANGES[application](patch)
        check(kernel, 3)
    check(kernel, 2)


def test_a_closure_that_changes_is_read_again():
    factor = 2

    def application(x, y):
        y = x * factor

    kernel = made(application)
    check(kernel, 2)
    factor = 3
    check(kernel, 3)


def test_types_of_equal_numbers_are_told_apart(monkeypatch):
    def application(x, y):
        y = x * SCALE

    kernel = made(application)
    x = torch.arange(8, dtype=torch.int32, device=DEVICE) + 2**24 + 1
    for scale, expected in ((1, x), (1.0, x.float().int()), (True, x)):
        monkeypatch.setitem(globals(), "SCALE", scale)
        for _ in range(3):
            kernel(x, y := torch.empty_like(x))
            assert torch.equal(y, expected)


def test_an_equal_number_compiles_nothing(monkeypatch):
    kernel = made(of_global)
    monkeypatch.setitem(globals(), "SCALE", 2.5)
    check(kernel, 2.5)
    (variant,) = kernel._launcher.variants
    monkeypatch.setitem(globals(), "SCALE", float("2.5"))
    check(kernel, 2.5)
    assert kernel._launcher.variants == (variant,)
