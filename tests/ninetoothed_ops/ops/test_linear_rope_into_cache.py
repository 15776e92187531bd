"""`linear_rope_into_cache`: q, k and v, their rotation and a cache, as one product and as several launches."""

import importlib

import pytest
import torch

from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.launch_steps import LaunchPlan
from ninetoothed_ops.ops import linear_rope_into_cache
from ninetoothed_ops.ops.linear_rope_into_cache import operator
from tests.conftest import DEVICE
from tests.ninetoothed.runtime import addresses
from tests.ninetoothed_ops.ops.test_linear_swiglu import apart
from tests.ninetoothed_ops.ops.test_rope_into_cache import reference
from tests.ninetoothed_ops.samples import on_the_cpu, random as r

TOLERANCES = {torch.float32: 1e-6, torch.float16: 2e-3, torch.bfloat16: 1e-2}
LENGTH, COLUMNS = 11, 40


def arguments(dtype=torch.bfloat16, shape=(2, 1), heads=(6, 2), width=16, are_joint=True, tables=None):
    """The weights as parts of one memory or apart; slots are any, in no order."""
    (batch, tokens), (queries, keys) = shape, heads
    sizes = [n * width for n in (queries, keys, keys)]
    weights = r(sum(sizes), COLUMNS, dtype=dtype).split(sizes)
    angles = (r(*(tables or (batch, tokens, width)), dtype=dtype) for _ in range(2))
    slots = torch.randperm(LENGTH, device=DEVICE)[:tokens]
    cache = (r(batch, keys, LENGTH, width, dtype=dtype) for _ in range(2))
    weights = weights if are_joint else map(apart, weights)
    return [r(batch, tokens, COLUMNS, dtype=dtype), *weights, *angles, slots, *cache]


def expected(given):
    input, *weights = (each.double() for each in given[:4])
    states = [(input @ weight.mT).unflatten(2, (-1, given[7].shape[3])) for weight in weights]
    return reference(*states, *given[4:])


def called(given):
    """The query, keys and values, from outputs that start as NaN; the cache given stays as it is."""
    given = [*given[:7], *(each.clone() for each in given[7:])]
    flat = linear_rope_into_cache.flatten(*given)
    output = linear_rope_into_cache.allocate(*flat).fill_(float("nan"))
    linear_rope_into_cache.launch(output, *flat)
    return output[:, :, : given[1].shape[0] // given[7].shape[3]], *given[7:]


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize(
    "options",
    (
        {},
        {"shape": (3, 4), "tables": (4, 8)},
        {"shape": (2, 5), "heads": (3, 3), "width": 64, "tables": (1, 5, 64)},
        {"shape": (0, 1)},
        {"width": 12},
        {"shape": (13, 5)},
        {"are_joint": False},
    ),
    ids=str,
)
def test_values(dtype, options):
    given = arguments(dtype, **options)
    wanted, found, others = expected(given), called(given), called([*given[:2], apart(given[2]), *given[3:]])
    for each, value, other in zip(found, wanted, others):
        assert (each.double() - value).norm() <= TOLERANCES[dtype] * value.norm()
        assert DEVICE != "cpu" or torch.equal(each, other)


@on_the_cpu
def test_gradients():
    """Those of products, rotation and a copy into the cache; the room behind the queries is not asked for."""
    *leaves, slots, keys, values = arguments(torch.float64, (2, 2), (2, 1), 4)
    leaves = [each.clone().requires_grad_() for each in (*leaves, keys, values)]

    def function(*leaves):
        cache = [each.clone() for each in leaves[6:]]
        return operator(*leaves[:6], slots, *cache)[:, :, :2], *cache

    found, wanted = function(*leaves), expected([*leaves[:6], slots, *leaves[6:]])
    torch.testing.assert_close(found, wanted)
    weights = [torch.randn_like(each) for each in found]
    for pair in zip(*(torch.autograd.grad(outputs, leaves, weights) for outputs in (found, wanted))):
        torch.testing.assert_close(*pair)
    assert torch.autograd.gradcheck(function, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, leaves, fast_mode=True)


def test_few_rows_of_whole_heads_are_one_product(monkeypatch):
    made, make = [], linear_rope_into_cache.kernels.make
    monkeypatch.setattr(linear_rope_into_cache.kernels, "make", lambda width: made.append(width) or make(width))
    for options in ({}, {"are_joint": False}, {"dtype": torch.float32}, {"width": 12}, {"shape": (13, 5)}):
        operator(*arguments(**options))
    assert made == [16]


def test_a_slot_that_is_none():
    given = arguments(torch.float16)
    given[6] = torch.tensor([LENGTH], device=DEVICE)
    if DEVICE == "cpu":
        with pytest.raises(IndexError, match="the cache has 11"):
            operator(*given)
        return
    before = given[7].clone()
    assert operator(*given)[:, :, :6].isnan().all() and torch.equal(given[7], before)


def test_errors_fakes_and_versions():
    given = arguments()
    torch.library.opcheck(operator, tuple(given))
    versions = [each._version for each in given]
    operator(*given)
    changed = [each._version - version for each, version in zip(given, versions)]
    assert all(changed[7:]) and not any(changed[:7])
    for place, other in (
        (0, given[0][0]),
        (2, given[2][:-16]),
        (4, given[4][..., :3]),
        (7, given[7][0]),
        (3, r(32, 8)),
    ):
        with pytest.raises(RuntimeError):
            operator(*given[:place], other, *given[place + 1 :])
    for name, rows in {"queries": (13, 32, 32), "keys": (96, 13, 13)}.items():
        weights = [weight[:count] for weight, count in zip(given[1:4], rows)]
        with pytest.raises(RuntimeError, match=f"a weight of {name} that gives whole heads of 16 columns"):
            operator(given[0], *weights, *given[4:])


def test_calls_are_recorded_by_where_the_weights_lie(monkeypatch):
    """As on a GPU, which is not asked for numbers."""
    module = linear_rope_into_cache
    module.kernels.make.cache_clear()
    addresses.use(monkeypatch)
    monkeypatch.setattr(module, "check_slots", lambda *_: None)
    monkeypatch.setattr(importlib.import_module("ninetoothed_ops.ops.rope_into_cache"), "check_slots", lambda *_: None)
    function = ReplayedFunction(module.allocate, module.launch)
    with torch.inference_mode():
        for turn in range(8):
            given = arguments(torch.float16, are_joint=turn % 2 == 0)
            flat = module.flatten(*given)
            wanted, output = expected(given), function(*flat)
            for each, value in zip((output[:, :, :6], *given[7:]), wanted):
                assert (each.double() - value).norm() <= TOLERANCES[torch.float16] * value.norm()
        known = function.calls.find(tuple(module.flatten(*arguments(torch.float16))), ())
    module.kernels.make.cache_clear()
    assert isinstance(known, LaunchPlan)
