"""Arrangements against what PyTorch's own views and `unfold` say of an arange."""

import numpy
import pytest
import torch
import torch.nn.functional as F

from ninetoothed import Tensor, eval
from ninetoothed_ops.kernels import addmm, bmm, conv2d, mm, rope, sdpa

BLOCKS = {mm.BLOCK_SIZE_M: 4, mm.BLOCK_SIZE_N: 2, mm.BLOCK_SIZE_K: 5}


def arange(*shape: int) -> torch.Tensor:
    return torch.arange(torch.Size(shape).numel()).reshape(shape)


def assembled(blocks: numpy.ndarray, shape) -> torch.Tensor:
    """(row blocks, column blocks, rows, columns), batches before, as one matrix cut to `shape`; the rest is -1."""
    matrix = torch.from_numpy(blocks).transpose(-3, -2).flatten(-2).flatten(-3, -2)
    inside = matrix[..., : shape[-2], : shape[-1]]
    assert (matrix == -1).sum() == matrix.numel() - inside.numel()
    return inside


def test_mm_meets_rows_with_columns():
    a, b, c = Tensor(2), Tensor(2), Tensor(2)
    subs = {a: {"shape": (9, 11)}, b: {"shape": (11, 7)}, c: {"shape": (9, 7)}, **BLOCKS}
    left, right, output = (eval(tensor, subs) for tensor in mm.arrangement(a, b, c))

    assert left.shape == (3, 4, 3, 4, 5) and right.shape == (3, 4, 3, 5, 2) and output.shape == (3, 4, 4, 2)
    assert all(torch.equal(assembled(left[:, n], (9, 11)), arange(9, 11)) for n in range(4))
    assert all(torch.equal(assembled(right[m].transpose(1, 0, 2, 3), (11, 7)), arange(11, 7)) for m in range(3))
    assert torch.equal(assembled(output, (9, 7)), arange(9, 7))


def test_bmm_is_mm_in_each_entry():
    tensors = Tensor(3), Tensor(3), Tensor(3)
    matrices = Tensor(2), Tensor(2), Tensor(2)
    sizes = (9, 11), (11, 7), (9, 7)
    batched = {tensor: {"shape": (3, *size)} for tensor, size in zip(tensors, sizes)} | BLOCKS
    single = {tensor: {"shape": size} for tensor, size in zip(matrices, sizes)} | BLOCKS

    for actual, expected, (rows, columns) in zip(bmm.arrangement(*tensors), mm.arrangement(*matrices), sizes):
        actual, expected = eval(actual, batched), eval(expected, single)
        for batch in range(3):
            shifted = numpy.where(expected < 0, -1, expected + batch * rows * columns)
            assert (actual[batch] == shifted).all()


def test_addmm_arranges_its_input_as_its_output():
    tensors = Tensor(2), Tensor(2), Tensor(2), Tensor(0), Tensor(0), Tensor(2)
    subs = {tensor: {"shape": size} for tensor, size in zip(tensors, ((9, 7), (9, 11), (11, 7)))}
    subs |= {tensors[-1]: {"shape": (9, 7)}, **BLOCKS}
    input, *_, output = (eval(tensor, subs) for tensor in addmm.arrangement(*tensors) if tensor.source.ndim)

    assert (input == output).all()


