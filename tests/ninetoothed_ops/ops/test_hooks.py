"""Tensors written before all gradients are computed, as by optimisers that step in hooks: as PyTorch has it."""

import pytest
import torch
import torch.nn.functional as F

from tests.ninetoothed_ops import every
from tests.ninetoothed_ops.samples import EXACT, NAMESAKES, rope

TOLERANCE = dict.fromkeys(("rtol", "atol"), 1e-6 if EXACT is torch.float64 else 1e-4)
WRITTEN = "modified by an inplace operation"
REFERENCES = {
    **NAMESAKES,
    "add_rms_norm": lambda x, y, w, eps: (F.rms_norm(x + y, w.shape, w, eps), x + y),
    "joint_linear": lambda x, weights, biases: torch.cat([F.linear(x, *each) for each in zip(weights, biases)], -1),
    "linear_swiglu": lambda x, gate, up: F.silu(F.linear(x, gate)) * F.linear(x, up),
    "rope_pair": lambda q, k, *others: (rope(q, *others), rope(k, *others)),
    "sdpa": lambda q, k, v, mask, *_, **__: (
        torch.softmax(3 * torch.tanh(q @ k.mT / q.shape[-1] ** 0.5 / 3) + mask, -1) @ v
    ),
}


def with_leaves(sample):
    """The arguments of a call, each of floating point one that requires grad, and these."""
    leaves = []

    def leaf(tensor):
        leaves.append(tensor.detach().clone().requires_grad_())
        return leaves[-1]

    return every.mapped(list(sample.args), leaf), leaves


def gradients(outputs, leaves, **options):
    """The gradients, or the error that says that something was written."""
    try:
        return torch.autograd.grad(
            outputs, leaves, [torch.ones_like(each) for each in outputs], allow_unused=True, **options
        )
    except RuntimeError as error:
        assert WRITTEN in str(error)
        return None


@pytest.mark.parametrize("name", sorted(every.names()))
def test_written_between_forward_and_backward(name):
    """What is saved is told apart from what was written since; what is not saved does not count."""
    sample = every.samples()[name]
    for place in range(len(every.floats(sample.args))):
        args, leaves = with_leaves(sample)
        outputs = [each for each in every.run(sample, args) if each.requires_grad]
        expected = gradients(outputs, leaves, retain_graph=True) if outputs else None
        with torch.no_grad():
            leaves[place].mul_(2)
        found = gradients(outputs, leaves) if outputs else None

        assert found is None or all(a is b or torch.equal(a, b) for a, b in zip(found, expected)), place


@pytest.mark.parametrize("name", sorted(REFERENCES.keys() & every.names()))
def test_an_optimiser_that_steps_in_hooks(name):
    """Each parameter is stepped when its gradient is there, and lets go of that: the next step starts from there."""
    sample, ends = every.samples()[name], []
    if name == "sdpa":
        sample = type(sample)(name, name, (*sample.args[:4], 0.0, False), sample.kwargs)
    for function, each in ((every.overload(name), sample), (REFERENCES[name], every.in_float64(sample))):
        args, leaves = with_leaves(each)

        def step(parameter):
            parameter.sub_(parameter.grad, alpha=0.1)
            parameter.grad = None

        for leaf in leaves:
            leaf.register_post_accumulate_grad_hook(torch.no_grad()(step))
        for _ in range(2):
            outputs = every.floats([function(*args, **sample.kwargs)])
            sum(each.square().sum() for each in outputs).backward()
        ends.append([leaf.detach().double() for leaf in leaves])

    torch.testing.assert_close(*ends, **TOLERANCE)


@pytest.mark.parametrize("name", sorted(REFERENCES.keys() & every.names()))
def test_written_in_the_hook_of_a_gradient(name):
    """A weight that both calls share is written once the second call's gradient is there, and before the first's."""
    sample, found = every.samples()[name], []
    if name == "sdpa":
        sample = type(sample)(name, name, (*sample.args[:4], 0.0, False), sample.kwargs)
    for function, each in ((every.overload(name), sample), (REFERENCES[name], every.in_float64(sample))):
        args, leaves = with_leaves(each)
        first = every.floats([function(*args, **sample.kwargs)])
        between = args[0] + 0.1 * sum(each.sum() for each in first)

        def write(_, leaves=leaves):
            with torch.no_grad():
                for leaf in leaves[1:]:
                    leaf.mul_(2)

        between.register_hook(write)
        second = every.floats([function(between, *args[1:], **sample.kwargs)])
        found.append(gradients(second, leaves))

    own, expected = found
    if own is not None and expected is None:
        # It computes its gradients beside the loss, of what there was then.
        assert name == "linear_cross_entropy"
    elif own is not None:
        torch.testing.assert_close([each.double() for each in own], list(expected), **TOLERANCE)
    else:
        # Written out, a rotation saves copies of its tables.
        assert expected is None or name.startswith("rope")
