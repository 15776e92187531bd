"""Each way to share out a call gives what the whole call gives: parts are computed one by one, without processes."""

import functools

import pytest
import torch

pytest.importorskip("torch.distributed.tensor")
from torch.distributed.tensor import Partial, Replicate, Shard

import ninetoothed_ops  # noqa: F401 - registers the operators
from ninetoothed_ops.sharding import SIGNATURES, SIZES, ways
from tests.conftest import error
from tests.ninetoothed_ops.every import is_float, kept, names, overload
from tests.ninetoothed_ops.samples import Sample

# Their rules are PyTorch's NotImplementedError, which has the operator's name: see signatures.py.
WITHOUT = {"dropout", "joint_linear"}
# Of the whole, cut into as many parts, where it can be.
PARTS = 2


_NUMBERS = torch.Generator().manual_seed(0)


def r(*shape):
    return torch.randn(shape, generator=_NUMBERS, dtype=torch.float64)


def named(count, *shape):
    return torch.randint(count, shape, generator=torch.Generator().manual_seed(1))


def calls():
    """Calls with all tensors, of sizes that parts divide and others; the first ones lead to gradients."""
    log = functools.partial(torch.log_softmax, dim=-1)
    heads = [r(2, count, 3, 4) for count in (4, 2, 2)]
    offsets = torch.tensor([0, 2, 6])
    # Angles, where to write, and what is written.
    cache = r(2, 3, 3), r(1, 3, 3), torch.tensor([4, 0, 2]), r(2, 2, 5, 6), r(2, 2, 5, 6)
    yield "activation", (r(3, 4), "relu_squared")
    yield "add", (r(2, 3, 4), r(3, 1)), {"alpha": 2.5}
    yield "add_rms_norm", (r(3, 2, 4), r(3, 2, 4), r(4), 1e-3)
    yield "addmm", (r(6), r(3, 4), r(4, 6)), {"beta": 0.5, "alpha": 2.0}
    yield "batch_norm", (r(3, 4, 2), r(4), r(4).abs(), r(4), r(4), 1e-3)
    yield "batch_norm_training", (r(3, 4, 2), r(4), r(4), 1e-3)
    yield "bmm", (r(2, 3, 4), r(2, 4, 6))
    yield "conv2d", (r(2, 4, 5, 4), r(6, 4, 3, 2), r(6), [2, 1], [1, 1], [1, 1], 1)
    yield "cross_entropy", (r(6, 5), named(5, 6), r(5).abs(), 0, 2, 0.1, 0.01, 3.0)
    yield "dropout_of_seed", (r(3, 4), torch.tensor(7), 0.5)
    yield "embedding", (r(5, 4), named(5, 3, 2))
    yield "gated", (r(3, 4), r(3, 4), "gelu_tanh")
    yield "gated_linear", (r(2, 3, 4), r(2, 3, 4), r(6, 4), "silu")
    yield "gelu", (r(3, 4),)
    yield "group_norm", (r(3, 4, 3), 2, r(4), r(4), 1e-3)
    yield "jsd", (log(r(3, 4)), log(r(3, 4)), named(5, 3)), {"beta": 0.3}
    yield "kl_div", (log(r(3, 4)), r(3, 4).sigmoid(), 2)
    yield "layer_norm", (r(3, 2, 4), [4], r(4), r(4), 1e-3)
    yield "linear", (r(2, 3, 4), r(6, 4), r(6))
    yield "linear_cross_entropy", (r(6, 4), r(5, 4), named(5, 6), r(5), r(5).abs(), 2)
    yield "linear_rope_into_cache", (r(2, 3, 5), r(24, 5), r(12, 5), r(12, 5), *cache)
    yield "linear_swiglu", (r(3, 4), r(6, 4), r(6, 4))
    yield "mm", (r(3, 4), r(4, 6))
    yield "rms_norm", (r(3, 2, 4), [4], r(4), 1e-3)
    yield "rope", (r(2, 3, 4, 6), r(3, 3), r(3, 3))
    yield "rope_into_cache", (r(2, 3, 4, 6), r(2, 3, 2, 6), r(2, 3, 2, 6), *cache)
    yield "rope_pair", (r(2, 3, 4, 6), r(2, 3, 2, 6), r(2, 3, 3), r(2, 3, 3))
    yield "sdpa", (*heads, r(1, 4, 3, 3), 0.0, False, None, r(4)), {"enable_gqa": True}
    yield "sdpa_jagged", (r(4, 6, 4), r(2, 6, 4), r(2, 6, 4), offsets, None, None, None, 4, 4, True, 0.5)
    yield "silu", (r(3, 4),)
    yield "softmax", (r(2, 3, 4), 1)
    yield "softmax_jagged", (r(3, 6, 2), offsets, None, 4, 1)
    yield "swiglu", (r(3, 4), r(3, 4))


