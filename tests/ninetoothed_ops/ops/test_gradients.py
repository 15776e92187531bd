"""Gradients of every sample, against those of PyTorch's functions in float64."""

import warnings

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from ninetoothed.errors import UnsupportedError
from tests.ninetoothed_ops.samples import (
    OPERATORS,
    check_gradient,
    check_gradients,
    on_the_cpu,
    operator,
    random,
    samples,
)

ops = torch.ops.ninetoothed
# Of which each row of the result comes from one row of the input.
ROWWISE = ("add", "layer_norm", "rms_norm", "rope", "silu", "softmax", "swiglu")


def tensors(sample):
    return [i for i, value in enumerate(sample.args) if isinstance(value, torch.Tensor) and value.is_floating_point()]


# Those of attention are in `test_sdpa_backward`, all inputs at once.
@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "sdpa"])
def test_each_input(name):
    for sample in samples(name).values():
        check_gradients(sample, tensors(sample), operator(name))


@pytest.mark.parametrize("dtype, tolerance", ((torch.float16, 2e-3), (torch.bfloat16, 1.6e-2)))
@pytest.mark.parametrize("name", [name for name in OPERATORS if name != "sdpa"])
def test_halves(name, dtype, tolerance):
    for sample in list(samples(name, dtype).values())[1:2]:
        check_gradients(sample, tensors(sample), operator(name), tolerance)


def double(*shape):
    return random(*shape, dtype=torch.float64).requires_grad_()


PAIRS = [2, 2], [1, 1], [1, 1]
CASES = {
    "add": (lambda a, b: ops.add(a, b, alpha=2.5), double(3, 1), double(1, 4)),
    "mm": (ops.mm, double(3, 4), double(2, 4).t()),
    "addmm": (lambda *args: ops.addmm(*args, beta=0.5, alpha=-2.0), double(3, 1), double(3, 4), double(4, 2)),
    "bmm": (ops.bmm, double(2, 3, 2), double(2, 2, 3)),
    "linear": (ops.linear, double(2, 3, 4), double(2, 4), double(2)),
    "conv2d": (
        lambda *a: ops.conv2d(*a, [2, 2], [1, 1], [1, 1], 2),
        double(1, 2, 4, 3),
        double(2, 1, 3, 2),
        double(2),
    ),
    "silu": (ops.silu, double(3, 4)),
    "softmax": (lambda a: ops.softmax(a, 1), double(2, 3, 2)),
    "softmax of a number": (lambda a: ops.softmax(a, 0), double()),
    "gelu": (ops.gelu, double(3, 4)),
    "gelu, tanh": (lambda a: ops.gelu(a, approximate="tanh"), double(3, 4)),
    "layer_norm": (lambda a, w, b: ops.layer_norm(a, [2, 3], w, b), double(2, 2, 3), double(2, 3), double(2, 3)),
    "layer_norm, no bias": (lambda a, w: ops.layer_norm(a, [5], w, None, 1e-3), double(3, 5), double(5)),
    "layer_norm, bias alone": (lambda b: ops.layer_norm(torch.ones_like(b)[None], [5], None, b), double(5)),
    "swiglu": (ops.swiglu, double(2, 3), double(2, 3)),
    "rms_norm": (lambda a, w: ops.rms_norm(a, [2, 3], w, 1e-3), double(2, 2, 3), double(2, 3)),
    "rms_norm, no weight": (lambda a: ops.rms_norm(a, [5], None, 1e-3), double(3, 5)),
    "rms_norm, weight alone": (lambda w: ops.rms_norm(torch.ones_like(w)[None], [5], w), double(5)),
    "add_rms_norm": (lambda a, b, w: ops.add_rms_norm(a, b, w, 1e-3), double(2, 4), double(2, 4), double(4)),
    "add_rms_norm, norm alone": (lambda a, b: ops.add_rms_norm(a, b, None, 1e-3)[0], double(2, 4), double(2, 4)),
    "add_rms_norm, sum alone": (lambda a, b: ops.add_rms_norm(a, b)[1], double(2, 4), double(2, 4)),
    "rope": (ops.rope, double(2, 3, 2, 4), double(3, 2), double(3, 2)),
    "rope, whole tables": (lambda *a: ops.rope(*a, False), double(2, 3, 1, 4), double(1, 3, 4), double(2, 3, 4)),
    "rope, the last columns, the other way": (
        lambda *a: ops.rope(*a, True, -4, False),
        double(2, 3, 2, 7),
        double(3, 2),
        double(3, 2),
    ),
}


