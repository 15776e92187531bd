"""Whether sizes fit together is a matter of the sizes, never of the blocks that cut them."""

import random

import pytest
import torch

import ninetoothed
from ninetoothed import Symbol, Tensor, block_size
from ninetoothed.errors import ArgumentError, SizeError
from ninetoothed.runtime.dispatch import launcher_of
from ninetoothed.runtime.selection import machine


def nans(*shape):
    return torch.full(shape, float("nan"))


def copy(x, output):
    output = x


def add(x, y, output):
    output = x + y


def cut(*tensors, block=None):
    block = block or block_size()
    return tuple(tensor.tile((block,) * tensor.ndim) for tensor in tensors)


def make_copy(ndim=1, block=None):
    return ninetoothed.make(lambda *tensors: cut(*tensors, block=block), copy, (Tensor(ndim), Tensor(ndim)))


class TestSizesThatOneBlockCuts:
    @pytest.mark.parametrize("sizes", ((90, 100), (100, 90), (2000, 1995), (1025, 1020), (1, 2), (0, 1), (1, 0)))
    def test_they_are_equal(self, sizes):
        x, output = sizes
        with pytest.raises(SizeError, match=rf"sizes {x} \(x_size_0\) and {output} \(output_size_0\);.*sizes agree"):
            make_copy()(torch.ones(x), filled := nans(output))
        assert filled.isnan().all()

    @pytest.mark.parametrize("block", (8, 128, Symbol("B", constexpr=True)))
    def test_whoever_chose_the_block(self, block):
        given = {"B": 128} if isinstance(block, Symbol) else {}
        with pytest.raises(SizeError, match="sizes agree"):
            make_copy(block=block)(torch.ones(90), nans(100), **given)

    def test_before_anything_is_compiled_for_a_gpu(self):
        kernel = make_copy()
        assert "x_size_0" in kernel.source(torch.empty(100), torch.empty(100), gpu=machine.A100).text
        with pytest.raises(SizeError, match="sizes agree"):
            kernel.source(torch.empty(90), torch.empty(100), gpu=machine.A100)

    def test_a_call_like_one_that_was_seen(self):
        """1995 and 2000 are of one class, and of one number of tiles."""
        kernel = make_copy()
        for size in (1995, 1997):
            kernel(x := torch.randn(size), output := nans(size))
            assert torch.equal(output, x)
        with pytest.raises(SizeError):
            kernel(torch.randn(1995), nans(1997))
        assert len(launcher_of(kernel).variants) == 1

    def test_tiles_of_tiles(self):
        rows, block = block_size(), block_size()

        def arrangement(x, output):
            return x.tile((rows, block)).tile((1, 1)), output.tile((rows, block))

        def application(x, output):
            output = x[0, 0]

        kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2)))
        kernel(x := torch.randn(20, 30), output := nans(20, 30))
        assert torch.equal(output, x)
        with pytest.raises(SizeError, match=r"`x` and `output` .* 30 \(x_size_1\) and 31 \(output_size_1\)"):
            kernel(torch.randn(20, 30), nans(20, 31))

    def test_flattened_tiles(self):
        block = block_size()
        kernel = ninetoothed.make(
            lambda *tensors: tuple(tensor.tile((block, block)).flatten() for tensor in tensors),
            copy,
            (Tensor(2), Tensor(2)),
        )
        kernel(x := torch.randn(20, 300), output := nans(20, 300))
        assert torch.equal(output, x)
        with pytest.raises(SizeError, match="sizes agree"):
            kernel(torch.randn(20, 300), nans(20, 301))

    def test_what_is_expanded_is_told_of_its_own_size(self):
        m, n = block_size(), block_size()

        def arrangement(x, y, output):
            output = output.tile((m, n))
            return x.tile((m, 1)).expand((-1, output.shape[1])), y.tile((1, n)).expand((output.shape[0], -1)), output

        kernel = ninetoothed.make(arrangement, add, (Tensor(2), Tensor(2), Tensor(2)))
        kernel(x := torch.randn(40, 1), y := torch.randn(1, 70), output := nans(40, 70))
        assert torch.equal(output, x + y)
        with pytest.raises(SizeError, match=r"`output` and `y` .* 72 \(output_size_1\) and 70"):
            kernel(torch.randn(40, 1), torch.randn(1, 70), nans(40, 72))
        with pytest.raises(SizeError, match=r"`x` and `output` .* 40 \(x_size_0\) and 41"):
            kernel(torch.randn(40, 1), torch.randn(1, 70), nans(41, 70))

    def test_dimensions_of_one_tile_stand_anywhere(self):
        def arrangement(x, y, block=block_size()):
            return x.tile((block, block)), y.tile((block,))

        def application(x, y):
            y = ninetoothed.language.sum(x, axis=0)

        kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(1)))
        kernel(x := torch.randn(20, 300), y := nans(300))
        torch.testing.assert_close(y, x.sum(0), rtol=1e-4, atol=1e-4)
        with pytest.raises(SizeError):
            kernel(torch.randn(20, 300), nans(301))


