"""The arrangements of `ninetoothed.arrange`: against PyTorch's views, and kernels that begin with them."""

import doctest
import inspect

import pytest
import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor, arrange, block_size
from ninetoothed.errors import ArrangementError
from tests.conftest import DEVICE


def arange(*shape):
    return torch.arange(torch.Size(shape).numel()).reshape(shape)


def elements(arranged, tensor, shape, **sizes):
    """Which element of a tensor of this shape each element is; a symbolic tensor gives the same as one of numbers."""
    return torch.from_numpy(arranged.eval({tensor: {"shape": shape}, **sizes}))


@pytest.mark.parametrize("name", arrange.__all__)
def test_examples(name):
    function = getattr(arrange, name)
    names = {**vars(arrange), "Tensor": Tensor}
    test = doctest.DocTestParser().get_doctest(inspect.getdoc(function), names, name, None, 0)
    report = []
    doctest.DocTestRunner(verbose=False).run(test, out=report.append)
    assert test.examples and not report, "".join(report)


@pytest.mark.parametrize("shape", ((3, 5), (2, 3, 7), (1, 1), (4, 1, 3), (0, 5)))
def test_rows_are_rows(shape):
    x, weight = Tensor(len(shape)), Tensor(1)
    row, vector = arrange.rows(x, weight)
    count = shape[:-1].numel() if isinstance(shape, torch.Size) else torch.Size(shape[:-1]).numel()
    assert torch.equal(elements(row, x, shape), arange(count, shape[-1]))
    sizes = {x: {"shape": shape}, weight: {"shape": shape[-1:]}}
    assert torch.equal(torch.from_numpy(vector.eval(sizes)), arange(shape[-1]).expand(count, -1))


@pytest.mark.parametrize("columns, size", ((5, 2), (8, 4), (1, 4), (7, 7)))
def test_row_blocks_are_blocks_of_rows(columns, size):
    x = Tensor(3)
    (arranged,) = arrange.row_blocks(x, BLOCK_SIZE=Symbol("B", constexpr=True))
    found = elements(arranged, x, (2, 3, columns), B=size)
    expected = F.pad(arange(6, columns), (0, -columns % size), value=-1)
    assert torch.equal(found, expected.view(6, -1, size))


@pytest.mark.parametrize("shape", ((3, 8), (2, 3, 7), (6,), (1,)))
def test_halves_of_rows(shape):
    x = Tensor(len(shape))
    found, columns = elements(arrange.halves(x), x, shape), shape[-1]
    rows = arange(*shape).reshape(-1, columns)
    half = (columns + 1) // 2
    assert torch.equal(found[:, 0], rows[:, :half])
    if columns > 1:  # of one column, the second half is empty
        assert (
            torch.equal(found[:, 1, : columns - half], rows[:, half:]) and (found[:, 1, columns - half :] == -1).all()
        )


@pytest.mark.parametrize("lead", ((), (2,), (2, 3)))
@pytest.mark.parametrize(
    "shape, stride, padding, dilation", (((3, 2), 1, 0, 1), ((2, 3), (2, 1), (1, 0), (1, 2)), ((3, 3), 2, 1, 2))
)
def test_windows_are_those_of_unfold(lead, shape, stride, padding, dilation):
    sizes = (*lead, 7, 6)
    x = Tensor(len(sizes))
    found = elements(arrange.windows(x, shape, stride, padding, dilation), x, sizes)
    # `unfold` pads with 0, so that 1 more than the element is unfolded.
    images = arange(*sizes).reshape(-1, 1, 7, 6).double() + 1
    expected = F.unfold(images, shape, dilation, padding, stride).long() - 1
    assert torch.equal(found.reshape(images.shape[0], -1, shape[0] * shape[1]), expected.mT)
    assert found.shape == (
        *lead,
        *arrange.windows(Tensor(shape=sizes), shape, stride, padding, dilation).shape[-2:],
        *shape,
    )


@pytest.mark.parametrize("block", ((2, 3), (1, 4), (5, 5)))
def test_blocks_of_windows_are_windows(block):
    x = Tensor(3)
    options = {"stride": (2, 1), "padding": 1}
    windows = elements(arrange.windows(x, (3, 2), **options), x, (2, 7, 6))
    found = elements(arrange.windows(x, (3, 2), **options, block=block), x, (2, 7, 6))
    down, across = windows.shape[1:3]
    for i in range(down):
        for j in range(across):
            (p, m), (q, n) = divmod(i, block[0]), divmod(j, block[1])
            assert torch.equal(found[:, p, q, :, :, m, n], windows[:, i, j])


