"""Rotation and a cache written in one launch: values, what is left alone, fakes, recordings, versions and errors."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import forward_ad

from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.launch_steps import LaunchPlan
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
        known = function.calls.find(tuple(args), ())
    kernels.make.cache_clear()
    assert isinstance(known, LaunchPlan)


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


def leaves_and_slots(label="tokens", dtype=torch.float64, slots=None, **options):
    """The arguments that have gradients, and the slots."""
    *others, found, keys, values = arguments(label, dtype, "contiguous", **options)
    return [each.requires_grad_() for each in (*others, keys, values)], found if slots is None else slots


def into_a_copy(function, leaves, slots, *options):
    """The query, the keys and the values by a function, which writes into copies of the cache."""
    keys, values = (each.clone() for each in leaves[5:])
    found = function(*leaves[:5], slots, keys, values, *options)
    return found if isinstance(found, tuple) else (found, keys, values)


GRADIENTS = {
    "halves": ((3, 4, 12), None),
    "neighbours": ((4, 6), None, True),
    "a part, slots of each entry": ((1, 4, 8), [[0, 1, 2, 3], [8, 0, 4, 2], [5, 6, 7, 8]], True, 8),
}


@pytest.mark.parametrize("label", GRADIENTS)
def test_gradients(label):
    tables, slots, *options = GRADIENTS[label]
    slots = None if slots is None else torch.tensor(slots, dtype=torch.int32, device=DEVICE)
    leaves, slots = leaves_and_slots(tables=tables, slots=slots)
    found, expected = (into_a_copy(function, leaves, slots, *options) for function in (operator, reference))
    weights = [torch.randn_like(each) for each in found]
    grads = (torch.autograd.grad(outputs, leaves, weights) for outputs in (found, expected))
    for actual, wanted in zip(*grads):
        torch.testing.assert_close(actual, wanted)

    def function(*leaves):
        return into_a_copy(operator, leaves, slots, *options)

    assert torch.autograd.gradcheck(function, leaves, fast_mode=True)
    assert torch.autograd.gradgradcheck(function, leaves, fast_mode=True)


@pytest.mark.parametrize("index", range(7))
def test_one_gradient_alone(index):
    leaves, slots = leaves_and_slots(dtype=torch.float32)
    leaves = [each.requires_grad_(i == index) for i, each in enumerate(leaves)]
    grads = []
    for function in (operator, reference):
        total = sum((output.double() ** 2).sum() for output in into_a_copy(function, leaves, slots))
        grads += torch.autograd.grad(total, leaves[index])
    torch.testing.assert_close(*grads, rtol=1e-4, atol=1e-4)


def test_tokens_one_by_one():
    """Gradients pass through a cache that is written again and again, and slots that are counted on meanwhile."""
    steps = [leaves_and_slots("one token", tables=(2, 1, 8))[0][:5] for _ in range(3)]
    weights = r(2, 2, 2, 11, 16, dtype=torch.float64)
    grads = []
    for function in (operator, into_slots):
        # Each is part of more memory, as of all layers.
        keys, values = (torch.zeros_like(weights) for _ in range(2))
        slot = torch.zeros(1, dtype=torch.int64, device=DEVICE)
        for step in steps:
            function(*step, slot, keys[0], values[1])
            slot += 1
        total = (keys * weights).sum() + (values * weights).sum()
        grads.append(torch.autograd.grad(total, [each for step in steps for each in step[1:]]))
    for actual, wanted in zip(*grads):
        torch.testing.assert_close(actual, wanted)


def into_slots(query, key, value, sin, cos, slots, keys, values):
    keys[:, :, slots.item()] = rope(key, sin, cos, False)[:, 0]
    values[:, :, slots.item()] = value[:, 0]


def test_transformed_and_compiled_gradients():
    leaves, slots = leaves_and_slots(dtype=torch.float32)

    def total(query, key, value, sin, cos, keys, values):
        keys, values = keys * 1, values * 1
        output = rope_into_cache(query, key, value, sin, cos, slots, keys, values)
        return (output**2).sum() + (keys**2).sum() + (values**3).sum()

    expected = torch.autograd.grad(total(*leaves), leaves)
    compiled = torch.compile(total, fullgraph=True, backend="aot_eager")
    for actual in (
        torch.autograd.grad(compiled(*leaves), leaves),
        torch.func.grad(total, tuple(range(7)))(*(each.detach() for each in leaves)),
    ):
        torch.testing.assert_close(actual, expected)


def test_a_compiled_call_writes_into_what_it_is_given():
    leaves, slots = leaves_and_slots(dtype=torch.float32)
    compiled = torch.compile(lambda *args: rope_into_cache(*args), fullgraph=True, backend="aot_eager")
    found = []
    for function in (operator, compiled):
        keys, values = (each.detach().clone() for each in leaves[5:])
        total = function(*leaves[:5], slots, keys, values).sum() + (keys**2).sum() + (values**3).sum()
        found.append((keys.detach(), torch.autograd.grad(total, leaves[:5])))
    torch.testing.assert_close(*found)


def test_types_stay_under_autocast():
    leaves, slots = leaves_and_slots(dtype=torch.float32)
    with torch.autocast(DEVICE, torch.bfloat16):
        found = into_a_copy(operator, leaves, slots)
    for actual, wanted in zip(found, into_a_copy(operator, leaves, slots)):
        assert actual.dtype == torch.float32 and torch.equal(actual, wanted)


@pytest.mark.parametrize("fault", ("slot", "leaf", "view of a leaf", "inference"))
def test_nothing_is_written_where_a_recorded_call_is_refused(fault):
    leaves, slots = leaves_and_slots()
    keys, values = (each.detach().clone() for each in leaves[5:])
    before = keys.clone()
    if fault == "slot":
        if DEVICE == "cuda":
            return
        slots[1] = keys.shape[2]
    elif fault == "inference":
        with torch.inference_mode():
            values = values.clone()
    else:
        values.requires_grad_()
        values = values if fault == "leaf" else values[:]
    with pytest.raises(IndexError if fault == "slot" else RuntimeError, match="rope_into_cache"):
        operator(*leaves[:5], slots, keys, values)
    assert torch.equal(keys, before)


def test_tensors_of_inference_are_written_in_inference_mode_alone():
    leaves, slots = leaves_and_slots()
    tensors = [each.detach() for each in leaves]
    with torch.inference_mode():
        keys, values = (each.clone() for each in tensors[5:])
        operator(*tensors[:5], slots, keys, values)
    before = keys.clone()
    with pytest.raises(RuntimeError, match="rope_into_cache: Inplace update to inference tensor outside InferenceMode"):
        operator(*(2 * each for each in tensors[:5]), slots, keys, values)
    assert torch.equal(keys, before)


def test_derivatives_that_there_are_none_of():
    leaves, slots = leaves_and_slots(dtype=torch.float32)
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        operator(*leaves[:5], slots, *leaves[5:])


def test_a_tangent_of_queries():
    leaves, slots = leaves_and_slots(dtype=torch.float32)
    query, *others = (each.detach() for each in leaves)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(query, query.flip(0))
        tangent = forward_ad.unpack_dual(operator(dual, *others[:4], slots, *others[4:])).tangent
    torch.testing.assert_close(tangent, operator(query.flip(0), *others[:4], slots, *others[4:]))
