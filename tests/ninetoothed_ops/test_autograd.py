"""The frame of backward: what reaches an operator's `backward`, and which derivatives PyTorch then takes through it."""

import contextlib
import gc
import sys
import weakref

import pytest
import torch
from torch.func import grad, jacrev, vjp

from ninetoothed.errors import ArgumentError, UnsupportedError
from ninetoothed_ops import register, silu
from tests.conftest import DEVICE
from tests.ninetoothed_ops import every
from tests.ninetoothed_ops.recorder import Recorder


def scaled(name, backward, **options):
    """The operator (scale * (a + factor * b), product of a and b), with a backward."""

    def setup_context(ctx, inputs, keyword_only_inputs, output):
        a, b, factor = inputs
        ctx.save_for_backward(a, b)
        ctx.factor, ctx.scale = factor, keyword_only_inputs["scale"]
        if "materialize" in options:
            ctx.set_materialize_grads(options["materialize"])

    def launch(outputs, a, b, factor=2.0, *, scale=3.0):
        outputs[0].copy_(scale * (a + factor * b))
        outputs[1].copy_(a * b)

    return register(
        f"ninetoothed_test::{name}(Tensor a, Tensor b, float factor=2.0, *, float scale=3.0) -> (Tensor, Tensor)",
        lambda a, b, factor=2.0, *, scale=3.0: (torch.empty_like(a), torch.empty_like(a)),
        launch,
        backward=backward,
        setup_context=setup_context,
    )


def gradients(ctx, grad_sum, grad_product):
    a, b = ctx.saved_tensors
    to_a, to_b, _ = ctx.needs_input_grad
    grad_sum = grad_sum * ctx.scale
    return (
        grad_sum + grad_product * b if to_a else None,
        grad_sum * ctx.factor + grad_product * a if to_b else None,
        None,
    )


def pair(**options):
    return [torch.randn(3, 4, dtype=torch.float64, device=DEVICE, **options) for _ in range(2)]


def test_outputs_defaults_and_keywords():
    operator = scaled("scaled", gradients)
    a, b = pair(requires_grad=True)

    assert torch.autograd.gradcheck(operator, (a, b)) and torch.autograd.gradgradcheck(operator, (a, b))
    assert torch.autograd.gradcheck(lambda a, b: operator(a, b, 5.0, scale=0.5), (a, b))
    torch.library.opcheck(operator, (a, b, 5.0), {"scale": 0.5})
    # One output alone, expanded gradients, and twice along one graph.
    total, product = operator(a, b)
    for _ in range(2):
        assert torch.equal(torch.autograd.grad(total.sum(), b, retain_graph=True)[0], torch.full_like(b, 6.0))
        assert torch.equal(torch.autograd.grad(product.sum(), b, retain_graph=True)[0], a)


def test_only_what_is_needed_is_asked_for():
    seen = []

    def backward(ctx, *grads):
        seen.append((ctx.needs_input_grad, [each is not None for each in grads]))
        return None, grads[1], None

    operator = scaled("asked", backward, materialize=False)
    a, b = pair()
    operator(a, b.requires_grad_())[1].sum().backward()
    assert seen == [((False, True, False), [False, True])]


@pytest.mark.parametrize("backend", (None, "aot_eager"))
def test_lists_of_tensors(backend):
    operator = register(
        "ninetoothed_test::products(Tensor[] xs, Tensor y, int[] sizes=[]) -> Tensor[]",
        lambda xs, y, sizes=(): [torch.empty_like(y) for _ in xs],
        lambda outputs, xs, y, sizes=(): [output.copy_(x * y) for output, x in zip(outputs, xs)],
        backward=lambda ctx, grads: (
            [g * ctx.saved_tensors[-1] if is_needed else None for g, is_needed in zip(grads, ctx.needs_input_grad[0])],
            sum(g * x for g, x in zip(grads, ctx.saved_tensors)) if ctx.needs_input_grad[1] else None,
            None,
        ),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs[0], inputs[1]),
    )
    function = torch.compile(operator, backend=backend, fullgraph=True) if backend else operator
    (a, b), y = pair(requires_grad=True), pair(requires_grad=True)[0]
    found = torch.autograd.grad([x.sum() for x in function([a, b.detach(), b], y, [3])], (a, b, y))

    for actual, expected in zip(found, (y, y, a + 2 * b)):
        torch.testing.assert_close(actual, expected)


def test_a_wrong_number_of_gradients():
    a, b = pair(requires_grad=True)
    with pytest.raises(ArgumentError, match="backward of ninetoothed_test::two_of_three gave 2 gradients; return .* 3"):
        scaled("two_of_three", lambda ctx, *grads: grads)(a, b)[0].sum().backward()


def test_a_tensor_by_keyword_alone():
    with pytest.raises(ArgumentError, match="y of ninetoothed_test::keyword.* is a tensor that is taken by keyword"):
        register("ninetoothed_test::keyword(Tensor x, *, Tensor y) -> Tensor", lambda x, *, y: x, lambda o, x, *, y: x)


def test_a_saved_tensor_that_was_overwritten():
    x = torch.randn(3, device=DEVICE, requires_grad=True)
    y = x * 1
    output = silu(y)
    y.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        output.sum().backward()