@pytest.mark.parametrize("reach", (1, 2))
def test_neighbours_are_shifted_blocks(reach):
    x = Tensor(2)
    found = elements(arrange.neighbours(x, ("B", 3), reach), x, (7, 8), B=2)
    padded = F.pad(arange(7, 8), (reach,) * 4, value=-1)
    for i in range(2 * reach + 1):
        for j in range(2 * reach + 1):
            shifted = F.pad(padded[i : i + 7, j : j + 8], (0, 1, 0, 1), value=-1)
            inside = found[:, :, i, j].transpose(1, 2).reshape(8, 9)
            assert torch.equal(inside[:7, :8], shifted[:7, :8])


def test_a_whole_tensor_for_each_program():
    x, rows = Tensor(2), Tensor(1).tile(None)
    assert torch.equal(elements(arrange.whole(x), x, (3, 5)), arange(3, 5))
    found = arrange.whole(x, rows.shape)
    sizes = {x: {"shape": (3, 5)}, rows.source: {"shape": (4,)}}
    assert torch.equal(torch.from_numpy(found.eval(sizes)), arange(3, 5).expand(4, -1, -1))


def test_groups_are_pairs_of_offsets():
    x = Tensor(1)
    assert elements(arrange.groups(x), x, (5,)).tolist() == [[0, 1], [1, 2], [2, 3], [3, 4]]
    assert elements(arrange.groups(x), x, (1,)).tolist() == []


@pytest.mark.parametrize(
    "make, message",
    (
        (
            lambda x: arrange.windows(x, (3, 3), stride=(1, 2, 3)),
            "(1, 2, 3) is given for 2 dimensions; give one number",
        ),
        (lambda x: arrange.windows(x, (3, 3, 3)), "a window of 3 dimensions is wanted of `x`, of shape (6, 8)"),
        (lambda x: arrange.windows(x, 3, block=(4, 4)), "(4, 4) is given for 1 dimension"),
        (lambda x: arrange.halves(Tensor(0, name="s")), "`s`, of shape (), has no rows"),
        (lambda x: arrange.whole(), "it takes (tensor, grid=())"),
    ),
)
def test_mistakes(make, message):
    with pytest.raises(ArrangementError) as caught:
        make(Tensor(shape=(6, 8), name="x"))
    assert message in str(caught.value).splitlines()[0]


def call(arrangement, application, *arguments, **options):
    """Call a kernel of these arguments whose last is the output, and return that."""
    tensors = tuple(Tensor(each.ndim if isinstance(each, torch.Tensor) else 0, **options) for each in arguments)
    arguments[-1].fill_(float("nan"))
    given = [each.to(DEVICE) if isinstance(each, torch.Tensor) else each for each in arguments]
    ninetoothed.make(arrangement, application, tensors)(*given)
    return given[-1].cpu()


def strided(*shape):
    """Random numbers whose neighbours are apart in memory along each dimension."""
    twice = torch.randn([2 * size for size in reversed(shape)], generator=torch.Generator().manual_seed(0))
    return twice[(slice(None, None, 2),) * len(shape)].permute(*reversed(range(len(shape))))


def scaled_sum(x, alpha, y):
    y = x * alpha + 1


def rms_norm(x, weight, y):
    y = x * ntl.rsqrt(ntl.sum(x * x) / x.shape[0] + 1e-6) * weight


def log_softmax(x, y):
    peak = ntl.max(x[0])
    for i in range(1, x.shape[0]):
        peak = ntl.maximum(peak, ntl.max(x[i]))
    total = 0.0
    for i in range(x.shape[0]):
        total += ntl.sum(ntl.exp(x[i] - peak))
    for i in range(x.shape[0]):
        y[i] = x[i] - peak - ntl.log(total)


def swiglu(x, y):
    y = x[0] * ntl.sigmoid(x[0]) * x[1]


def largest(x, y):
    y = ntl.max(x)


def largest_of_windows(x, y):
    found = x[0, 0]
    for i in range(x.shape[0]):
        for j in range(x.shape[1]):
            found = ntl.maximum(found, x[i, j])
    y = found


