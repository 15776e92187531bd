"""Sizes that only a call tells fit together, or it is refused before anything is launched."""

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size
from ninetoothed.errors import SizeError
from ninetoothed.expr import as_expr
from ninetoothed.runtime.dispatch import launcher_of, program
from ninetoothed.runtime.selection.machine import H200


def make_weighted():
    def arrangement(x, weight, output):
        return x.tile((1, -1)), weight.tile((-1,)).expand((x.shape[0],)), output.tile((1, -1))

    def application(x, weight, output):
        output = x * weight

    return ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1), Tensor(2)))


def nans(*shape):
    return torch.full(shape, float("nan"))


def test_extents_that_meet_are_equal_as_numbers():
    """260, 300 and 500 are one class, for which one program is compiled; of 20 there is none to compile."""
    kernel = make_weighted()
    for size in (300, 500):
        kernel(x := torch.randn(4, size), weight := torch.randn(size), output := nans(4, size))
        assert torch.equal(output, x * weight)
    for size in (260, 20, 500):
        with pytest.raises(
            SizeError, match=f"`x` has size 300 .* dimension 1, `weight` has size {size} .*\n.*output = x"
        ):
            kernel(torch.randn(4, 300), torch.randn(size), output := nans(4, 300))
        assert output.isnan().all()
    assert len(launcher_of(kernel).variants) == 1


def test_one_element_broadcasts():
    kernel = make_weighted()
    kernel(x := torch.randn(4, 300), weight := torch.randn(1), output := nans(4, 300))
    assert torch.equal(output, x * weight)


@pytest.mark.parametrize("size", (310, 40, 1))
def test_a_store_has_the_extents_of_its_value(size):
    with pytest.raises(SizeError, match="cannot store to 'output'.*`x` has size 300 "):
        make_weighted()(torch.randn(4, 300), torch.randn(300), torch.empty(4, size))


def test_sizes_are_checked_before_anything_is_compiled_for_a_gpu():
    with pytest.raises(SizeError, match="`weight` has size 260"):
        make_weighted().source(torch.empty(4, 300), torch.empty(260), torch.empty(4, 300), gpu=H200)


def test_what_a_program_takes_for_granted_is_told():
    (requirement,) = program(
        make_weighted(), (torch.empty(4, 300), torch.empty(300), torch.empty(4, 300)), {}
    ).requirements
    assert {requirement.left, requirement.right} == {as_expr("x_size_1"), as_expr("weight_size_0")}
    assert requirement.location.text.strip() == "output = x * weight"


def make_carried():
    def arrangement(x, y, output):
        return tuple(tensor.tile((-1,)) for tensor in (x, y, output))

    def application(x, y, output, rounds):
        total = x
        for _ in range(rounds):
            total = y
        output = total

    return ninetoothed.make(
        lambda *tensors: (*(tensor.tile((-1,)) for tensor in tensors[:3]), tensors[3]),
        application,
        (Tensor(1), Tensor(1), Tensor(1), Tensor(0)),
    )


def make_branches():
    def application(x, y, output, chosen):
        if chosen:
            value = x
        else:
            value = y
        output = value + 0

    return ninetoothed.make(
        lambda *tensors: (*(tensor.tile((-1,)) for tensor in tensors[:3]), tensors[3]),
        application,
        (Tensor(1), Tensor(1), Tensor(1), Tensor(0)),
    )


@pytest.mark.parametrize("make", (make_carried, make_branches))
def test_variables_keep_their_extents(make):
    kernel = make()
    kernel(x := torch.randn(7), torch.randn(7), output := nans(7), 0 if make is make_carried else 1)
    assert torch.equal(output, x)
    with pytest.raises(SizeError, match="'total' changes|'value' changes"):
        kernel(torch.randn(7), torch.randn(6), nans(7), 1)


def test_products_have_one_inner_size():
    def application(x, y, output):
        output = ntl.dot(x, y)

    kernel = ninetoothed.make(
        lambda *tensors: tuple(tensor.tile((-1, -1)) for tensor in tensors),
        application,
        tuple(Tensor(2) for _ in range(3)),
    )
    kernel(x := torch.randn(20, 30), y := torch.randn(30, 20), output := nans(20, 20))
    torch.testing.assert_close(output, x @ y, rtol=1e-5, atol=1e-5)
    for depth in (29, 60):
        with pytest.raises(SizeError, match="`dot`.*inner"):
            kernel(torch.randn(20, 30), torch.randn(depth, 20), nans(20, 20))


def add(x, y, output):
    output = ntl.zeros(x.shape, dtype=ntl.float32) + x + y


