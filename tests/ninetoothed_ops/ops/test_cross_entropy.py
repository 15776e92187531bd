"""Losses of logits, and without them: block by block, in both modes, more than once, and what PyTorch has not."""

import importlib

import pytest
import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

from ninetoothed.errors import ArgumentError
from ninetoothed_ops import cross_entropy, linear_cross_entropy
from ninetoothed_ops.ops import blocks_of_logits
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import EXACT, on_the_cpu

TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2, torch.float16: 4e-3}


def written_out(input, weight, target, bias=None, class_weight=None, z_loss=0.0, softcap=None, **options):
    """The definition in float64, with the logits."""
    logits = F.linear(input.double(), weight.double(), None if bias is None else bias.double()).flatten(end_dim=-2)
    logits = logits if softcap is None else softcap * torch.tanh(logits / softcap)
    target, class_weight = target.flatten(), None if class_weight is None else class_weight.double()
    counted = (target != -100).double() * (1 if class_weight is None else class_weight[target.clamp(0)])
    squares = z_loss * (logits.logsumexp(1).square() * (target != -100)).sum()
    mean = options.pop("reduction", "mean") == "mean"
    loss = F.cross_entropy(logits, target, class_weight, reduction="sum", **options) + squares
    return loss / counted.sum() if mean else loss


def operands(dtype, rows=(3, 7), depth=24, classes=307):
    generator = torch.Generator().manual_seed(0)
    input, weight, bias = (
        torch.randn(shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype).requires_grad_()
        for shape in ((*rows, depth), (classes, depth), (classes,))
    )
    target = torch.randint(0, classes, rows, generator=generator).to(DEVICE)
    target[1, 2] = -100
    return input, weight, target, bias


def assert_near(found, expected, dtype):
    for own, exact in zip(found, expected, strict=True):
        assert (own.double() - exact.double()).norm() <= TOLERANCES[dtype] * exact.double().norm().clamp(min=1e-9)


@pytest.mark.parametrize("size", (None, 6000))
@pytest.mark.parametrize("memory", ("block", "least"))
@pytest.mark.parametrize("dtype", [each for each in TOLERANCES if each is not torch.float64 or EXACT is each])
def test_blocks(dtype, memory, size, monkeypatch):
    """Gradients of a loss that is scaled, as by a GradScaler, twice from one graph."""
    if size:
        for name, value in (("BLOCK", size), ("LEAST_BLOCK", size), ("ALIGNMENT", 8)):
            monkeypatch.setattr(blocks_of_logits, name, value)
    input, weight, target, bias = operands(dtype, rows=(3, 20 if size else 7))
    class_weight = torch.rand(307, device=DEVICE, dtype=torch.promote_types(dtype, torch.float32))
    for options in (
        {},
        {"reduction": "sum", "z_loss": 0.01, "softcap": 3.0},
        {"class_weight": class_weight, "label_smoothing": 0.3},
    ):
        loss = linear_cross_entropy(input, weight, target, bias, memory=memory, **options)
        leaves = input, weight, bias
        expected = written_out(input, weight, target, bias, **options)
        assert_near([loss], [expected], dtype)
        exact = torch.autograd.grad(2.5 * expected, leaves)
        for keep in (True, False):
            found = torch.autograd.grad(2.5 * loss, leaves, retain_graph=keep)
            assert [each.dtype for each in found] == [dtype] * 3
            assert_near(found, exact, dtype)


