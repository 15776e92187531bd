"""Rotation and a cache written in one launch: values, what is left alone, fakes, recordings, versions and errors."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime.call_cache import Entry
from ninetoothed.runtime.launch_plan import LaunchPlan, ReplayedFunction
from ninetoothed_ops import rope_into_cache
from ninetoothed_ops.kernels import rope_into_cache as kernels
from tests.conftest import DEVICE
from tests.ninetoothed.runtime import addresses
from tests.ninetoothed_ops.samples import random as r, rope

TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
NAMES = "query", "key", "value", "sin", "cos", "slots", "keys", "values"
operator = torch.ops.ninetoothed.rope_into_cache
# (batch, tokens, query heads, heads, D, length)
SHAPES = {
    "one token": (2, 1, 8, 2, 16, 11),
    "tokens": (3, 4, 6, 2, 12, 9),
    "heads of their own": (2, 2, 3, 3, 8, 5),
    "one head": (1, 3, 5, 1, 2, 3),
    "no tokens": (2, 0, 4, 2, 8, 5),
    "no batch": (0, 1, 4, 2, 8, 5),
}


def arguments(label="one token", dtype=torch.float32, layout="product", tables=None, index=torch.int64):
    """The states as parts of one product or in other layouts; slots are any, in no order."""
    batch, tokens, query_heads, heads, width, length = SHAPES[label]
    numbers = query_heads, heads, heads
    if layout == "product":
        product = r(batch, tokens, sum(numbers) * width, dtype=dtype)
        states = [each.unflatten(-1, (-1, width)) for each in product.split([n * width for n in numbers], -1)]
    else:
        states = [r(batch, tokens, n, width, dtype=dtype, layout=layout) for n in numbers]
    sin, cos = (r(*(tables or (batch, tokens, width)), dtype=dtype) for _ in range(2))
    slots = torch.randperm(length, device=DEVICE)[:tokens].to(index)
    layout = "contiguous" if layout == "expanded" else layout.replace("product", "contiguous")
    keys, values = (r(batch, heads, length, width, dtype=dtype, layout=layout) for _ in range(2))
    return [*states, sin, cos, slots, keys, values]


def reference(query, key, value, sin, cos, slots, keys, values, interleaved=False, rotary_dim=None):
    """The query, the keys and the values, in float64."""
    query, key, value, sin, cos, keys, values = (t.double() for t in (query, key, value, sin, cos, keys, values))
    keys, values = keys.clone(), values.clone()
    key = rope(key, sin, cos, interleaved, rotary_dim)
    slots = slots.expand(query.shape[:2])
    for entry in range(query.shape[0]):
        for token in range(query.shape[1]):
            keys[entry, :, slots[entry, token]] = key[entry, token]
            values[entry, :, slots[entry, token]] = value[entry, token]
    return rope(query, sin, cos, interleaved, rotary_dim), keys, values


def check(args, tolerance=1e-6):
    expected = reference(*args)
    torch.use_deterministic_algorithms(True, warn_only=True)  # outputs start as NaN
    try:
        output = operator(*args)
    finally:
        torch.use_deterministic_algorithms(False)
    assert output.shape == args[0].shape and output.dtype == args[0].dtype and output.is_contiguous()
    for actual, wanted in zip((output, *args[6:8]), expected):
        assert (actual.double() - wanted).norm() <= tolerance * wanted.norm()


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("label", SHAPES)
def test_values(label, dtype):
    check(arguments(label, dtype), TOLERANCES[dtype])


@pytest.mark.parametrize("layout", ("contiguous", "transposed", "sliced", "expanded"))
def test_layouts(layout):
    check(arguments("tokens", layout=layout))


@pytest.mark.parametrize("tables", ((4, 12), (4, 6), (1, 4, 12), (3, 4, 6)))
def test_tables(tables):
    check(arguments("tokens", tables=tables))


@pytest.mark.parametrize("columns", (4, 8))
@pytest.mark.parametrize("interleaved", (False, True))
def test_other_pairs_and_a_part_of_each_head(interleaved, columns):
    check([*arguments("tokens", tables=(3, 4, columns)), interleaved, 8])
    check([*arguments("tokens", torch.bfloat16, tables=(4, 12)), interleaved], 8e-3)


def test_slots_of_each_entry_and_of_another_type():
    args = arguments("tokens", index=torch.int32)
    check(args)
    args[5] = torch.tensor([[0, 1, 2, 3], [8, 0, 4, 2], [5, 6, 7, 8]], device=DEVICE)
    check(args)


def test_the_cache_as_index_copy_writes_it():
    """Bit for bit what `rope` and `index_copy_` give, and all else in the cache as it was, NaN too."""
    args = arguments("tokens")
    *_, sin, cos, slots, keys, values = args
    keys[:], values[:] = torch.nan, torch.nan
    expected = keys.clone(), values.clone()
    turned = [torch.ops.ninetoothed.rope(each, sin, cos, False) for each in args[:2]]
    expected[0].index_copy_(2, slots, turned[1].transpose(1, 2))
    expected[1].index_copy_(2, slots, args[2].transpose(1, 2))
    assert torch.equal(operator(*args), turned[0])
    for actual, wanted in zip((keys, values), expected):
        assert torch.equal(actual.nan_to_num(7.0), wanted.nan_to_num(7.0)) and actual.isnan().any()


def test_fakes_tell_what_the_real_ones_are():
    args = arguments("tokens", layout="sliced", tables=(4, 8))
    real = operator(*args, True, 8)
    with FakeTensorMode() as mode:
        fake = operator(*map(mode.from_tensor, args), True, 8)
    assert (fake.shape, fake.dtype, fake.device, fake.stride()) == (real.shape, real.dtype, real.device, real.stride())


def test_the_operator_is_registered_as_pytorch_asks():
    torch.library.opcheck(operator.default, arguments("tokens"))


def test_compiled_whole():
    args = arguments("tokens")
    expected = reference(*args)
    compiled = torch.compile(lambda *args: (rope_into_cache(*args), args[-1] * 1), fullgraph=True, backend="aot_eager")
    output, values = compiled(*args)
    for actual, wanted in zip((output, args[-2], args[-1], values), (*expected, expected[2])):
        torch.testing.assert_close(actual.double(), wanted, rtol=1e-5, atol=1e-5)


def test_calls_are_recorded(monkeypatch):
    import importlib

    module = importlib.import_module("ninetoothed_ops.ops.rope_into_cache")
    kernels.make.cache_clear()
    addresses.use(monkeypatch)
    monkeypatch.setattr(module, "check_slots", lambda *_: None)  # as on a GPU, which is not asked for numbers
    function = ReplayedFunction(module.allocate, module.launch)
    with torch.inference_mode():
        for _ in range(4):
            args = arguments("tokens", layout="contiguous")
            expected = reference(*args)
            for actual, wanted in zip((function(*args), *args[-2:]), expected):
                torch.testing.assert_close(actual.double(), wanted, rtol=1e-5, atol=1e-5)
        known = function._calls.find(tuple(args), ())
    kernels.make.cache_clear()
    assert isinstance(known, Entry) and isinstance(known.found, LaunchPlan)


def test_versions_are_counted():
    args = arguments()
    keys = args[-2]
    weight = torch.ones_like(keys, requires_grad=True)
    product = weight * keys
    before = [each._version for each in args]
    with torch.no_grad():
        operator(*args)
    assert [each._version > count for each, count in zip(args, before)] == [False] * 6 + [True] * 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        product.sum().backward()


@pytest.mark.parametrize("place", (-1, 11))
def test_no_slot_for_a_token(place):
    """A CPU says so. A GPU cannot: the kernel makes the query NaN, and writes nowhere."""
    args = arguments()
    args[5] = torch.full((1,), place, device=DEVICE)
    before = [each.clone() for each in args[-2:]]
    if DEVICE == "cpu":
        with pytest.raises(IndexError, match=rf"slots are \[\[{place}\]"):
            operator(*args)
    query, key, value, sin, cos, slots, *cache = args
    query, output = query.unflatten(2, (2, -1)), torch.zeros(2, 1, 2, 4, 16, device=DEVICE)
    tables = (table.unflatten(-1, (2, -1)) for table in (sin, cos))
    kernels.make()(query, key, value, *tables, slots.expand(2, 1), *cache, output)
    assert output.isnan().all() and all(map(torch.equal, cache, before))


CHANGES = {
    "three dimensions": ("query", lambda t: t[0], RuntimeError),
    "heads that do not divide": ("query", lambda t: t[:, :, :7], RuntimeError),
    "another D": ("value", lambda t: t[..., :8], RuntimeError),
    "an odd D": (NAMES[:3] + NAMES[6:], lambda t: t[..., :15], RuntimeError),
    "another batch": ("keys", lambda t: t[:1], RuntimeError),
    "another length": ("values", lambda t: t[:, :, :5], RuntimeError),
    "types": ("key", torch.Tensor.half, RuntimeError),
    "integers": (NAMES[:3] + NAMES[6:], torch.Tensor.int, UnsupportedError),
    "tables": ("sin", lambda t: t[..., :4], RuntimeError),
    "slots of floats": ("slots", torch.Tensor.float, RuntimeError),
    "too many slots": ("slots", lambda t: t.repeat(2), RuntimeError),
    "another device": ("slots", lambda t: t.to("meta"), RuntimeError),
    "text": ("keys", lambda t: "keys", TypeError),
}


@pytest.mark.parametrize("label", CHANGES)
def test_errors(label):
    names, change, error = CHANGES[label]
    args = [change(value) if name in names else value for name, value in zip(NAMES, arguments())]
    with pytest.raises(error, match="rope_into_cache"):
        rope_into_cache(*args)


@pytest.mark.parametrize("name", ("query", "values"))
def test_no_gradient_is_lost_in_silence(name):
    args = [each.requires_grad_() if other == name else each for other, each in zip(NAMES, arguments())]
    with pytest.raises(UnsupportedError, match="rope_into_cache writes into its arguments"):
        operator(*args)
    with torch.no_grad():
        check(args)
