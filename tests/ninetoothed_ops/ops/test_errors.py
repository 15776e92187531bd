"""Bad arguments raise what PyTorch raises, real and fake; what is not supported says so by name."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

import ninetoothed_ops
from ninetoothed.errors import ArgumentError, UnsupportedError
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import NAMESAKES, Sample, operator, random as r, samples


def double(*shape):
    return r(*shape, dtype=torch.float64)


def half(*shape):
    return r(*shape, dtype=torch.float16)


def integers(*shape):
    return torch.ones(shape, dtype=torch.int64, device=DEVICE)


def bad_calls():
    yield "add", "shapes", (r(3), r(4))
    yield "add", "alpha of integers", (integers(3), integers(3)), {"alpha": 0.5}
    yield "add", "alpha true", (r(3), r(3)), {"alpha": True}
    yield "add", "alpha complex", (r(3), r(3)), {"alpha": 1j}
    yield "add", "alpha that overflows", (r(3), r(3)), {"alpha": 1e300}
    yield "add", "alpha out of range", (torch.ones(3).to(torch.int8), torch.ones(3).to(torch.int8)), {"alpha": 1000}
    yield "addmm", "shapes", (r(3), r(3, 4), r(5, 3))
    yield "addmm", "input", (r(4), r(3, 4), r(4, 3))
    yield "addmm", "ranks", (r(1, 3, 3), r(3, 4), r(4, 3))
    yield "addmm", "types", (double(3), r(3, 4), r(4, 3))
    yield "bmm", "ranks", (r(3, 4), r(4, 3))
    yield "bmm", "batches", (r(2, 3, 4), r(3, 4, 5))
    yield "bmm", "shapes", (r(2, 3, 4), r(2, 3, 4))
    yield "bmm", "types", (r(2, 3, 4), double(2, 4, 3))
    yield "conv2d", "rank", (r(5, 5), r(1, 1, 3, 3))
    yield "conv2d", "rank of weight", (r(1, 1, 5, 5), r(1, 3, 3))
    yield "conv2d", "channels", (r(1, 3, 5, 5), r(4, 2, 3, 3))
    yield "conv2d", "groups", (r(1, 4, 5, 5), r(4, 2, 3, 3), None, [1, 1], [0, 0], [1, 1], 3)
    yield "conv2d", "no groups", (r(1, 4, 5, 5), r(4, 4, 3, 3), None, [1, 1], [0, 0], [1, 1], 0)
    yield "conv2d", "filters of a group", (r(1, 4, 5, 5), r(3, 2, 3, 3), None, [1, 1], [0, 0], [1, 1], 2)
    yield "conv2d", "bias", (r(1, 3, 5, 5), r(4, 3, 3, 3), r(3))
    yield "conv2d", "small image", (r(1, 3, 2, 2), r(4, 3, 3, 3))
    yield "conv2d", "stride", (r(1, 3, 5, 5), r(4, 3, 3, 3), None, [0, 1])
    yield "conv2d", "padding", (r(1, 3, 5, 5), r(4, 3, 3, 3), None, [1, 1], [-1, 0])
    yield "conv2d", "dilation", (r(1, 3, 5, 5), r(4, 3, 3, 3), None, [1, 1], [0, 0], [0, 1])
    yield "conv2d", "padding alone", (r(2, 3, 0, 5), r(4, 3, 3, 3), None, [1, 1], [2, 2])
    yield "conv2d", "types", (r(1, 3, 5, 5), double(4, 3, 3, 3))
    yield "conv2d", "type of bias", (r(1, 3, 5, 5), r(4, 3, 3, 3), double(4))
    yield "mm", "ranks", (r(2, 3, 4), r(4, 5))
    yield "mm", "vector", (r(3, 4), r(4))
    yield "mm", "shapes", (r(3, 4), r(5, 6))
    yield "mm", "types", (r(3, 4), double(4, 5))
    yield "gelu", "approximate", (r(3),), {"approximate": "sigmoid"}
    yield "gelu", "integers", (integers(3),)
    yield "layer_norm", "shape", (r(4, 8), [9])
    yield "layer_norm", "no shape", (r(4, 8), [])
    yield "layer_norm", "weight", (r(4, 8), [8], r(4))
    yield "layer_norm", "bias", (r(4, 8), [8], None, r(4))
    yield "layer_norm", "integers", (integers(4, 8), [8])
    yield "rms_norm", "shape", (r(4, 8), [9])
    yield "rms_norm", "no shape", (r(4, 8), [])
    yield "rms_norm", "ranks", (r(8), [4, 8])
    yield "rms_norm", "weight", (r(4, 8), [8], r(4))
    yield "rms_norm", "integers", (integers(4, 8), [8])
    yield "sdpa", "rank", (r(8), r(2, 3, 8), r(2, 3, 8))
    yield "sdpa", "depths", (r(1, 2, 3, 8), r(1, 2, 3, 4), r(1, 2, 3, 8))
    yield "sdpa", "heads", (r(1, 4, 3, 8), r(1, 3, 3, 8), r(1, 3, 3, 8))
    yield "sdpa", "groups", (r(1, 4, 3, 8), r(1, 3, 3, 8), r(1, 3, 3, 8)), {"enable_gqa": True}
    yield "sdpa", "groups of two dimensions", tuple(r(3, 8) for _ in range(3)), {"enable_gqa": True}
    yield "sdpa", "types", (r(1, 2, 3, 8), double(1, 2, 3, 8), r(1, 2, 3, 8))
    yield "sdpa", "shape of mask", (*(r(1, 2, 7, 8) for _ in range(3)), torch.ones(5, 7, device=DEVICE).bool())
    yield "sdpa", "shape of additive mask", (*(r(1, 2, 7, 8) for _ in range(3)), r(5, 7))
    yield "sdpa", "batches of mask", (*(r(1, 2, 7, 8) for _ in range(3)), torch.ones(3, 7, 7, device=DEVICE).bool())
    yield "sdpa", "ranks of mask", (*(r(1, 2, 7, 8) for _ in range(3)), torch.ones(1, 1, 1, 7, 7, device=DEVICE).bool())
    if DEVICE == "cpu":  # PyTorch's kernels for GPUs take it.
        yield "sdpa", "mask of one dimension", (*(r(1, 2, 7, 8) for _ in range(3)), torch.ones(7).bool())
    yield "sdpa", "mask of no dimension", (*(r(1, 2, 7, 8) for _ in range(3)), torch.ones((), device=DEVICE).bool())
    yield "sdpa", "type of mask", (*(r(1, 2, 7, 8) for _ in range(3)), integers(7, 7))
    yield "sdpa", "type of additive mask", (*(r(1, 2, 7, 8) for _ in range(3)), half(7, 7))
    yield "silu", "integers", (integers(3),)
    yield "softmax", "dimension", (r(3, 4), 2)
    yield "softmax", "integers", (integers(3, 4), 0)
    yield "softmax", "to integers", (r(3, 4), 0, torch.int32)


BAD = {(call[0], call[1]): Sample(*call) for call in bad_calls()}


@pytest.mark.parametrize("name, label", BAD)
def test_bad_arguments_raise_what_pytorch_raises(name, label):
    sample = BAD[name, label]
    with pytest.raises(Exception) as expected:
        sample.call(NAMESAKES[name])

    with pytest.raises(expected.type) as actual:
        sample.call(operator(name))
    if isinstance(actual.value, UnsupportedError):
        assert "does not support" in str(actual.value) and isinstance(expected.value, NotImplementedError)
    else:
        assert str(actual.value) == str(expected.value)

    with pytest.raises(expected.type):
        sample.call(getattr(ninetoothed_ops, name))


@pytest.mark.parametrize("name, label", BAD)
def test_bad_arguments_raise_on_fakes(name, label):
    with FakeTensorMode() as mode:
        fake = BAD[name, label].map(mode.from_tensor)
        with pytest.raises((RuntimeError, IndexError, ValueError)):
            fake.call(operator(name))


@pytest.mark.parametrize("name", NAMESAKES)
def test_complex_is_not_supported(name):
    sample = next(iter(samples(name).values())).map(lambda tensor: tensor.to(torch.complex64))

    with pytest.raises(NotImplementedError, match=f"ninetoothed::{name} does not support torch.complex64"):
        sample.call(operator(name))


@pytest.mark.parametrize("rate", (-0.1, 1.5))
def test_dropout_of_less_than_nothing_or_more_than_all(rate):
    query = r(1, 2, 3, 8)

    with pytest.raises(RuntimeError, match="dropout"):
        ninetoothed_ops.sdpa(query, query, query, dropout_p=rate)


@pytest.mark.parametrize(
    "shapes, message",
    (
        (((2, 5, 3, 7), (5, 3), (5, 3)), "D even"),
        (((5, 3, 8), (5, 4), (5, 4)), "batch, sequence, heads, D"),
        (((2, 5, 3, 8), (4, 4), (5, 4)), r"expects sin of .* but got \[4, 4\]"),
        (((2, 5, 3, 8), (5, 4), (3, 5, 4)), r"expects cos of .* but got \[3, 5, 4\]"),
    ),
)
def test_rope_names_what_does_not_fit(shapes, message):
    with pytest.raises(RuntimeError, match=message):
        ninetoothed_ops.rope(*(r(*shape) for shape in shapes))


@pytest.mark.parametrize(
    "rotary_dim, message", ((3, "even"), (0, "more than 0"), (10, "at most D = 8"), (4, "rotary_dim / 2"))
)
def test_rope_names_a_width_that_does_not_fit(rotary_dim, message):
    with pytest.raises(RuntimeError, match=message):
        ninetoothed_ops.rope(r(2, 5, 3, 8), r(5, 3), r(5, 3), True, rotary_dim)


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE != "cuda", reason="needs two devices")
@pytest.mark.parametrize("name", [name for name in NAMESAKES if name not in ("gelu", "silu", "softmax")])
def test_tensors_on_two_devices(name):
    args, kwargs = next(
        (list(sample.args), sample.kwargs)
        for sample in samples(name).values()
        if sum(isinstance(arg, torch.Tensor) for arg in sample.args) > 1
    )
    last = max(i for i, arg in enumerate(args) if isinstance(arg, torch.Tensor))
    args[last] = args[last].cpu()

    with pytest.raises((RuntimeError, ArgumentError), match=r"device|torch\.cuda"):
        Sample(name, "", tuple(args), kwargs).call(operator(name))


@pytest.mark.gpu
@pytest.mark.skipif(DEVICE != "cuda", reason="the CPU multiplies float64")
@pytest.mark.parametrize("name", ("addmm", "bmm", "conv2d", "mm", "sdpa"))
def test_products_in_float64_are_for_the_cpu(name):
    sample = next(iter(samples(name, torch.float64).values()))

    with pytest.raises(UnsupportedError, match=f"ninetoothed::{name} multiplies float64 on the CPU alone"):
        sample.call(operator(name))
