"""How many variants a kernel has is a contract: within a class of sizes that was seen, nothing new is compiled."""

import itertools

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size
from ninetoothed.runtime import dispatch
from tests.ninetoothed.products import blocked, multiply


def variants(kernel):
    return len(dispatch.launcher_of(kernel).variants)


def make_elementwise(ndim):
    size = block_size()

    def application(x, y, z):
        z = x + y

    def arrangement(*tensors):
        return tuple(tensor.flatten().tile((size,)) for tensor in tensors)

    return ninetoothed.make(arrangement, application, tuple(Tensor(ndim) for _ in range(3)))


def make_softmax():
    def application(x, z):
        numerator = ntl.exp(x - ntl.max(x))
        z = numerator / ntl.sum(numerator)

    def arrangement(x, z):
        return x.tile((1, -1)), z.tile((1, -1))

    return ninetoothed.make(arrangement, application, (Tensor(2, other=float("-inf")), Tensor(2)))


def make_product():
    arrangement = blocked(block_size(), block_size(), block_size())
    return ninetoothed.make(arrangement, multiply, tuple(Tensor(2) for _ in range(3)))


def call_elementwise(kernel, *shape):
    x, y, z = torch.randn(shape), torch.randn(shape), torch.full(shape, float("nan"))
    kernel(x, y, z)
    assert torch.equal(z, x + y)


def call_softmax(kernel, rows, columns):
    x, z = torch.randn(rows, columns), torch.full((rows, columns), float("nan"))
    kernel(x, z)
    assert torch.allclose(z, torch.softmax(x, -1), atol=1e-6)


def call_product(kernel, m, n, k):
    a, b, c = torch.randn(m, k), torch.randn(k, n), torch.full((m, n), float("nan"))
    kernel(a, b, c)
    assert torch.allclose(c, a @ b, atol=1e-4)


def test_batch_sizes_and_lengths_of_one_class_share_a_variant():
    kernel = make_softmax()
    for rows, columns in itertools.product((2, 3, 7, 8, 24, 100), (129, 201, 255)):
        call_softmax(kernel, rows, columns)
    assert variants(kernel) == 1
    for rows, columns in itertools.product((2, 8, 24, 100), (136, 200, 248)):
        call_softmax(kernel, rows, columns)
    assert variants(kernel) == 2


@pytest.mark.parametrize(
    "rows, columns, reason",
    (
        (32, 200, "rows divisible by 16"),
        (3, 208, "columns divisible by 16"),
        (3, 201, "columns not divisible by 8"),
        (3, 300, "the next power of two"),
        (3, 1, "one column"),
    ),
)
def test_another_class_has_a_variant_of_its_own_once(rows, columns, reason):
    kernel = make_softmax()
    call_softmax(kernel, 3, 200)
    for _ in range(2):
        call_softmax(kernel, rows, columns)
        call_softmax(kernel, 3, 200)
        assert variants(kernel) == 2, reason


def test_one_row_is_computed_as_several():
    kernel = make_softmax()
    for rows in (1, 3, 1):
        call_softmax(kernel, rows, 200)
    assert variants(kernel) == 1


def test_lengths_that_grow_one_by_one():
    """As in decoding: at most three variants (divisible by 16, by 8, or neither) a power of two, and length 1."""
    kernel = make_softmax()
    for length in range(1, 300):
        call_softmax(kernel, 3, length)
    # 1; 2, 3-4, 5-7, 8, 9-15, 16; 17-31, 24, 32; 33-63, 40-56, 48-64; ... 257-299, 264-296, 272-288.
    assert variants(kernel) == 1 + 6 + 3 * 5


def test_batches_multiply_no_lengths():
    """Every length up to 64, with every class of the number of rows: 8 is none of its own."""
    kernel = make_softmax()
    for rows, length in itertools.product((3, 8, 40), range(2, 65)):
        call_softmax(kernel, rows, length)
    assert variants(kernel) == 6 + 3 * 2
    for rows, length in itertools.product((48,), range(2, 65)):
        call_softmax(kernel, rows, length)
    assert variants(kernel) == 2 * (6 + 3 * 2)


def test_of_columns_of_length_1_the_rows_lie_side_by_side():
    kernel = make_softmax()
    for rows in range(2, 65):
        call_softmax(kernel, rows, 1)
    assert variants(kernel) == 3


def test_products_of_any_size_share_few_variants():
    kernel = make_product()
    for m, n, k in itertools.product((33, 50, 63), (34, 62), (35, 61)):
        call_product(kernel, m, n, k)
    assert variants(kernel) == 1


