"""Forward mode at every order and inside every transform: the right number, by differences of float64."""

import warnings
from functools import partial

import pytest
import torch
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad
from torch.func import grad, hessian, jacfwd, jvp, linearize, vmap

from tests.ninetoothed_ops import every
from tests.ninetoothed_ops.samples import EXACT

TOLERANCE = dict.fromkeys(("rtol", "atol"), 1e-5 if EXACT is torch.float64 else 1e-3)
# PyTorch's vmap takes no operator of lists, and no write of a batch into a tensor that is none.
NOT_IN_BATCHES = "Batching rule not implemented for ninetoothed::", "vmap: inplace arithmetic"


def test_every_operator_is_here():
    assert set(every.samples()) == every.names()


def in_backward(run, _, x, t):
    """Tangents that meet an operator in its backward alone."""
    leaf = x.clone().requires_grad_()
    outputs = [each for each in run(leaf) if each.requires_grad]
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(each.detach(), torch.ones_like(each)) for each in outputs]
        (found,) = torch.autograd.grad(outputs, leaf, duals, retain_graph=True, materialize_grads=True)
        tangent = forward_ad.unpack_dual(found).tangent
    ones = [torch.ones_like(each) for each in outputs]
    (expected,) = torch.autograd.grad(outputs, leaf, ones, materialize_grads=True)
    torch.testing.assert_close(torch.zeros_like(x) if tangent is None else tangent, expected)


def on_duals(run, f, x, t):
    """Tangents and gradients of one tensor."""
    with forward_ad.dual_level():
        leaf = forward_ad.make_dual(x.clone().requires_grad_(), t)
        (found,) = torch.autograd.grad(f(leaf), leaf, materialize_grads=True)
        tangent = forward_ad.unpack_dual(found).tangent
        return torch.zeros_like(x) if tangent is None else tangent


def on_fakes(run, f, x, t):
    """What Dynamo and exporters see of the derivative: no numbers, and what they would be told of them."""
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        found = jvp(grad(f), (mode.from_tensor(x),), (mode.from_tensor(t),))[1]
    assert (found.shape, found.dtype, found.device) == (x.shape, x.dtype, x.device)


def contracted(matrix, t):
    return torch.tensordot(matrix, t, t.ndim)


# Each gives the product of the Hessian of f with t, of which `run` gives the tensors that f adds up; or it checks
# another derivative itself.
COMPOSITIONS = {
    "hessian": lambda run, f, x, t: contracted(hessian(f)(x), t),
    "jacfwd of grad": lambda run, f, x, t: contracted(jacfwd(grad(f))(x), t),
    "jacfwd of jacfwd": lambda run, f, x, t: contracted(jacfwd(jacfwd(f))(x), t),
    "jvp of grad": lambda run, f, x, t: jvp(grad(f), (x,), (t,))[1],
    "linearize of grad": lambda run, f, x, t: linearize(grad(f), x)[1](t),
    "jvp of vmap of grad": lambda run, f, x, t: jvp(vmap(grad(f)), (x[None],), (t[None],))[1][0],
    "vmap of jvp of grad": lambda run, f, x, t: vmap(lambda x, t: jvp(grad(f), (x,), (t,))[1])(x[None], t[None])[0],
    "grad of jvp": lambda run, f, x, t: grad(lambda x: jvp(f, (x,), (t,))[1])(x),
    "grad of vmap of jvp": lambda run, f, x, t: grad(lambda x: vmap(lambda t: jvp(f, (x,), (t,))[1])(t[None]).sum())(x),
    "on duals": on_duals,
    "in backward": in_backward,
    "on fakes": on_fakes,
    "compiled jvp of grad": lambda run, f, x, t: torch.compile(
        lambda x, t: jvp(grad(f), (x,), (t,))[1], backend="aot_eager"
    )(x, t),
}


# Half a second each for what PyTorch records: of each way to a tangent (terms, symmetry, gradients, another operator
# in its place), and lists, several results, and what is written in place. Of all others the fakes are checked.
RECORDED = {"add_rms_norm", "gelu", "joint_linear", "kl_div_backward", "linear", "linear_cross_entropy"}
RECORDED |= {"rope_into_cache", "sdpa_with_lse", "softmax_backward"}


@pytest.fixture(autouse=True)
def quiet():
    torch._dynamo.reset()
    with warnings.catch_warnings(action="ignore"):  # vmap calls operators that it does not know one by one.
        yield


# These take what their forward has found in their place, of which they are no function alone: their second derivatives
# are right in those of the forward.
PARTS = {"cross_entropy_backward", "group_norm_backward", "linear_cross_entropy_backward", "sdpa_backward"}
PARTS |= {"linear_cross_entropy_with_gradients", "sdpa_jagged_backward"}


@pytest.mark.parametrize("name", sorted(every.names() - PARTS))
def test_every_composition_is_right(name):
    sample = every.samples()[name]
    exact = every.in_float64(sample, "cpu")
    for place, (x, exact_x) in enumerate(zip(every.floats(sample.args), every.floats(exact.args), strict=True)):
        run = one_of(sample, place)
        t = torch.randn(x.shape, generator=torch.Generator().manual_seed(1), dtype=x.dtype)

        def f(x, run=run):
            return sum(each.square().sum() for each in run(x))

        expected = difference(partial(f, run=one_of(exact, place)), exact_x, t.double())
        t = t.to(x.device)
        for composition, compute in COMPOSITIONS.items():
            # One input of each is enough for what takes long.
            if place and composition.startswith(("compiled", "jac", "hessian", "linearize", "on fakes")):
                continue
            if composition.startswith(("compiled", "linearize")) and name not in RECORDED:
                continue
            try:
                found = compute(run, f, x, t)
            except RuntimeError as error:
                assert str(error).startswith(NOT_IN_BATCHES), composition
                continue
            if found is not None:
                assert found.dtype == x.dtype
                found = found.cpu().double()
                torch.testing.assert_close(found, expected, **TOLERANCE, msg=f"{composition}, {place}")


def one_of(sample, place):
    """The operator as a function of one of its tensors."""

    def run(x):
        count = iter(range(len(every.floats(sample.args))))
        return every.run(sample, [every.mapped(v, lambda old: x if next(count) == place else old) for v in sample.args])

    return run


def difference(f, x, t, step=1e-4):
    """The product of the Hessian with t, by differences of gradients in reverse."""
    return (grad(f)(x + step * t) - grad(f)(x - step * t)) / (2 * step)
