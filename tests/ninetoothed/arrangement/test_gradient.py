"""Arrangements of gradients, derived: they are those that one would write, their kernels right, and what has none."""

import doctest
import random
import re
import sys

import numpy
import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import GradientError, Tensor, arrange, gradient_arrangement
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from ninetoothed.runtime.selection.pattern import pattern_of
from ninetoothed_ops.kernels import addmm, bmm, mm

M, N, K = mm.BLOCK_SIZE_M, mm.BLOCK_SIZE_N, mm.BLOCK_SIZE_K


# -- forwards, and what one would write for their gradients by hand --


def biased(bias, input, other, output):
    bias = bias.tile((N,)).unsqueeze(0).expand((output.tile((M, N)).shape[0], -1))
    return bias, *mm.arrangement(input, other, output)


def scaled_columns(input, weight, output):
    input, output = input.tile((M, N)), output.tile((M, N))
    return input, weight.tile((N,)).unsqueeze(0).expand((input.shape[0], -1)), output


def expanded_first(input, other, output):
    """Broadcast elements before they are cut into tiles, as an addition of tensors."""
    return input.tile((M, N)), other.expand((input.shape[0], -1)).tile((M, N)), output.tile((M, N))


def outer_sum(left, right, output):
    """Of vectors, along dimensions that are permuted afterwards."""
    output = output.tile((M, N)).permute((1, 0))
    left = left.tile((M,)).unsqueeze(1).expand((-1, output.shape[0])).permute((1, 0))
    return left, right.tile((N,)).unsqueeze(1).expand((-1, output.shape[1])), output


def batched(input, bias, output):
    """A bias for all of a batch and all rows: two sums."""
    input, output = (tensor.tile((1, M, N)) for tensor in (input, output))
    for tensor in (input, output):
        tensor.dtype = tensor.dtype.squeeze(0)
    return input, bias.tile((N,))[None, None].expand((*input.shape[:2], -1)), output


def by_hand_input(input, other, output):
    input, other, output = input.tile((M, K)), other.tile((K, N)).tile((1, -1)), output.tile((M, N)).tile((1, -1))
    other, output = other.squeeze(1).unsqueeze(0).expand((input.shape[0], -1)), output.expand((-1, input.shape[1]))
    for tensor in (other, output):
        tensor.dtype = tensor.dtype.squeeze(0)
    return input, other, output


def by_hand_other(input, other, output):
    input, other, output = input.tile((M, K)).tile((-1, 1)), other.tile((K, N)), output.tile((M, N)).tile((-1, 1))
    input, output = input.squeeze(0).unsqueeze(1).expand((-1, other.shape[1])), output.expand((other.shape[0], -1))
    for tensor in (input, output):
        tensor.dtype = tensor.dtype.squeeze(1)
    return input, other, output


def by_hand_bmm(input, other, output):
    input, other, output = input.tile((1, M, K)), other.tile((1, K, N)).tile((1, 1, -1)), output.tile((1, M, N))
    output = output.tile((1, 1, -1)).expand((-1, -1, input.shape[2]))
    other = other.squeeze(2).unsqueeze(1).expand((-1, input.shape[1], -1))
    for tensor in (other, output):
        tensor.dtype = tensor.dtype.squeeze((0, 1))
        tensor.dtype.dtype = tensor.dtype.dtype.squeeze(0)
    input.dtype = input.dtype.squeeze(0)
    return input, other, output


def by_hand_columns(input, weight, output):
    tiled = [tensor.tile((M, N)).tile((-1, 1)).squeeze(0) for tensor in (input, output)]
    for tensor in tiled:
        tensor.dtype = tensor.dtype.squeeze(1)
    return tiled[0], weight.tile((N,)), tiled[1]


BLOCKS = {str(M): 2, str(N): 4, str(K): 3}


def numbered(arranged, shapes):
    """The shapes of all levels, and the index map."""
    values = {Tensor(len(shape), name=name): {"shape": shape} for name, shape in shapes.items()} | BLOCKS
    number = arranged.subs(values)
    return number.arrangement.levels, number.eval()