@pytest.mark.parametrize("groups", (1, 2))
@pytest.mark.parametrize("stride, padding, dilation", (((1, 1), (0, 0), (1, 1)), ((2, 1), (1, 2), (1, 2))))
def test_conv2d_unfolds_images(stride, padding, dilation, groups):
    n, c, h, w, k, r, s = 2, 4, 7, 6, 6, 3, 2
    sizes = zip((h, w), (r, s), stride, padding, dilation)
    p, q = ((size + 2 * pad - d * (kernel - 1) - 1) // step + 1 for size, kernel, step, pad, d in sizes)
    rows, depth = n * p * q, c // groups * r * s
    input, weight, bias, output, biased = Tensor(4), Tensor(4), Tensor(1), Tensor(4), Tensor(0, constexpr=True)
    subs = {
        input: {"shape": (n, c, h, w)},
        weight: {"shape": (k, c // groups, r, s)},
        bias: {"shape": (k,)},
        output: {"shape": (n, k, p, q)},
        **BLOCKS,
    }
    filters = -1 if groups == 1 else k // groups
    arranged = conv2d.arrangement(input, weight, bias, output, biased, stride, padding, dilation, filters)
    images, kernels, biases, results = (eval(tensor, subs) for tensor in arranged[:-1])

    # `unfold` pads with 0, so that 1 more than the index is unfolded.
    unfolded = F.unfold(arange(n, c, h, w).double() + 1, (r, s), dilation, padding, stride).long() - 1
    unfolded = unfolded.view(n, groups, c // groups, r * s, p * q).permute(1, 0, 4, 3, 2).reshape(groups, rows, depth)
    matrix = torch.from_numpy(images[:, :, 0]).transpose(-3, -2).flatten(-2).flatten(-3, -2)
    assert torch.equal(matrix[:, :rows, :depth], unfolded)
    assert (matrix[:, rows:] == -1).all() and (matrix[:, :, depth:] == -1).all()

    channels_last = arange(groups, k // groups, c // groups, r * s).mT.reshape(groups, k // groups, depth)
    assert torch.equal(assembled(kernels[:, 0].swapaxes(1, 2), (depth, k // groups)), channels_last.mT)
    pixels = arange(n, groups, k // groups, p * q).permute(1, 0, 3, 2).reshape(groups, rows, k // groups)
    assert torch.equal(assembled(results, (rows, k // groups)), pixels)
    assert torch.equal(
        assembled(biases, (rows, k // groups)), arange(groups, 1, k // groups).expand(groups, rows, k // groups)
    )


@pytest.mark.parametrize("whole", (True, False))
@pytest.mark.parametrize("interleaved", (True, False))
def test_rope_gives_a_token_all_its_heads(interleaved, whole):
    input, sin, cos, output = Tensor(4), Tensor(4), Tensor(4), Tensor(4)
    layouts = {"interleaved": interleaved, "interleaved_output": interleaved}
    subs = {tensor: {"shape": (2, 3, 4, 10)} for tensor in (input, output)}
    subs |= {table: {"shape": (2, 3, 2 if whole else 1, 5)} for table in (sin, cos)}
    heads, angles, *_ = (eval(tensor, subs) for tensor in rope.arrangement(input, sin, cos, output, **layouts))

    parts = 1 if interleaved else 2
    expected = arange(2, 3, 4, parts, 10 // parts).movedim(-2, 2)
    assert torch.equal(torch.from_numpy(heads[:, :, 0, 0]), expected)
    assert torch.equal(torch.from_numpy(angles[:, :, 0, 0]), arange(2, 3, 2 if whole else 1, 5))


def test_sdpa_repeats_heads_without_copying():
    query, key, value, mask, scale, output = Tensor(4), Tensor(4), Tensor(4), Tensor(4), Tensor(0), Tensor(4)
    flags = (Tensor(0, constexpr=True) for _ in range(5))
    subs = {
        query: {"shape": (2, 6, 5, 4)},
        key: {"shape": (2, 2, 7, 4)},
        value: {"shape": (2, 3, 7, 3)},
        mask: {"shape": (2, 6, 5, 7)},
        output: {"shape": (2, 6, 5, 3)},
        sdpa.BLOCK_SIZE_M: 2,
        sdpa.BLOCK_SIZE_N: 4,
    }
    queries, keys, values, masks, _, outputs, *_ = sdpa.arrangement(query, key, value, mask, scale, output, *flags)

    for tensor, shape in ((keys, (2, 2, 7, 4)), (values, (2, 3, 7, 3))):
        blocks = torch.from_numpy(eval(tensor, subs))[:, :, :, 0].flatten(3, 4)
        repeated = arange(*shape).repeat_interleave(6 // shape[1], dim=1)
        assert torch.equal(blocks[:, :, :, :7], repeated[:, :, None].expand(2, 6, 3, 7, shape[-1]))
        assert (blocks[:, :, :, 7:] == -1).all()
    for tensor, shape in ((queries, (2, 6, 5, 4)), (outputs, (2, 6, 5, 3))):
        rows = torch.from_numpy(eval(tensor, subs))[:, :, :, 0].flatten(2, 3)
        assert torch.equal(rows[:, :, :5], arange(*shape)) and (rows[:, :, 5:] == -1).all()
    assert torch.equal(assembled(eval(masks, subs)[:, :, :, 0], (5, 7)), arange(2, 6, 5, 7))
