"""Identities of kernels: equal where a kernel is made anew, and others wherever what it computes is."""

import types

import pytest

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.built.identity import identity
from ninetoothed_ops.kernels import mm, softmax

SCALE = 2.0


class Options:
    factor = 3.0
    inner = types.SimpleNamespace(eps=1e-6)


OPTIONS = Options()
MODULE = types.ModuleType("mathutils")  # of a user, for all that its name begins as another's
exec("def shift(a):\n    return a + AMOUNT\nAMOUNT = 1", vars(MODULE))


def helper(a):
    return a * SCALE


def arrangement(x, y, block=64):
    return x.tile((block,)), y.tile((block,))


def digest(application, arrange=arrangement, tensors=None, **options):
    tensors = tensors or (Tensor(1), Tensor(1))
    return identity(ninetoothed.make(arrange, application, tensors, kernel_name="kernel", **options).definition).digest


def by_helper(x, y):
    y = helper(x)


def by_object(x, y):
    y = x * OPTIONS.factor + OPTIONS.inner.eps


def by_module(x, y):
    y = MODULE.shift(x)


def test_a_kernel_made_anew_is_the_same():
    assert digest(by_helper) == digest(by_helper)
    assert identity(mm.make().definition).digest == identity(mm.make.__wrapped__().definition).digest
    assert identity(softmax.make(2).definition).digest != identity(softmax.make(3).definition).digest


@pytest.mark.parametrize(
    "application, owner, name, value",
    (
        (by_helper, globals(), "SCALE", 3.0),
        (by_helper, globals(), "helper", lambda a: a),
        (by_object, OPTIONS, "factor", 4.0),
        (by_object, OPTIONS.inner, "eps", 1e-5),
        (by_module, MODULE, "AMOUNT", 2),
        (by_module, MODULE, "shift", lambda a: a - 1),
    ),
)
def test_what_it_names_counts(monkeypatch, application, owner, name, value):
    before = digest(application)
    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))
    known = identity(kernel.definition)
    assert all(each.is_current for each in known.free_names)
    if isinstance(owner, dict):
        monkeypatch.setitem(owner, name, value)
    else:
        monkeypatch.setattr(owner, name, value)
    assert digest(application) != before
    assert not all(each.is_current for each in known.free_names)


def test_its_arrangement_and_options_count():
    def wider(x, y):
        return arrangement(x, y, 128)

    found = {
        digest(by_helper),
        digest(by_helper, wider),
        digest(by_helper, num_warps=2),
        digest(by_helper, tensors=(Tensor(1, other=1.0), Tensor(1))),
        digest(by_helper, tensors=(Tensor(1, shape=(64,)), Tensor(1))),
    }
    assert len(found) == 5


def test_closures_and_methods_count():
    class Model:
        def __init__(self, eps):
            self.eps = eps

        def application(self, x, y):
            y = x + self.eps

    def closed(amount):
        def application(x, y):
            y = x + amount

        return application

    assert digest(closed(1.0)) == digest(closed(1.0)) != digest(closed(2.0))
    assert digest(Model(1.0).application) == digest(Model(1.0).application) != digest(Model(2.0).application)
