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
from torch._subclasses.fake_tensor import FakeTensorMode

import ninetoothed
import ninetoothed_ops
from ninetoothed import Symbol, Tensor, block_size
from ninetoothed.errors import ApplicationError, ArrangementError, ExecutionError, NineToothedError

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
    "pad": ("pad",),
    "size": ("dim",),
    "stride": ("dim",),
    "numel": (),
    "eval": ("subs",),
    "subs": ("subs",),
}
FUNCTIONS = {
    "Tensor": (
        "ndim",
        "shape",
        "dtype",
        "jagged_dim",
        "other",
        "shape_options",
        "constexpr",
        "value",
        "name",
        "unique_indices",
    ),
    "Symbol": ("expr", "constexpr", "meta", "lower_bound", "upper_bound", "power_of_two"),
    "block_size": ("lower_bound", "upper_bound"),
    "ninetoothed.eval": ("tensor", "subs"),
    "ninetoothed.subs": ("tensor", "subs"),
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
NAMES = frozenset("self x y n m B shape dim dims strides tile_shape pad foo ndim subs source axis".split())


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


def helper(a, b=1):
    return a + b


class C:
    a = 3

    def __init__(self, value=0):
        self.value = value


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
    "ninetoothed_ops": ninetoothed_ops,
    "libdevice": ninetoothed.language.libdevice,
    "helper": helper,
    "C": C,
    "block": block_size(),
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
    first = error.msg if isinstance(error, ApplicationError) else message.partition("\n  at ")[0]
    suggested = re.search(r"(?:no|not|is no|unknown) .*?'(\w+)'.*did you mean (.*)\?", first)
    if suggested and f"'{suggested[1]}'" in suggested[2]:
        return f"{kind} that suggests what was written: {message}"
    if isinstance(error, ApplicationError) and error.filename not in (file, __file__):
        return f"{kind} without the user's line: {message}"
    if isinstance(error, ArrangementError) and not (file in message or __file__ in message):
        return f"{kind} without the user's line: {message}"
    wanted = "; |: |did you mean" if isinstance(error, ApplicationError) else "; |did you mean"
    if isinstance(error, ExecutionError) and message.startswith("assertion failed"):
        return ""  # the application's own
    if not re.search(wanted, first.partition("kernel 'application': ")[2] or first):
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


# Expressions of an application of tiles `x`, `y` and `out` of eight elements and `h`, two such; `{0}` is any of them.
EXPRESSIONS = templates(r"""
    x   y   out   h   h[0]   h[1]   x[0]   x + 1   x.shape   x.shape[0]   x.dtype   h.dtype   h.shape[0]
    h.dtype.shape   x.source   x.source.shape[0]   x.offsets(0)   x.offsets()   x.data_ptr()   x.T   x.ndim   ntl
    ntl.float32   ntl.exp   None   True   3   -1   2.5   'text'   b'x'   ()   (x, y)   [x, y]   {'a': x}
    lambda v: v   print   len   int   torch   ninetoothed_ops   numpy   math.pi   float('inf')
    ntl.zeros((8,), dtype=ntl.float32)   ntl.arange(0, 8)   ntl.sum(x)   ntl.program_id(0)   x > 0   x.to(ntl.int32)
    range(3)   slice(0, 2)   x.sum()   x[:, None]   helper   C   C()   C.a   block   3 + 4j   10**30   object
    type(x)   enumerate((x, y))   zip((x, y), (1, 2))   x.exp   '%s' % 3   f'{3}'   ...
""")
AROUND_EXPRESSIONS = templates(r"""
    {0}   {0} + {1}   {0} * {1}   {0} @ {1}   {0} // {1}   {0} ** {1}   {0} < {1}   {0} < {1} < {0}   {0} == {1}
    not {0}   -{0}   ~{0}   {0} and {1}   {0} or {1}   {0} if {1} else {0}   {0} in {1}   {0} is {1}
    {0} is not None   {0} << {1}   {0}[{1}]   {0}[{1}, {1}]   {0}[{1}:]   {0}[:{1}]   {0}[::2]   {0}[::-1]
    {0}[...]   {0}[None]   {0}[-1]   {0}[()]   {0}({1})   {0}()   {0}(*{1})   {0}(**{1})   {0}(a={1})   {0}.foo
    {0}.shape   {0}.dtype   {0}.sum   {0}.offsets   {0}.T   {0}.offsets({1})   {0}.source   {0}.offset   {0}.to({1})
    {0}.to()   {0}.sum({1})   {0}.source[{1}]   {0}.shape[{1}]   {0}.source.foo   {0}.source.shape[{1}]
    {0}.source.stride({1})   {0}.size(0)   {0}.stride(0)   {0}.dtype.foo   {0}.items()   [v for v in {0}]
    [v + {1} for v in {0}]   (v for v in {0})   {v for v in {0}}   {v: v for v in {0}}   {{0}}   {**{0}}
    {{0}: {1}}   [*{0}]   (*{0}, {1})   [v for v in {0} if v]   [a for a, b in {0}]   (lambda v: v + {1})({0})
    (lambda: {0})()   (lambda *a: a)({0}, {1})   (lambda **k: k)(a={0})
    (lambda a, /, b, *, c=1: a)({0}, {1}, c={0})   (v := {0})   f'{{0}}'   f'{{0}:5}'   f'{{0}!r}'   '%s' % {0}
    'a' + {0}   ''.join({0})   '{}'.format({0})   (yield {0})   (yield from {0})   (await {0})   len({0})
    range({0})   list({0})   tuple({0})   sorted({0})   reversed({0})   enumerate({0})   zip({0}, {1})
    max({0}, {1})   min({0})   sum({0})   abs({0})   int({0})   float({0})   bool({0})   round({0})
    divmod({0}, {1})   pow({0}, {1})   isinstance({0}, {1})   hasattr({0}, 'shape')   getattr({0}, 'foo')
    getattr({0}, {1})   type({0})   id({0})   map(helper, {0})   filter(None, {0})   any({0})   all({0})   iter({0})
    next({0})   hash({0})   repr({0})   str({0})   eval('x')   globals()   locals()   vars({0})   dir({0})
    open({0})   input()   print({0})   print({0}, {1}, sep={0})   slice({0})   super()   callable({0})
    ntl.sum({0})   ntl.sum({0}, {1})   ntl.sum({0}, axis={1})   ntl.exp({0})   ntl.where({0}, {1}, {0})
    ntl.dot({0}, {1})   ntl.zeros({0}, dtype={1})   ntl.full({0}, {1}, ntl.float32)   ntl.cast({0}, {1})
    ntl.reshape({0}, {1})   ntl.arange({0}, {1})   ntl.load({0})   ntl.store({0}, {1})   ntl.atomic_add({0}, {1})
    ntl.max({0}, axis={1}, return_indices=True)   ntl.foo({0})   ntl.static_range({0})   ntl.range({0})
    ntl.permute({0}, {1})   ntl.trans({0})   ntl.cat({0}, {1})   ntl.join({0}, {1})   ntl.reduce({0}, {1}, helper)
    ntl.reduce({0}, 0, {1})   ntl.associative_scan({0}, 0, {1})   ntl.gather({0}, {1}, 0)
    ntl.device_assert({0}, {1})   ntl.static_assert({0}, {1})   ntl.static_print({0})   ntl.device_print({0}, {1})
    ntl.cdiv({0}, {1})   ntl.sort({0})   ntl.topk({0}, {1})   ntl.histogram({0}, {1})   ntl.flip({0}, {1})
    ntl.softmax({0}, {1})   ntl.clamp({0}, {1}, {0})   ntl.expand_dims({0}, {1})   ntl.broadcast_to({0}, {1})
    ntl.rand({0}, {1})   ntl.randint({0}, {1})   ntl.interleave({0}, {1})   ntl.split({0})   ntl.ravel({0})
    ntl.view({0}, {1})   ntl.fma({0}, {1}, {0})   ntl.cumsum({0}, {1})   ntl.argmax({0}, {1})
    ntl.exp({0}, foo={1})   ntl.exp(x={0})   ntl.sum(input={0})   ntl.num_programs({0})   ntl.program_id({0})
    ntl.zeros_like({0})   ntl.multiple_of({0}, {1})   ntl.debug_barrier({0})   ntl.inline_asm_elementwise({0})
    ntl.make_block_ptr({0})   ntl.advance({0}, {1})   libdevice.tanh({0})   libdevice.foo({0})
    libdevice.pow({0}, x={1})   torch.exp({0})   torch.{1}   numpy.exp({0})   math.sqrt({0})
    ninetoothed_ops.softmax({0}, -1)   ninetoothed_ops.add({0}, {1})   torch.ops.ninetoothed.silu({0})
    helper({0}, {1})   helper({0})   helper(*{0})   helper(a={0})   helper(**{1})   helper({0}, foo={1})
    copies({0}, {1})   jitted({0}, {1})   made({0}, {1})   C({0})   x.{0}   ntl.{0}   x.reduce({0}, helper)
    x.atomic_add({0})   x.where({0}, {1})   x.to({0}, bitcast={1})   x.sum(axis={0}, foo={1})
""")
STATEMENTS = templates(r"""
    out = {0}   out = {0}   out = {0}   out = {0}   out = {0}   out += {0}   out[{0}] = {1}   h[{0}] = {1}
    h[0] = {0}   out[0] = {0}   {0}   v = {0}; out = v   a, b = {0}; out = a   a, *b = {0}; out = b
    (a, b), c = {0}, 1; out = a   [a, b] = {0}; out = a   v = [x, y]; v[0] = {0}; out = v[0]
    v = {'a': x}; v['a'] = {0}; out = v['a']   v: int = {0}; out = v   v: {0}   out: {0} = x   x.foo = {0}
    x.shape = {0}   x.source[{0}] = {1}   ntl.foo = {0}   {0}.a = {1}   v.a += {0}   out **= {0}   out @= {0}
    out //= {0}   del {0}   del x   del v   global x; out = {0}   nonlocal x   import {0}   import os; out = os.{1}
    from ntl import foo   from . import a   import no_such_module   from math import pi; out = pi * {0}
    from math import foo   pass   return   return {0}   assert {0}   assert {0}, {1}   raise {0}
    raise ValueError({0})   out = x; return {0}   async def f(): pass   await {0}   yield {0}   type T = {0}
    out = copies
""")
BLOCKS = (
    "if {0}:\n    {s}",
    "if {0}:\n    {s}\nelse:\n    {t}",
    "while {0}:\n    {s}",
    "while {0}:\n    {s}\nelse:\n    {t}",
    "for i in {0}:\n    {s}",
    "for i in range({0}):\n    {s}",
    "for i, j in {0}:\n    {s}",
    "for x in {0}:\n    {s}",
    "for out[0] in {0}:\n    {s}",
    "for i in range(3):\n    {s}\nelse:\n    {t}",
    "for i in range(h.shape[0]):\n    h[i] = {0}\n    {s}",
    "for i in range(3):\n    if {0}:\n        break\n    {s}",
    "for i in range(3):\n    if {0}:\n        continue\n    {s}",
    "try:\n    {s}\nexcept {0}:\n    {t}",
    "try:\n    {s}\nfinally:\n    {t}",
    "with {0}:\n    {s}",
    "with {0} as v:\n    {s}",
    "def f(a, b={0}):\n    return a\nout = f({1})",
    "def f():\n    {s}\nf()",
    "def f():\n    return f()\nout = f()",
    "def f(*a, **k):\n    return a[0]\nout = f({0}, k={1})",
    "@{0}\ndef f(a):\n    return a\nout = f(x)",
    "class A:\n    {s}\nout = A",
    "class A({0}): pass\nout = A()",
    "match {0}:\n    case {1}:\n        {s}\n    case _:\n        {t}",
    "match {0}:\n    case [a, *b]:\n        {s}",
    "lambda: {0}\n{s}",
    "v = 0\nwhile v < {0}:\n    v += 1\n    {s}",
    "v = x\nfor i in range({0}):\n    v = v + {1}\nout = v",
    "v = x\nif ntl.sum(x) > 0:\n    v = {0}\nout = v",
    "if ntl.sum(x) > 0:\n    v = {0}\nout = v",
    "out = x\nif ntl.sum(x) > {0}:\n    {s}\nelif {1}:\n    {t}",
    "for i in range(ntl.program_id(0)):\n    {s}",
    "for i in ntl.static_range({0}):\n    {s}",
)


def draw_expression(rng: random.Random, depth: int = 2) -> str:
    """Draw an expression of an application."""
    if not depth or rng.random() < 0.3:
        return rng.choice(EXPRESSIONS)
    inner = [draw_expression(rng, depth - 1) for _ in range(2)]
    found = rng.choice(AROUND_EXPRESSIONS)
    inner = [f"({each})" if not each.isidentifier() else each for each in inner]
    return found.replace("{0}", inner[0]).replace("{1}", inner[1])


def draw_statement(rng: random.Random, depth: int = 1) -> str:
    """Draw a statement, or several."""
    if depth and rng.random() < 0.4:
        statement = rng.choice(BLOCKS)
        for name in "st":
            lines = statement.split("\n")
            for i, line in enumerate(lines):
                if "{" + name + "}" in line:
                    indent = line[: len(line) - len(line.lstrip())]
                    inner = draw_statement(rng, depth - 1).replace("\n", "\n" + indent)
                    lines[i] = line.replace("{" + name + "}", inner)
            statement = "\n".join(lines)
    else:
        statement = rng.choice(STATEMENTS).replace("; ", "\n")
    return statement.replace("{0}", draw_expression(rng)).replace("{1}", draw_expression(rng, 1))


def of_applications(rng: random.Random, number: int) -> Iterator[Case]:
    """Check an application that Python takes and a kernel may not, made and called."""
    body = draw_statement(rng)
    text = "def application(x, y, h, out):\n" + "".join(f"    {line}\n" for line in body.split("\n"))
    text += "    out = out if out is x else out\n" if rng.random() < 0.1 else ""
    try:
        made = written(text, "application", number)
    except SyntaxError:
        return
    arrange = lambda x, y, h, out: (x.tile((8,)), y.tile((8,)), h.tile((8,)).tile((2,)), out.tile((8,)))  # noqa: E731
    values = [torch.arange(1.0, 1 + size) for size in (8, 8, 16)] + [torch.zeros(8)]
    attempt = lambda: ninetoothed.make(arrange, made, tuple(Tensor(1) for _ in values))(*values)  # noqa: E731
    yield Case(body, told(attempt, file_of(number)))


# Tensors and others that a call is given, for a kernel of two tensors of eight float32.
ARGUMENTS = templates(r"""
    torch.ones(8)   torch.ones(7)   torch.ones(2, 4)   torch.tensor(1.0)   torch.ones(0)   torch.ones(16)[::2]
    torch.ones(1).expand(8)   torch.ones(8, dtype=torch.complex64)   torch.ones(8, dtype=torch.bool)
    torch.ones(8).half()   torch.ones(8).to(torch.float8_e5m2)   torch.ones(8, device='meta')
    torch.ones(8).to_sparse()   torch.eye(8).to_sparse_csr()   torch.ones(8).to_mkldnn()
    torch.nested.nested_tensor([torch.ones(3), torch.ones(5)])
    torch.quantize_per_tensor(torch.ones(8), 1.0, 0, torch.qint8)
    torch.nested.nested_tensor([torch.ones(3), torch.ones(5)], layout=torch.jagged)
    torch.ones(8, dtype=torch.complex64).conj()   torch.ones(8, dtype=torch.complex64).conj().imag
    torch.nn.Parameter(torch.ones(8))   Plain(torch.ones(8))   Wrapped(torch.ones(8))   torch.nn.Linear(2, 2)
    torch.nn.Buffer(torch.ones(8))   fake.from_tensor(torch.ones(8))
    torch.masked.masked_tensor(torch.ones(8), torch.ones(8) > 0)   numpy.ones(8)   numpy.float32(1)   [1.0] * 8
    (1.0,) * 8   None   True   3   2.5   3 + 4j   'x'   b'x'   {}   object()   int   len   torch.float32
    torch.Size((8,))   x   x.shape[0]   ninetoothed   copies   range(8)   iter((1.0, 2.0))   float('nan')   10**40
    torch._to_functional_tensor(torch.ones(8))   torch.ones(8).untyped_storage()   torch.device('cpu')
    memoryview(b'12345678')
""")
CALLED = ("copied", "scaled", "sized")


class Plain(torch.Tensor):
    """A subclass of which the memory is that of a plain tensor."""


class Wrapped(torch.Tensor):
    """A subclass that computes by itself."""

    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return NotImplemented

    def __repr__(self, **_):
        return "Wrapped"


def scales(x, factor, y):
    y = x * factor


def kernels() -> dict[str, ninetoothed.Kernel]:
    """Return kernels of two tensors, with a scalar between them, and with a constexpr symbol."""
    size = Symbol("BLOCK", constexpr=True)
    cut = lambda x, y: (x.tile((8,)), y.tile((8,)))  # noqa: E731
    return {
        "copied": ninetoothed.make(cut, copies, (Tensor(1), Tensor(1))),
        "scaled": ninetoothed.make(
            lambda x, factor, y: (x.tile((8,)), factor, y.tile((8,))), scales, (Tensor(1), Tensor(0), Tensor(1))
        ),
        "sized": ninetoothed.make(lambda x, y: (x.tile((size,)), y.tile((size,))), copies, (Tensor(1), Tensor(1))),
    }


def of_calls(rng: random.Random, number: int) -> Iterator[Case]:
    """Check a call of a kernel with arguments of all kinds."""
    name = rng.choice(CALLED)
    right = ["torch.ones(8)"] * (3 if name == "scaled" else 2)
    if name == "scaled":
        right[1] = "2.0"
    for _ in range(rng.choice((1, 1, 2))):
        right[rng.randrange(len(right))] = rng.choice(ARGUMENTS)
    right += [rng.choice(ARGUMENTS)] if rng.random() < 0.1 else []
    right = right[: rng.choice((len(right),) * 9 + (1,))]
    named = {"sized": ["BLOCK=8", "BLOCK=0", "BLOK=8", "BLOCK=2.5", f"BLOCK={rng.choice(ARGUMENTS)}"]}.get(
        name, ["x=3"]
    )
    keywords = [rng.choice(named)] if name == "sized" or rng.random() < 0.1 else []
    text = f"{name}({', '.join((*right, *keywords))})"
    attempt = written(f"def attempt():\n    {text}\n", "attempt", number)
    attempt.__globals__.update(kernels(), Plain=Plain, Wrapped=Wrapped, fake=FakeTensorMode(allow_non_fake_inputs=True))
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
            kind = rng.choice((of_arrangements, of_make, of_calls, *[of_applications] * 3))
            yield from kind(rng, -(10**9) - 100 * seed - index)
