"""What a loop over the tiles of one tensor takes of another has as many tiles; what is indexed on purpose need not."""

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor, block_size
from ninetoothed.errors import SizeError
from ninetoothed.runtime.dispatch import launcher_of, program
from ninetoothed.runtime.selection import machine


def nans(*shape):
    return torch.full(shape, float("nan"))


def multiply(a, b, c):
    accumulator = ntl.zeros(c.shape, dtype=ntl.float32)
    for k in range(a.shape[0]):
        accumulator += ntl.dot(a[k], b[k])
    c = accumulator


def make_product(application=multiply, depths=None, **options):
    m, n, k = block_size(), block_size(), block_size()
    first, second = depths or (k, k)

    def arrangement(a, b, c):
        c = c.tile((m, n))
        a = a.tile((m, first)).tile((1, -1)).expand((-1, c.shape[1]))
        b = b.tile((second, n)).tile((-1, 1)).expand((c.shape[0], -1))
        a.dtype, b.dtype = a.dtype.squeeze(0), b.dtype.squeeze(1)
        return a, b, c

    return ninetoothed.make(arrangement, application, tuple(Tensor(2, **options) for _ in range(3)))


def counted_before(a, b, c):
    count = a.shape[0]
    accumulator = ntl.zeros(c.shape, dtype=ntl.float32)
    for k in range(0, count, 1):
        accumulator = taken(a, b, k, accumulator)
    c = accumulator


def taken(a, b, k, accumulator):
    return accumulator + ntl.dot(a[k], b[k])


CONSTANT = {"shape_options": {"constexpr": True}}


class TestTilesOfOneBlock:
    @pytest.mark.parametrize("application", (multiply, counted_before))
    @pytest.mark.parametrize("options", ({}, CONSTANT), ids=("open", "constexpr"))
    @pytest.mark.parametrize("depths", ((500, 30), (30, 500), (31, 30), (1, 30), (0, 30)))
    def test_they_cut_one_size(self, application, options, depths):
        a, b, c = torch.randn(150, depths[0]), torch.randn(depths[1], 70), nans(150, 70)
        kernel = make_product(application, **options)
        with pytest.raises(SizeError, match="'b' is indexed by the counter of a loop over the tiles of 'a'") as caught:
            kernel(a, b, c)
        assert c.isnan().all() and "a[k], b[k]" in str(caught.value)
        with pytest.raises(SizeError):
            kernel.source(a, b, c, gpu=machine.H200)
        kernel(a, b := torch.randn(depths[0], 70), c)
        torch.testing.assert_close(c, a @ b, rtol=1e-4, atol=1e-4)

    def test_the_message_names_both_and_their_sizes(self):
        with pytest.raises(SizeError, match="`a` has size 500 in dimension 1, `b` has size 30 in dimension 0"):
            make_product()(torch.randn(150, 500), torch.randn(30, 70), nans(150, 70))

    def test_a_class_that_was_seen(self):
        kernel = make_product()
        for depth in (30, 31, 29):
            kernel(a := torch.randn(40, depth), b := torch.randn(depth, 50), c := nans(40, 50))
            torch.testing.assert_close(c, a @ b, rtol=1e-4, atol=1e-4)
        assert len(launcher_of(kernel).variants) == 1
        with pytest.raises(SizeError):
            kernel(torch.randn(40, 30), torch.randn(31, 50), nans(40, 50))

    def test_stores_too(self):
        def application(x, output):
            for i in range(x.shape[0]):
                output[i] = x[i]

        block = block_size()
        kernel = ninetoothed.make(
            lambda *tensors: tuple(tensor.tile((block,)).tile((-1,)) for tensor in tensors),
            application,
            (Tensor(1), Tensor(1)),
        )
        kernel(x := torch.randn(3000), output := nans(3000))
        assert torch.equal(output, x)
        with pytest.raises(SizeError, match="'output' is indexed by the counter"):
            kernel(torch.randn(3000), nans(3001))

    def test_they_share_a_name(self):
        def application(x, y, output):
            for i in range(x.shape[0]):
                output[i] = x[i] + ntl.sum(y[0, i], axis=0)

        def arrangement(x, y, output, block=block_size()):
            return x.tile((block,)).tile((-1,)), y.tile((1, block)).tile((1, -1)), output.tile((block,)).tile((-1,))

        kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(2), Tensor(1)))
        arguments = torch.randn(3000), torch.randn(1, 3000), nans(3000)
        traced = program(kernel, arguments, {})
        assert {str(parameter.sizes[-1]) for parameter in traced.parameters} == {"x_size_0"}
        assert len(traced.requirements) >= 1
        kernel(*arguments)
        assert torch.equal(arguments[2], arguments[0] + arguments[1][0])


