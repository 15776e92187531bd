"""Typical mistakes of applications, and all that is said of each: what is wrong, and what to write instead."""

import math

import pytest
import torch

import ninetoothed
import ninetoothed_ops
from ninetoothed import ApplicationError, Symbol, Tensor
from ninetoothed.errors import EmptyKernelWarning
from tests.ninetoothed.applications import application_of

BROADCASTING = (
    "the last dimensions side by side, sizes must be equal or 1: add a dimension with `x[:, None]`, combine one with"
    " `ntl.sum`, or arrange tiles of one shape"
)
BOTH_PATHS = (
    "let it be a number or a tile on both, before a loop that assigns it too, or give what only one path needs a name"
    " of its own"
)
# A body, all that is said of it, and the line that is pointed at where there are several.
MISTAKES = (
    (
        "if x > 0:\n    y = x",
        "the condition of `if` must be one number, not a tile of shape (8,); choose element by element"
        " with `ntl.where(condition, a, b)`, or reduce the condition, say with `ntl.max`",
    ),
    (
        "while x > 0:\n    x = x - 1",
        "the condition of `while` must be one number, not a tile of shape (8,); a loop goes on for a"
        " whole tile: reduce the condition, say with `ntl.max`, and choose inside with `ntl.where`",
    ),
    (
        "for i in range(x):\n    y = x",
        "a bound of `range` must be one number, not a tile of shape (8,); index one element, or reduce"
        " it, say with `ntl.max`",
    ),
    (
        "y = x.mask",
        "a tile has no attribute 'mask'; nothing needs one: what lies out of bounds is not stored, is"
        " left out of sums, and is read as `other`",
    ),
    ("y = x.float()", "a tile has no attribute 'float'; convert with `.to(ntl.float32)`, say"),
    ("y = x.numel()", "a tile has no attribute 'numel'; `x.shape` has the sizes"),
    (
        "y = x.tile((2,))",
        "a tile has no attribute 'tile'; rearrange the tensor in the arrangement, where it has that method",
    ),
    ("y = x.view(2, 4)", f"cannot store to 'y': shape (2, 4) does not broadcast to (8,); {BROADCASTING}"),
    ("y = x.cuda()", "a tile has no attribute 'cuda'; a tile is on the device already, and is no tensor of PyTorch's"),
    (
        "y = (x + 1).offsets(0)",
        "a computed tile has no attribute 'offsets'; what is computed has no place in memory: write the name of a"
        " parameter, as in `x.offsets`",
    ),
    (
        "z = [x, x]\nz[0] = x",
        "an item of a list or dict cannot be assigned: it stays what it was made of; give each tile a name of its own,"
        " or make another list",
        "z[0] = x",
    ),
    (
        "y = ninetoothed_ops.softmax(x, -1)",
        "'softmax' is not a function of the language and cannot run on tiles; use `ninetoothed.language.softmax`, or"
        " write it as a plain Python function",
    ),
    (
        "y[unknown] = 1.0",
        "the symbol `unknown` has no value in this kernel: no arrangement of its parameters uses `unknown`; write the"
        " size of a parameter, such as `x.shape[0]`, or a number",
    ),
    ("y = len(3)", "3 has no length; tiles, tuples, lists and texts have"),
    (
        "y = x.dtype.foo",
        "float32 has no attribute 'foo'; it is no tile, but Python's: take what it has, or assign a tile",
    ),
    ("y = math.sqroot(4)", "the module 'math' has no attribute 'sqroot'; did you mean 'sqrt' or 'isqrt'?"),
    ("from math import sqroot", "module 'math' has no 'sqroot'; did you mean 'sqrt' or 'isqrt'?"),
    ("y = x.summ()", "a tile has no attribute 'summ'; did you mean 'sum'?"),
    ("y = ntl.relu(x)", "ninetoothed.language has no 'relu'; write `ntl.where(x < 0, 0, x)`"),
    ("y = x.silu()", "a tile has no attribute 'silu'; write `x * ntl.sigmoid(x)`"),
    (
        "y = torch.square(x)",
        "'square' is not a function of the language and cannot run on tiles; write `x * x`",
    ),
    (
        "y = torch.log1p(x)",
        "'log1p' is not a function of the language and cannot run on tiles; use"
        " `ninetoothed.language.libdevice.log1p`, or write it as a plain Python function",
    ),
    (
        "y = x.zzz",
        "a tile has no attribute 'zzz'; it has shape, ndim, dtype, T, to, source, offsets, data_ptr, and the"
        " functions of `ninetoothed.language`, such as `x.sum()`",
    ),
    ("y.copy_(x)", "a tile has no attribute 'copy_'; assign the parameter: `y = ...` stores"),
    (
        "x.dtype = y.dtype",
        "`x.dtype` cannot be assigned: an application assigns names and elements; what a tensor is, its"
        " shape and its levels, is the arrangement's",
    ),
    (
        "y = zzqx(x)",
        "name 'zzqx' is not defined; assign it before, define or import it outside of the application,"
        " or make it a parameter of the kernel",
    ),
    (
        "y = xx + 1",
        "name 'xx' is not defined; assign it before, define or import it outside of the application, or"
        " make it a parameter of the kernel",
    ),
    ("y = exp(x)", "name 'exp' is not defined; write `ntl.exp`, with `import ninetoothed.language as ntl`"),
    ("y = ntl.expp(x)", "ninetoothed.language has no 'expp'; did you mean exp or exp2?"),
    ("y = ntl.exp(x, x)", "`ntl.exp` was given 2 arguments; it takes (x)"),
    ("y = ntl.exp()", "`ntl.exp` misses its argument 'x'; it takes (x)"),
    ("y = ntl.where(x > 0, x)", "`ntl.where` misses its argument 'y'; it takes (condition, x, y)"),
    ("y = x.to()", "`ntl.cast` misses its argument 'dtype'; it takes (input, dtype, fp_downcast_rounding, bitcast)"),
    ('y = x.to("cuda")', "'cuda' is no dtype; use one such as `ntl.float32`"),
    ('y = ntl.zeros((4,), dtype="float")', "'float' is no dtype; use one such as `ntl.float32`"),
    (
        "y = ntl.zeros((x,), dtype=ntl.float32)",
        "a shape must be known when compiling, not computed by the kernel; use numbers, sizes such as"
        " `x.shape[0]`, or a parameter `Tensor(0, constexpr=True)`",
    ),
    (
        "y = torch.exp(x)",
        "'exp' is not a function of the language and cannot run on tiles; use"
        " `ninetoothed.language.exp`, or write it as a plain Python function",
    ),
    (
        "y = sorted(x)",
        "'sorted' is not a function of the language and cannot run on tiles; use what"
        " `ninetoothed.language` has, or write it as a plain Python function",
    ),
    ("y = max(x)", "`max` of one tile: use `ntl.max` to reduce it"),
    (
        "y = x[0:4]",
        "a tile can be sliced only with a bare `:`; slice the tensor in the arrangement, index a"
        " parameter with a tile such as `ntl.arange(1, 3)`, or choose elements of a computed tile with"
        " `ntl.gather`",
    ),
    ("y = x[100]", "index 100 is out of range for dimension 0 of 'x', which has shape (8,); use -8 to 7"),
    ("y = x[1.5]", "'x' is indexed with 1.5; an index is an integer or a tile of integers"),
    ("y = x[0, 0]", "'x' is a tile of 1 dimension and is indexed with 2; give at most 1"),
    ("y = x.source[0, 0]", "the source of 'x' has 1 dimension and is indexed with 2; give one index a dimension"),
    ("y = x.shape[1]", "`x.shape` has 1 item: there is none at index 1"),
    ("y = x.offsets(3)", "'x' has a source of 1 dimension: there is no dimension 3"),
    ("y = ntl.sum(x, axis=3)", "axis 3 is out of range for a tile of shape (8,); use -1 to 0"),
    (
        "y = ntl.dot(x, x)",
        "`dot` multiplies two tiles of 2 or 3 dimensions, not (8,) by (8,); add one with `x[:, None]`,"
        " or write `ntl.sum(x * y)`",
    ),
    (
        "y = x << 1",
        "bitwise operator `<<` works on integers and bools, not on float32; convert with"
        " `.to(ntl.int32)`, or its bits with `.to(ntl.int32, bitcast=True)`",
    ),
    ('y = x + "a"', "'a' cannot be combined with a tile; only numbers can, and tensors are parameters of the kernel"),
    ("y = x.source + 1", "a source and 1 cannot be combined by `+`; tiles and numbers can"),
    ("y = x in (1, 2)", "`in` needs values that are known when compiling; compare with `(x == a) | (x == b)`"),
    ("y = ntl.arange(0, 16)", f"cannot store to 'y': shape (16,) does not broadcast to (8,); {BROADCASTING}"),
    ("y = x + ntl.arange(0, 16)", f"shapes (8,) and (16,) do not broadcast together; {BROADCASTING}"),
    (
        "y = ntl.cat(x, ntl.zeros((4,), ntl.float32))",
        "`cat` joins two tiles of one dimension and of the same size, not (8,) and (4,)",
    ),
    (
        "y = x.reshape(3, 3)",
        "cannot reshape (8,) to (3, 3): 8 elements are not 9; write -1 for the size that follows from the others",
    ),
    (
        "y = ntl.sum(ntl.zeros((12,), ntl.float32).reshape(4, 3))",
        "cannot reshape (12,) to (4, 3): dimensions that are split or joined must be powers of two, but for the first"
        " of each group; in the arrangement, `tile` and `flatten` take any sizes",
    ),
    (
        "for i in range(x.shape[0] / 2):\n    y = x",
        "a bound of `range` must be an integer, not 4.0; divide with `//`, or convert it with `int(...)`",
    ),
    ("y = x.reshape(-1, 3)", "cannot reshape (8,) to (-1, 3): no size at -1 makes 8 elements"),
    ("y = ntl.exp('a')", "'a' is text, where a tile or a number is wanted; write it without quotes"),
    ("y = ntl.program_id(x)", "a program's axis is 0, 1 or 2, not a tile; write the number"),
    (
        "y = ntl.reduce(x, 0, lambda a, b: (a, b))",
        "`lambda` returns 2 values, and combines 1 tile; return one for each",
    ),
    (
        "y = ntl.dot(x[:, None], x[:, None])",
        "`dot`: the inner sizes of (8, 1) and (8, 1) differ; transpose one with `ntl.trans`, or cut both inner"
        " dimensions into tiles of one size",
    ),
    (
        "y = ntl.dot_scaled(x, x, 'e4m3', x, x, 'e4m3')",
        "`dot_scaled` multiplies two tiles of 2 dimensions, not (8,) by (8,); add one with `x[:, None]`",
    ),
    (
        "y = ntl.load(x)",
        "expected a pointer such as `x.source.data_ptr() + x.offsets()`; tiles are read by naming them"
        " and written by assigning them",
    ),
    (
        "y = x, x",
        "'y' is a parameter: it takes tiles and numbers, not a sequence of 2 items; a name of its own holds anything",
    ),
    (
        "y = x.shape",
        "'y' is a parameter: it takes tiles and numbers, not a sequence of 1 item; a name of its own holds anything",
    ),
    (
        'y = f"{x}"',
        "'y' is a parameter: it takes tiles and numbers, not text that is only known at run time (it can be"
        " printed); a name of its own holds anything",
    ),
    ("y = None", "'y' is a parameter: it takes tiles and numbers, not None; a name of its own holds anything"),
    ("a, b = x", "8 values cannot be unpacked into 2 names; give one for each"),
    (
        "a, *b = ntl.Tile()",
        "<ninetoothed.language.types.Tile> cannot be unpacked or iterated over; tuples and lists can",
    ),
    ("x[0] += ntl.arange(0, 3)", f"cannot store to 'x': shape (3,) does not broadcast to (); {BROADCASTING}"),
    (
        "y = 1 // 0",
        "integer division or modulo by zero; this is Python's, on values that are known when compiling: mend it, or"
        " compute with tiles",
    ),
    ("assert x.shape[0] == 9", "assertion failed when compiling: x.shape[0] == 9"),
    (
        "for i in range(4):\n    break",
        "an application may not use `break`: give the loop its bounds in `range`, or use `while`",
    ),
    (
        "try:\n    y = x\nexcept ValueError:\n    pass",
        "an application may not use `try`: nothing is raised when a kernel runs; test what may fail with an `if`",
    ),
    ("y = [x for x in range(3)][5]", "`[x for x in range(3)]` has 3 items: there is none at index 5"),
    (
        "y = x\nif ntl.sum(x) > 0:\n    return\ny = x + 1",
        "`return` under a loop or an `if` that is decided at run time: nothing leaves a function early;"
        " assign a variable in each branch, or choose with `ntl.where`, and return it in the last line",
        "return",
    ),
    (
        "global DEVICE\ny = x",
        "an application may not use `global`: return the value, and assign it where the function is called",
    ),
    ("match x:\n    case _:\n        y = x", "an application may not use `match`: compare with `if` and `elif`"),
    (
        "with torch.no_grad():\n    y = x",
        "an application may not use `with`: enter the context where the kernel is called",
    ),
    (
        "y = ntl.sum(ntl.topk(x, 9)) + x",
        "`topk` takes the `k` largest of 8, and `k` is 9; use 1 to 8",
    ),
    ('raise ValueError("no")', "an application may not use `raise`: use `ntl.device_assert` or `ntl.static_assert`"),
    (
        "y = ntl.sum(x, dim=0)",
        "`ntl.sum` was given an unknown argument 'dim'; it takes (input, axis, keep_dims, dtype)",
    ),
    ("y = x.source[x]", "an index must be an integer, not float32; convert it with `.to(ntl.int32)`"),
    (
        "for i in range(3):\n    last = x + i\ny = last",
        "'last' may not have a value here: it is assigned only inside a loop or one branch of an `if`;"
        " assign it before",
        "y = last",
    ),
    (
        "total = ntl.zeros((16,), dtype=ntl.float32)\nfor _ in range(3):\n    total = x\ny = total",
        "'total' changes its shape from one path to the other: shapes (16,) and (8,) do not broadcast"
        f" together; {BROADCASTING}",
        "for _ in range(3):",
    ),
    (
        "best = None\nfor i in range(8):\n    if best is None:\n        best = x[i]\n    else:\n"
        "        best = best + x[i]\n    y[i] = best",
        "'best' is None on one path and a number of type float32 on the other, and the choice is made at run"
        f" time; {BOTH_PATHS}",
        "for i in range(8):",
    ),
    (
        'mode = "first"\nfor i in range(x.source.shape[0]):\n    mode = "later"\n    y[i] = x[i]\n'
        'y = y + (1 if mode == "later" else 2)',
        "'mode' may not have a value here: it is assigned only inside a loop or one branch of an `if`;"
        " assign it before",
        'y = y + (1 if mode == "later" else 2)',
    ),
    (
        'mode = "first"\nfor i in range(8):\n    y[i] = 1.0 if mode == "first" else 2.0\n    mode = "later"',
        f"'mode' is 'first' on one path and 'later' on the other, and the choice is made at run time; {BOTH_PATHS}",
        "for i in range(8):",
    ),
    (
        "dtype = ntl.float32\nwhile ntl.sum(y) < 1:\n    y = x.to(dtype)\n    dtype = ntl.float16",
        f"'dtype' is float32 on one path and float16 on the other, and the choice is made at run time; {BOTH_PATHS}",
        "while ntl.sum(y) < 1:",
    ),
    ('ntl.static_assert(x.dtype == ntl.float64, "only doubles")\ny = x', "static assertion failed: only doubles"),
    (
        "y = x + ntl.arange(0, x.source.shape[0])",
        "a tile's extent x_size_0 is not known when compiling; cut the dimension into tiles, or declare its"
        ' size constexpr (`shape_options={"constexpr": True}`)',
    ),
    ("y = x * x.source.stride(3)", "the source of 'x' has 1 dimension: there is no dimension 3"),
    ("y = x * x.source.shape[2]", "`x.source.shape` has 1 item: there is none at index 2"),
    ("y[0] = [x, x]", "'y' takes tiles and numbers, not a sequence of 2 items; a name of its own holds anything"),
    (
        'y.source[0] = f"{x}"',
        "the source of 'y' takes tiles and numbers, not text that is only known at run time (it can be"
        " printed); a name of its own holds anything",
    ),
    ("y = ntl.trans(x)", "a tile of 1 dimension has no two that could be transposed; add one with `x[:, None]`"),
    (
        'assert ntl.sum(x) > 0, f"sum is {ntl.sum(x)}"',
        "the message of an assertion is text that is known when compiling; print what is computed",
    ),
    (
        "while True:\n    y = x",
        "this loop never ends: nothing in it changes what its condition depends on",
        "while True:",
    ),
    (
        "tiles = []\ntiles.append(x)\ny = tiles[0]",
        "a list has no 'append' here: it is what it was made of; write `[*items, item]`, say",
        "tiles.append(x)",
    ),
    ("y = sum(x)", "`sum` adds up a Python sequence; use `ntl.sum` to reduce a tile"),
    (
        "y = next(filter(None, [x]))",
        "'filter' is not a function of the language and cannot run on tiles; use what `ninetoothed.language`"
        " has, or write it as a plain Python function",
    ),
    ("y = x + ntl.sum(ntl.arange(4, 0))", "a tile cannot have -4 elements along a dimension"),
    ("y = x + ntl.sum(ntl.zeros((4.5,)))", "a tile's extent is a whole number, not 4.5; divide with `//`"),
    ("y = ntl.ravel(ntl.reshape(x, (-1, -1)))", "(-1, -1) leaves more than one size open; give all but one"),
    (
        "y = ntl.ravel(ntl.expand_dims(x, 5))",
        "axis 5 is out of range for a tile that is to have 2 dimensions; use -2 to 1",
    ),
    ("y = ntl.gather(x, x, 0)", "an index must be an integer, not float32; convert it with `.to(ntl.int32)`"),
    ("y = x.source.data_ptr()", "cannot store a pointer to 'y'; `ntl.load` reads what it points to"),
    ("y = ntl.load(x.source.data_ptr() + 0.5)", "pointers are moved by whole numbers of elements, not by float32"),
    (
        "print(x, file=None)",
        "`print` in an application: got an unexpected keyword argument 'file'; it takes (pieces, sep, end, flush)",
    ),
    ("y = round(x, 2)", "`round` of a tile rounds to whole numbers; scale it before and after for others"),
    ('y = "a" if ntl.sum(x) > 0 else "b"', "'a' cannot be chosen at run time; only tiles and numbers can"),
    (
        "@decorates\ndef inner(v):\n    return v\ny = inner(x)",
        "a function inside an application has no decorators: it is inlined as it is written",
    ),
    ("y = x.to(ntl.int32) // 0", "integers are divided by zero"),
    ("y = x.to(ntl.int8) * 1000", "1000 is out of range for int8; convert what it meets to a wider type with `.to`"),
    (
        "z = ntl.sum(x)\ny = ntl.reduce(x, 0, lambda a, b: a + b * z) + x",
        "`lambda` may use its arguments alone, and uses `z`, a number of type float32, that the kernel computed before;"
        " apply that to its tiles or to the result, or give it as another tile",
    ),
    (
        "def combine(a, b):\n    if a > b:\n        print(a)\n    return a\ny = ntl.reduce(x, 0, combine)",
        "a branch of a function of elements stores, asserts or prints; it may only compute",
        "if a > b:",
    ),
)