@pytest.mark.parametrize("memory", ("block", "least"))
@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_no_more_than_a_block_of_logits(dtype, memory, monkeypatch):
    """One block in forward, and one in a backward that computes them again; of a weight in halves, as much again."""
    size = 128 * 384
    for name in ("BLOCK", "LEAST_BLOCK"):
        monkeypatch.setattr(blocks_of_logits, name, size * dtype.itemsize)
    given, products = [], []
    empty, multiply = torch.Tensor.new_empty, blocks_of_logits.multiply

    def watched(self, *size, **options):
        result = empty(self, *size, **options)
        given.append(result.numel() * result.itemsize)
        return result

    def noted(lhs, rhs, output, bias=None):
        products.append(output.shape)
        multiply(lhs, rhs, output, bias)

    monkeypatch.setattr(torch.Tensor, "new_empty", watched)
    monkeypatch.setattr(blocks_of_logits, "multiply", noted)
    input, weight, target, _ = operands(dtype, rows=(5, 60))
    linear_cross_entropy(input, weight, target, memory=memory).backward()
    of_logits, in_backward = [each for each in given if each > input.nbytes + weight.nbytes], 300 * 128 * dtype.itemsize
    # Of halves, a forward without gradients takes a few numbers of each tile of the logits.
    in_forward = [] if memory == "least" and dtype is torch.bfloat16 else [size * dtype.itemsize]
    assert of_logits == [*in_forward, *([in_backward] if memory == "least" else [])]
    rows = [128, 128, 44]
    assert [shape for shape in products if shape[1] == 307] == [(length, 307) for length in rows if in_forward]
    assert given.count(weight.nbytes) == (memory == "block" and dtype is torch.bfloat16)


def test_blocks_that_save_nothing_are_not_cut(monkeypatch):
    """A weight of 64 columns, which two blocks add up, takes as much again as is saved of the logits; one of 16 not."""
    monkeypatch.setattr(blocks_of_logits, "BLOCK", 128 * 384 * 2)
    for depth, count in ((64, 1), (16, 2)):
        lengths, multiply = [], blocks_of_logits.multiply

        def noted(lhs, rhs, output, bias=None, lengths=lengths, multiply=multiply):
            lengths.append(len(output))
            multiply(lhs, rhs, output, bias)

        monkeypatch.setattr(blocks_of_logits, "multiply", noted)
        input, weight, target, _ = operands(torch.bfloat16, rows=(4, 50), depth=depth)
        linear_cross_entropy(input, weight, target)
        monkeypatch.setattr(blocks_of_logits, "multiply", multiply)
        assert lengths[::2][:count] == ([200] if count == 1 else [128, 72]) and lengths[0] == lengths[1]


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_sums_of_halves_are_rounded_once(dtype):
    parts = [[torch.randn(shape, device=DEVICE, dtype=dtype) for shape in ((33, 70), (70, 51))] for _ in range(24)]
    exact = sum(lhs.double() @ rhs.double() for lhs, rhs in parts)
    output = torch.full((33, 51), float("nan"), device=DEVICE, dtype=dtype)
    total = blocks_of_logits.Sum(output, True, len(parts))
    for lhs, rhs in parts:
        total.add(lhs, rhs)
    total.finish()
    assert (output.double() - exact).norm() <= 1.02 * (exact.to(dtype).double() - exact).norm()


def test_an_infinite_sum_of_halves():
    one, output = torch.ones(16, 16, device=DEVICE).bfloat16(), torch.zeros(16, 16, device=DEVICE).bfloat16()
    total = blocks_of_logits.Sum(output, True, 3)
    for factor in (float("inf"), 1.0, 2.0):
        total.add(one * factor, one)
    assert output.isinf().all()


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16))
def test_losses_of_tiles(dtype):
    """Of halves, and no logits: rows of none, classes that nothing can be, of which a tile is full, and no bias."""
    input, weight, target, bias = operands(dtype)
    ruled_out = bias.detach().clone()
    ruled_out[:260] = float("-inf")
    target = torch.where(target < 0, target, 260 + target % 47)
    for rows in (0, 21):
        for each in (ruled_out, None):
            given = input.detach().flatten(end_dim=-2)[:rows], weight.detach(), target.flatten()[:rows], each
            found = linear_cross_entropy(*given, reduction="none")
            logits = F.linear(*(value if value is None else value.double() for value in (given[0], given[1], each)))
            expected = F.cross_entropy(logits, given[2], reduction="none")
            assert found.dtype is torch.float32 and found.shape == (rows,)
            torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)
    options = {"class_weight": torch.rand(307, device=DEVICE), "z_loss": 0.01, "softcap": 3.0}
    found = linear_cross_entropy(*given[:2], target.flatten(), bias.detach(), memory="least", **options)
    expected = written_out(*given[:2], target.flatten(), bias.detach(), **options)
    torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-4)


