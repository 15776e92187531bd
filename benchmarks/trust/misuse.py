"""Random mistakes: what the user is told has a class of its own, the user's line, and what to write instead.

Three kinds: arrangements (wrong arguments of every meta-operation, of `make`, `Tensor` and `Symbol`, and Python's own
functions over sizes), applications (valid Python that no kernel can run), and calls (tensors that are no plain ones).
Some that are drawn are right after all, and say nothing.
"""

from __future__ import annotations

import math
import random
import re
import warnings
from collections.abc import Callable, Iterator

import numpy
import torch

import ninetoothed
from ninetoothed import Symbol, Tensor, block_size
from ninetoothed.errors import ApplicationError, ArrangementError, NineToothedError

from .applications import function
from .parts import Case


def templates(text: str) -> tuple[str, ...]:
    """Split a text into the pieces of code that stand in it, three spaces or a line apart."""
    return tuple(re.split(r" {3,}|\n\s*", text.strip()))


# Values of all types, as they are written: few of them suit any one argument.
VALUES = templates(r"""
    None   True   0   -1   -7   3   10**30   2.5   float('nan')   3 + 4j   ''   'a b'   'n'   b'x'   ()   (1,)
    (1, 2)   (2, 2, 2)   (1.5, 2)   ('a', None)   []   [2, 2]   [[2], [2]]   ((1, 1), (1, 1))   {}   {2, 3}
    {'shape': (2, 3)}   {0: 1}   range(2)   iter((1, 2))   (i for i in (1, 2))   ...   NotImplemented   slice(None)
    slice(0, 4, 2)   slice('a', None)   object()   int   len   lambda: 0   Exception   ntl.exp   torch.ones(2)
    torch.tensor(2)   torch.Size((2, 2))   torch.float32   numpy.ones(2)   numpy.int64(2)   numpy.array([2, 2])   x
    y   x.shape   x.shape[0]   x.shape[0] + 1   Symbol('n')   Symbol('n * m')   Symbol('B', constexpr=True)
    block_size()   Tensor(0)   x.dtype   x.source   x.tile((2, 2))   ninetoothed
""")
METHODS = {
    "tile": ("tile_shape", "strides", "dilation", "floor_mode"),
    "expand": ("shape",),
    "unsqueeze": ("dim",),
    "squeeze": ("dim",),
    "permute": ("dims",),
    "flatten": ("start_dim", "end_dim"),
    "ravel": (),
    "pad": ("padding",),
    "size": ("dim",),
    "stride": ("dim",),
    "numel": (),
    "eval": ("subs",),
    "subs": ("mapping",),
}
FUNCTIONS = {
    "Tensor": ("ndim", "shape", "dtype", "jagged_dim", "other", "shape_options", "constexpr", "value", "name"),
    "Symbol": ("expr", "constexpr", "meta", "lower_bound", "upper_bound", "power_of_two"),
    "block_size": ("lower_bound", "upper_bound"),
    "ninetoothed.eval": ("tensor", "subs"),
    "ninetoothed.subs": ("tensor", "mapping"),
}
MAKE = (
    "arrangement",
    "application",
    "tensors",
    "caller",
    "kernel_name",
    "output_dir",
    "num_warps",
    "num_stages",
    "max_num_configs",
    "tune",
)
# Python over a size `{0}`, with some value `{1}`.
OVER_SIZES = templates(r"""
    range({0})   int({0})   float({0})   complex({0})   len({0})   list({0})   tuple({0})   [*{0}]   iter({0})
    next({0})   reversed({0})   sum({0})   {0}[0]   {0}['a']   {0}[1.5]   {0}[:2]   f'{{{0}:5d}}'   f'{{{0}:>9}}'
    '%d' % {0}   '%s' % {0}   format({0}, '04')   round({0})   round({0}, 2)   abs({0})   divmod({0}, 2)
    pow({0}, 2)   divmod(7, {0})   {0} ** 2   2 ** {0}   {0} / 2   2 / {0}   {0} << 1   1 << {0}   {0} >> 1
    {0} & 1   1 | {0}   {0} ^ 1   ~{0}   +{0}   -{0}   {0} @ {0}   {0} < 3   3 > {0}   {0} <= {0}   min({0}, 3)
    max({0}, 3)   sorted([{0}, 3])   sum([{0}, 3])   bool({0})   not {0}   {0} and 2   {0} or 2   2 if {0} else 3
    {0} in (2, 3)   3 in {0}   {0}()   {0}.foo   {0}.shape   hash({0})   chr({0})   bin({0})   hex({0})   'a' * {0}
    [0] * {0}   (0,) * {0}   (1, 2)[{0}]   [1, 2][:{0}]   math.ceil({0})   math.floor({0})   math.gcd({0}, 4)
    math.sqrt({0})   math.log2({0})   numpy.zeros({0})   numpy.arange({0})   numpy.int64({0})   torch.empty({0})
    torch.arange({0})   range(3)[{0}]   {0} // 0   {0} % 0   {0} + {1}   {1} + {0}   {0} - {1}   {1} - {0}
    {0} * {1}   {1} * {0}   {0} // {1}   {1} // {0}   {0} % {1}   {1} % {0}   {0} == {1}   {0} != {1}   {0} < {1}
    [i for i in {0}]   all({0})   any({0})   enumerate({0})   zip({0}, {0})   isinstance({0}, int)
    {0}.bit_length()   str({0})   ''.join({0})   {0} if {0} < {1} else 2   (lambda a, b: a)(*{0})   dict({0})
    set({0})   range(0, {0}, 2)   range({0}.expr)   slice({0})   repr({0})   {0}.__index__()   {0}.__int__()
    max({0}, {1})   (lambda: 0)({0})   [{0}][{1}]   x.shape[{1}]   x.shape[5]   x.shape['a']   x.shape.foo
    {0}.name.foo   x[{0}, {1}]   x[{1}]   x[{1}, {1}, {1}]
""")
OTHERS = templates(r"""
    x.tiel((2, 2))   x.shapes   x.T   x.reshape(2)   x.dtypes   x + 1   x @ y   x < 1   -x   x[0] + y   abs(x)   x()
    x.permute(1, 0)   x.squeeze(0, 1)   x.squeeze()   x.expand(2, 2)   x.tile(2, 2)   x.tile()   x.pad(1, 1)
    x.pad()   list(x)   [*x]   len(x)   len(x[0, 0])   int(x)   float(x)   range(x)   x in (x,)   1 in x   f'{x:5}'
    round(x)   sum(x)   max(x)   sorted((x, y))   numpy.asarray(x)   numpy.sum(x)   torch.sum(x)
    torch.as_tensor(x)   ntl.exp(x)   ntl.sum(x)   (x, *5)   undefined   x.foo.bar   x['a']   x[{}]   x[[0, 1]]
    x[None, ..., None]   x[()]   x[True]   1 / 0   [][1]   {}['a']   None.tile((2, 2))   int('a')   (1).tile((2,))
    math.sqrt(-1)   import_module   x.__foo__   setattr(x, 'shape', {1})   setattr(x, 'dtype', {1})
    setattr(x, 'name', {1})   delattr(x, 'shape')   setattr(x, 'foo', 1)   setattr(x.tile((2, 2)), 'dtype', {1})
    x.tile((2, 2)).dtype.dtype.tile((1,))   torch.ones(2) + x   numpy.ones(2) * x   numpy.ones(2) + x.shape[0]
    torch.ones(2) + x.shape[0]   torch.ones(x.shape)   x.eval({x: {'shape': {1}}})   x.subs({x: {1}})
    x.subs({'x': 1})   x.eval({x: 3})   x.subs({x.shape[0]: {1}})   x.ravel(1)   x.numel(1)   x.size(1, 2)
    x.unsqueeze()   sum(x.shape, ())   sorted(x.shape)   max(x.shape)   min(*x.shape)   x.shape + 1
    x.shape < (2, 2)   x.shape / 2
""")
NAMES = frozenset("self x y n m B shape dim dims strides tile_shape padding foo ndim subs mapping axis".split())