@pytest.mark.parametrize(
    "forward, of, by_hand, shapes",
    (
        (mm.arrangement, "input", by_hand_input, ((5, 7), (7, 6), (5, 6))),
        (mm.arrangement, "other", by_hand_other, ((5, 7), (7, 6), (5, 6))),
        (bmm.arrangement, "input", by_hand_bmm, ((2, 5, 7), (2, 7, 6), (2, 5, 6))),
        (scaled_columns, "weight", by_hand_columns, ((5, 6), (6,), (5, 6))),
        (arrange.rows, 0, arrange.rows, ((2, 5, 7), (2, 5, 7))),
        (scaled_columns, "input", scaled_columns, ((5, 6), (6,), (5, 6))),
    ),
)
def test_it_is_the_one_written_by_hand(forward, of, by_hand, shapes):
    tensors = [Tensor(len(shape), name=f"t{i}") for i, shape in enumerate(shapes)]
    named = {f"t{i}": shape for i, shape in enumerate(shapes)}
    derived, written = gradient_arrangement(forward, of)(*tensors), by_hand(*tensors)
    for one, other in zip(derived, written, strict=True):
        (levels, indices), (wanted, expected) = numbered(one, named), numbered(other, named)
        drop = [tuple(size for size in shape if size != 1) for shape in (levels[0], wanted[0])]
        assert drop[0] == drop[1] and levels[1:] == wanted[1:]
        assert numpy.array_equal(indices.reshape(expected.shape), expected)


SIZES, TILES = {"m": 5, "n": 7, "k": 6}, {"m": 2, "n": 3, "k": 4}