def test_the_same_bits():
    input, weight, target, bias = operands(torch.bfloat16)
    both = [
        torch.autograd.grad(linear_cross_entropy(input, weight, target, bias), (input, weight, bias)) for _ in range(2)
    ]
    assert all(torch.equal(*pair) for pair in zip(*both))


@pytest.mark.parametrize("trained", ((True, False, False), (False, True, False), (False, False, True)))
def test_one_gradient_alone(trained):
    given = operands(torch.float32)
    leaves = [each.requires_grad_(is_trained) for each, is_trained in zip((given[0], given[1], given[3]), trained)]
    leaves = [each for each in leaves if each.requires_grad]
    found = torch.autograd.grad(linear_cross_entropy(*given), leaves)
    assert_near(found, torch.autograd.grad(written_out(*given), leaves), torch.float32)


def test_small_numbers_of_float16():
    """Scaled by 2^16 after the mean of many rows, nothing is lost on the way."""
    input, weight, target, _ = operands(torch.float16, rows=(64, 64))
    loss = linear_cross_entropy(input, weight, target)
    found = torch.autograd.grad(loss * 2**16, (input, weight))
    assert_near(found, torch.autograd.grad(written_out(input, weight, target) * 2**16, (input, weight)), torch.float16)


@on_the_cpu
@pytest.mark.parametrize(
    "options", ({}, {"memory": "least"}, {"z_loss": 0.1, "softcap": 2.0, "reduction": "none"}, {"label_smoothing": 0.2})
)
def test_gradients_of_gradients(options):
    tensors = [torch.randn(shape, dtype=torch.float64, requires_grad=True) for shape in ((3, 4), (5, 4), (5,))]
    target = torch.tensor([0, 4, -100])

    def of_products(input, weight, bias):
        return linear_cross_entropy(input, weight, target, bias, **options)

    def of_logits(logits):
        return cross_entropy(logits, target, **{key: value for key, value in options.items() if key != "memory"})

    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    for function, arguments in ((of_products, tensors), (of_logits, [logits])):
        assert torch.autograd.gradcheck(function, arguments, fast_mode=True)
        assert torch.autograd.gradgradcheck(function, arguments, fast_mode=True)


@on_the_cpu
def test_gradients_of_probabilities_and_weights():
    logits, target = (torch.randn(3, 5, dtype=torch.float64).requires_grad_() for _ in range(2))
    weight = torch.rand(5, dtype=torch.float64, requires_grad=True)
    for reduction in ("mean", "none"):
        arguments = [logits, target, weight]
        found, expected = (
            f(*arguments, reduction=reduction, label_smoothing=0.1) for f in (cross_entropy, F.cross_entropy)
        )
        grad = torch.randn_like(found)
        for pair in zip(*(torch.autograd.grad(each, arguments, grad) for each in (found, expected))):
            torch.testing.assert_close(*pair)
    assert torch.autograd.gradgradcheck(cross_entropy, (logits, target, weight), fast_mode=True)


@pytest.mark.parametrize("reduction", ("none", "mean", "sum"))
def test_nothing_to_average(reduction):
    """Of no rows, or of rows that are all ignored, a mean is NaN and the gradients are 0, as PyTorch's are."""
    logits, target = torch.randn(4, 5, device=DEVICE, requires_grad=True), torch.full((4,), -100, device=DEVICE)
    for rows in (0, 4):
        found, expected = (
            f(logits[:rows], target[:rows], reduction=reduction) for f in (cross_entropy, F.cross_entropy)
        )
        torch.testing.assert_close(found, expected, equal_nan=True)
        weight = torch.randn(5, 5, device=DEVICE, requires_grad=True)
        without = linear_cross_entropy(logits[:rows], weight, target[:rows], reduction=reduction)
        torch.testing.assert_close(without, expected, equal_nan=True)
        assert not torch.autograd.grad(without.sum(), weight)[0].any()
        assert not torch.autograd.grad(found.sum(), logits)[0].any()


