"""Typical mistakes of arrangements, and all that is said of each: with the parameter's name, and what to do."""

import re

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import ArgumentError, ArrangementError, Symbol, Tensor, block_size

BRANCH = (
    'decide in the application, or fix the size with `Tensor(shape=...)`; `Symbol("min(a, b)")` and `max` choose'
    " between sizes"
)
MISTAKES = (
    (
        lambda x, y: x.tile((2, 3, 4)),
        ArrangementError,
        "tile((2, 3, 4)) of `x`, of shape (x_size_0, x_size_1): tile_shape (2, 3, 4) has 3 entries; give"
        " 2, one a dimension",
    ),
    (
        lambda x, y: x.tile((0, 3)),
        ArrangementError,
        "tile((0, 3)) of `x`, of shape (x_size_0, x_size_1): the tile size of dimension 0 is 0; give 1"
        " or more, or -1 for all of it",
    ),
    (
        lambda x, y: x.tile((2.5, 2)),
        ArrangementError,
        "tile((2.5, 2)) of `x`, of shape (x_size_0, x_size_1): tile_shape: expected an int or a Symbol,"
        " got 2.5; sizes are ints or symbols",
    ),
    (
        lambda x, y: x.tile((2, 2), strides=(0, 1)),
        ArrangementError,
        "tile((2, 2), strides=(0, 1)) of `x`, of shape (x_size_0, x_size_1): the stride of dimension 0"
        " is 0; give 1 or more, or -1 for the tile size",
    ),
    (
        lambda x, y: x.tile((2, 2), dilation=(0, 1)),
        ArrangementError,
        "tile((2, 2), dilation=(0, 1)) of `x`, of shape (x_size_0, x_size_1): the dilation of dimension"
        " 0 is 0; give 1 or more",
    ),
    (
        lambda x, y, B=Symbol("B", constexpr=True): x.tile((B, 2)).tile((1,)),
        ArrangementError,
        "tile((1,)) of `x`, of shape ((x_size_0 - 1) // B + 1, (x_size_1 + 1) // 2): tile_shape (1,) has"
        " 1 entry; give 2, one a dimension",
    ),
    (
        lambda x, y, M=block_size(): x.tile((M, M), (1, M, 1)),
        ArrangementError,
        "tile((M, M), strides=(1, M, 1)) of `x`, of shape (x_size_0, x_size_1): strides (1, M, 1) has 3"
        " entries; give 2, one a dimension",
    ),
    (
        lambda x, y: x.expand((4,)),
        ArrangementError,
        "expand((4,)) of `x`, of shape (x_size_0, x_size_1): shape (4,) has 1 entry; give at least 2,"
        " one a dimension; -1 keeps a size",
    ),
    (
        lambda x, y: x.expand((-1, 4, 4)),
        ArrangementError,
        "expand((-1, 4, 4)) of `x`, of shape (x_size_0, x_size_1): the new dimension 0 has size -1; -1"
        " keeps a size, which a new one has not",
    ),
    (
        lambda x, y: x.tile((2, 2)).dtype.expand((y.shape[0], 2)),
        ArrangementError,
        "expand((y_size_0, 2)) of `x.dtype`, of shape (2, 2): dimension 0 has size 2, which cannot"
        " become y_size_0; only a size of 1 expands; -1 keeps a size",
    ),
    (
        lambda x, y: x.unsqueeze(5),
        ArrangementError,
        "unsqueeze(5) of `x`, of shape (x_size_0, x_size_1): there is no dimension 5; use -3 to 2",
    ),
    (
        lambda x, y: x.tile((2, 2)).squeeze(2),
        ArrangementError,
        "squeeze(2) of `x`, of shape ((x_size_0 + 1) // 2, (x_size_1 + 1) // 2): there is no dimension 2; use -2 to 1",
    ),
    (
        lambda x, y: x.tile((2, 2)).dtype.squeeze(0),
        ArrangementError,
        "squeeze(0) of `x.dtype`, of shape (2, 2): dimension 0 has size 2; only a dimension of size 1 can be squeezed",
    ),
    (
        lambda x, y: x.permute((0, 0)),
        ArrangementError,
        "permute((0, 0)) of `x`, of shape (x_size_0, x_size_1): a dimension is named twice; name each once",
    ),
    (
        lambda x, y: x.permute((0,)),
        ArrangementError,
        "permute((0,)) of `x`, of shape (x_size_0, x_size_1): 1 dimension of 2 is named; name every dimension once",
    ),
    (
        lambda x, y: x.permute("01"),
        ArrangementError,
        "permute('01') of `x`, of shape (x_size_0, x_size_1): there is no dimension '01'; use -2 to 1",
    ),
    (
        lambda x, y: x.flatten(1, 1),
        ArrangementError,
        "flatten(1, 1) of `x`, of shape (x_size_0, x_size_1): no dimension lies from 1 to 1, exclusive;"
        " let end_dim be one more than the last dimension to flatten",
    ),
    (
        lambda x, y: x.flatten(3),
        ArrangementError,
        "flatten(3) of `x`, of shape (x_size_0, x_size_1): there is no dimension 3; use -2 to 1",
    ),
    (
        lambda x, y: x.pad(((1, 1),)),
        ArrangementError,
        "pad(((1, 1),)) of `x`, of shape (x_size_0, x_size_1): pad is ((1, 1),); give 2 pairs"
        " (before, after), one a dimension, such as ((1, 1),) for one",
    ),
    (
        lambda x, y: x.pad(((-1, 1), (0, 0))),
        ArrangementError,
        "pad(((-1, 1), (0, 0))) of `x`, of shape (x_size_0, x_size_1): dimension 0 is padded by (-1, 1);"
        " an amount is 0 or more; a slice takes elements away",
    ),
    (
        lambda x, y: x[0, 0, 0],
        ArrangementError,
        "[0, 0, 0] of `x`, of shape (x_size_0, x_size_1): 3 indices for 2 dimensions; give at most one a dimension",
    ),
    (
        lambda x, y: x[1.5],
        ArrangementError,
        "[1.5] of `x`, of shape (x_size_0, x_size_1): dimension 0 is indexed by 1.5; use ints, symbols,"
        " slices, None and `...`",
    ),
    (
        lambda x, y: x[::0],
        ArrangementError,
        "[::0] of `x`, of shape (x_size_0, x_size_1): dimension 0 is sliced with step 0; a step is an int other than 0",
    ),
    (
        lambda x, y: x[..., ...],
        ArrangementError,
        "[..., ...] of `x`, of shape (x_size_0, x_size_1): `...` stands in it more than once; write it once",
    ),
    (
        lambda x, y: x.tile((4, 4)).dtype[4, 0],
        ArrangementError,
        "[4, 0] of `x.dtype`, of shape (4, 4): index 4 is out of range for dimension 0 of size 4; use -4 to 3",
    ),
    (
        lambda x, y: x["a b"],
        ArrangementError,
        "['a b'] of `x`, of shape (x_size_0, x_size_1): dimension 0 is indexed by 'a b'; use ints,"
        " symbols, slices, None and `...`",
    ),
    (lambda x, y: x.size(3), ArrangementError, "`x` of 2 dimensions has no dimension 3; use -2 to 1"),
    (
        lambda x, y: x.flatten().strides,
        ArrangementError,
        "`x`, of shape (x_size_0 * x_size_1,), has no strides: some neighbours are farther apart; ask"
        " for the strides of `source`, or before flattening",
    ),
    (
        lambda x, y: x.eval(),
        ArrangementError,
        "`x` of shape (x_size_0, x_size_1) has no numbers for x_size_0, x_size_1; give them, for example"
        ' x.eval({x: {"shape": (4, 8)}})',
    ),
    (
        lambda x, y, B=block_size(): x.tile((B, -1)).eval(),
        ArrangementError,
        "`x` of shape ((x_size_0 - 1) // B + 1, 1) has no numbers for B, x_size_0, x_size_1; give them,"
        ' for example x.eval({x: {"shape": (4, 8)}, "B": 2})',
    ),
    (
        lambda *tensors: tuple(each.tile((1,)) for each in tensors),
        ArrangementError,
        "tile((1,)) of `tensors_0`, of shape (tensors_0_size_0, tensors_0_size_1): tile_shape (1,) has 1"
        " entry; give 2, one a dimension",
    ),
    (
        lambda x, y: x.tile((x.shape[0] / 2, 2)),
        TypeError,
        '`x_size_0 / 2`: sizes are integers; write `//` to round down, or Symbol("cdiv(a, b)") to round up',
    ),
    (
        lambda x, y: x.tile(((x.shape[0] + 1) / 2, 2)),
        TypeError,
        '`(x_size_0 + 1) / 2`: sizes are integers; write `//` to round down, or Symbol("cdiv(a, b)") to round up',
    ),
    (
        lambda x, y: x if x.shape[0] > 2 else y,
        TypeError,
        f"`x_size_0 > 2` has no value before a call, so it is neither true nor false; {BRANCH}",
    ),
    (
        lambda x, y: x if x.shape[0] else y,
        TypeError,
        "`x_size_0` has no value before a call, so it is neither true nor false; compare with `is None`,"
        " or decide in the application",
    ),
    (
        lambda x, y: [x[i] for i in range(x.shape[0])],
        TypeError,
        "`x_size_0` has no value before a call, and a number is wanted; loop in the application, where"
        " `range(x.shape[0])` runs, or fix the size with `Tensor(shape=...)`",
    ),
    (
        lambda x, y: int(x.shape[0]),
        TypeError,
        "`x_size_0` has no value before a call, so it is no number of Python's; give a number, or fix the"
        " size with `Tensor(shape=...)`",
    ),
    (
        lambda x, y: x.tile((x.shape[0] + 1.5, 2)),
        TypeError,
        "`x_size_0 + 1.5`: sizes are integers, and 1.5 is none; give an int or a symbol",
    ),
    (
        lambda x, y: x.tile((x.shape[0] ** 2, 2)),
        TypeError,
        "`x_size_0` is a size, which lacks this operator; sizes have `+`, `-`, `*`, `//` and `%`, and"
        ' `min`, `max` and `cdiv` in a text, as in `Symbol("cdiv(n, 2)")`',
    ),
    (
        lambda x, y: x.permute(1, 0, 2),
        ArrangementError,
        "permute((1, 0, 2)) of `x`, of shape (x_size_0, x_size_1): there is no dimension 2; use -2 to 1",
    ),
    (
        lambda x, y: x.pad((1, 1), (1, 1)),
        TypeError,
        "pad((1, 1), (1, 1)) of `x`, of shape (x_size_0, x_size_1): too many positional arguments; write"
        " pad(((1, 1), (1, 1)))",
    ),
    (
        lambda x, y: x.tile((2, 2)).dtype.tile((1, 1), stride=(1, 1)),
        TypeError,
        "tile((1, 1), stride=(1, 1)) of `x.dtype`, of shape (2, 2): got an unexpected keyword argument"
        " 'stride'; did you mean 'strides'?",
    ),
    (
        lambda x, y: x.squeeze(),
        TypeError,
        "squeeze() of `x`, of shape (x_size_0, x_size_1): missing a required argument: 'dim'; it takes (dim)",
    ),
    (
        lambda x, y: Tensor(2, shapes=(3, 4)),
        TypeError,
        "Tensor(2, shapes=(3, 4)): got an unexpected keyword argument 'shapes'; did you mean 'shape'?",
    ),
    (
        lambda x, y: x.shape[2],
        ArrangementError,
        "the arrangement '<lambda>' fails: tuple index out of range; an arrangement is run once, when the"
        " kernel is made, on symbolic tensors; mend that line",
    ),
    (
        lambda x, y: x.tile((BLOK, 1)),  # noqa: F821
        ArrangementError,
        "the arrangement '<lambda>' fails: name 'BLOK' is not defined; define it before, or give it to the"
        " arrangement as a parameter",
    ),
    (
        lambda x, y: ntl.exp(x),
        ArrangementError,
        "the arrangement '<lambda>' fails: `ninetoothed.language.exp` works on tiles: call it inside an"
        " application, not in ordinary Python; a symbolic tensor has no numbers: rearrange it by its methods,"
        " such as `tile` and `expand`",
    ),
    (lambda x, y: x.tile((x.shape[0] // 0, 2)), ArrangementError, "`x_size_0` is divided by 0; give another divisor"),
    (lambda x, y: x.tiel((2, 2)), AttributeError, "the symbolic tensor `x` has no 'tiel'; did you mean 'tile'?"),
    (
        lambda x, y: x.reshape((2, 2)),
        AttributeError,
        "the symbolic tensor `x` has no 'reshape'; `flatten` makes several dimensions one, and `tile` splits one",
    ),
    (
        lambda x, y: x.T,
        AttributeError,
        "the symbolic tensor `x` has no 'T'; write `permute`, with the old place of each dimension",
    ),
    (
        lambda x, y: x.mask,
        AttributeError,
        "the symbolic tensor `x` has no 'mask'; rearrange tensors in the arrangement, and compute in the"
        " application, where they are tiles (perhaps `make` was given the two in the wrong order)",
    ),
    (
        lambda x, y: x + 1,
        ArrangementError,
        "the symbolic tensor `x` has no numbers to compute with; rearrange tensors in the arrangement,"
        " and compute in the application, where they are tiles (perhaps `make` was given the two in the"
        " wrong order)",
    ),
    (
        lambda x, y: 2.0 * x,
        ArrangementError,
        "the symbolic tensor `x` has no numbers to compute with; rearrange tensors in the arrangement,"
        " and compute in the application, where they are tiles (perhaps `make` was given the two in the"
        " wrong order)",
    ),
    (
        lambda x, y: torch.relu(x),
        ArrangementError,
        "PyTorch's `relu` is given a symbolic tensor, which has no numbers to compute with; rearrange"
        " tensors in the arrangement, and compute in the application, where they are tiles (perhaps"
        " `make` was given the two in the wrong order)",
    ),
    (
        lambda x, y: list(x),
        TypeError,
        "the symbolic tensor `x` cannot be iterated over; index it, as in `x[0]`, or let the application"
        " run over its tiles",
    ),
    (
        lambda x, y: len(x),
        TypeError,
        "`x` of shape (x_size_0, x_size_1) has no length that is known; `x.shape[0]` is its first size",
    ),
    (
        lambda x, y: setattr(x.tile((2, 2)), "dtype", y.tile((2, 2)).dtype),
        ArrangementError,
        "the dtype of `x`, of shape ((x_size_0 + 1) // 2, (x_size_1 + 1) // 2), is assigned a level of"
        " `y`, of shape (2, 2), that was not made from it; write for example `x.dtype ="
        " x.dtype.squeeze(0)`",
    ),
    (
        lambda x, y: setattr(x.tile((2, 2)), "dtype", "float32"),
        ArrangementError,
        "the dtype of `x` is a tensor, not 'float32'; assign a level rearranged from it",
    ),
    (
        lambda x, y: setattr(x.tile((2, 2)), "shape", (3, 3)),
        ArrangementError,
        "`x` is arranged, so its shape is fixed; assign the shape before arranging it",
    ),
    (
        lambda x, y: Tensor((2, 3)),
        ArrangementError,
        "`ndim` of a tensor is (2, 3); write Tensor(shape=(2, 3)) for a shape, Tensor(2) for so many dimensions",
    ),
    (
        lambda x, y: Tensor(),
        ArrangementError,
        "a tensor has neither ndim nor shape; write for example Tensor(2) or Tensor(shape=(4, 8))",
    ),
    (
        lambda x, y: Tensor(3, shape=(2, 2)),
        ArrangementError,
        "a tensor has ndim=3 and shape=(2, 2); give one of the two, or let them agree",
    ),
    (
        lambda x, y: Tensor(shape=(2, -1)),
        ArrangementError,
        "size 1 of a tensor is -1; sizes are 0 or more; None leaves one open",
    ),
    (lambda x, y: Tensor(shape=(2.5,)), ArrangementError, "size 0 of a tensor is 2.5; sizes are ints, symbols or None"),
    (
        lambda x, y: Tensor(1, shape_options={"const": True}),
        ArrangementError,
        "there is no shape option 'const'; did you mean 'constexpr'?",
    ),
    (
        lambda x, y: Tensor(2, shape_options=({},)),
        ArrangementError,
        "shape_options of a tensor of 2 dimensions is ({},); give one dict for all dimensions, or one a dimension",
    ),
    (
        lambda x, y: Tensor(1, other="0"),
        ArrangementError,
        "a tensor has other='0'; give the number to read out of bounds, of 64 bits at most",
    ),
    (
        lambda x, y: Tensor(1, constexpr=True),
        ArrangementError,
        "a tensor of 1 dimension is constexpr or has a value; only a scalar, Tensor(0), may",
    ),
    (lambda x, y: Tensor(1, name="a b"), ArrangementError, "a tensor cannot be named 'a b'; give a Python identifier"),
    (
        lambda x, y: Tensor(2, jagged_dim=2),
        ArrangementError,
        "a tensor of 2 dimensions has no dimension 2; use -2 to 1",
    ),
    (
        lambda x, y: Symbol("a b"),
        ArrangementError,
        '`a b` is no expression over names and integers; write for example Symbol("BLOCK_SIZE") or'
        ' Symbol("cdiv(n, 2)")',
    ),
    (
        lambda x, y: Symbol("a / b"),
        ArrangementError,
        "`a / b` is no expression over names and integers; `a / b` is not one of + - * // % min max cdiv",
    ),
    (
        lambda x, y: Symbol(3.5),
        ArrangementError,
        'a symbol is a name or an expression, not 3.5; write for example Symbol("BLOCK_SIZE")',
    ),
    (
        lambda x, y: Symbol("a + 1", meta=True),
        ArrangementError,
        "`a + 1` is not a plain name, so it takes no options; give them to the names in it",
    ),
    (
        lambda x, y: Symbol("a", meta=True, constexpr=True),
        ArrangementError,
        "`a` is constexpr and meta at once; constexpr: the caller chooses; meta: the compiler",
    ),
    (
        lambda x, y: block_size(64, 32),
        ArrangementError,
        "a block size has a lower bound 64 above its upper bound 32; swap them",
    ),
    (
        lambda x, y: block_size(33, 63),
        ArrangementError,
        "a block size is a power of two from 33 to 63, and there is none; widen its bounds",
    ),
    (lambda x, y: block_size(1.5), ArrangementError, "a block size has a bound 1.5; bounds are ints"),
)


def copies(x, y):
    y = x


@pytest.mark.parametrize("arrangement, kind, message", MISTAKES)
def test_a_mistake_of_an_arrangement(arrangement, kind, message):
    with pytest.raises(kind) as caught:
        ninetoothed.make(arrangement, copies, (Tensor(2), Tensor(2)))
    told, *places = str(caught.value).split("\n")
    assert told == message
    line = arrangement.__code__.co_firstlineno
    assert re.fullmatch(rf"  at {re.escape(__file__)}:{line}: .*", places[0])
    assert isinstance(caught.value, ArrangementError) and isinstance(caught.value, ValueError)


def test_items_that_are_no_tensors():
    with pytest.raises(ArrangementError, match=r"'int' object has no attribute 'tile'; `tensors\[0\]` is 1: give symb"):
        ninetoothed.make(lambda x, y: (x.tile((2,)), y.tile((2,))), copies, (1, 1))


def test_a_block_size_is_given():
    for block in (block_size(), Symbol("BLOCK", constexpr=True)):
        assert (block or 3) is block


def test_names_that_the_user_gave_stay():
    with pytest.raises(ArrangementError, match=r"^tile\(\(2, 2\)\) of `rows`, of shape \(rows_size_0,\): tile_shape"):
        ninetoothed.make(lambda x, y: x.tile((2, 2)), copies, (Tensor(1, name="rows"), Tensor(1)))


def test_outside_of_a_kernel_the_generated_name_is_told():
    x = Tensor(1)
    with pytest.raises(ArrangementError, match=rf"^squeeze\(1\) of `{x.name}`, of shape \({x.name}_size_0,\): "):
        x.squeeze(1)


def test_arrangement_and_application_exchanged():
    def application(x, y, output):
        output = x + y

    def arrangement(*tensors):
        return tuple(tensor.tile((8,)) for tensor in tensors)

    with pytest.raises(ArrangementError, match="^the symbolic tensor `x` has no numbers .*in the wrong order"):
        ninetoothed.make(application, arrangement, (Tensor(1), Tensor(1), Tensor(1)))


def test_a_call_names_block_sizes_as_the_arrangement_does():
    def arrangement(x, y, BLOCK=block_size()):
        return x.tile((BLOCK,)), y.tile((BLOCK,))

    with pytest.raises(ArgumentError, match=r"`x` and `y` are both cut into tiles of BLOCK and have sizes 16 .* 24"):
        ninetoothed.make(arrangement, copies, (Tensor(1), Tensor(1)))(torch.ones(16), torch.zeros(24))


def test_a_call_names_block_sizes_as_the_variables_that_hold_them():
    size = block_size()

    def application(x: Tensor(1).tile((size,)), y: Tensor(1).tile((size,))):
        y = x + size

    with pytest.raises(ArgumentError, match="cut into tiles of size and have sizes 16"):
        ninetoothed.jit(application)(torch.ones(16), torch.zeros(24))


def test_an_application_that_is_given_as_the_arrangement():
    def application(x, output):
        output = ntl.exp(x)

    def arrangement(x, output):
        return x.tile((8,)), output.tile((8,))

    with pytest.raises(ArrangementError, match="exchange"):
        ninetoothed.make(application, arrangement, (Tensor(1), Tensor(1)))