@pytest.mark.parametrize("gpu", (None, H200), ids=("cpu", "sm_90"))
@pytest.mark.parametrize("size", (64, 256, 1))
def test_a_block_is_chosen_that_is_a_whole_row(size, gpu):
    """The block is the compiler's, and tiles of it meet a row of 64, or of 256."""

    def arrangement(x, y, output, block=block_size()):
        output = output.tile((block,))
        return x.tile((block,)), y.tile((-1,)).expand((output.shape[0],)), output

    kernel = ninetoothed.make(arrangement, add, (Tensor(1), Tensor(1), Tensor(1)))
    x, y, output = torch.randn(1024), torch.randn(size), nans(1024)
    if gpu is not None:
        (block,) = kernel.source(x, y, output, gpu=gpu).configuration.blocks.values()
        assert block == size or size == 1
    else:
        kernel(x, y, output)
        assert torch.equal(output, x + y.repeat(1024 // size))
    for rows in (60, 65):
        with pytest.raises(SizeError, match=f"`y` has size {rows}"):
            kernel.source(x, torch.randn(rows), output, gpu=gpu or H200)


def test_blocks_that_meet_are_chosen_equal():
    first, second = block_size(), block_size(upper_bound=64)
    kernel = ninetoothed.make(
        lambda x, y, output: (x.tile((first,)), y.tile((second,)), output.tile((first,))),
        add,
        (Tensor(1), Tensor(1), Tensor(1)),
    )
    blocks = kernel.source(torch.empty(5000), torch.empty(5000), torch.empty(5000), gpu=H200).configuration.blocks
    assert len(set(blocks.values())) == 1
    kernel(x := torch.randn(5000), y := torch.randn(5000), output := nans(5000))
    assert torch.equal(output, x + y)


def test_no_element_does_not_broadcast():
    kernel = make_weighted()
    kernel(torch.randn(4, 0), torch.randn(0), nans(4, 0))
    for size, weight in ((300, 0), (0, 300)):
        with pytest.raises(SizeError, match="broadcast"):
            kernel(torch.randn(4, size), torch.randn(weight), nans(4, size))


def test_reshapes_keep_the_number_of_elements():
    def application(x, y):
        y = ntl.reshape(x, y.shape)

    kernel = ninetoothed.make(lambda x, y: (x.tile((-1,)), y.tile((1, -1))), application, (Tensor(1), Tensor(2)))
    kernel(x := torch.randn(300), y := nans(1, 300))
    assert torch.equal(y[0], x)
    with pytest.raises(SizeError, match="cannot reshape .*`x` has size 300 .*`y` has size 310"):
        kernel(torch.randn(300), nans(1, 310))


@pytest.mark.parametrize("size", (3, 4, 5, 7, 8, 300, 511))
def test_equal_extents_of_different_powers_of_two(size):
    """Of 4 elements one is taken for at most 4, the other, one more than at most 4, for at most 5."""

    def application(x, y, output):
        output = x + y

    def arrangement(x, y, output):
        return tuple(tensor.tile((-1,)) for tensor in (x.pad(((1, 0),)), y, output))

    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)))
    x, y, output = torch.randn(size), torch.randn(size + 1), nans(size + 1)
    kernel(x, y, output)
    assert torch.equal(output, torch.nn.functional.pad(x, (1, 0)) + y)
    with pytest.raises(SizeError, match="broadcast"):
        kernel(x, torch.randn(size + 2), output)


def test_a_formula_that_is_one_broadcasts():
    def application(x, y, output):
        output = x + y

    def arrangement(x, y, output):
        return tuple(tensor.tile((-1,)) for tensor in (x[:-2], y, output))

    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)))
    for size in (7, 3, 7, 3):
        x, y, output = torch.randn(size), torch.randn(5), nans(5)
        kernel(x, y, output)
        assert torch.equal(output, x[:-2] + y)
    assert "x_index" not in kernel.source(torch.empty(3), torch.empty(5), torch.empty(5), gpu=H200).text
    assert len(launcher_of(kernel).variants) == 2
    with pytest.raises(SizeError, match="broadcast"):
        kernel(torch.randn(4), torch.randn(5), nans(5))


@pytest.mark.parametrize("sides", ((1001, 69_999, 1001), (69_999, 1001, 69_999)), ids=("short first", "long first"))
def test_calls_of_one_class_have_indices_as_long_as_they_need(sides):
    def arrangement(x, y):
        return x.tile((65536,)), y.tile((65536,))

    def application(x, y):
        y = x.source.shape[0] * x.source.shape[0] + 0 * x

    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))
    for side in sides:
        x, y = torch.zeros(side, dtype=torch.int64), torch.zeros(side, dtype=torch.float64)
        (requirement,) = program(kernel, (x, y), {}).requirements
        assert requirement.is_width
        kernel(x, y)
        assert y[-1] == side * side
    assert len(launcher_of(kernel).variants) == 2
    assert {each.wide for each in program(kernel, (x, y), {}).parameters} == {sides[-1] == 69_999}