def test_a_target_that_is_no_class():
    logits, weight = torch.randn(3, 5, device=DEVICE), torch.randn(5, 5, device=DEVICE)
    for wrong in (5, -3):
        target = torch.tensor([0, wrong, 2], device=DEVICE)
        for loss in (cross_entropy, lambda x, target: linear_cross_entropy(x, weight, target)):
            if DEVICE == "cpu":
                with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds"):
                    loss(logits, target)
            else:
                assert loss(logits, target).isnan()


def test_mistakes():
    x, weight, target = torch.randn(3, 4), torch.randn(5, 4), torch.tensor([0, 1, 2])
    for arguments, options in (
        ((x, weight.T, target), {}),
        ((x, weight, target[:2]), {}),
        ((x, weight, target.int()), {}),
        ((x, weight.double(), target), {}),
        ((x, weight, target, torch.randn(4)), {}),
        ((x, weight, target), {"memory": "none"}),
        ((x, weight, target), {"reduction": "all"}),
        ((x, weight, target), {"softcap": 0.0}),
        ((x, weight, target), {"z_loss": -1.0}),
        ((x, weight, target), {"label_smoothing": 1.5}),
        ((x, weight, target), {"class_weight": torch.rand(4)}),
    ):
        with pytest.raises(ArgumentError, match=r"ninetoothed::linear_cross_entropy takes"):
            linear_cross_entropy(*arguments, **options)
    with pytest.raises(ArgumentError, match="ninetoothed::cross_entropy takes a z_loss"):
        cross_entropy(x, target, z_loss=-1.0)
    for call in (lambda f: f(x, target, reduction="all"), lambda f: f(x, target, label_smoothing=2.0)):
        messages = []
        for function in (cross_entropy, F.cross_entropy):
            with pytest.raises((ValueError, RuntimeError)) as caught:
                call(function)
            messages.append(str(caught.value))
        assert messages[0] == messages[1]


def test_the_first_product_is_launched_before_gradients_are_allocated(monkeypatch):
    """Of plain tensors, past the operator that others see: whose bits are the same."""
    losses = importlib.import_module("ninetoothed_ops.ops.linear_cross_entropy")
    seen, multiply, allocate = [], blocks_of_logits.multiply, losses.allocate_with_gradients
    monkeypatch.setattr(blocks_of_logits, "multiply", lambda *args: (seen.append("product"), multiply(*args)))
    monkeypatch.setattr(losses, "allocate_with_gradients", lambda *args: (seen.append("memory"), allocate(*args))[1])
    input, weight, target, bias = operands(torch.bfloat16)
    loss = linear_cross_entropy(input, weight, target, bias)
    found = torch.autograd.grad(loss, (input, weight, bias))
    assert seen[:2] == ["product", "memory"] and "with_gradients" in loss.grad_fn.name()
    with torch.profiler.profile(acc_events=True) as profiler:
        linear_cross_entropy(input, weight, target, bias)
    assert {"ninetoothed::linear_cross_entropy"} <= {event.name for event in profiler.events()}

    class Names(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(function.name())
            return function(*args, **(kwargs or {}))

    names = []
    with Names():
        again = linear_cross_entropy(input, weight, target, bias)
    assert "ninetoothed::linear_cross_entropy_with_gradients" in names and seen[-1] == "product"
    assert again.grad_fn.name() == loss.grad_fn.name() and torch.equal(again, loss)
    assert all(map(torch.equal, torch.autograd.grad(again, (input, weight, bias)), found))