class TestNumbersOfTiles:
    """Where other blocks cut, numbers of tiles agree, and a block is chosen for which they do."""

    @staticmethod
    def make_biased():
        m, n = block_size(), block_size()

        def arrangement(x, bias, output):
            return x.tile((m, n)), bias.tile((1, n)), output.tile((m, n))

        return ninetoothed.make(arrangement, add, (Tensor(2), Tensor(2), Tensor(2)))

    @pytest.mark.parametrize("gpu", (machine.A100, machine.H200, None), ids=lambda gpu: gpu and gpu.target)
    @pytest.mark.parametrize("rows", (5, 100, 1000))
    def test_a_row_for_all(self, rows, gpu):
        kernel = self.make_biased()
        x, bias, output = torch.randn(rows, 70), torch.randn(1, 70), nans(rows, 70)
        if gpu is not None:
            blocks = kernel.source(x, bias, output, gpu=gpu).configuration.blocks
            assert max(blocks.values()) >= rows
        else:
            kernel(x, bias, output)
            assert torch.equal(output, x + bias)

    def test_no_block_covers_it(self):
        with pytest.raises(SizeError, match="outermost shapes of parameters `x` .* and `y` .* differ"):
            self.make_biased()(torch.randn(2000, 70), torch.randn(1, 70), nans(2000, 70))

    def test_a_class_that_was_seen_gets_another_block_where_its_own_does_not_fit(self):
        """Both calls are of one class: sizes from 1793 to 2048 that 16 divides not."""
        block = block_size(upper_bound=4096)

        def arrangement(x, bias, output):
            return x.tile((block, 1)), bias.tile((1, 1)), output.tile((block, 1))

        kernel = ninetoothed.make(arrangement, add, (Tensor(2), Tensor(2), Tensor(2)))
        for rows in (1801, 2047, 1801):
            x, bias, output = torch.randn(rows, 3), torch.randn(1, 3), nans(rows, 3)
            kernel(x, bias, output)
            assert torch.equal(output, x + bias)

    @pytest.mark.parametrize("size", (1, 63, 100))
    def test_a_strided_diagonal(self, size):
        block = block_size()

        def arrangement(x, output):
            step = x.shape[0] + 1
            return x.flatten().tile((block,), strides=(block * step,), dilation=(step,)), output.tile((block,))

        kernel = ninetoothed.make(arrangement, copy, (Tensor(2), Tensor(1)))
        kernel(x := torch.randn(size, size), output := nans(size))
        assert torch.equal(output, x.diagonal())

    def test_a_dimension_squeezed_away_is_covered_by_the_block(self):
        block = block_size()
        kernel = ninetoothed.make(
            lambda x, output: (x.tile((1, block)).squeeze(1), output.tile((1, block)).squeeze(1)),
            copy,
            (Tensor(2), Tensor(2)),
        )
        for size in (40, 1000):
            kernel(x := torch.randn(3, size), output := nans(3, size))
            assert torch.equal(output, x)
        with pytest.raises(SizeError, match="squeezed"):
            kernel(torch.randn(3, 1100), nans(3, 1100))

    def test_of_no_tile_nothing_is_launched(self):
        kernel = make_copy(2)
        kernel(torch.empty(0, 5), torch.empty(0, 5))
        assert not launcher_of(kernel).variants