def laplace(x, y):
    y = x[0, 1] + x[2, 1] + x[1, 0] + x[1, 2] - 4 * x[1, 1]


def sums_of_groups(values, offsets, sums):
    total = 0.0
    for start in range(offsets[0], offsets[1], 4):
        i = start + ntl.arange(0, 4)
        total += ntl.sum(ntl.where(i < offsets[1], values.source[i], 0.0))
    sums = total


def embedding(table, index, y):
    y = table.source[index, ntl.arange(0, y.shape[0])]


@pytest.mark.parametrize("shape", ((3, 5), (2, 3, 7), (33,)))
def test_blocks(shape):
    x = strided(*shape)
    y = call(arrange.blocks, scaled_sum, x, 2.5, torch.empty(shape))
    torch.testing.assert_close(y, x * 2.5 + 1)


@pytest.mark.parametrize("shape", ((3, 5), (2, 3, 7), (4, 1)))
def test_norms_of_rows(shape):
    x, weight = strided(*shape), torch.randn(shape[-1])
    y = call(arrange.rows, rms_norm, x, weight, torch.empty(shape))
    torch.testing.assert_close(y, F.rms_norm(x, shape[-1:], weight, 1e-6))


def test_vectors_are_one_row():
    x = strided(7)
    y = call(arrange.rows, rms_norm, x, torch.ones(7), torch.empty(7))
    torch.testing.assert_close(y, F.rms_norm(x, (7,), eps=1e-6))


@pytest.mark.parametrize("columns", (5, 8, 17))
def test_softmax_of_long_rows(columns):
    def in_eights(x, y):
        return arrange.row_blocks(x, y, BLOCK_SIZE=8)

    x = strided(2, 3, columns)
    y = call(in_eights, log_softmax, x, torch.empty(2, 3, columns))
    torch.testing.assert_close(y, x.log_softmax(-1))


@pytest.mark.parametrize("columns", (5, 8))
def test_gated_halves(columns):
    def arrangement(x, y):
        return arrange.halves(x), *arrange.rows(y)

    x = strided(3, 2 * columns)
    y = call(arrangement, swiglu, x, torch.empty(3, columns))
    torch.testing.assert_close(y, F.silu(x[:, :columns]) * x[:, columns:])


@pytest.mark.parametrize("stride, padding, dilation", ((1, 0, 1), (2, 1, 1), ((1, 2), (1, 0), (2, 1))))
def test_pooling(stride, padding, dilation):
    def one_by_one(x, y):
        return arrange.windows(x, (3, 2), stride, padding, dilation), y.tile(None, None, None)

    def in_blocks(x, y, N=block_size(lower_bound=4, upper_bound=8)):
        return arrange.windows(x, (3, 2), stride, padding, dilation, block=(2, N)), y.tile(None, 2, N)

    x = strided(2, 9, 7)
    expected = F.max_pool2d(x, (3, 2), stride, padding, dilation)
    for arrangement, application in ((one_by_one, largest), (in_blocks, largest_of_windows)):
        y = call(arrangement, application, x, torch.empty_like(expected), other=float("-inf"))
        assert torch.equal(y, expected)


def test_a_stencil():
    def arrangement(x, y):
        return arrange.neighbours(x, (4, 4)), y.tile(4, 4)

    x = strided(7, 10)
    y = call(arrangement, laplace, x, torch.empty(7, 10))
    weight = torch.tensor([[0.0, 1, 0], [1, -4, 1], [0, 1, 0]])
    torch.testing.assert_close(y, F.conv2d(x[None, None], weight[None, None], padding=1)[0, 0])


def test_sums_of_ragged_groups():
    def arrangement(values, offsets, sums):
        return arrange.whole(values, sums.shape), arrange.groups(offsets), sums.tile(None)

    values, offsets = strided(23), torch.tensor([0, 4, 4, 17, 23])
    sums = call(arrangement, sums_of_groups, values, offsets, torch.empty(4))
    torch.testing.assert_close(sums, torch.segment_reduce(values, "sum", lengths=offsets.diff()))


def test_a_table_of_which_rows_are_gathered():
    def arrangement(table, index, y):
        (rows,) = arrange.rows(y)
        return arrange.whole(table, rows.shape), index.tile(None), rows

    table, index = strided(6, 5), torch.tensor([3, 0, 5, 3])
    y = call(arrangement, embedding, table, index, torch.empty(4, 5))
    assert torch.equal(y, table[index])