PRODUCTS = ("addmm", "bmm", "conv2d", "linear", "mm")


@pytest.mark.parametrize(
    "case", [pytest.param(case, marks=on_the_cpu) if case.startswith(PRODUCTS) else case for case in CASES]
)
def test_twice(case):
    function, *inputs = CASES[case]
    assert gradcheck(function, inputs, fast_mode=True) and gradgradcheck(function, inputs, fast_mode=True)


@pytest.mark.parametrize("types", ((torch.float16, torch.float32), (torch.float32, torch.int64), (torch.bfloat16,) * 2))
@pytest.mark.parametrize("shapes", (((5, 7), (7,)), ((3, 1), (4,)), ((2, 3), ())))
def test_sums_of_other_types_and_shapes(types, shapes):
    operands = [random(*shape).mul(3).to(dtype) for shape, dtype in zip(shapes, types)]
    grads, grad = [], None
    for add in (ops.add, torch.add):
        inputs = [each.clone().requires_grad_(each.is_floating_point()) for each in operands]
        output = add(*inputs, alpha=3)
        grad = output.detach() if grad is None else grad
        grads.append(torch.autograd.grad(output, [each for each in inputs if each.requires_grad], grad))

    assert all(torch.equal(*pair) and pair[0].dtype == pair[1].dtype for pair in zip(*grads))


def leaves_of(sample):
    """Give an operator's arguments, and those among them that require grad."""
    sample = sample.map(lambda value: value.requires_grad_() if value.is_floating_point() else value)

    return sample.args, [value for value in sample.args if isinstance(value, torch.Tensor) and value.requires_grad]


@pytest.mark.parametrize("name", OPERATORS)
def test_results_are_written_in_place(name):
    """A result of any layout is no view, which PyTorch lets nobody write that an operator gave."""
    for sample in list(samples(name).values())[::3]:
        args, _ = leaves_of(sample)
        operator(name)(*args, **sample.kwargs).mul_(2)


@pytest.mark.parametrize("name", OPERATORS)
def test_gradients_in_batches(name):
    args, leaves = leaves_of(samples(name)[next(iter(samples(name)))])
    output = operator(name)(*args)
    grads = random(2, *output.shape)
    expected = [torch.autograd.grad(output, leaves, grad, retain_graph=True) for grad in grads]
    with warnings.catch_warnings(action="ignore"):  # There is no rule for batches: each is computed by itself.
        found = torch.autograd.grad(output, leaves, grads, is_grads_batched=True)

    for actual, pair in zip(found, zip(*expected)):
        torch.testing.assert_close(actual, torch.stack(pair))


LAYOUTS = {
    "expanded": lambda shape: random(1, *shape[1:]).expand(shape),
    "one number": lambda shape: random().expand(shape),
    "transposed": lambda shape: random(*shape, layout="transposed"),
    "channels last": lambda shape: random(*shape).to(memory_format=torch.channels_last),
}


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_bias_alone(layout):
    bias, grad = random(6).requires_grad_(), LAYOUTS[layout]((2, 3, 4, 6))
    (found,) = torch.autograd.grad(ops.layer_norm(random(2, 3, 4, 6), [6], None, bias), bias, grad)

    torch.testing.assert_close(found, grad.sum((0, 1, 2)))


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("name", ROWWISE)
def test_layouts_of_gradients(name, layout):
    sample = {
        "add": lambda x: (x, x[:1]),
        "layer_norm": lambda x: (x, [6], x[0, 0, 0], x[0, 0, 1]),
        "rms_norm": lambda x: (x, [6], x[0, 0, 0]),
        "rope": lambda x: (x, x[0, :, 0, :3], x[0, :, 1, :3]),
        "silu": lambda x: (x,),
        "softmax": lambda x: (x, 1),
        "swiglu": lambda x: (x, x.mT.contiguous().mT),
    }[name](random(2, 3, 4, 6))
    grad = LAYOUTS[layout]((2, 3, 4, 6))
    found = []
    for each in (grad, grad.contiguous()):
        inputs = [value.clone().requires_grad_() if isinstance(value, torch.Tensor) else value for value in sample]
        leaves = [value for value in inputs if isinstance(value, torch.Tensor)]
        found.append(torch.autograd.grad(operator(name)(*inputs), leaves, each))

    for actual, expected in zip(*found):
        torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("name", ROWWISE)
