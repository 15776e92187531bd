"""Operators inside `torch.autocast`, beside PyTorch's own: what is cast, and to which type."""

import threading

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ninetoothed_ops as ops
from ninetoothed_ops import autocast_cache
from ninetoothed_ops.autocast import cast
from tests.conftest import DEVICE
from tests.ninetoothed_ops.autocast import autocast_on_gpus
from tests.ninetoothed_ops.samples import NAMESAKES, OPERATORS, operator, random, samples


def call(function, sample):
    with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16):
        return sample.call(function)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16, torch.float16))
@pytest.mark.parametrize("name", sorted(set(OPERATORS) - {"rope"}))
def test_types_are_those_of_pytorch(name, dtype):
    for sample in list(samples(name, dtype).values())[:3]:
        actual, expected = call(operator(name), sample), call(NAMESAKES[name], sample)
        assert actual.dtype == expected.dtype, sample.label
        assert (actual.double() - expected.double()).norm() <= 2e-2 * expected.double().norm(), sample.label


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16))
@pytest.mark.parametrize("name", sorted(set(OPERATORS) - {"rope"}))
def test_types_on_a_gpu_need_none(name, dtype):
    """Fakes of a GPU's tensors have the types that PyTorch's have, whichever version it is."""
    for sample in list(samples(name, dtype).values())[:3]:
        with FakeTensorMode(), torch.no_grad(), autocast_on_gpus():
            fake = sample.map(lambda x: torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="cuda"))
            assert fake.call(operator(name)).dtype == fake.call(NAMESAKES[name]).dtype, sample.label


def test_operands_of_different_types():
    half, weight = random(5, 8, dtype=torch.bfloat16), random(8, 8)
    with pytest.raises(RuntimeError):
        ops.mm(half, weight)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert torch.equal(ops.mm(half, weight), ops.mm(half, weight.bfloat16()))
        assert ops.addmm(weight[0], half, weight).dtype == torch.bfloat16


def test_as_they_are():
    """Doubles are never cast, nor is anything outside, or where autocast is disabled."""
    x, double = random(4, 4), random(4, 4, dtype=torch.float64).cpu()
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert ops.mm(double, double).dtype == torch.float64
        with torch.autocast(DEVICE, enabled=False):
            assert ops.mm(x, x).dtype == torch.float32
    assert ops.mm(x, x).dtype == torch.float32


def test_compiled():
    x, weight = random(5, 8), random(8, 8)

    def function(x, weight):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            return torch.ops.ninetoothed.mm(x, weight)

    found = torch.compile(function, backend="aot_eager", fullgraph=True)(x, weight)
    assert torch.equal(found, function(x, weight)) and found.dtype == torch.bfloat16


def test_exported():
    class Product(torch.nn.Module):
        def forward(self, x, weight):
            with torch.autocast(DEVICE, dtype=torch.bfloat16):
                return torch.ops.ninetoothed.mm(x, weight)

    x, weight = random(5, 8), random(8, 8)
    found = torch.export.export(Product(), (x, weight)).module()(x, weight)
    assert torch.equal(found, Product()(x, weight)) and found.dtype == torch.bfloat16


def test_lists_of_tensors():
    seen = []
    first = ops.register(
        "ninetoothed_test::first(Tensor[] xs, int[] sizes) -> Tensor",
        allocate=lambda xs, sizes: torch.empty_like(xs[0]),
        launch=lambda output, xs, sizes: seen.append(([x.dtype for x in xs], list(sizes))),
        autocast=torch.get_autocast_dtype,
    )
    x = random(3)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        assert first([x, x.int(), x.double()], [4, 5]).dtype == torch.bfloat16
    assert seen == [([torch.bfloat16, torch.int32, torch.float64], [4, 5])]


def test_a_weight_is_cast_once_a_region():
    """As by PyTorch: until the region ends, or its casts are cleared, or (here alone) the weight is written."""
    weight, half = torch.nn.Parameter(random(8, 8)), torch.bfloat16

    def same(options=None, change=lambda: None, given=weight):
        with torch.autocast(DEVICE, dtype=half, **(options or {})):
            first = cast(given, DEVICE, half)
            change()
            return cast(given, DEVICE, half) is first

    with torch.autocast(DEVICE, dtype=half):
        kept = cast(weight, DEVICE, half)
        assert same() and cast(weight, DEVICE, half) is kept and kept.grad_fn is not None
        with torch.no_grad():
            assert cast(weight, DEVICE, half).grad_fn is None
    assert same() and not autocast_cache._REGIONS
    assert not same(change=torch.clear_autocast_cache)
    assert not same(change=lambda: torch.no_grad()(weight.mul_)(2))
    assert not same({"cache_enabled": False}) and not same(given=weight.detach()) and not same(given=weight[:2])


def test_casts_that_are_remembered_are_right():
    """After a weight is written, of another grad mode, and for gradients of several uses."""
    x, weight = random(5, 8), torch.nn.Parameter(random(8, 8))
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        with torch.no_grad():
            assert torch.equal(ops.linear(x, weight), torch.nn.functional.linear(x, weight))
        with torch.no_grad():
            weight.mul_(2)
            torch.testing.assert_close(ops.linear(x, weight), ops.linear(x, weight.detach()))
        y = x
        for _ in range(3):
            y = ops.linear(y, weight).tanh()
    (found,) = torch.autograd.grad(y.float().sum(), weight)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        y = x
        for _ in range(3):
            y = torch.nn.functional.linear(y, weight).tanh()
    (expected,) = torch.autograd.grad(y.float().sum(), weight)
    assert found.dtype == torch.float32
    assert (found - expected).norm() <= 3e-2 * expected.norm()


def test_a_thread_that_ends_its_region_ends_all(monkeypatch):
    """PyTorch's casts go with whichever region ends first; ours are not left for one that comes later."""
    x, weight = random(5, 8), torch.nn.Parameter(random(8, 8))

    def end_a_region():
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            pass

    def remembered_late(*args):
        thread = threading.Thread(target=end_a_region)
        thread.start()
        thread.join()
        return made(*args)

    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        ops.linear(x, torch.nn.Parameter(random(8, 8)))
        made = autocast_cache._Cast
        with monkeypatch.context() as patch:
            patch.setattr(autocast_cache, "_Cast", remembered_late)
            ops.linear(x, weight)
    assert not autocast_cache._REGIONS
    weight.data.mul_(2)
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        torch.testing.assert_close(ops.linear(x, weight), ops.linear(x, weight.detach()))


def test_casts_where_hooks_of_saved_tensors_are_disabled():
    x, weight = random(5, 8), torch.nn.Parameter(random(8, 8))
    with torch.autograd.graph.disable_saved_tensors_hooks("no hooks here"):
        with torch.autocast(DEVICE, dtype=torch.bfloat16):
            torch.testing.assert_close(ops.linear(x, weight), torch.nn.functional.linear(x, weight))
    assert not autocast_cache._REGIONS
