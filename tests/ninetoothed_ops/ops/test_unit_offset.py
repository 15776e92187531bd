"""`rms_norm` with the factor `1 + weight`: values, derivatives, fakes and compiled calls."""

import pytest
import torch
import torch.nn.functional as F

from ninetoothed.errors import ArgumentTypeError
from ninetoothed_ops import rms_norm
from tests.ninetoothed_ops.samples import random as r

TOLERANCES = {torch.float64: 1e-13, torch.float32: 1e-6, torch.float16: 1e-3, torch.bfloat16: 8e-3}
SHAPES = {"rows": ((9, 300), [300]), "two dimensions": ((5, 6, 7), [6, 7]), "long rows": ((2, 40001), [40001])}


def reference(input, shape, weight, eps):
    return F.rms_norm(input, shape, 1 + weight, eps)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize("shape, normalized", SHAPES.values(), ids=SHAPES)
def test_values(shape, normalized, dtype):
    # Of weights so small, 1 + weight rounded to a half is 1.
    input, weight = r(*shape, dtype=dtype), (r(*normalized) * 1e-3).to(dtype)
    expected = reference(input.double(), normalized, weight.double(), 0.1)
    found = rms_norm(input, normalized, weight, 0.1, unit_offset=True)
    assert found.dtype == dtype and (found - expected).norm() <= TOLERANCES[dtype] * expected.norm()


def test_one_is_added_before_rounding():
    input, weight = r(64, 512).bfloat16(), (torch.ones(512) * 3 / 1024).bfloat16().to(r(1).device)
    found = rms_norm(input, [512], weight, 0.1, unit_offset=True)
    expected = reference(input.double(), [512], weight.double(), 0.1)
    assert (found.double() / expected).mean().sub(1).abs() < 2e-4


def test_no_weight_has_no_offset():
    input = r(5, 33)
    assert torch.equal(rms_norm(input, [33], unit_offset=True), rms_norm(input, [33]))


@pytest.mark.parametrize("value", (None, 2, "x"))
def test_an_offset_that_is_neither_true_nor_false(value):
    with pytest.raises(ArgumentTypeError, match="takes True or False for unit_offset, but got"):
        rms_norm(r(5, 33), [33], r(33), unit_offset=value)


@pytest.mark.parametrize("shape, normalized", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("needed", ((True, True), (True, False), (False, True)))
def test_gradients(shape, normalized, needed):
    input, weight, grad = r(*shape), r(*normalized), r(*shape)
    results = []
    for dtype in (torch.float32, torch.float64):
        given = [each.to(dtype).requires_grad_(need) for each, need in zip((input, weight), needed)]
        function = reference if dtype == torch.float64 else lambda *args: rms_norm(*args, unit_offset=True)
        output = function(given[0], normalized, given[1], 0.1)
        leaves = [each for each in given if each.requires_grad]
        results.append(torch.autograd.grad(output, leaves, grad.to(dtype)))
    for found, expected in zip(*results):
        assert (found - expected).norm() <= 1e-5 * expected.norm()


def test_derivatives_of_every_order():
    args = [r(3, 5, dtype=torch.float64).requires_grad_(), r(5, dtype=torch.float64).requires_grad_()]

    def function(input, weight):
        return rms_norm(input, [5], weight, 1e-2, unit_offset=True)

    assert torch.autograd.gradcheck(function, args) and torch.autograd.gradgradcheck(function, args)


def test_registered_as_pytorch_asks():
    torch.library.opcheck(torch.ops.ninetoothed.rms_norm.default, (r(4, 33), [33], r(33).requires_grad_(), 0.1, True))


def test_compiled_whole():
    input, weight = r(4, 33), r(33)
    compiled = torch.compile(
        lambda *args: rms_norm(*args, unit_offset=True), fullgraph=True, backend="aot_eager", dynamic=True
    )
    torch.testing.assert_close(compiled(input, [33], weight, 0.1), reference(input, [33], weight, 0.1))