def test_a_row_has_the_same_bits_in_any_batch(name):
    columns, length = 96, 70
    x, weight, angles = random(length, columns), random(columns), random(length, columns // 2)
    call = {
        "add": lambda x, n: ops.add(x, x, alpha=0.3),
        "layer_norm": lambda x, n: ops.layer_norm(x, [columns], weight, weight),
        "rms_norm": lambda x, n: ops.rms_norm(x, [columns], weight),
        "rope": lambda x, n: ops.rope(x[None, :, None], angles[:n], angles[:n]),
        "silu": lambda x, n: ops.silu(x),
        "softmax": lambda x, n: ops.softmax(x, -1),
        "swiglu": lambda x, n: ops.swiglu(x, x),
    }[name]
    results = {}
    for n in (1, 3, length):
        leaf = x[:n].clone().requires_grad_()
        output = call(leaf, n).view(n, columns)
        results[n] = output[0], torch.autograd.grad(output, leaf, torch.ones_like(output))[0][0]
    for n in (3, length):
        assert all(torch.equal(*pair) for pair in zip(results[1], results[n])), n


@pytest.mark.parametrize("name", OPERATORS)
def test_deterministic_algorithms(name):
    sample = next(iter(samples(name).values()))
    torch.use_deterministic_algorithms(True)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            check_gradient(sample, 0, operator(name))
    finally:
        torch.use_deterministic_algorithms(False)


def f(*shape):
    return random(*shape).requires_grad_()


@pytest.mark.parametrize("name", ("layer_norm", "rms_norm"))
@pytest.mark.parametrize("shape", ((257, 8), (129, 3, 8)))
def test_norms_without_eps_of_rows_that_fill_no_group(name, shape):
    input, weight, grad = random(*shape).transpose(0, -2), random(8), random(*shape).transpose(0, -2)
    results = []
    for function, dtype in ((operator(name), torch.float32), (getattr(torch.nn.functional, name), torch.float64)):
        leaves = [each.to(dtype).requires_grad_() for each in (input, weight)]
        others = (None,) if name == "layer_norm" else ()
        output = function(leaves[0], [8], leaves[1], *others, 0.0)
        results.append(torch.autograd.grad(output, leaves, grad.to(dtype)))
    for found, expected in zip(*results):
        assert (found - expected).norm() <= 1e-5 * expected.norm()


BACKWARDS = {
    "silu_backward": (f(3, 4), f(3, 4)),
    "swiglu_backward": (f(3, 4), f(3, 4), f(3, 4)),
    "softmax_backward": (f(3, 4), f(3, 4), 1, torch.float16),
    "rope_backward": (f(2, 3, 1, 5), f(3, 2), f(3, 2), True, 4, False),
    "activation_backward": (f(3, 4), f(3, 4), "gelu"),
    "gated_backward": (f(3, 4), f(3, 4), f(3, 4), "gelu"),
    "layer_norm_backward": (f(3, 4), f(3, 4), [4], f(4), f(4), 1e-5, [True, True, True]),
    "rms_norm_backward": (f(3, 4), f(3, 4), [4], f(4), None, [True, True], f(3, 4)),
    "conv2d_backward_input": (f(2, 6, 4, 4), f(6, 2, 3, 3), [2, 4, 8, 7], [2, 2], [1, 1], [1, 1], 2),
    "conv2d_backward_weight": (f(2, 6, 4, 4), f(2, 4, 8, 7), [6, 2, 3, 3], [2, 2], [1, 1], [1, 1], 2),
}


@pytest.mark.parametrize("needed", ((True, False), (False, True)))
def test_norms_compute_what_is_needed(needed):
    """What is not needed is one element, which nothing is written to."""
    input, weight = random(3, 4), random(4)
    of_rms_norm = ops.rms_norm_backward(input, input, [4], weight, None, needed)
    of_layer_norm = ops.layer_norm_backward(input, input, [4], weight, weight, 1e-5, [*needed, needed[1]])
    assert [each.numel() > 1 for each in (*of_rms_norm, *of_layer_norm)] == [*needed, *needed, needed[1]]


@pytest.mark.parametrize("name", BACKWARDS)
def test_opcheck(name):
    torch.library.opcheck(operator(name).default, BACKWARDS[name])


@pytest.mark.parametrize("name", BACKWARDS)
def test_what_does_not_fit(name):
    grad, *others = BACKWARDS[name]
    for wrong in (grad.detach()[:, :1], grad.detach().int()):
        with pytest.raises((RuntimeError, UnsupportedError)):
            operator(name)(wrong, *others)