class TestPadding:
    """A shorter tensor is padded to another's size, and read up to its own end alone."""

    @staticmethod
    def make():
        return ninetoothed.make(
            lambda x, output: cut(x.pad(((0, output.shape[0] - x.shape[0]),)), output), copy, (Tensor(1), Tensor(1))
        )

    @pytest.mark.parametrize("sizes", ((90, 100), (100, 100), (0, 5), (1000, 3000)))
    def test_to_the_size_of_another(self, sizes):
        x, output = torch.randn(sizes[0]), nans(sizes[1])
        self.make()(x, output)
        assert torch.equal(output, torch.nn.functional.pad(x, (0, sizes[1] - sizes[0])))

    def test_one_end_is_looked_at(self):
        """That the padded size is not exceeded follows, since no amount of padding is negative."""
        text = self.make().source(torch.empty(90), torch.empty(100), gpu=machine.H200).text
        assert "&" not in text and text.count("< x_size_0") == text.count("< output_size_0") == 1

    def test_never_less(self):
        with pytest.raises(SizeError, match=r"`x` is padded by output_size_0 - x_size_0, which is -1 in this call"):
            self.make()(torch.randn(91), nans(90))


class TestTilesOfAnotherSize:
    @staticmethod
    def make_windows():
        """Filters that take all channels, as the paper's convolution has them."""

        def arrangement(image, filters, output):
            image = image.tile((1, filters.shape[1], filters.shape[2]), strides=(1, -1, 1)).squeeze(1)
            image.dtype = image.dtype.squeeze(0)
            filters = filters.tile((1, -1, -1)).expand((image.shape[0], -1, -1)).squeeze((1, 2))
            filters = filters.unsqueeze(1).expand((-1, image.shape[1]))
            filters.dtype = filters.dtype.squeeze(0)
            return image, filters, output.tile((1, 1))

        def application(image, filters, output):
            output = ninetoothed.language.sum(image * filters)

        return ninetoothed.make(arrangement, application, tuple(Tensor(n) for n in (3, 3, 2)))

    def test_a_convolution(self):
        image, filters, output = torch.randn(2, 3, 9), torch.randn(1, 3, 4), nans(2, 6)
        self.make_windows()(image, filters, output)
        expected = torch.nn.functional.conv1d(image, filters)[:, 0]
        torch.testing.assert_close(output, expected, rtol=1e-4, atol=1e-4)

    @pytest.mark.parametrize("channels", (2, 4))
    def test_filters_of_other_channels(self, channels):
        with pytest.raises(SizeError, match=rf"`image` has size 3 .*filters_size_1, which is {channels}"):
            self.make_windows()(torch.randn(2, 3, 9), torch.randn(1, channels, 4), nans(2, 6))


@pytest.mark.parametrize("seed", range(3))
def test_every_block_takes_and_refuses_the_same_calls(seed):
    generator = random.Random(seed)
    blocks = (1, 3, 16, 32, 128, 1024)
    kernels = {block: make_copy(2, block) for block in blocks} | {None: make_copy(2)}
    for _ in range(12):
        sizes = [generator.choice((0, 1, 5, 31, 33, 64, 100)) for _ in range(2)]
        others = [generator.choice((size, size, size + 1, 100)) for size in sizes]
        outcomes = set()
        for kernel in kernels.values():
            x, output = torch.randn(sizes), nans(*others)
            try:
                kernel(x, output)
                assert torch.equal(output, x)
                outcomes.add(True)
            except ArgumentError:
                assert output.isnan().all()
                outcomes.add(False)
        assert outcomes == {sizes == others}