def draw_arguments(rng: random.Random, parameters: tuple[str, ...]) -> str:
    """Draw arguments: too many, too few, of wrong types, under wrong names."""
    count = rng.choice((0, 1, 1, 1, 2, 2, 3, 5))
    positional = [rng.choice(VALUES) for _ in range(count)]
    names = rng.sample(sorted({*parameters, *rng.sample(sorted(NAMES), 2)}), rng.choice((0, 0, 1, 2)))
    starred = ["*" + rng.choice(VALUES)] if rng.random() < 0.05 and parameters is not MAKE else []
    return ", ".join((*positional, *starred, *(f"{name}={rng.choice(VALUES)}" for name in names)))


def draw_arrangement(rng: random.Random) -> str:
    """Draw an expression of an arrangement of `x`, of two dimensions."""
    kind = rng.choice(("method", "method", "method", "function", "size", "size", "other", "statement"))
    owner = rng.choice(("x", "x", "x.tile((2, 2))", "x.tile((2, 2)).dtype", "x[0]", "x[0, 0]", "x.flatten()"))
    if kind == "method":
        method = rng.choice(sorted(METHODS))
        return f"{owner}.{method}({draw_arguments(rng, METHODS[method])})"
    if kind == "function":
        name = rng.choice(sorted(FUNCTIONS))
        return f"{name}({draw_arguments(rng, FUNCTIONS[name])})"
    if kind == "size":
        size = rng.choice(
            ("x.shape[0]", "(x.shape[0] + y.shape[0])", "Symbol('B', constexpr=True)", "x.numel()", "x.stride(0)")
        )
        return (
            rng.choice(OVER_SIZES)
            .replace("{{", "{")
            .replace("}}", "}")
            .replace("{0}", size)
            .replace("{1}", rng.choice(VALUES))
        )
    return rng.choice(OTHERS).replace("{1}", rng.choice(VALUES))