# What the calls above do not lead to, each by itself.
OTHERS = {
    "attention, causal": ("sdpa", (*(r(2, 4, 3, 4) for _ in range(3)), None, 0.0, True), {}),
    "attention, of one head of keys": (
        "sdpa", (r(2, 4, 3, 4), r(2, 1, 3, 4), r(2, 1, 3, 4), None, 0.0, False, named(3, 2) + 1), {"enable_gqa": True}
    ),
    "attention, of heads that are not cut alike": (
        "sdpa", (r(2, 6, 3, 4), r(2, 3, 3, 4), r(2, 3, 3, 4)), {"enable_gqa": True}
    ),
    "attention, of three dimensions": ("sdpa", tuple(r(4, 3, 4) for _ in range(3)), {}),
    "attention, of five": ("sdpa", tuple(r(2, 3, 4, 3, 4) for _ in range(3)), {}),
    "cross-entropy, of probabilities": ("cross_entropy", (r(6, 5, 2), r(6, 5, 2).softmax(1), None, 0), {}),
    "cross-entropy, of a sum": ("cross_entropy", (r(6, 5), named(5, 6), None, 2), {}),
    "cross-entropy, of a mean": ("cross_entropy", (r(6, 5), named(5, 6)), {}),
    "cross-entropy, of a vector": ("cross_entropy", (r(5), named(5)), {}),
    "convolution, grouped": ("conv2d", (r(2, 4, 5, 4), r(6, 2, 3, 2), r(6), [1, 1], [0, 0], [1, 1], 2), {}),
    "divergences": ("kl_div", (r(3, 4), r(3, 4).sigmoid(), 0), {}),
    "divergences, of a mean": ("kl_div", (r(3, 4), r(3, 4).sigmoid()), {}),
    "linear_cross_entropy_with_gradients": (
        "linear_cross_entropy_with_gradients",
        (r(6, 4), r(5, 4), named(5, 6), r(5), None, 2, -100, 0.0, 0.0, None, [True, True, True]), {}
    ),
    "linear cross-entropy, of a mean": (
        "linear_cross_entropy_with_gradients",
        (r(6, 4), r(5, 4), named(5, 6), None, None, 1, -100, 0.0, 0.0, None, [True, False, False]), {}
    ),
    "linear cross-entropy, of rows": ("linear_cross_entropy", (r(2, 3, 4), r(5, 4), named(5, 2, 3), None, None, 0), {}),
    "sdpa_dropout": ("sdpa_dropout", (torch.tensor(3), [2, 2, 3, 3], True, 0.5), {}),
    "norm of two dimensions": ("layer_norm", (r(3, 2, 4), [2, 4], r(2, 4)), {}),
    "norm without a weight": ("rms_norm", (r(3, 2, 4), [4]), {}),
    "embedding, of a vector": ("embedding", (r(5, 4), named(5, 6)), {}),
    "softmax of the last": ("softmax", (r(2, 3, 4), -1), {}),
    "softmax_backward of the last": (
        "softmax_backward", (r(2, 3, 4), r(2, 3, 4).softmax(-1), -1, torch.float64), {}
    ),
    "softmax of the first": ("softmax", (r(3, 4), -2), {}),
    "attention, of matrices": ("sdpa", (r(6, 4), r(3, 4), r(3, 4)), {}),
    "convolution, without a batch": ("conv2d", (r(4, 5, 4), r(6, 4, 3, 2), r(6), [1, 1], [0, 0], [1, 1], 1), {}),
    "rope_pair, of one head of keys": ("rope_pair", (r(2, 3, 4, 6), r(2, 3, 1, 6), r(2, 3, 3), r(2, 3, 3)), {}),
    # A size of 1 is the same in each process: what is summed over it is no partial sum.
    "cross-entropy, of one row": ("cross_entropy", (r(1, 5), named(5, 1)), {}),
    "norm of one row": ("rms_norm", (r(1, 4), [4], r(4), 1e-3), {}),
    "norm's gradient, of one row": ("rms_norm_backward", (r(1, 4), r(1, 4), [4], r(4), 1e-3, [True, True]), {}),
    "product, of one row": ("linear", (r(1, 4), r(6, 4), r(6)), {}),
    "product, over one number": ("mm", (r(3, 1), r(1, 4)), {}),
}  # fmt: skip


@functools.cache
def samples():
    found = kept(calls())
    return {**found, **{label: Sample(name, label, args, kwargs) for label, (name, args, kwargs) in OTHERS.items()}}


class Mesh:
    """Stand in for a mesh of one dimension."""

    def size(self, _):
        return PARTS


