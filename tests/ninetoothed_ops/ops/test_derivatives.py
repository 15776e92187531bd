"""No derivative through the operators is lost in silence: each way to ask for one raises by name."""

import pytest
import torch

import ninetoothed_ops
from ninetoothed.errors import UnsupportedError
from ninetoothed_ops.modules import swap_modules
from tests.ninetoothed_ops.samples import OPERATORS, Sample, operator, random, samples

# Calls with every tensor that an operator takes.
LABELS = {"conv2d": "bias", "rms_norm": "weight", "sdpa": "additive mask"}
ONE = ninetoothed_ops.silu
BACKWARD = "ninetoothed::silu has no backward"


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def full(name: str) -> Sample:
    return samples(name)[LABELS.get(name, next(iter(samples(name))))]


def inputs(name: str):
    """The positions of the tensors among an operator's arguments."""
    return [index for index, value in enumerate(full(name).args) if isinstance(value, torch.Tensor)]


INPUTS = [(name, index) for name in OPERATORS for index in inputs(name)]


def with_input(sample: Sample, index: int, convert) -> Sample:
    args = [convert(value.clone()) if i == index else value for i, value in enumerate(sample.args)]
    return Sample(sample.operator, sample.label, tuple(args), sample.kwargs)


@pytest.mark.parametrize("name, index", INPUTS)
def test_backward_to_each_input_alone(name, index):
    sample = with_input(full(name), index, torch.Tensor.requires_grad_)
    output = sample.call(operator(name))

    assert output.requires_grad
    with pytest.raises(UnsupportedError, match=f"ninetoothed::{name} has no backward"):
        output.sum().backward()


@pytest.mark.parametrize("name", OPERATORS)
def test_no_tensor_is_kept_for_a_backward_that_is_missing(name):
    kept = []
    sample = full(name).map(lambda tensor: tensor.clone().requires_grad_())
    with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda _: None):
        output = sample.call(operator(name))

    assert not kept
    with torch.no_grad():
        sample.map(torch.Tensor.zero_)
    with pytest.raises(UnsupportedError, match=f"ninetoothed::{name} has no backward"):
        output.sum().backward()


def swapped(inplace: bool):
    module = torch.nn.SiLU(inplace=inplace)
    swap_modules(module)
    return module


SILUS = (lambda x: ninetoothed_ops.silu(x, inplace=True), lambda x: swapped(True)(x))


@pytest.mark.parametrize("backend", (None, "eager", "aot_eager"))
@pytest.mark.parametrize("silu", SILUS)
def test_in_place(silu, backend):
    function = (lambda x: silu(x * 1)) if backend is None else torch.compile(lambda x: silu(x * 1), backend=backend)
    x = random(3, 4).requires_grad_()
    output = function(x)

    assert torch.equal(output, ONE(x)) and output.requires_grad
    with pytest.raises(UnsupportedError, match=BACKWARD):
        output.sum().backward()


@pytest.mark.parametrize("part", (lambda x: x, lambda x: x[1:], lambda x: x.t()))
@pytest.mark.parametrize("silu", SILUS)
def test_in_place_on_a_leaf(silu, part):
    x = random(3, 4).requires_grad_()
    kept = x.detach().clone()
    with pytest.raises(RuntimeError) as expected:
        torch.nn.functional.silu(part(x), inplace=True)
    with pytest.raises(RuntimeError) as raised:
        silu(part(x))

    assert str(raised.value) == str(expected.value) and type(raised.value) is type(expected.value)
    assert torch.equal(x, kept)
    with torch.no_grad():
        assert torch.equal(silu(x), ONE(kept)) and torch.equal(x, ONE(kept))
