import random

import numpy
import pytest
import torch

import ninetoothed
from benchmarks.trust import arrangements
from benchmarks.trust.chains import Dense, random_chain
from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tensor import Tensor


@pytest.mark.parametrize("first", range(0, 150, 25))
def test_random_chains(first):
    for seed in range(first, first + 25):
        chain = random_chain(seed)
        assert arrangements.with_numbers(*chain) == arrangements.with_symbols(*chain, random.Random(seed)) == "", seed


def test_the_oracle_is_unfold_itself():
    image = torch.arange(4 * 6 * 7).reshape(4, 6, 7)
    x = Tensor(shape=image.shape).tile((1, 3, 2), strides=(1, 2, 1), floor_mode=True)
    assert numpy.array_equal(x.eval().reshape(4, 2, 6, 3, 2), image.unfold(1, 3, 2).unfold(2, 2, 1).numpy())
    assert torch.equal(Dense.of(image.shape).permute(0, (2, 0, 1)).data, image.permute(2, 0, 1))


def test_the_convolution_of_the_paper():
    n, c, h, w, r, s = 2, 3, 5, 6, 3, 2
    x, f = Tensor(4, name="x"), Tensor(4, name="f")
    y = x.tile((1, *f.shape[1:]), strides=(-1, -1, 1, 1)).squeeze(1)
    y.dtype = y.dtype.squeeze(0)
    y = y.ravel().flatten(end_dim=3).flatten(start_dim=1)
    columns = torch.nn.functional.unfold(torch.arange(n * c * h * w).double().reshape(n, c, h, w), (r, s))
    expected = columns.permute(0, 2, 1).reshape(-1, c * r * s).long().numpy()
    assert numpy.array_equal(y.eval({x: {"shape": (n, c, h, w)}, f: Tensor(shape=(8, c, r, s))}), expected)


def test_keys():
    x, block = Tensor(2, name="x"), Symbol("B")
    tiled = x.tile((block, -1))
    expected = Tensor(shape=(5, 3)).tile((2, -1)).eval()
    for mapping in (
        {x: {"shape": (5, 3)}, block: 2},
        {tiled: torch.empty(5, 3), "B": 2},
        {"x_size_0": 5, Symbol("x_size_1"): 3, "B": Symbol(2)},
    ):
        assert numpy.array_equal(tiled.eval(mapping), expected)
    partly = tiled.subs({x: {"shape": (5, 3)}})
    assert partly.dtype.shape == (block, 3) and tiled.dtype.shape == (block, x.shape[1])
    assert numpy.array_equal(ninetoothed.subs(partly, {block: 2}).eval(), expected)
    assert partly.source.shape == (5, 3)


def test_sizes_that_are_symbols_of_the_users():
    n = Symbol("n")
    x = Tensor(shape=(n, 3, None), name="x")
    assert x.subs({x: {"shape": (4, 3, 2)}}).shape == (4, 3, 2)
    assert x.subs({n: 4}).shape == (4, 3, Symbol("x_size_2"))


@pytest.mark.parametrize(
    "mapping",
    ({}, {"B": 2}, {"x": 3, "B": "two three"}, {3: 4}),
)
def test_what_cannot_be_evaluated(mapping):
    with pytest.raises(ValueError):
        Tensor(1, name="x").tile((Symbol("B"),)).eval(mapping)


def test_shapes_that_do_not_fit():
    x = Tensor(shape=(3, None), name="x")
    for shape in ((4, 1), (3,), (3, 1, 1)):
        with pytest.raises(ValueError, match="`x`"):
            x.subs({x: {"shape": shape}})
    with pytest.raises(ValueError, match="stripes"):
        x.subs({x: {"stripes": (3, 1)}})
    for arranged in (x.squeeze(1), x.expand((-1, 5))):
        assert arranged.subs({x: {"shape": (3, 1)}}).shape[0] == 3
        with pytest.raises(ValueError, match="size 2"):
            arranged.subs({x: {"shape": (3, 2)}})


def test_an_expansion_to_the_size_that_is_there():
    x = Tensor(1, name="x")
    assert x.expand((Symbol("n"),)).eval({"x_size_0": 3, "n": 3}).tolist() == [0, 1, 2]


@pytest.mark.parametrize("arrange", [lambda x: x.squeeze(0), lambda x: x.expand((4,))])
def test_a_dimension_of_size_0_reads_out_of_bounds(arrange):
    x = Tensor(1, name="x")
    assert (arrange(x).eval({x: {"shape": (0,)}}) == -1).all()
    assert (arrange(x).eval({x: {"shape": (1,)}}) == 0).all()