class TestOtherBlocks:
    def test_one_is_chosen_for_which_there_are_as_many(self):
        """The second block is four times the first, of sizes of which one is four times the other."""
        first, second = block_size(), block_size()

        def arrangement(x, y, output):
            y = y.tile((second,)).tile((-1,))
            return x.tile((first,)).tile((-1,)), y, output.tile((1,)).tile((-1,))

        def application(x, y, output):
            for i in range(x.shape[0]):
                output[i] = ntl.sum(x[i]) + ntl.sum(y[i])

        kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)))
        x, y, output = torch.ones(1000), torch.ones(4000), nans(1000)
        kernel(x, y, output)
        done = output[~output.isnan()]
        assert done.sum() == 5000 and 1 < len(done) < 1000
        with pytest.raises(SizeError, match="has another number of tiles"):
            kernel(torch.ones(10), torch.ones(40000), output)

    def test_fixed_blocks_have_none_to_choose(self):
        kernel = make_product(depths=(16, 32))
        with pytest.raises((SizeError, SyntaxError)):
            kernel(torch.randn(40, 64), torch.randn(64, 50), nans(40, 50))


class TestOnPurpose:
    @staticmethod
    def make_rows():
        """Sums of the rows of a sparse matrix, a row a round: p has one element more than there are rows."""

        def application(rows, p, values, output):
            for k in range(rows.shape[0]):
                total = ntl.zeros((), dtype=ntl.float32)
                for i in range(p[k], p[k + 1]):
                    total += values[i]
                output[k] = total + rows[k] * 0

        def arrangement(*tensors):
            return tuple(tensor.tile((1,)).tile((-1,)) for tensor in tensors)

        return ninetoothed.make(arrangement, application, tuple(Tensor(1) for _ in range(4)))

    def test_rows_of_a_sparse_matrix(self):
        matrix = (torch.arange(35).view(5, 7) % 3 == 0) * torch.rand(5, 7)
        starts = torch.nn.functional.pad((matrix != 0).sum(1).cumsum(0), (1, 0)).int()
        self.make_rows()(torch.zeros(5), starts, matrix[matrix != 0], output := nans(5))
        torch.testing.assert_close(output, matrix.sum(1), rtol=1e-5, atol=1e-5)

    def test_tiles_of_one_element_may_not_be_fewer(self):
        with pytest.raises(SizeError, match="'p' is indexed by .* has fewer"):
            self.make_rows()(torch.zeros(5), torch.zeros(3, dtype=torch.int32), torch.zeros(4), nans(5))

    def test_what_a_condition_guards(self):
        def application(x, y, output):
            for k in range(x.shape[0]):
                output[k] = x[k]
                if k < y.shape[0]:
                    output[k] = x[k] + y[k]

        def arrangement(*tensors, block=block_size()):
            return tuple(tensor.tile((block,)).tile((-1,)) for tensor in tensors)

        kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1, other=0), Tensor(1)))
        x, y, output = torch.randn(3000), torch.randn(1100), nans(3000)
        kernel(x, y, output)
        assert torch.equal(output, x + torch.nn.functional.pad(y, (0, 1900)))

    def test_what_a_choice_guards(self):
        def application(x, y, output):
            for k in range(x.shape[0]):
                output[k] = x[k] + y[k] if k < y.shape[0] else x[k]

        def arrangement(*tensors, block=block_size()):
            return tuple(tensor.tile((block,)).tile((-1,)) for tensor in tensors)

        kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1, other=0), Tensor(1)))
        x, y, output = torch.randn(3000), torch.randn(1100), nans(3000)
        kernel(x, y, output)
        assert torch.equal(output, x + torch.nn.functional.pad(y, (0, 1900)))

    def test_what_is_computed_from_a_counter(self):
        def application(x, output):
            for k in range(output.shape[0]):
                output[k] = x[k - 1] + x[k + 1]

        def arrangement(x, output):
            return x.tile((1,)).tile((-1,)), output.tile((1,)).tile((-1,))

        kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))
        kernel(x := torch.randn(3), output := nans(6))
        padded = torch.nn.functional.pad(x, (1, 4))
        assert torch.equal(output, padded[:6] + padded[2:])

    def test_another_range(self):
        def application(x, y, output):
            for k in range(1, x.shape[0]):
                output[k] = x[k] + y[k]
            for k in range(x.shape[0] + 0):
                output[k] = x[k] + y[k]

        def arrangement(*tensors, block=Symbol("B", constexpr=True)):
            return tuple(tensor.tile((block,)).tile((-1,)) for tensor in tensors)

        kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1), Tensor(1)))
        x, y, output = torch.randn(20), torch.randn(30), nans(20)
        kernel(x, y, output, B=4)
        assert torch.equal(output, x + y[:20])
