"""No derivative through the operators is lost in silence: each way to ask for one raises by name."""

import itertools

import pytest
import torch
from torch.autograd import forward_ad
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.checkpoint import checkpoint

import ninetoothed_ops
from ninetoothed.errors import UnsupportedError
from ninetoothed_ops.modules import swap_modules
from tests.ninetoothed_ops.recorder import Recorder
from tests.ninetoothed_ops.samples import NAMESAKES, OPERATORS, Sample, check_gradient, operator, random, samples

# The operators run item by item under `vmap`, of which PyTorch warns.
pytestmark = pytest.mark.filterwarnings("ignore:There is a performance drop:UserWarning")
# Calls with every tensor that an operator takes.
LABELS = {
    "conv2d": "bias",
    "layer_norm": "weight and bias",
    "linear": "bias",
    "rms_norm": "weight",
    "sdpa": "additive mask",
}
ONE = ninetoothed_ops.register(
    "ninetoothed_test::forward_only(Tensor self) -> Tensor",
    lambda self: torch.empty_like(self),
    lambda output, self: output.copy_(torch.nn.functional.silu(self)),
)
BACKWARD, FORWARD = (
    f"ninetoothed_test::forward_only has no {what}" for what in ("backward", "forward-mode derivative")
)


@pytest.fixture(autouse=True)
def fresh_compiler():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def full(name: str) -> Sample:
    return samples(name)[LABELS.get(name, next(iter(samples(name))))]


def inputs(name: str):
    """The positions of the tensors of floating point among an operator's arguments."""
    args = full(name).args
    return [i for i, value in enumerate(args) if isinstance(value, torch.Tensor) and value.is_floating_point()]


def with_input(sample: Sample, index: int, convert) -> Sample:
    args = [convert(value.clone()) if i == index else value for i, value in enumerate(sample.args)]
    return Sample(sample.operator, sample.label, tuple(args), sample.kwargs)


def unpacked(function, x):
    with forward_ad.dual_level():
        return forward_ad.unpack_dual(function(forward_ad.make_dual(x, torch.ones_like(x))))


@pytest.mark.parametrize("name", OPERATORS)
def test_backward_to_each_input_alone(name):
    for index in inputs(name):
        check_gradient(full(name), index, operator(name))


@pytest.mark.parametrize("name", OPERATORS)
def test_a_tangent_of_each_input_alone(name):
    """Each against PyTorch's in float64."""
    sample = full(name)
    wide = sample.map(lambda each: each.double() if each.is_floating_point() else each)
    for index, has_grad in itertools.product(inputs(name), (True, False)):

        def dual(sample, index=index):
            return with_input(sample, index, lambda x: forward_ad.make_dual(x, x.flip(-1) if x.ndim else x))

        with forward_ad.dual_level(), torch.set_grad_enabled(has_grad), sdpa_kernel(SDPBackend.MATH):
            found = forward_ad.unpack_dual(dual(sample).call(operator(name)))
            expected = forward_ad.unpack_dual(dual(wide).call(NAMESAKES[name]))
        assert found.tangent.dtype is found.primal.dtype
        for own, theirs in zip(found, expected):
            assert (own - theirs).norm() <= 1e-5 * theirs.norm().clamp(min=1), index


@pytest.mark.parametrize("name", OPERATORS)
def test_calls_that_were_seen_before(name):
    sample = full(name)
    for _ in range(5):
        sample.call(operator(name))

    index = inputs(name)[0]
    assert with_input(sample, index, torch.Tensor.requires_grad_).call(operator(name)).requires_grad
    with forward_ad.dual_level():
        dual = with_input(sample, index, lambda x: forward_ad.make_dual(x, x)).call(operator(name))
        assert forward_ad.unpack_dual(dual).tangent is not None
    assert Subclass.seen_by(lambda convert: with_input(sample, index, convert).call(operator(name))) == {name}
    with Recorder() as recorder:
        sample.call(operator(name))
    assert recorder.names == [f"ninetoothed::{name}"]


class Subclass(torch.Tensor):
    names: set[str]

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.names.add(function.__name__.partition(".")[0])
        return super().__torch_function__(function, types, args, kwargs or {})

    @classmethod
    def seen_by(cls, call) -> set[str]:
        cls.names = set()
        assert isinstance(call(lambda tensor: tensor.as_subclass(cls)), cls)
        return cls.names


@pytest.mark.parametrize(
    "transform",
    (
        lambda x: torch.func.jvp(ONE, (x,), (x,)),
        lambda x: torch.no_grad()(torch.func.jvp)(ONE, (x,), (x,)),
        lambda x: torch.func.jacfwd(ONE)(x),
        lambda x: torch.func.linearize(ONE, x),
        lambda x: torch.func.jvp(torch.vmap(ONE), (x,), (x,)),
        lambda x: torch.vmap(lambda x: torch.func.jvp(ONE, (x,), (x,)))(x),
        lambda x: torch.func.jvp(ONE, (x.requires_grad_(),), (x,)),
        lambda x: torch.autograd.functional.jacobian(ONE, x, vectorize=True, strategy="forward-mode"),
        lambda x: torch.autograd.gradcheck(
            ONE, x.double().requires_grad_(), check_forward_ad=True, check_backward_ad=False
        ),
        lambda x: unpacked(torch.compile(ONE, backend="eager"), x),
        lambda x: unpacked(torch.compile(ONE, backend="aot_eager"), x),
        lambda x: torch.compile(lambda x: torch.func.jvp(ONE, (x,), (x,)), backend="aot_eager")(x),
    ),
)
def test_forward_mode_raises_by_name(transform):
    with pytest.raises(UnsupportedError, match=FORWARD):
        transform(random(3, 4))