def test_elementwise_kernels_share_their_variants_among_shapes():
    kernel = make_elementwise(2)
    for rows, columns in itertools.product((17, 25, 31), (65, 100, 127)):
        call_elementwise(kernel, rows, columns)
    assert variants(kernel) == 1
    for rows, columns in itertools.product((17, 24, 25, 31), (72, 104, 136)):
        call_elementwise(kernel, rows, columns)
    assert variants(kernel) == 2, "rows of whole vectors, however many there are"


def test_elementwise_kernels_of_three_dimensions():
    kernel = make_elementwise(3)
    for shape in itertools.product((3, 5), (17, 25, 31), (65, 100, 127)):
        call_elementwise(kernel, *shape)
    assert variants(kernel) == 1
    for shape in itertools.product((3, 5), (17, 25, 31), (72, 104)):
        call_elementwise(kernel, *shape)
    assert variants(kernel) == 2, "rows of whole vectors"
    x, y, z = torch.randn(3, 17, 130)[:, :, ::2], torch.randn(3, 17, 65), torch.empty(3, 17, 65)
    kernel(x, y, z)
    assert torch.equal(z, x + y) and variants(kernel) == 3, "gaps in memory"


def test_constexpr_sizes_have_variants_of_their_own():
    def application(x, z):
        z = x + 1

    kernel = ninetoothed.make(
        lambda x, z: (x.tile((1, -1)), z.tile((1, -1))),
        application,
        tuple(Tensor(2, shape_options=(None, {"constexpr": True})) for _ in range(2)),
    )
    for columns in (5, 6, 7, 5, 6, 7):
        for rows in (2, 3):
            kernel(x := torch.randn(rows, columns), z := torch.empty(rows, columns))
            assert torch.equal(z, x + 1)
    assert variants(kernel) == 3


def test_other_types_and_layouts_have_variants_of_their_own():
    kernel = make_softmax()
    call_softmax(kernel, 3, 200)
    for _ in range(2):
        x, z = torch.randn(200, 3).t(), torch.empty(3, 200)
        kernel(x, z)
        assert torch.allclose(z, torch.softmax(x, -1), atol=1e-6)
        kernel(x := torch.randn(3, 200).double(), z)
        assert torch.allclose(z, torch.softmax(x, -1).float(), atol=1e-6)
    assert variants(kernel) == 3


def strided(generator, *shape):
    """A random tensor of a shape: whole, transposed, sliced, expanded or off its alignment."""

    def pick(*choices):
        return choices[int(torch.randint(len(choices), (), generator=generator))]

    kind = pick("whole", "transposed", "sliced", "expanded", "shifted")
    if kind == "transposed":
        return torch.randn(shape[::-1], generator=generator).permute(*range(len(shape))[::-1])
    if kind == "sliced":
        inside = tuple(slice(3, 3 + size) for size in shape)
        return torch.randn([2 * size + 16 for size in shape], generator=generator)[inside]
    if kind == "expanded":
        dim = pick(*range(len(shape)))
        return torch.randn([1 if d == dim else size for d, size in enumerate(shape)], generator=generator).expand(shape)
    if kind == "shifted":
        return torch.randn(1 + torch.Size(shape).numel(), generator=generator)[1:].view(shape)
    return torch.randn(shape, generator=generator)


@pytest.mark.parametrize("seed", range(2))
def test_whatever_came_before_a_call_gives_its_own_result(seed):
    """Classes that were too wide would show here: one variant would serve a call that breaks what it relies on."""
    generator = torch.Generator().manual_seed(seed)
    elementwise, softmax, product = make_elementwise(3), make_softmax(), make_product()

    def size():
        choices = (0, 1, 1, 2, 8, 8, 15, 16, 16, 17, 24, 32, 33)
        return choices[int(torch.randint(len(choices), (), generator=generator))]

    for _ in range(20):
        a, b, c = size(), size(), size()
        x, y = strided(generator, a, b, c), strided(generator, a, b, c)
        for z in (torch.full((a, b, c), float("nan")), torch.full((c, b, a), float("nan")).permute(2, 1, 0)):
            elementwise(x, y, z)
            assert torch.equal(z, x + y)
        x, z = strided(generator, a, b), torch.full((a, b), float("nan"))
        softmax(x, z)
        assert torch.allclose(z, torch.softmax(x, -1), atol=1e-6)
        x, y, z = strided(generator, a, b), strided(generator, b, c), torch.full((a, c), float("nan"))
        product(x, y, z)
        assert torch.allclose(z, x @ y, atol=1e-4)