def cut(value, placement):
    if isinstance(placement, Shard):
        return value.tensor_split([-(-value.shape[placement.dim] // PARTS)], placement.dim)
    if isinstance(placement, Partial):
        return value - 1.5, torch.full_like(value, 1.5)
    return (value,) * PARTS


def joined(parts, placement):
    if isinstance(placement, Shard):
        return torch.cat(parts, placement.dim)
    return sum(parts) if isinstance(placement, Partial) else parts[0]


def outputs_of(function, args, kwargs):
    """Give the results of a call, and what it has written."""
    args = [args[i].clone() if i in written(function) else value for i, value in enumerate(args)]
    output = function(*args, **kwargs)
    results = [output] if isinstance(output, torch.Tensor) else list(output)
    return results + [args[i] for i in written(function)]


def written(function):
    return [i for i, each in enumerate(function._schema.arguments) if each.alias_info is not None]


def check(sample, way, expected):
    """Compute a call part by part, and put the results together."""
    function, places = overload(sample.operator), [i for i, x in enumerate(sample.args) if isinstance(x, torch.Tensor)]
    count = len(expected) - len(written(function))
    placements = dict(zip(places, way[count:], strict=True))
    parts = {i: cut(sample.args[i], placement) for i, placement in placements.items()}
    found = []
    for part in range(PARTS):
        args = [parts[i][part].contiguous() if i in parts else value for i, value in enumerate(sample.args)]
        if sample.operator in SIZES and isinstance(way[0], Shard):
            size = list(args[SIZES[sample.operator]])
            size[way[0].dim] = (-(-size[way[0].dim] // PARTS), size[way[0].dim] // PARTS)[part]
            args[SIZES[sample.operator]] = size
        found.append(outputs_of(function, args, sample.kwargs))
    of_outputs = way[:count] + [placements[i] for i in written(function)]
    for placement, wanted, *of_parts in zip(of_outputs, expected, *found, strict=True):
        whole = joined(of_parts, placement)
        if is_float(whole) and wanted.numel() > 1 or not isinstance(placement, Replicate):
            assert whole.shape == wanted.shape and error(whole, wanted) < 1e-9, f"{sample.label}: {way}"


@pytest.mark.parametrize("label", sorted((set(names()) - WITHOUT) | set(OTHERS)))
def test_each_way_gives_what_the_whole_gives(label):
    sample = samples()[label]
    expected = outputs_of(overload(sample.operator), sample.args, sample.kwargs)
    found, fit = ways(overload(sample.operator), *sample.args, **sample.kwargs)
    count = len(expected) - len(written(overload(sample.operator)))
    for way in found:
        if fit([[placement] for placement in way[count:]], Mesh()):
            check(sample, way, expected)
        else:
            assert label == "attention, of heads that are not cut alike"


def test_all_operators_have_a_signature_or_are_listed():
    assert set(SIGNATURES) | WITHOUT == names() and not set(SIGNATURES) & WITHOUT


# How many ways there are besides the one without shards, so that none is lost.
COUNTS = {
    "add_rms_norm": 2, "addmm": 3, "batch_norm": 3, "batch_norm_backward": 2, "batch_norm_training": 1, "bmm": 4,
    "conv2d": 3, "conv2d_backward_input": 3, "conv2d_backward_weight": 3, "cross_entropy_of_rows": 1,
    "cross_entropy_backward": 1, "embedding": 3, "embedding_backward": 3, "gated_linear": 4, "group_norm": 1,
    "group_norm_backward": 1, "jsd": 2, "jsd_backward": 2, "kl_div": 2, "kl_div_backward": 2, "layer_norm": 2,
    "layer_norm_backward": 2, "linear": 4, "linear_cross_entropy_backward": 1, "linear_swiglu": 2, "mm": 3,
    "rms_norm": 2, "rms_norm_backward": 2, "rope": 3, "rope_backward": 3, "rope_pair": 3, "rope_into_cache": 2,
    "linear_rope_into_cache": 1, "sdpa_jagged": 1, "sdpa_jagged_backward": 1, "softmax_jagged": 2,
    "softmax_jagged_backward": 2, "dropout_of_seed": 0, "sdpa_dropout": 0, "sdpa": 3,
    "sdpa_with_lse": 3, "sdpa_backward": 3, "softmax": 2, "softmax_backward": 2, "swiglu": 3, "add": 4,
    "attention, causal": 2, "attention, of three dimensions": 2, "attention, of five": 4,
    "cross-entropy, of probabilities": 2, "cross-entropy, of a sum": 1, "cross-entropy, of a mean": 0,
    "convolution, grouped": 1, "divergences": 2, "divergences, of a mean": 0,
    "linear_cross_entropy_with_gradients": 1, "linear cross-entropy, of a mean": 0, "norm of two dimensions": 1,
}  # fmt: skip


@pytest.mark.parametrize("label", COUNTS)
def test_no_way_is_lost(label):
    sample = samples()[label]
    found, _ = ways(overload(sample.operator), *sample.args, **sample.kwargs)
    assert len(found) - 1 == COUNTS[label]