UNSTORED = (
    (
        "return x + 1",
        "the application stores nothing, so this kernel does nothing: assign the result to one of its"
        " parameters (x, y); a kernel returns nothing: write `y = x + 1` instead of `return x + 1`",
    ),
    (
        "yy = x + 1",
        "the application stores nothing, so this kernel does nothing: assign the result to one of its"
        " parameters (x, y); 'yy' is a name of its own: did you mean 'y'?",
    ),
)

WITH_TILES_OF_TILES = (
    ("y = x", "'x' is a tile of tiles here (shape (x_size_0 // 8,)); index it to get one of its tiles, as in `x[0]`"),
    (
        "y[0] = x[0, 0]",
        "'x' has 1 dimension at this level (shape (x_size_0 // 8,)) and is indexed with 2; give one index a dimension",
    ),
    (
        "y[0] = x.sum()",
        "a tile of tiles has no attribute 'sum'; index it to get a tile, as in `x[0]`,"
        " or take its shape, ndim, dtype, source, offsets or data_ptr",
    ),
    ("for t in x:\n    y[0] = t", "iterate over tiles with `for i in range(x.shape[0])` and `x[i]`"),
    ("y[5:] = x[0]", "a tile of tiles is indexed with one number for each dimension; loop over it"),
    ("y[0] = x[0].shape[1]", "`x[0].shape` has 1 item: there is none at index 1"),
)


