"""Each operator under `torch.vmap`: right for every `in_dims`, by batches of its kernels, and without a warning."""

import warnings

import pytest
import torch
from torch.nn import functional

import ninetoothed_ops
from tests.conftest import DEVICE
from tests.ninetoothed_ops import every

SIZE = 3
TOLERANCE = dict.fromkeys(("rtol", "atol"), 1e-9 if every.EXACT is torch.float64 else 1e-4)


# One seed draws for all of a batch, as is tested below.
@pytest.mark.parametrize("name", sorted(every.names() - {"sdpa_dropout", "dropout", "dropout_of_seed"}))
def test_every_pattern_of_batched_arguments(name):
    sample = every.samples()[name]
    args = [list(each) if isinstance(each, list | tuple) else each for each in sample.args]
    written = {i for i, each in enumerate(every.overload(name)._schema.arguments) if each.alias_info is not None}
    for pattern in patterns(list(places_of(args)), written):
        batched, in_dims = with_batches(args, pattern)
        with warnings.catch_warnings(action="error"):
            found = every.run_batched(sample, batched, in_dims)
        calls = [every.run(sample, [of_call(*each, n) for each in zip(batched, in_dims)]) for n in range(SIZE)]
        expected = [torch.stack(each) for each in zip(*calls)]
        assert len(found) == len(expected) > 0
        for each, right in zip(found, expected):
            # What a gradient leaves out is memory of one element, of no meaning.
            if right[0].numel() != 1 or not name.endswith(("backward", "gradients")):
                assert each.dtype == right.dtype and torch.allclose(each, right, **TOLERANCE), pattern


def places_of(values):
    """The places of tensors: (i, None), or (i, j) in a list."""
    for i, value in enumerate(values):
        if isinstance(value, torch.Tensor):
            yield i, None
        elif isinstance(value, list):
            yield from ((i, j) for j, item in enumerate(value) if isinstance(item, torch.Tensor))


def patterns(places, written):
    """Batch all, each alone, and all but each: in the first dimension or the last. What is written always is."""
    if len(places) > 8:  # Each of attention's gradients takes seconds: of these a mask alone, which is expanded.
        alone, but_one = [[places[3]]], []
    else:
        alone = [[place] for place in places]
        but_one = [[place for place in places if place != left] for left in places[:4] if len(places) > 2]
    always = [place for place in places if place[0] in written]
    for n, chosen in enumerate((places, places, *alone, *but_one)):
        yield {place: -1 if (n + i * (n == 1)) % 2 else 0 for i, place in enumerate({*chosen, *always})}


def with_batches(args, pattern):
    """Arguments of which these are batched, and the `in_dims` that say so."""
    args = [list(each) if isinstance(each, list) else each for each in args]
    in_dims = [[None] * len(each) if has_tensors(each) else None for each in args]
    for (i, j), dim in pattern.items():
        values, dims = (args, in_dims) if j is None else (args[i], in_dims[i])
        place = i if j is None else j
        values[place], dims[place] = torch.stack(others_of(values[place]), dim), dim
    return args, in_dims


def has_tensors(value):
    return isinstance(value, list) and any(isinstance(item, torch.Tensor) for item in value)


def others_of(value):
    """A tensor and others that may stand in its place."""
    if not value.is_floating_point():
        return [value] * SIZE
    return [value, value.flip(0) if value.ndim else value * 2, value * 1.5]


def of_call(value, dim, n):
    """The argument of one call."""
    if isinstance(dim, list):
        return [of_call(*each, n) for each in zip(value, dim)]
    return value if dim is None else value.select(dim, n)


@pytest.mark.parametrize("randomness", ("different", "same"))
def test_dropout_drops_in_a_backward_what_it_dropped(randomness):
    q, k, v = (torch.randn(SIZE, 2, 2, 5, 4, dtype=every.EXACT, device=DEVICE) for _ in range(3))

    def both(q, k, v):
        output, pull_back = torch.func.vjp(lambda v: ninetoothed_ops.sdpa(q, k, v, dropout_p=0.5), v)
        return output, pull_back(torch.ones_like(output))[0]

    with warnings.catch_warnings(action="error"):
        output, grads = torch.vmap(both, randomness=randomness)(q, k, v)
    # The output is linear in v.
    torch.testing.assert_close((grads * v).sum((1, 2, 3, 4)), output.sum((1, 2, 3, 4)), **TOLERANCE)
    same = torch.vmap(both, randomness=randomness)(*(each[:1].expand_as(each) for each in (q, k, v)))[0]
    assert torch.equal(same[0], same[1]) == (randomness == "same")


def test_compositions():
    x, w = (
        torch.randn(SIZE, 4, 6, dtype=every.EXACT, device=DEVICE),
        torch.randn(5, 6, dtype=every.EXACT, device=DEVICE),
    )

    def of(ops):
        def loss(x, w):
            hidden = ops.silu(ops.linear(ops.rms_norm(x, [6]), w))
            return ops.softmax(hidden, -1).square().sum() + ops.layer_norm(hidden, [5]).pow(3).mean()

        return loss

    def all_of(loss):
        yield torch.vmap(torch.func.grad(loss), (0, None))(x, w)
        yield torch.func.grad(lambda x: torch.vmap(loss, (0, None))(x, w).sum())(x)
        yield torch.vmap(torch.func.grad(loss, 1), (None, 1))(x[0], torch.stack((w, 2 * w), 1))
        yield torch.vmap(torch.vmap(loss, (0, None)), (None, 0))(x, torch.stack((w, 2 * w)))
        yield torch.func.jacrev(torch.func.grad(loss))(x[0], w)

    with warnings.catch_warnings(action="error"):
        found = list(all_of(of(ninetoothed_ops)))
    for each, right in zip(found, all_of(of(NAMESAKES))):
        torch.testing.assert_close(each, right, **TOLERANCE)


class NAMESAKES:
    silu, linear, softmax = functional.silu, functional.linear, torch.softmax
    rms_norm, layer_norm = functional.rms_norm, functional.layer_norm
