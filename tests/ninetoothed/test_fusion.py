"""Fusing two kernels: what fits, what is refused and why, and that the numbers are those of one after the other."""

import doctest
import sys
import warnings

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import FusionError, Symbol, Tensor, block_size, fuse

BLOCK_M, BLOCK_N, BLOCK_K = block_size(16, 128), block_size(16, 128), block_size()
LEFT_BLOCK, RIGHT_BLOCK = block_size(), block_size()


def product_arrangement(input, other, output):
    output_arranged = output.tile((BLOCK_M, BLOCK_N))
    input_arranged = input.tile((BLOCK_M, BLOCK_K)).tile((1, -1)).expand((-1, output_arranged.shape[1]))
    input_arranged.dtype = input_arranged.dtype.squeeze(0)
    other_arranged = other.tile((BLOCK_K, BLOCK_N)).tile((-1, 1)).expand((output_arranged.shape[0], -1))
    other_arranged.dtype = other_arranged.dtype.squeeze(1)
    return input_arranged, other_arranged, output_arranged


def multiply(input, other, output):
    accumulator = ntl.zeros(output.shape, dtype=ntl.float32)
    for k in range(input.shape[0]):
        accumulator += ntl.dot(input[k], other[k])
    output = accumulator


def product():
    return ninetoothed.make(product_arrangement, multiply, (Tensor(2), Tensor(2), Tensor(2)), kernel_name="product")


def squash(input, output):
    output = ntl.tanh(ntl.cast(input, ntl.float32))


def add(input, other, output):
    output = input + other


def subtract_mean(input, output):
    output = input - ntl.sum(input) / input.shape[0]


def both_sums(input, other, sums, differences):
    sums = input + other
    differences = input - other


def elementwise(application, *blocks, count=2, name=None):
    """A kernel of tensors of one shape, cut into tiles of `blocks`."""

    def arrangement(*tensors):
        return tuple(tensor.tile(blocks) for tensor in tensors)

    return ninetoothed.make(arrangement, application, (Tensor(len(blocks)),) * count, kernel_name=name)


def rows(application, count=2, **options):
    """A kernel of matrices, a row a program."""

    def arrangement(*tensors):
        tiled = [tensor.tile((1, -1)) for tensor in tensors]
        for each in tiled:
            each.dtype = each.dtype.squeeze(0)
        return tuple(tiled)

    return ninetoothed.make(arrangement, application, tuple(Tensor(2, **options) for _ in range(count)))


def run(kernel, *inputs, outputs=1, shape=None):
    """Call a kernel whose last parameters are outputs, filled with NaN before."""
    shape = inputs[0].shape if shape is None else shape
    results = [torch.full(shape, float("nan"), dtype=inputs[0].dtype) for _ in range(outputs)]
    kernel(*inputs, *results)
    return results[0] if outputs == 1 else results


def names(kernel):
    return [parameter.name for parameter in kernel.definition.parameters]


