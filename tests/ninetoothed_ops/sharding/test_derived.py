"""Signatures by hand are held against what the arrangements of kernels say: nothing independent is forgotten."""

import pytest

pytest.importorskip("torch.distributed.tensor")

from ninetoothed_ops.kernels import (
    activation,
    add,
    add_rms_norm,
    addmm,
    bmm,
    conv2d,
    cross_entropy,
    cross_entropy_backward,
    embedding,
    gated,
    jsd,
    jsd_backward,
    kl_div,
    kl_div_backward,
    layer_norm,
    layer_norm_backward,
    mm,
    rms_norm,
    rms_norm_backward,
    rope_pair,
    sdpa,
    sdpa_backward_query,
    sdpa_with_lse,
    silu,
    softmax,
    softmax_backward,
)
from ninetoothed_ops.sharding import spelled
from tests.ninetoothed_ops.every import overload
from tests.ninetoothed_ops.sharding.independence import REDUCED, WHOLE, independence
from tests.ninetoothed_ops.sharding.test_signatures import samples

# Of each call: its kernel, the kernel's parameter for each tensor of the call and for each of its outputs ("-" for
# none), and the names of the signature that are independent by what the application computes, though a program has all
# of the dimension, or none of a tensor.
KERNELS = {
    "activation": (activation.make("relu", 2), "input", "output", ""),
    "activation_backward": (activation.make_backward("relu", 2), "grad input", "input_grad", ""),
    "add_rms_norm": (add_rms_norm.make(3), "input residual weight", "output sum", ""),
    "addmm": (addmm.make(), "- mat1 mat2", "output", ""),
    "add": (add.make(3), "input -", "output", ""),
    "bmm": (bmm.make(), "input other", "output", ""),
    "conv2d": (conv2d.make((2, 1), (1, 1)), "input weight bias", "output", ""),
    "cross_entropy_backward": (
        cross_entropy_backward.make(2, 16), "grad input target - lse mass", "input_grad", ""
    ),
    "cross_entropy_of_rows": (cross_entropy.make(2, 16), "input target weight", "loss lse mass", ""),
    # Columns of the table are found by the application, not by the arrangement.
    "embedding, of a vector": (embedding.make(), "- ids", "output", "c"),
    "gated": (gated.make("gelu_tanh", 2), "gate up", "output", ""),
    "gated_backward": (gated.make_backward("gelu_tanh", 2), "grad gate up", "gate_grad up_grad", ""),
    "jsd": (jsd.make(16), "input target labels", "loss", ""),
    # Each class has a term of its own.
    "jsd_backward": (jsd_backward.make(16), "grad input target labels", "input_grad target_grad", "c"),
    "divergences": (kl_div.make(2), "input target", "loss", ""),
    "kl_div_backward": (kl_div_backward.make(2), "- input target", "input_grad target_grad", ""),
    "layer_norm": (layer_norm.make(3), "input weight bias", "output", ""),
    "mm": (mm.make(), "input other", "output", ""),
    "layer_norm_backward": (layer_norm_backward.make(3), "grad input weight -", "input_grad - -", ""),
    "rms_norm_backward": (rms_norm_backward.make(3), "grad input weight addend", "input_grad -", ""),
    "sdpa": (sdpa.make(), "query key value mask - -", "output", ""),
    "sdpa_backward": (
        sdpa_backward_query.make(), "query key value mask - - - grad - -", "query_grad - - - -", ""
    ),
    "rms_norm": (rms_norm.make(3), "input weight", "output", ""),
    # A program has all heads of a token.
    "rope_pair": (rope_pair.make(), "query key - -", "query_output key_output", "h"),
    "sdpa_with_lse": (sdpa_with_lse.make(), "query key value mask - - -", "output -", ""),
    "silu": (silu.make(2), "input", "output", ""),
    "softmax of the last": (softmax.make(3), "input", "output", ""),
    "softmax_backward of the last": (softmax_backward.make(3), "grad output", "input_grad", ""),
}  # fmt: skip


def of_kernel(label):
    """Give the dimensions of the tensors of a call, as its kernel's arrangements tell: named by the grid, or not."""
    kernel, tensors, outputs, _ = KERNELS[label]
    arrangements = {each.name: each.arrangement for each in kernel.definition.parameters}
    return independence(arrangements, [name for name in outputs.split() if name != "-"])


def places(label):
    """Pair each tensor of a call, or output, that the kernel has with the kernel's parameter."""
    sample = samples()[label]
    _, tensors, outputs, _ = KERNELS[label]
    given, results = spelled(overload(sample.operator), *sample.args, **sample.kwargs)
    named = zip((*given, *results), (*tensors.split(), *outputs.split()), strict=True)
    return [(each, name) for each, name in named if name != "-" and each is not None], results


@pytest.mark.parametrize("label", KERNELS)
def test_what_is_independent_by_hand_is_independent_by_the_arrangement(label):
    derived, (paired, results) = of_kernel(label), places(label)
    by_hand, by_arrangement = {}, {}
    for each, name in paired:
        own = derived[name]
        for place, dim in enumerate(each.dims):
            # Tensors may have fewer dimensions than the kernel's, which begin with those of another tensor.
            of_grid = own[len(own) - len(each.dims) + place]
            if not dim[0].isupper() and any(result is not None and dim in result.dims for result in results):
                by_hand.setdefault(dim, set()).add((name, place))
            elif not dim[0].isupper():
                assert of_grid == REDUCED, f"{label}: {dim} of {name} is summed, and {of_grid} in the kernel"
            if of_grid not in (WHOLE, REDUCED):
                by_arrangement.setdefault(of_grid, set()).add((name, place))
    # Rows and columns of an image that convolution makes are of no one row and column of its input.
    inputs = KERNELS[label][1].split()
    by_arrangement = {dim: found for dim, found in by_arrangement.items() if any(name in inputs for name, _ in found)}
    more = KERNELS[label][3].split()
    assert not {dim for dim in more if by_hand.pop(dim) in by_arrangement.values()}
    assert sorted(map(sorted, by_hand.values())) == sorted(map(sorted, by_arrangement.values()))
