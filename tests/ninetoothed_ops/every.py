"""A call of every operator that is registered, those of gradients too: a new operator is tested with the others."""

import functools

import torch
from torch.utils._python_dispatch import TorchDispatchMode

import ninetoothed_ops  # noqa: F401 - registers the operators
from tests.conftest import DEVICE
from tests.ninetoothed_ops.samples import EXACT, OPERATORS, Sample, samples as sampled

# It raises, and computes nothing.
_ASIDE = {"backward_missing"}


def names() -> set[str]:
    """The operators of `torch.ops.ninetoothed`, those that nobody has asked for yet too."""
    everything = (name.partition(".")[0].split("::") for name in torch._C._dispatch_get_all_op_names())
    return {name for namespace, name in everything if namespace == "ninetoothed"} - _ASIDE


def overload(name: str):
    return getattr(torch.ops.ninetoothed, name).default


def is_float(value) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def mapped(value, convert):
    """Convert each tensor of floating point, in lists too."""
    if isinstance(value, list | tuple):
        return type(value)(mapped(item, convert) for item in value)
    return convert(value) if is_float(value) else value


def floats(values) -> list[torch.Tensor]:
    """The tensors of floating point among values, and in lists among them."""
    found: list[torch.Tensor] = []
    mapped(list(values), found.append)
    return found


def in_float64(sample: Sample, device=DEVICE) -> Sample:
    """The same call in float64, for references; of our own products on the CPU alone."""

    def moved(value):
        if isinstance(value, list | tuple):
            return type(value)(map(moved, value))
        if not isinstance(value, torch.Tensor):
            return value
        return value.detach().to(device, torch.float64 if is_float(value) else None)

    return Sample(sample.operator, sample.label, moved(sample.args), sample.kwargs)


def run(sample: Sample, args=None) -> list[torch.Tensor]:
    """Call an operator; give its results that are of floating point, and what it has written."""
    function = overload(sample.operator)
    args = list(sample.args if args is None else args)
    written = [i for i, each in enumerate(function._schema.arguments) if each.alias_info is not None]
    for i in written:
        args[i] = args[i].clone()
    output = function(*args, **sample.kwargs)
    return floats([output, [args[i] for i in written]])


def run_batched(sample: Sample, args, in_dims) -> list[torch.Tensor]:
    """Call an operator under `torch.vmap`, and give what `run` gives, each with the batch first."""
    return list(torch.vmap(lambda *args: tuple(run(sample, args)), tuple(in_dims), randomness="different")(*args))