def tiles(x, y):
    return x.tile((8,)), y.tile((8,))


def tiles_of_tiles(x, y):
    return x.tile((8,)).tile((-1,)), y.tile((8,)).tile((-1,))


@pytest.mark.filterwarnings("ignore::ninetoothed.errors.EmptyKernelWarning")
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake[0])
def test_a_mistake_of_an_application(mistake):
    expect(tiles, *mistake)


@pytest.mark.parametrize("body, message", WITH_TILES_OF_TILES)
def test_a_mistake_with_tiles_of_tiles(body, message):
    expect(tiles_of_tiles, body, message)


# What applications see beside `ntl` and `torch`.
AROUND = {"math": math, "ninetoothed_ops": ninetoothed_ops, "unknown": Symbol("unknown", constexpr=True)}


def expect(arrangement, body, message, line=None):
    x, y = torch.ones(16), torch.full((16,), 7.0)
    with pytest.raises(ApplicationError) as caught:
        application = application_of(body)
        application.__globals__.update(AROUND)
        ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x, y)
    assert caught.value.msg == f"kernel 'application': {message}"
    # Line 1 is the function's head.
    told = body.splitlines()[caught.value.lineno - 2].strip()
    assert told == caught.value.text.strip() and (line is None or told == line)
    assert caught.value.filename == f"<application: {body}>" and bool((y == 7).all())


@pytest.mark.parametrize("body, message", UNSTORED)
def test_a_result_that_is_stored_nowhere(body, message):
    with pytest.warns(EmptyKernelWarning) as caught:
        ninetoothed.make(tiles, application_of(body), (Tensor(1), Tensor(1)))(torch.ones(16), torch.ones(16))
    assert message in str(caught[0].message)


def test_the_traceback_of_an_application_is_short():
    kernel = ninetoothed.make(tiles, application_of("y = (x + 1).mask"), (Tensor(1), Tensor(1)))
    with pytest.raises(ApplicationError) as caught:
        kernel(torch.ones(16), torch.ones(16))
    modules = [entry.path.parent.name for entry in caught.traceback]
    assert modules.count("frontend") <= 3, "only this test, the runtime and the call of the tracer"