def test_a_backward_without_a_backward():
    def once(ctx, grad):
        return without(grad, *ctx.saved_tensors)

    def save(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    without = register(
        "ninetoothed_test::square_backward(Tensor grad, Tensor x) -> Tensor",
        lambda grad, x: torch.empty_like(x),
        lambda output, grad, x: output.copy_(2 * x * grad),
    )
    operator = register(
        "ninetoothed_test::square(Tensor x) -> Tensor",
        lambda x: torch.empty_like(x),
        lambda output, x: output.copy_(x * x),
        backward=once,
        setup_context=save,
    )
    x = pair(requires_grad=True)[0]
    (first,) = torch.autograd.grad(operator(x).sum(), x, create_graph=True)
    assert torch.equal(first, 2 * x)
    with pytest.raises(UnsupportedError, match="ninetoothed_test::square_backward has no backward"):
        first.sum().backward()


def test_autocast_and_scaled_losses():
    x, scaler = torch.randn(3, 4, device=DEVICE, requires_grad=True), torch.amp.GradScaler(DEVICE, 1024.0)
    operator = register(
        "ninetoothed_test::half(Tensor x) -> Tensor",
        lambda x: torch.empty_like(x),
        lambda output, x: output.copy_(x / 2),
        backward=lambda ctx, grad: grad / 2,
        autocast=torch.get_autocast_dtype,
    )
    optimizer = torch.optim.SGD([x], lr=1.0)
    expected = x.detach() - 0.5
    with torch.autocast(DEVICE, dtype=torch.float16):
        output = operator(x)
    scaler.scale(output.float().sum()).backward()
    assert output.dtype is torch.float16 and x.grad.dtype is torch.float32
    scaler.step(optimizer)
    torch.testing.assert_close(x.detach(), expected)


def total(f):
    return lambda x: f(x).sum()


def through_a_closure(f, x):
    y = x.clone().requires_grad_()
    return torch.autograd.grad(grad(lambda x: f(x * y).sum())(x).sum(), y)[0]


# Differentiates f, of rows of shape (4,), at the matrix x.
TRANSFORMS = (
    lambda f, x: grad(total(f))(x),
    lambda f, x: grad(total(grad(total(f))))(x),
    lambda f, x: grad(lambda x: f(x).sum() ** 2 + grad(total(f))(x).square().sum())(x),
    lambda f, x: vjp(f, x)[1](x)[0],
    lambda f, x: jacrev(jacrev(f))(x[0]),
    lambda f, x: torch.vmap(grad(total(f)))(x),
    lambda f, x: grad(lambda x: torch.vmap(grad(total(f)))(x).sum())(x),
    lambda f, x: torch.vmap(grad(lambda w, x: f(w * x).sum()), (None, 0))(x[0], x),
    through_a_closure,
    lambda f, x: torch.autograd.functional.jacobian(f, x, vectorize=True),
    lambda f, x: torch.compile(grad(total(f)), backend="aot_eager", fullgraph=True)(x),
)


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_transforms(transform):
    x = torch.randn(3, 4, dtype=torch.float64, device=DEVICE)

    torch.testing.assert_close(transform(silu, x.clone()), transform(torch.nn.functional.silu, x.clone()))


def test_a_plain_call_is_dispatched_once_and_no_other():
    callers = []

    def launch(output, a):
        callers.append(sys._getframe(2).f_code.co_name)
        output.copy_(a)

    copied = register("ninetoothed_test::copied(Tensor a) -> Tensor", lambda a: torch.empty_like(a), launch)
    a = torch.randn(3, device=DEVICE)
    with torch.no_grad():
        for each in (a, torch._neg_view(a), torch.nn.Parameter(a)):
            assert torch.equal(copied(each), each)
    assert callers == ["autograd", "redispatch", "autograd"]


@pytest.mark.parametrize("backend", (None, "aot_eager"))
def test_computed_by_others_where_it_is_recorded(backend):
    """One of them may return more than the operator does, for its backward."""
    both = register(
        "ninetoothed_test::exp_and_double(Tensor x) -> (Tensor, Tensor)",
        lambda x: (torch.empty_like(x), torch.empty_like(x)),
        lambda outputs, x: (outputs[0].copy_(x.exp()), outputs[1].copy_(2 * x.exp())),
        backward=lambda ctx, grad, _: grad * ctx.saved_tensors[0] / 2,
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output[1]),
    )
    operator = register(
        "ninetoothed_test::exp(Tensor x) -> Tensor",
        lambda x: torch.empty_like(x),
        lambda output, x: output.copy_(x.exp()),
        recorded=lambda x: both(x)[0],
    )
    function = torch.compile(operator, backend=backend, fullgraph=True) if backend else operator
    x = torch.randn(3, 4, dtype=torch.float64, device=DEVICE, requires_grad=True)
    output = function(x)

    torch.testing.assert_close(torch.autograd.grad(output.sum(), x)[0], output)
    torch.testing.assert_close(grad(lambda x: operator(x).sum())(x.detach()), output)
    assert torch.equal(function(x.detach()), output)


@pytest.mark.parametrize("context", (contextlib.nullcontext, Recorder))
@pytest.mark.parametrize("name", sorted(every.names()))
def test_results_are_let_go(name, context):
    """At once, and not when Python next looks for cycles: the graph that a result keeps does not keep the result."""
    # What a mode sees is recorded as a call of any arguments, not as a plain one.
    sample = every.samples()[name]
    args = every.mapped(sample.args, lambda x: x.detach().clone().requires_grad_())
    gc.disable()
    try:
        with context():
            results = [weakref.ref(each) for each in every.run(sample, args)]
        assert not [each for each in results if each() is not None]
    finally:
        gc.enable()