@pytest.mark.parametrize(
    "transform",
    (
        lambda x: torch.func.grad(lambda x: ONE(x).sum())(x),
        lambda x: torch.func.grad_and_value(lambda x: ONE(x).sum())(x),
        lambda x: torch.func.vjp(ONE, x),
        lambda x: torch.func.jacrev(ONE)(x),
        lambda x: torch.func.hessian(lambda x: ONE(x).sum())(x),
        lambda x: torch.vmap(torch.func.grad(lambda x: ONE(x).sum()))(x),
        lambda x: torch.func.grad(lambda x: torch.vmap(ONE)(x).sum())(x),
        lambda x: torch.vmap(ONE)(x.requires_grad_()).sum().backward(),
        lambda x: torch.compile(torch.func.grad(lambda x: ONE(x).sum()), backend="aot_eager")(x),
        lambda x: torch.autograd.functional.jacobian(ONE, x),
        lambda x: torch.autograd.functional.jacobian(ONE, x, vectorize=True),
        lambda x: torch.vmap(lambda y, g: torch.autograd.grad(y, x, g), (None, 0))(ONE(x.requires_grad_()), x[None]),
        lambda x: torch.autograd.gradcheck(ONE, x.double().requires_grad_()),
        lambda x: checkpoint(ONE, x.requires_grad_(), use_reentrant=True).sum().backward(),
        lambda x: checkpoint(ONE, x.requires_grad_(), use_reentrant=False).sum().backward(),
    ),
)
def test_reverse_mode_raises_by_name(transform):
    with pytest.raises(UnsupportedError, match=BACKWARD):
        transform(random(3, 4))


def test_a_jvp_in_one_graph_does_not_compile():
    compiled = torch.compile(lambda x: torch.func.jvp(ONE, (x,), (x,)), backend="aot_eager", fullgraph=True)

    with pytest.raises(Exception, match=FORWARD):
        compiled(random(3, 4))


def test_what_is_not_differentiated_runs_under_every_transform():
    x = random(3, 4)
    constant, expected = random(3, 4), ONE(x)

    assert torch.equal(torch.vmap(ONE)(x), expected)
    assert torch.equal(torch.func.functionalize(ONE)(x), expected)
    assert torch.equal(torch.func.grad(lambda x: (x * ONE(constant)).sum())(x), ONE(constant))
    assert torch.equal(torch.func.grad(lambda x: (x * ONE(x.detach())).sum())(x), expected)
    assert torch.equal(torch.func.grad(lambda x: (x * torch.no_grad()(ONE)(x)).sum())(x), expected)
    assert torch.equal(torch.func.jvp(lambda x: x * ONE(constant), (x,), (x,))[1], x * ONE(constant))
    with forward_ad._set_fwd_grad_enabled(False):
        assert torch.equal(unpacked(ONE, x).primal, expected)


class Differentiable(torch.autograd.Function):
    """The operator with derivatives of one's own, those of PyTorch's operator."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return ONE(x)

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, grad):
        return torch.func.vjp(torch.nn.functional.silu, *ctx.saved_tensors)[1](grad)[0]

    @staticmethod
    def jvp(ctx, tangent):
        (x,) = ctx.saved_tensors
        gate = x.sigmoid()
        return tangent * gate * (1 + x * (1 - gate))


def test_derivatives_of_ones_own_around_an_operator():
    x = random(3, 4, dtype=torch.float64)

    def expected(x):
        return torch.nn.functional.silu(x)

    assert torch.autograd.gradcheck(Differentiable.apply, x.clone().requires_grad_(), check_forward_ad=True)
    torch.testing.assert_close(torch.func.jvp(Differentiable.apply, (x,), (x,)), torch.func.jvp(expected, (x,), (x,)))
    torch.testing.assert_close(torch.func.jacrev(Differentiable.apply)(x), torch.func.jacrev(expected)(x))


def test_no_tensor_is_kept_for_a_backward_that_is_missing():
    kept = []
    x = random(3, 4).requires_grad_()
    with torch.autograd.graph.saved_tensors_hooks(kept.append, lambda _: None):
        output = ONE(x)

    assert not kept
    with torch.no_grad():
        x.zero_()
    with pytest.raises(UnsupportedError, match=BACKWARD):
        output.sum().backward()


def swapped(inplace: bool):
    module = torch.nn.SiLU(inplace=inplace)
    swap_modules(module)
    return module


SILUS = (lambda x: ninetoothed_ops.silu(x, inplace=True), lambda x: swapped(True)(x))


@pytest.mark.parametrize("backend", (None, "aot_eager"))
@pytest.mark.parametrize("silu", SILUS)
def test_in_place(silu, backend):
    if backend and silu is SILUS[1] and torch.__version__.startswith("2.11."):
        pytest.skip("PyTorch 2.11 has no gradient of its own silu that writes to what a graph is given")
    function = (lambda x: silu(x * 1)) if backend is None else torch.compile(lambda x: silu(x * 1), backend=backend)
    x = random(3, 4).requires_grad_()
    output = function(x)

    # Compiled steps of training leave the module's to PyTorch.
    torch.testing.assert_close(output, operator("silu")(x))
    assert output.requires_grad
    expected = torch.autograd.grad(torch.nn.functional.silu(x).sum(), x)[0]
    torch.testing.assert_close(torch.autograd.grad(output.sum(), x)[0], expected)


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
        assert torch.equal(silu(x), operator("silu")(kept)) and torch.equal(x, operator("silu")(kept))