@pytest.mark.parametrize("m, n, k", ((33, 45, 70), (1, 1, 1), (128, 16, 5)))
def test_an_epilogue_of_a_product(m, n, k):
    fused = fuse(product(), elementwise(squash, block_size(), block_size()))
    assert names(fused) == ["input", "other", "output"]
    a, b = torch.randn(m, k), torch.randn(k, n)
    torch.testing.assert_close(
        run(fused, a, b, shape=(m, n)), (a.double() @ b.double()).tanh().float(), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize("dtype, expected", ((None, 0), (ninetoothed.float32, 1)))
def test_the_tile_between_is_rounded_as_its_tensor_would_be(dtype, expected):
    second = ninetoothed.make(
        lambda *tensors: tuple(tensor.tile((LEFT_BLOCK, RIGHT_BLOCK)) for tensor in tensors),
        add,
        (Tensor(2, dtype=dtype), Tensor(2), Tensor(2)),
    )
    # 256 + 1 is no bfloat16, of which the tensor between is unless it is said to be of another type.
    a = torch.cat((torch.full((4, 1), 256.0), torch.ones(4, 1)), 1).bfloat16()
    b = torch.ones(2, 4, dtype=torch.bfloat16)
    output = torch.full((4, 4), float("nan"), dtype=torch.bfloat16)
    fuse(product(), second)(a, b, torch.full((4, 4), -256.0, dtype=torch.bfloat16), output)
    assert torch.equal(output.float(), torch.full((4, 4), float(expected)))


def widen(input, output):
    output = input


def twice(input, output):
    output = input * 2


def test_the_type_of_what_lies_between():
    first, second = elementwise(widen, LEFT_BLOCK), elementwise(twice, RIGHT_BLOCK)
    output = torch.empty(3)
    fuse(first, second)(torch.full((3,), 100, dtype=torch.int8), output)
    assert output.tolist() == [200.0] * 3
    # A mask is stored: what lies between is of the type of the numbers that it tells apart.
    output = torch.empty(3, dtype=torch.bool)
    fuse(first, elementwise(is_positive, RIGHT_BLOCK))(torch.full((3,), 0.25), output)
    assert output.all()
    with pytest.raises(
        ninetoothed.ApplicationError, match=r"'output', of float32, .*; say .*dtype=ninetoothed.float32"
    ):
        fuse(elementwise(squash, LEFT_BLOCK), second)(*(torch.ones(3, dtype=torch.int32) for _ in range(2)))
    half, wide = (
        ninetoothed.make(
            lambda x, y: (x.tile((64,)), y.tile((64,))), widen, (Tensor(1, dtype=one), Tensor(1, dtype=other))
        )
        for one, other in ((None, torch.float16), (torch.float32, None))
    )
    with pytest.raises(FusionError, match="'output' is of float16 and 'input' is of float32"):
        fuse(half, wide)


def is_positive(input, output):
    output = input > 0


def spread(input, output):
    output = ntl.sum(input)


def test_what_the_first_broadcasts_is_a_tile_to_the_second():
    fused = fuse(rows(spread), rows(spread))
    x = torch.arange(8.0).reshape(2, 4)
    assert torch.equal(run(fused, x), 4 * x.sum(-1, keepdim=True).expand(2, 4))


def test_what_lies_past_the_end_is_no_part_of_a_reduction():
    first, second = (elementwise(application, block) for application, block in ((shifted, 4), (subtract_mean, 4)))
    x, middle, expected = torch.randn(10), torch.empty(10), torch.empty(10)
    first(x, middle)
    second(middle, expected)
    assert torch.equal(run(fuse(first, second), x), expected)


def shifted(input, output):
    output = input + 1


def scatter(input, output):
    output.source[input] = input + 1


def test_nothing_is_scattered_by_what_lies_past_the_end():
    tensors = Tensor(1), Tensor(1, unique_indices=True)
    second = ninetoothed.make(lambda *each: tuple(tensor.tile((4,)) for tensor in each), scatter, tensors)
    x = torch.tensor([1, 0, 2, 5, 3], dtype=torch.int32)
    output = torch.zeros(5, dtype=torch.int32)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fuse(elementwise(twice, 4), second)(x, output)
    assert output.tolist() == [1, 0, 3, 0, 5]


def gathers(input, output):
    output = input.source[input.source.shape[0] - 1 - input.offsets(0)]


def test_elements_of_other_programs_are_not_there_yet():
    with pytest.raises(FusionError, match="'gathers' reads elements of 'input' that other programs .*one kernel after"):
        fuse(elementwise(squash, 4), elementwise(gathers, 4), keep=("output",))


def accumulate(input, other, output):
    output = output + input + other


def add_some(input, other, output):
    if ntl.program_id(0) < 2:
        output = input + other


@pytest.mark.parametrize("application, is_late", ((add, True), (accumulate, False), (add_some, False)))
def test_what_is_kept_is_stored_last_where_nothing_else_is_done_with_it(application, is_late):
    """So no load of the second waits for that store; what reads it before, or may leave it, does as it did."""
    fused = fuse(rows(application, 3), rows(add, 3), {"input": "output"}, keep=("output",), kernel_name="thrice")
    x, y, z = (torch.randn(5, 8) for _ in range(3))
    kept, output = torch.ones(5, 8), torch.full((5, 8), float("nan"))
    expected = x + y + 1 if application is accumulate else (x + y).clone()
    if application is add_some:
        expected[2:] = 1
    fused(x, y, kept, z, output)
    torch.testing.assert_close(kept, expected)
    torch.testing.assert_close(output, expected + z)
    text = fused.source(x, y, kept, z, output, gpu="h200").text
    assert (text.index("tl.store(output_ptr") > text.rindex("tl.load(")) == is_late


def test_a_prologue_of_rows_that_is_stored_too():
    fused = fuse(rows(add, 3), rows(subtract_mean), keep=("output",), kernel_name="centred_sum")
    assert repr(fused) == "<kernel centred_sum(input, other, output, subtract_mean_output)>"
    x, y = torch.randn(5, 37), torch.randn(5, 37)
    total, centred = run(fused, x, y, outputs=2)
    torch.testing.assert_close(total, x + y)
    torch.testing.assert_close(centred, (x + y) - (x + y).mean(-1, keepdim=True))


def test_a_prologue_that_stays_in_registers():
    fused = fuse(rows(add, 3), rows(subtract_mean))
    assert names(fused) == ["input", "other", "output"]
    x, y = torch.randn(5, 37), torch.randn(5, 37)
    torch.testing.assert_close(run(fused, x, y), (x + y) - (x + y).mean(-1, keepdim=True))


def test_two_tensors_between():
    first = elementwise(both_sums, LEFT_BLOCK, count=4)
    second = elementwise(add, RIGHT_BLOCK, count=3)
    fused = fuse(first, second, {"input": "sums", "other": "differences"})
    assert names(fused) == ["input", "other", "output"]
    x, y = torch.randn(1000), torch.randn(1000)
    torch.testing.assert_close(run(fused, x, y), (x + y) + (x - y))


def test_one_tensor_between_twice():
    fused = fuse(
        elementwise(squash, LEFT_BLOCK),
        elementwise(add, RIGHT_BLOCK, count=3),
        dict.fromkeys(("input", "other"), "output"),
    )
    x = torch.randn(100)
    torch.testing.assert_close(run(fused, x), 2 * x.tanh())


def test_fused_kernels_are_fused_again():
    add_3 = fuse(elementwise(add, LEFT_BLOCK, count=3), elementwise(add, RIGHT_BLOCK, count=3))
    assert names(add_3) == ["input", "other", "add_other", "output"]
    x, y, z = torch.randn(3, 70).unbind()
    fused = fuse(add_3, elementwise(squash, block_size()))
    torch.testing.assert_close(run(fused, x, y, z), (x + y + z).tanh())
    fused = fuse(elementwise(squash, block_size()), add_3)
    torch.testing.assert_close(run(fused, x, y, z), x.tanh() + y + z)


def test_block_sizes_become_equal():
    fused = fuse(elementwise(squash, block_size(16, 256)), elementwise(squash, block_size(64, 1024)))
    (block,) = fused.definition.meta_symbols.values()
    assert (block.lower_bound, block.upper_bound) == (64, 256)
    # An epilogue that asks for nothing leaves a product its small blocks.
    rows, *_ = fuse(product(), elementwise(squash, block_size(), block_size())).definition.meta_symbols.values()
    assert (rows.lower_bound, rows.upper_bound) == (16, 128)
    for fixed, free in ((64, block_size()), (block_size(), 64), (Symbol("SIZE", constexpr=True), block_size())):
        assert not fuse(elementwise(squash, fixed), elementwise(squash, free)).definition.meta_symbols


def test_sizes_that_one_kernel_fixes():
    fixed = ninetoothed.make(
        lambda x, y: (x.tile((1, 16)), y.tile((1, 16))), squash, (Tensor(shape=(None, 48)), Tensor(2))
    )
    fused = fuse(elementwise(squash, 1, 16), fixed)
    x = torch.randn(3, 48)
    torch.testing.assert_close(run(fused, x), x.tanh().tanh())


def transposed():
    def arrangement(input, output):
        tiled = input.permute((1, 0)).tile((BLOCK_M, BLOCK_N))
        return tiled, output.permute((1, 0)).tile((BLOCK_M, BLOCK_N))

    return ninetoothed.make(arrangement, squash, (Tensor(2), Tensor(2)), kernel_name="transposed")


@pytest.mark.parametrize(
    "second, message",
    (
        (elementwise(squash, block_size()), "the shape of the tensor differs: .* of 'output', .* of 'input'"),
        (rows(squash), "the shape of the tiles differs: .*BLOCK_M.*of 'output', .* of 'input'"),
        (
            elementwise(squash, block_size(), block_size(256, 512)),
            r"dimension 1 .*from 16 to 128.* \(from 256 to 512\)",
        ),
        (transposed(), "dimension 0 of the outermost level differs"),
    ),
    ids=("rank", "rows", "ranges", "transposed"),
)
def test_arrangements_that_do_not_fit(second, message):
    with pytest.raises(
        FusionError, match=f"cannot fuse kernel 'product' with '{second.__name__}': .*{message}"
    ) as error:
        fuse(product(), second)
    assert "ninetoothed_" not in str(error.value).replace("ninetoothed_block_size", "") and "; " in str(error.value)


def test_a_fixed_block_of_the_first_kernel_must_be_that_of_the_second():
    with pytest.raises(FusionError, match="dimension 0 of the tiles differs: 32 of 'output', 64 of 'input'"):
        fuse(elementwise(squash, 32), elementwise(squash, 64))


def test_equal_shapes_of_other_elements():
    def shifted(input, output):
        return input[::-1].tile((32,)), output.tile((32,))

    second = ninetoothed.make(shifted, squash, (Tensor(1), Tensor(1)))
    with pytest.raises(FusionError, match="the order of elements differs"):
        fuse(elementwise(squash, 32), second)


def reads_source(input, output):
    output = input + input.source.shape[0]


def test_applications_that_use_more_than_the_tile():
    first = elementwise(squash, BLOCK_M)
    with pytest.raises(FusionError, match=r"`input.source`, .*keep=\('output',\)"):
        fuse(first, elementwise(reads_source, BLOCK_M))
    with pytest.raises(FusionError, match="has other=None and 'input' other=1.0"):
        fuse(rows(squash), rows(subtract_mean, other=1.0), keep=("output",))
    assert names(fuse(first, elementwise(reads_source, BLOCK_M), keep=("output",)))[:2] == ["input", "output"]


def adds_to_output(input, output):
    output += input


def adds_in_a_helper(input, output):
    doubled = input * 2
    add_to(output, doubled)


def add_to(sum, term):
    if sum.dtype.is_floating:
        sum = sum + term


def assigns_in_a_branch(input, output):
    if ntl.max(input) > 0:
        output = input
    output = output * 2


def assigns_in_an_inner_branch(input, output):
    if ntl.max(input) > 0:
        output = input
    elif ntl.min(input) < -1:
        output = -input


def assigns_in_a_loop(input, output):
    for i in range(input.source.shape[0]):
        output = input + i


def assigns_in_each_branch(input, output):
    if ntl.max(input) > 0:
        output = input
    else:
        if ntl.min(input) < -1:
            output = -input
        else:
            output = input * 2
    output += 1


def assigns_in_a_helper(input, output):
    total = ntl.zeros(output.shape, dtype=output.dtype) + ntl.zeros_like(output)
    add_to(total, input)
    copy(input, target=output)
    output = output + total


def copy(source, target):
    target = source


def test_outputs_that_are_read_first_are_kept():
    branches = (assigns_in_a_branch, assigns_in_an_inner_branch, assigns_in_a_loop)
    for application in (adds_to_output, adds_in_a_helper, *branches):
        first, second = elementwise(application, BLOCK_M), elementwise(squash, BLOCK_M)
        with pytest.raises(FusionError, match=r"reads what 'output' held before .*keep=\('output',\)"):
            fuse(first, second)
        assert names(fuse(first, second, keep=("output",)))[:2] == ["input", "output"]
    for application in (assigns_in_each_branch, assigns_in_a_helper):
        assert names(fuse(elementwise(application, BLOCK_M), elementwise(squash, BLOCK_M)))


def total(input, output):
    output = ntl.sum(input)


def test_a_tensor_between_whose_sizes_no_call_tells():
    totals = ninetoothed.make(
        lambda x, y: (x.tile((1, -1)), y.tile((1,))), total, (Tensor(2), Tensor(1)), kernel_name="totals"
    )
    doubled = ninetoothed.make(
        lambda x, y: (x.tile((1,)).unsqueeze(1), y.tile((1, -1))), squash, (Tensor(1), Tensor(2))
    )
    with pytest.raises(FusionError, match=r"'output', so that a call would tell its sizes; .*keep=\('output',\)"):
        fuse(doubled, totals)


def test_names_that_are_not_there():
    first, second = product(), elementwise(squash, block_size(), block_size())
    with pytest.raises(FusionError, match="kernel 'squash' has no parameter 'inputs'; did you mean 'input'"):
        fuse(first, second, {"inputs": "output"})
    with pytest.raises(FusionError, match="kernel 'product' has no parameter 'out'"):
        fuse(first, second, {"input": "out"})
    with pytest.raises(FusionError, match="'input' is kept and goes nowhere"):
        fuse(first, second, keep=("input",))
    with pytest.raises(FusionError, match="`through` is {}"):
        fuse(first, second, {})
    with pytest.raises(TypeError, match="two kernels"):
        fuse(first, squash)
    with pytest.raises(ninetoothed.ArrangementError, match="cannot be named"):
        fuse(first, second, kernel_name="a b")


def test_the_product_stays_out_of_memory_on_a_gpu():
    pytest.importorskip("triton")
    source = fuse(product(), elementwise(squash, block_size(), block_size())).source(
        *(torch.empty(256, 256, dtype=torch.bfloat16) for _ in range(3)), gpu="h200"
    )
    assert source.text.count(".store(") == 1 and source.text.count("tl.dot(") == 1


def test_the_example():
    found = doctest.testmod(sys.modules["ninetoothed.fusion"], extraglobs={"__name__": "examples"})
    assert found.attempted and not found.failed
