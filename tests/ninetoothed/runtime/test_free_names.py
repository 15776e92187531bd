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


class Scales:
    of_class = 2.0

    def __init__(self):
        self.inner = types.SimpleNamespace(scale=2)
        self.none, self.pair, self.function, self.number = None, (2, 5), scaled, 2.5

    def method(self, x):
        return x * 2

    @property
    def made_anew(self):
        return self.number * 0.8


SCALES = Scales()


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


def of_inner(x, y):
    y = x * SCALES.inner.scale


def of_class(x, y):
    y = x * SCALES.of_class


def of_none(x, y):
    y = x * (2 if SCALES.none is None else SCALES.none)


def of_tuple(x, y):
    y = x * SCALES.pair[0]


def of_function(x, y):
    y = SCALES.function(x)


def of_method(x, y):
    y = SCALES.method(x)


def of_property(x, y):
    y = x * SCALES.made_anew


def of_import(x, y):
    from tests.ninetoothed.runtime.test_free_names import SCALE

    y = x * SCALE


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
    of_inner: lambda patch: patch.setattr(SCALES, "inner", types.SimpleNamespace(scale=3)),
    of_class: lambda patch: patch.setattr(Scales, "of_class", 3.0),
    of_none: lambda patch: patch.setattr(SCALES, "none", 3),
    of_tuple: lambda patch: patch.setattr(SCALES, "pair", (3, 5)),
    of_function: lambda patch: patch.setattr(SCALES, "function", lambda x: x * 3),
    of_method: lambda patch: patch.setattr(Scales, "method", lambda self, x: x * 3),
    of_property: lambda patch: patch.setattr(SCALES, "number", 3.75),
    of_import: lambda patch: patch.setitem(globals(), "SCALE", 3),
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


def test_a_closure_that_is_emptied_is_named():
    factor = 2

    def application(x, y):
        y = x * factor

    kernel = made(application)
    check(kernel, 2)
    del application.__closure__[0].cell_contents
    with pytest.raises(ninetoothed.ApplicationError, match="name 'factor' is not defined"):
        check(kernel, 2)


def test_an_attribute_of_an_instance_covers_that_of_its_class(monkeypatch):
    kernel = made(of_class)
    check(kernel, 2)
    monkeypatch.setattr(SCALES, "of_class", 3.0, raising=False)
    check(kernel, 3)


def test_values_that_return_compile_nothing(monkeypatch):
    kernel = made(of_global)
    for scale in (2.5, 3.5, 2.5, 3.5):
        monkeypatch.setitem(globals(), "SCALE", scale)
        check(kernel, scale)
    assert len(kernel._launcher.variants) == 2
    for scale in range(4, 12):
        monkeypatch.setitem(globals(), "SCALE", scale)
        check(kernel, scale, times=1)
    assert len(kernel._launcher.variants) == 4


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