def cut(name, axes, kept):
    """A tensor cut along `axes` in their order and one more, arranged for a grid (m, n) and, if cut along k, a loop."""
    sizes = [SIZES[axis] for axis in axes] + [kept]
    tiled = Tensor(shape=sizes, name=name).tile([TILES[axis] for axis in axes] + [-1]).squeeze(len(axes))
    if "k" in axes:
        tiled = tiled.tile([-1 if axis == "k" else 1 for axis in axes])
        tiled.dtype = tiled.dtype.squeeze(tuple(d for d, axis in enumerate(axes) if axis != "k"))
        tiled = tiled.squeeze(axes.index("k"))
    grid = [axis for axis in axes if axis != "k"]
    tiled = tiled.permute(sorted(range(len(grid)), key=grid.__getitem__))
    for d, axis in enumerate("mn"):
        tiled = tiled if axis in grid else tiled.unsqueeze(d)
    return tiled.expand([-(-SIZES[axis] // TILES[axis]) for axis in "mn"])


def regrouped(tensor, axes, owned):
    """The index map by hand: axes (m, n, k, ...) to those that are owned, those that are summed, and the others."""
    places = tensor.eval()
    places = places if "k" in axes else numpy.expand_dims(places, 2)
    summed = [axis for axis in "mn" if axis not in owned]
    if not set(summed) & set(axes):
        places = places[tuple(slice(0, 1) if axis in summed else slice(None) for axis in "mn")]
    if "k" in owned:
        places = numpy.broadcast_to(places, (*places.shape[:2], -(-SIZES["k"] // TILES["k"]), *places.shape[3:]))
    order = ["mnk".index(axis) for axis in (*owned, *summed, *("k" if "k" not in owned else ""))]
    return places.transpose(*order, *range(3, places.ndim))


@pytest.mark.parametrize("seed", range(30))
def test_any_arrangement_is_regrouped_as_by_hand(seed):
    rng = random.Random(seed)
    axes = [rng.sample("mnk", rng.randint(1, 3)) for _ in range(3)]
    axes = [each if set(each) != {"k"} else ["m", "k"] for each in axes]
    tensors = tuple(cut(f"t{i}", each, kept) for i, (each, kept) in enumerate(zip(axes, (2, 3, 4), strict=True)))
    of = rng.randrange(3)
    # Where nothing is summed and nothing looped over, the forward's arrangement is returned as it is.
    owned = "mn" if set(axes[of]) == {"m", "n"} else axes[of]
    derived = gradient_arrangement(lambda: tensors, of)()
    for each, tensor, names in zip(derived, tensors, axes, strict=True):
        expected = regrouped(tensor, names, owned)
        found = each.eval()
        assert found.size == expected.size and numpy.array_equal(found.ravel(), expected.ravel()), (axes, of, each)


# -- kernels: each parameter stands for its gradient where it is the one that is computed, and the output always --


def left_gradient(input, other, output):
    accumulator = ntl.zeros(input.shape, dtype=ntl.float32)
    for n in range(output.shape[0]):
        accumulator += ntl.dot(output[n], ntl.trans(other[n]))
    input = accumulator


def right_gradient(input, other, output):
    accumulator = ntl.zeros(other.shape, dtype=ntl.float32)
    for m in range(output.shape[0]):
        accumulator += ntl.dot(ntl.trans(input[m]), output[m])
    other = accumulator


def sum_of_rows(bias, input, other, output):
    total = ntl.zeros(bias.shape, dtype=ntl.float32)
    for m in range(output.shape[0]):
        total += ntl.sum(output[m], axis=0)
    bias = total


def weight_gradient(input, weight, output):
    total = ntl.zeros(weight.shape, dtype=ntl.float32)
    for m in range(output.shape[0]):
        total += ntl.sum(input[m] * output[m], axis=0)
    weight = total


def addend_gradient(input, other, output):
    total = ntl.zeros(other.shape, dtype=ntl.float32)
    for m in range(output.shape[0]):
        total += ntl.sum(output[m], axis=0)[None, :]
    other = total


def left_sum(left, right, output):
    total = ntl.zeros(left.shape, dtype=ntl.float32)
    for n in range(output.shape[0]):
        total += ntl.sum(output[n], axis=1)
    left = total


def bias_of_batch(input, bias, output):
    total = ntl.zeros(bias.shape, dtype=ntl.float32)
    for b in range(output.shape[0]):
        for m in range(output.shape[1]):
            total += ntl.sum(output[b, m], axis=0)
    bias = total


def norm_weight_gradient(input, weight, eps, output, weighted):
    total = ntl.zeros(weight.shape, dtype=ntl.float32)
    for i in range(output.shape[0]):
        total += output[i] * input[i] * ntl.rsqrt(ntl.sum(input[i] * input[i]) / input[i].shape[0] + eps)
    weight = total


def grad_of(function, of, *shapes, scale=1.0):
    """Random inputs, the output's gradient, and the gradient of one input, in float64."""
    inputs = [(scale * torch.randn(shape, dtype=torch.float64)).requires_grad_() for shape in shapes]
    output = function(*inputs)
    grad = torch.randn_like(output)
    return [value.detach() for value in inputs], grad, torch.autograd.grad(output, inputs[of], grad)[0]


def check(forward, of, application, function, *shapes, tensors=None):
    """Make a kernel of the derived arrangement, and compare what it computes in float32 with PyTorch's in float64."""
    tensors = tensors or tuple(Tensor(len(shape)) for shape in (*shapes, function(*map(torch.empty, shapes)).shape))
    kernel = ninetoothed.make(gradient_arrangement(forward, of), application, tensors)
    inputs, grad, expected = grad_of(function, of, *shapes)
    arguments = [value.float() for value in (*inputs, grad)]
    arguments[of] = torch.full_like(arguments[of], float("nan"))
    kernel(*arguments)
    assert (arguments[of] - expected).norm() <= 1e-6 * expected.norm()


def affine(bias, input, other):
    return input @ other + bias


def left_of_affine(bias, input, other, output):
    left_gradient(input, other, output)


@pytest.mark.parametrize("of, application", ((0, left_gradient), (1, right_gradient)))
@pytest.mark.parametrize("m, n, k", ((50, 37, 97), (300, 1, 3)))
def test_products(of, application, m, n, k):
    check(mm.arrangement, of, application, torch.mm, (m, k), (k, n))
    check(bmm.arrangement, of, application, torch.bmm, (3, m, k), (3, k, n))


def test_a_bias_is_the_sum_of_rows():
    check(biased, 0, sum_of_rows, affine, (37,), (300, 41), (41, 37))
    check(biased, 1, left_of_affine, affine, (37,), (70, 41), (41, 37))
    check(batched, 1, bias_of_batch, torch.add, (3, 300, 41), (41,))


def test_what_was_broadcast_is_summed():
    check(scaled_columns, 1, weight_gradient, torch.mul, (300, 70), (70,))
    check(outer_sum, 0, left_sum, lambda left, right: left[:, None] + right, (70,), (300,))
    row = (Tensor(2), Tensor(shape=(1, None)), Tensor(2))
    check(expanded_first, 1, addend_gradient, torch.add, (300, 70), (1, 70), tensors=row)


def test_a_weight_of_rows():
    """The input is read, too, and what the forward scales by; scalars stay as they are."""

    def application(input, weight, eps, output, weighted, unit_offset):
        total = ntl.zeros(weight.shape, dtype=ntl.float32)
        for i in range(output.shape[0]):
            total += output[i] * input[i] * ntl.rsqrt(ntl.sum(input[i] * input[i]) / weight.shape[0] + eps)
        weight = total

    tensors = (Tensor(2), Tensor(1), Tensor(0), Tensor(2), *(Tensor(0, constexpr=True) for _ in range(2)))
    kernel = ninetoothed.make(gradient_arrangement(arrange.rows, 1), application, tensors)
    norm = torch.nn.functional.rms_norm
    (x, w), grad, expected = grad_of(lambda x, w: norm(x, (70,), w, 1e-3), 1, (33, 70), (70,))
    result = torch.full((70,), float("nan"))
    kernel(x.float(), result, 1e-3, grad.float(), True, False)
    assert (result - expected).norm() <= 1e-6 * expected.norm()


def test_tensors_of_a_gradient_that_the_forward_lacks():
    """An arrangement with more tensors has the forward's values beside the gradients."""

    def forward(input, output, values):
        return *arrange.rows(input, output), *arrange.rows(values)

    def application(input, output, values):
        input = values * (output - ntl.sum(values * output))

    kernel = ninetoothed.make(gradient_arrangement(forward, "input"), application, (Tensor(2), Tensor(2), Tensor(2)))
    (x,), grad, expected = grad_of(lambda x: x.softmax(-1), 0, (9, 70))
    result = torch.full((9, 70), float("nan"))
    kernel(result, grad.float(), x.softmax(-1).float())
    assert (result - expected).norm() <= 1e-6 * expected.norm()


def test_attention_reads_all_queries_for_each_block_of_keys():
    def forward(query, key, mask, output):
        query, output = query.tile((M, -1)), output.tile((M, -1))
        key = key.tile((N, -1)).tile((-1, 1)).expand((query.shape[0], -1))
        key.dtype = key.dtype.squeeze(1)
        mask = mask.tile((M, N)).tile((1, -1))
        mask.dtype = mask.dtype.squeeze(0)
        return query, key, mask, output

    tensors = [Tensor(shape=shape, name=name) for name, shape in zip("qkmo", ((8, 3), (12, 3), (8, 12), (8, 3)))]
    derived = [each.subs(BLOCKS) for each in gradient_arrangement(forward, "key")(*tensors)]
    assert [each.arrangement.levels for each in derived] == [
        ((3,), (4,), (2, 3)),
        ((3,), (4, 3)),
        ((3,), (4,), (2, 4)),
        ((3,), (4,), (2, 3)),
    ]


def test_a_tile_of_what_was_expanded_has_it_once():
    """Lanes of one element become one, and other operands keep their tiles, which end where they were to."""
    tensors = Tensor(shape=(6, 8), name="x"), Tensor(shape=(1, 8), name="y"), Tensor(shape=(6, 8), name="z")
    derived = gradient_arrangement(expanded_first, "other")(*(each.subs(BLOCKS) for each in tensors))
    assert [each.subs(BLOCKS).arrangement.levels for each in derived] == [
        ((2,), (3,), (2, 4)),
        ((2,), (1, 4)),
        ((2,), (3,), (2, 4)),
    ]

    def whole(x, y):
        return x.expand((y.shape[0],)).tile((-1,)), y.tile((-1,))

    x, _ = gradient_arrangement(whole, "x")(Tensor(shape=(1,)), Tensor(shape=(6,)))
    assert x.dtype.shape == (1,)


def test_lanes_past_the_end_of_what_was_expanded_count_nothing():
    """`rows` has 5 of them, cut into tiles of 4: 3 lanes of the last tile are none."""

    def forward(rows, other, scale, output):
        rows = rows.expand((other.shape[0],)).tile((4,))
        return rows, other.tile((4,)), scale.tile((1,)).expand((rows.shape[0],)), output.tile((4,))

    def application(rows, other, scale, output):
        total = ntl.zeros((), dtype=ntl.float32)
        for m in range(output.shape[0]):
            total += ntl.sum(rows[m])
        scale = total

    tensors = Tensor(shape=(1,)), Tensor(1), Tensor(shape=(1,)), Tensor(1)
    kernel = ninetoothed.make(gradient_arrangement(forward, "scale"), application, tensors)
    scale = torch.zeros(1)
    kernel(torch.full((1,), 3.0), torch.empty(5), scale, torch.empty(5))
    assert scale.item() == 15.0


def test_sums_of_nothing_are_stored():
    kernel = ninetoothed.make(
        gradient_arrangement(mm.arrangement, "input"), left_gradient, (Tensor(2), Tensor(2), Tensor(2))
    )
    result = torch.full((5, 7), float("nan"))
    kernel(result, torch.empty(7, 0), torch.empty(5, 0))
    assert torch.equal(result, torch.zeros(5, 7))


@pytest.mark.parametrize(
    "of, application, sides, operands",
    (("input", left_gradient, (M, K), (2, 1)), ("other", right_gradient, (K, N), (0, 2))),
)
def test_products_reach_tensor_cores(of, application, sides, operands):
    """Their operands are transposed, and still they are products to the selection of schedules."""
    kernel = ninetoothed.make(gradient_arrangement(mm.arrangement, of), application, (Tensor(2), Tensor(2), Tensor(2)))
    matrix = torch.empty(4096, 4096, dtype=torch.bfloat16)
    variant = dispatch.Launcher(kernel.definition).trace((matrix,) * 3, {}, machine.H200)
    pattern = pattern_of(kernel.definition, variant.selection.specialisation)
    assert (pattern.rows, pattern.columns) == tuple(map(str, sides)) and pattern.operands == operands
    pytest.importorskip("triton")
    compiled = executable.compile_for_gpu(kernel.definition, variant)
    assert "wgmma" in compiled.asm["ptx"] and "cp.async.bulk.tensor" in compiled.asm["ptx"] and compiled.spills == 0


def test_messages_name_the_blocks_of_the_forward():
    kernel = ninetoothed.make(gradient_arrangement(mm.arrangement, 0), left_gradient, (Tensor(2), Tensor(2), Tensor(2)))
    assert "BLOCK_SIZE_M=" in kernel.source(*(torch.empty(64, 64) for _ in range(3)), gpu="h200").splitlines()[0]


# -- what has none --


def tiles(**options):
    return lambda x, y: (x.tile((4,), **options), y.tile((4,)))


def merged(x, y):
    return x[:, None].expand((-1, 3)).flatten().tile((4,)), y.tile((4,))


def of_any_size(x, y):
    return x.expand((y.shape[0],)).tile((4,)), y.tile((4,))


def other_blocks(x, y):
    return x.tile((4,)).tile((-1,)), y.tile((3,)).tile((-1,))


@pytest.mark.parametrize(
    "forward, message",
    (
        (
            tiles(strides=(2,)),
            "tiles of 4 along dimension 0 are 2 apart: several may have an element, or none; give each",
        ),
        (tiles(strides=(8,)), "tiles of 4 along dimension 0 are 8 apart"),
        (tiles(dilation=(2,)), "are 4 apart with a dilation of 2"),
        (tiles(floor_mode=True), "`floor_mode` drops a last tile of dimension 0 that is not whole; leave it out"),
        (lambda x, y: (x[1:].tile((4,)), y.tile((4,))), "a part of it is taken, and no program has the rest"),
        (merged, "`flatten` joins a dimension that was expanded with others, or takes a part of it; expand after it"),
        (of_any_size, r"`expand` of dimension 0, of size x_size_0: .* in a call alone; make the tensor with that size"),
        (
            other_blocks,
            "its level 1 is of shape ((x_size_0 + 3) // 4,), and that of `y` ((y_size_0 + 2) // 3,): which dimensions",
        ),
        (lambda x, y: (x.tile((4,)), y.tile((4, 4))), "its level 0 is of shape"),
    ),
)
def test_what_has_none(forward, message):
    y = Tensor(2 if "level 0" in message else 1)
    kernel = gradient_arrangement(forward, "x")
    with pytest.raises(GradientError, match="no arrangement can be derived for the gradient of `x`: ") as raised:
        ninetoothed.make(kernel, lambda x, y: None, (Tensor(1), y))
    assert re.search(message if ".*" in message else re.escape(message), str(raised.value))


def test_names_that_are_not_there():
    tensors = Tensor(2), Tensor(2), Tensor(2)
    with pytest.raises(GradientError, match="no parameter 'inputs'; did you mean 'input'"):
        gradient_arrangement(mm.arrangement, "inputs")(*tensors)
    with pytest.raises(GradientError, match="3 is no tensor that the arrangement returns once"):
        gradient_arrangement(mm.arrangement, 3)(*tensors)
    with pytest.raises(GradientError, match="'beta' is no tensor"):
        gradient_arrangement(addmm.arrangement, "beta")(*tensors[:2], Tensor(2), Tensor(0), Tensor(0), Tensor(2))
    with pytest.raises(TypeError, match="takes an arrangement, a function"):
        gradient_arrangement(tensors[0], "x")


def test_the_example():
    found = doctest.testmod(sys.modules["ninetoothed.arrangement.gradient"], extraglobs={"__name__": "examples"})
    assert found.attempted and not found.failed