def _calls(dtype):
    """Calls of the operators that users know, with every tensor that they take, and of others that these lead to."""
    generator = torch.Generator().manual_seed(0)

    def r(*shape):
        return torch.randn(shape, generator=generator, dtype=torch.float64).to(DEVICE, dtype)

    slots, offsets = torch.tensor([1, 3], device=DEVICE), torch.tensor([0, 1, 3], device=DEVICE)
    yield "activation", (r(2, 3), "relu_squared")
    yield "add", (r(2, 3), r(3)), {"alpha": 2.5}
    yield "add_rms_norm", (r(2, 4), r(2, 4), r(4), 1e-3)
    yield "addmm", (r(3), r(2, 4), r(4, 3)), {"beta": 0.5, "alpha": 2.0}
    yield "batch_norm", (r(3, 2, 4), r(2), r(2).abs(), r(2), r(2), 1e-3)
    yield "batch_norm_training", (r(3, 2, 4), r(2), r(2), 1e-3)
    yield "bmm", (r(2, 1, 2), r(2, 2, 3))
    yield "conv2d", (r(1, 2, 4, 3), r(2, 1, 3, 2), r(2), [2, 1], [1, 1], [1, 1], 2)
    yield "dropout", (r(2, 3), 0.0)
    yield "dropout_of_seed", (r(2, 3), slots[0], 0.5)
    yield "embedding", (r(4, 3), slots)
    yield "gated", (r(2, 3), r(2, 3), "gelu_tanh")
    yield "gated_linear", (r(2, 3), r(2, 3), r(4, 3), "silu")
    yield "gelu", (r(2, 3),)
    yield "group_norm", (r(2, 4, 3), 2, r(4), r(4), 1e-3)
    yield "jsd", (r(2, 3).log_softmax(-1), r(2, 3).log_softmax(-1), slots), {"beta": 0.3}
    yield "joint_linear", (r(2, 4), [r(3, 4), r(2, 4)], [r(3), r(2)])
    yield "kl_div", (r(2, 3), r(2, 3).sigmoid())
    yield "layer_norm", (r(3, 4), [4], r(4), r(4), 1e-3)
    yield "linear", (r(2, 4), r(3, 4), r(3))
    yield "linear_rope_into_cache", (
        r(1, 2, 3), r(8, 3), r(4, 3), r(4, 3), r(2, 2), r(2, 2), slots, r(1, 1, 4, 4), r(1, 1, 4, 4)
    )  # fmt: skip
    yield "linear_swiglu", (r(2, 4), r(3, 4), r(3, 4))
    yield "mm", (r(2, 4), r(4, 3))
    yield "rms_norm", (r(3, 4), [4], r(4), 1e-3)
    yield "rope", (r(1, 3, 2, 4), r(3, 2), r(3, 2))
    yield "rope_into_cache", (
        r(1, 2, 2, 4), r(1, 2, 1, 4), r(1, 2, 1, 4), r(2, 2), r(2, 2), slots, r(1, 1, 4, 4), r(1, 1, 4, 4)
    )  # fmt: skip
    yield "rope_pair", (r(1, 2, 2, 4), r(1, 2, 1, 4), r(2, 2), r(2, 2))
    yield "sdpa", (r(1, 2, 3, 4), r(1, 1, 3, 4), r(1, 1, 3, 4), r(1, 1, 3, 3), 0.0, False, None, r(2)), {
        "enable_gqa": True, "softcap": 3.0
    }  # fmt: skip
    yield "sdpa", (r(1, 1, 3, 4), r(1, 1, 3, 4), r(1, 1, 3, 4), None, 0.5)
    yield "sdpa_jagged", (r(2, 3, 4), r(1, 3, 4), r(1, 3, 4), offsets, None, None, None, 2, 2, True, 0.5)
    yield "silu", (r(2, 3),)
    yield "softmax", (r(2, 3), 1)
    yield "softmax_jagged", (r(2, 3), offsets, None, 2, 1)
    yield "swiglu", (r(2, 3), r(2, 3))


def roots(dtype=EXACT):
    """The calls above, and the first sample of each operator that has none there, with every tensor that it takes."""
    known = list(_calls(dtype))
    yield from known
    for name in sorted(set(OPERATORS) - {name for name, *_ in known}):
        first = next(iter(sampled(name, dtype).values()))
        yield name, first.args, first.kwargs


class _Keep(TorchDispatchMode):
    """Keep the first call of each of our operators."""

    def __init__(self):
        super().__init__()
        self.samples: dict[str, Sample] = {}

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        namespace, _, name = function.name().partition("::")
        if namespace == "ninetoothed" and name not in self.samples:
            detached = tuple(mapped(value, lambda tensor: tensor.detach().clone()) for value in args)
            self.samples[name] = Sample(name, name, detached, dict(kwargs or {}))
        return function(*args, **(kwargs or {}))


@functools.cache
def samples() -> dict[str, Sample]:
    """A call of each operator, as it comes to be called: by users, in a backward, or in that of a backward.

    It takes seconds. Tests take their parameters from `names` and ask in the test, so that nothing is computed to
    collect them.
    """
    # Dropout that drops all has no gradient, which is what would lead to the operator that draws it again.
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kept(roots())


def kept(calls) -> dict[str, Sample]:
    """The first call of each operator that calls `(name, args, *kwargs)` and their gradients lead to."""
    keep = _Keep()
    for name, args, *kwargs in calls:
        sample = Sample(name, name, args, *kwargs)
        with keep, torch.no_grad():
            run(sample)
        leaves: list[torch.Tensor] = []

        def leaf(tensor, leaves=leaves):
            leaves.append(tensor.detach().clone().requires_grad_())
            return leaves[-1]

        args = [mapped(value, leaf) for value in sample.args]
        with keep:
            total = sum(each.square().sum() for each in run(sample, args))
            grads = torch.autograd.grad(total, leaves, create_graph=True, allow_unused=True)
            total = sum(each.square().sum() for each in grads if each is not None and each.requires_grad)
            if total:
                torch.autograd.grad(total, leaves, allow_unused=True)
    return keep.samples