# What is around an expression of an arrangement.
AROUND = (
    "    return x.tile((2, 2)), ({}), y.tile((2, 2))",
    "    z = {}\n    return x.tile((2, 2)), y.tile((2, 2))",
    "    return x.tile(({}, 2)), y.tile((2, 2))",
    "    return x.tile(({})), y.tile((2, 2))",
    "    if {}:\n        x = x.tile((2, 2))\n    return x, y.tile((2, 2))",
    "    for i in {}:\n        x = x.tile((2, 2))\n    return x, y.tile((2, 2))",
    "    a, b = {}\n    return x.tile((2, 2)), y.tile((2, 2))",
    "    x = x.tile((2, 2))\n    x.dtype = {}\n    return x, y.tile((2, 2))",
    "    with {}:\n        return x.tile((2, 2)), y.tile((2, 2))",
    "    return {}",
    "    x[0] = {}\n    return x, y",
    "    while {}:\n        return x.tile((2, 2)), y.tile((2, 2))",
    "    x += {}\n    return x, y",
    "    return ({} for i in (1, 2))",
)


def copies(x, y):
    y = x


def written(text: str, name: str, number: int) -> Callable[..., object]:
    """Return the function of this name in a text, which sees the names that pieces use."""
    made = function(text, name, number)
    made.__globals__.update(SCOPE)
    return made


SCOPE = {
    "ninetoothed": ninetoothed,
    "Tensor": Tensor,
    "Symbol": Symbol,
    "block_size": block_size,
    "torch": torch,
    "numpy": numpy,
    "math": math,
    "copies": copies,
    "x": Tensor(2, name="x"),
    "y": Tensor(2, name="y"),
}


def told(attempt: Callable[[], object], file: str, allowed: tuple[type, ...] = (NineToothedError,)) -> str:
    """Return what is wrong with what is said of an attempt; "" where nothing is, or the attempt is right."""
    try:
        attempt()
    except allowed as error:
        return _told(error, file)
    except Exception as error:
        return f"{type(error).__name__}, which is no error of its own: {error}"
    return ""


def _told(error: BaseException, file: str) -> str:
    message, kind = str(error), type(error).__name__
    first = message if isinstance(error, ApplicationError) else message.partition("\n  at ")[0]
    suggested = re.search(r"(?:no|not|is no|unknown) .*?'(\w+)'.*did you mean (.*)\?", first)
    if suggested and f"'{suggested[1]}'" in suggested[2]:
        return f"{kind} that suggests what was written: {message}"
    if isinstance(error, ApplicationError) and error.filename != file:
        return f"{kind} without the user's line: {message}"
    if isinstance(error, ArrangementError) and not (file in message or __file__ in message):
        return f"{kind} without the user's line: {message}"
    if not re.search("; |did you mean", first):
        return f"{kind} without a remedy: {message}"
    if re.search(r" object at 0x|<class |Error: ", first):
        return f"{kind} in Python's words: {message}"
    return ""


def of_arrangements(rng: random.Random, number: int) -> Iterator[Case]:
    """Check an arrangement with a mistake, in `make`."""
    text = rng.choice(AROUND).replace("{}", draw_arrangement(rng))
    try:
        made = written(f"def arrangement(x, y):\n{text}\n", "arrangement", number)
    except SyntaxError:
        return
    tensors = SCOPE["x"], SCOPE["y"]
    yield Case(text.strip(), told(lambda: ninetoothed.make(made, copies, tensors), file_of(number)))


def of_make(rng: random.Random, number: int) -> Iterator[Case]:
    """Check wrong arguments of `make` and `jit`."""
    right = ["lambda x, y: (x.tile((2, 2)), y.tile((2, 2)))", "copies", "(Tensor(2), Tensor(2))"]
    if rng.random() < 0.5:
        right[rng.randrange(3)] = rng.choice(VALUES)
    if rng.random() < 0.2:
        right.pop()
    text = f"ninetoothed.{rng.choice(('make', 'make', 'make', 'jit'))}({', '.join(right)}, {draw_arguments(rng, MAKE)})"
    try:
        attempt = written(f"def attempt():\n    {text}\n", "attempt", number)
    except SyntaxError:
        return
    yield Case(text, told(attempt, file_of(number)))


def file_of(number: int) -> str:
    """Return the name that `function` gives a text."""
    return f"<random application {number}>"


def cases(seed: int) -> Iterator[Case]:
    """Draw some mistakes of each kind."""
    rng = random.Random(f"misuse {seed}")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for index in range(60):
            kind = rng.choice((of_arrangements, of_arrangements, of_make))
            yield from kind(rng, -(10**9) - 100 * seed - index)
