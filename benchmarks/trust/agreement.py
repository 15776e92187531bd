"""Single expressions on both backends: the CPU's evaluation, and the emitted text in Triton's interpreter.

They meet what the random applications avoid: Python's numbers of all kinds beside tiles of all types, functions of one
number as well as of tiles, NaN, infinities, divisors of zero, and places out of range. Where PyTorch has the operator,
it says what is right.
"""

from __future__ import annotations

import ast
import linecache
import math
import operator
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.errors import ExecutionError, NineToothedError
from tests.ninetoothed.backends import interpreted

from .interpreter import alike
from .parts import Case

CASES = 24
# The second program's tile has three elements, and five lanes of overhang.
BLOCK, SIZE = 8, 11
FLOATS = (torch.float16, torch.float32, torch.float64)  # The interpreter has no arithmetic of bfloat16.
INTEGERS = (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8)
TYPES = (*FLOATS, *INTEGERS, torch.bool)
WHOLE = (0, 1, -1, 2, 3, -3, 6, 7, 100, 127, 200, 256, 2049, 65504, 70000, 2**31 - 1, -(2**31), 2**40)
REAL = (0.0, -0.0, 0.1, 0.5, 1.0, -1.5, 2.5, 1e-8, 1e5, 3.3, math.inf, -math.inf, math.nan)
OPERATORS: dict[str, Callable] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "//": operator.floordiv,
    "%": operator.mod,
    "&": operator.and_,
    "|": operator.or_,
    "^": operator.xor,
    "==": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
UNARY = "abs exp exp2 log log2 sqrt sqrt_rn rsqrt sin cos tanh erf sigmoid floor ceil libdevice.rint".split()
BINARY = "maximum minimum div_rn fdiv libdevice.fmod libdevice.copysign cdiv libdevice.pow".split()
TERNARY = "fma libdevice.fma clamp where".split()
REDUCTIONS = "sum max min argmax argmin xor_sum".split()
# Functions that round in ways of their own.
ROUGH = "exp log sqrt sin cos tanh erf sigmoid sum softmax rand pow ** / // % div cumprod reduce scan".split()


@dataclass(frozen=True)
class Expression:
    """An expression of tiles x and y and the scalar s.

    elements: how many its value has in a program; 1 where it is one number for all. expected: by PyTorch, where known.
    """

    text: str
    elements: int = BLOCK
    expected: Callable | None = None


def cases(seed: int) -> Iterator[Case]:
    """Check some expressions."""
    rng = random.Random(seed)
    with warnings.catch_warnings(), alike():
        warnings.simplefilter("ignore")
        for _ in range(CASES):
            kinds = FLOATS if rng.random() < 0.5 else TYPES
            types = [rng.choice(kinds), rng.choice(kinds)]
            expression = rng.choice(FAMILIES)(rng, types)
            x, y = (values(rng, dtype) for dtype in types)
            yield Case(f"{expression.text} of {types[0]}, {types[1]}, {x}, {y}", wrong(expression, x, y))


def values(rng: random.Random, dtype: torch.dtype) -> torch.Tensor:
    """Draw elements of a type, many of them awkward."""
    if dtype == torch.bool:
        return torch.tensor([rng.random() < 0.5 for _ in range(SIZE)])
    if dtype.is_floating_point:
        awkward = (*REAL, torch.finfo(dtype).max, torch.finfo(dtype).tiny)
        numbers = [rng.choice(awkward) if rng.random() < 0.4 else rng.gauss(0, 3) for _ in range(SIZE)]
        return torch.tensor(numbers, dtype=torch.float64).to(dtype)
    low, high = torch.iinfo(dtype).min, torch.iinfo(dtype).max
    awkward = (low, low + 1, high, 0, 1, BLOCK, BLOCK - 1)
    numbers = [rng.choice(awkward) if rng.random() < 0.4 else rng.randint(max(low, -12), 12) for _ in range(SIZE)]
    return torch.tensor(numbers, dtype=dtype)


# -- expressions -----------------------------------------------------------------------------------


def number(rng: random.Random) -> str:
    """Write a Python number of any kind."""
    chosen = rng.choice((*WHOLE, *REAL, True, False))
    return repr(chosen) if math.isfinite(chosen) else f"float('{chosen}')"


def operand(rng: random.Random, name: str) -> str:
    """Write a tile, one number of it, or a Python number."""
    return rng.choice((name, name, name, f"{name}[2]", f"ntl.max({name})", number(rng)))


def operators(rng: random.Random, types: list) -> Expression:
    """Two operands, of which one may be a Python number."""
    sign = rng.choice(list(OPERATORS))
    lhs, rhs = rng.choice((("x", "y"), ("x", number(rng)), (number(rng), "x"), ("x", operand(rng, "y"))))
    plain = {lhs, rhs} <= {"x", "y"} or not any(name in side for name in ("x[", "y[", "max") for side in (lhs, rhs))
    is_alike = sign in "+ - * == != < <= > >=".split() and torch.bool not in types
    return Expression(f"{lhs} {sign} {rhs}", expected=_by_pytorch(sign, lhs, rhs) if plain and is_alike else None)


def _by_pytorch(sign: str, lhs: str, rhs: str) -> Callable:
    def expected(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor | None:
        sides = [eval(side, {"x": x, "y": y}) for side in (lhs, rhs)]
        for side, other in zip(sides, sides[::-1]):
            if isinstance(side, int) and not other.is_floating_point():
                info = torch.iinfo(other.dtype)
                if not info.min <= side <= info.max:
                    return None  # PyTorch wraps the number; here it is compared as it is, or an error.
        if sign == "-" and any(isinstance(side, bool) for side in sides):
            return None  # PyTorch has no difference of truth values.
        if sign in "+-*" and {type(side) for side in sides} != {torch.Tensor} and x.dtype == torch.float16:
            # On a GPU PyTorch computes with the number as float32, on a CPU some functions round it to the half before.
            return OPERATORS[sign](*(each.float() if isinstance(each, torch.Tensor) else each for each in sides)).half()
        return OPERATORS[sign](*sides)

    return expected


def powers(rng: random.Random, types: list) -> Expression:
    """Powers and shifts by what has a meaning on every device."""
    exponent = rng.choice((0, 1, 2, 3, 5, -1, -2, 0.5, 1.5, -0.5, 70, "y"))
    return Expression(
        rng.choice((f"x ** {exponent}", f"{rng.choice((2, -1, 0.5, 1))} ** x", f"x {rng.choice(('<<', '>>'))} 3"))
    )


def quotients(rng: random.Random, types: list) -> Expression:
    """Quotients of which nothing takes those by zero."""
    sign = rng.choice(("//", "%"))
    return Expression(
        rng.choice(
            (f"ntl.where(y != 0, x {sign} y, -1)", f"ntl.where(y == 0, 7, (x {sign} y) + 1)", f"x {sign} (y * y + 1)")
        )
    )


def functions(rng: random.Random, types: list) -> Expression:
    """A function of one to three operands, each a tile or a number."""
    names, count = rng.choice(((UNARY, 1), (BINARY, 2), (TERNARY, 3)))
    operands = [operand(rng, rng.choice("xy")) for _ in range(count)]
    return Expression(f"ntl.{rng.choice(names)}({', '.join(operands)})")


def reductions(rng: random.Random, types: list) -> Expression:
    """A reduction of a tile or of one number, with the place of the extremum among them."""
    name, of = rng.choice(REDUCTIONS), operand(rng, "x")
    if name in ("max", "min") and rng.random() < 0.5:
        return Expression(f"ntl.{name}({of}, None, return_indices=True)[{rng.randrange(2)}]", 1)
    return Expression(f"ntl.{name}({of}, None)", 1)


def along(rng: random.Random, types: list) -> Expression:
    """Sorts, scans and other functions along an axis, of a tile or of one number."""
    of = operand(rng, "x")
    name = rng.choice("sort cumsum cumprod softmax flip topk histogram ravel reduce associative_scan".split())
    match name:
        case "topk":
            count = rng.choice((1, 2, 4))
            return Expression(f"ntl.topk({of}, {count})", count)
        case "histogram":
            return Expression(f"ntl.histogram({of}, {(count := rng.choice((4, 8)))})", count)
        case "reduce":
            return Expression(f"ntl.reduce({of}, {rng.choice(('None', '0'))}, lambda a, b: a + b)", 1)
        case "associative_scan":
            return Expression(f"ntl.associative_scan({of}, 0, lambda a, b: a + b)")
        case "cumsum" | "cumprod":
            return Expression(f"ntl.{name}({of}, 0)")
    return Expression(f"ntl.{name}({of})")


def shapes(rng: random.Random, types: list) -> Expression:
    """Functions that join and rearrange tiles and numbers."""
    a, b = operand(rng, "x"), operand(rng, "y")
    return rng.choice(
        (
            Expression(f"ntl.interleave({a}, {b})", 2 if "x" not in (a, b) and "y" not in (a, b) else 2 * BLOCK),
            Expression(f"ntl.sum(ntl.join({a}, {b}), -1)"),
            Expression(f"ntl.gather({a}, {b}, 0)"),
            Expression(
                f"ntl.gather(x, {rng.choice(('(y > 0) * 9', '(y > 0).to(ntl.int64) - 1', '7 - x.offsets(0)'))}, 0)"
            ),
            Expression(f"ntl.broadcast_to({a}, (8,))"),
            Expression(f"ntl.split(ntl.join({a}, {b}))[{rng.randrange(2)}]"),
        )
    )


def drawn(rng: random.Random, types: list) -> Expression:
    """Random integers, and what is computed of them."""
    name = rng.choice(("randint({})", "randint4x({})[1]", "rand({})", "rand4x({})[2]"))
    text = "ntl." + name.format(f"{rng.randrange(100)}, x.offsets(0)")
    return Expression(text + rng.choice((" % 6", " // 7", " < 0", " >> 3", ".to(ntl.int64)", ".to(ntl.float32)")))


def places(rng: random.Random, types: list) -> Expression:
    """One element by a place of any kind, in range or not."""
    owner = rng.choice(("x", "(x + 0)", "x.source"))
    place = rng.choice(("i", "i - 1", "k", "k - 1", "LAST", "(x.shape[0] - 9)", "-1", "0", "7", "s", "s - 3", "20 - i"))
    return Expression(f"{owner}[{place}]", 1)


FAMILIES = (
    operators,
    operators,
    operators,
    powers,
    quotients,
    functions,
    functions,
    reductions,
    along,
    shapes,
    drawn,
    places,
)


# -- both backends ---------------------------------------------------------------------------------

LAST = -1


def kernel_of(expression: Expression, s: int):
    """Make `z = expression` of tiles x and y, the number s, a loop's counter i and one that is known, k."""
    lines = ["for k in ntl.static_range(0, 1):", "    for i in range(s, s + 1):", f"        z = {expression.text}"]
    if "i" not in _names(expression.text) and "k" not in _names(expression.text):
        lines = [f"z = {expression.text}"]
    text = "def application(x, y, s, z):\n" + "".join(f"    {line}\n" for line in lines)
    name = f"<agreement: {expression.text}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace = {"ntl": ntl, "LAST": LAST}
    exec(compile(text, name, "exec"), namespace)
    elements = expression.elements

    def arranged(x, y, s, z):
        return x.tile((BLOCK,)), y.tile((BLOCK,)), s, z.tile((elements,))

    return ninetoothed.make(arranged, namespace["application"], (Tensor(1), Tensor(1), Tensor(0), Tensor(1)))


def _names(text: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}


def wrong(expression: Expression, x: torch.Tensor, y: torch.Tensor) -> str:
    """Say in what the backends differ, or both from PyTorch; "" where they agree."""
    s = 2
    z = torch.full((2 * expression.elements if expression.elements != BLOCK else SIZE,), 77.0, dtype=torch.float64)
    on_cpu, by_triton = (outcome(expression, call, x, y, s, z.clone()) for call in (_call, interpreted.interpret))
    if isinstance(on_cpu, str) or isinstance(by_triton, str):
        return _errors(on_cpu, by_triton)
    if not _same(expression, on_cpu, by_triton):
        return f"on the CPU {on_cpu.tolist()}, by Triton {by_triton.tolist()}"
    known = expression.expected and expression.expected(x, y)
    if known is not None and not _same(expression, on_cpu, known.double().expand(on_cpu.shape)):
        return f"on the CPU {on_cpu.tolist()}, by PyTorch {known.tolist()}"
    return ""


def _call(kernel, arguments) -> None:
    kernel(*arguments)


def outcome(expression: Expression, call: Callable, *arguments) -> torch.Tensor | str:
    """Return what is computed, or the error."""
    try:
        call(kernel_of(expression, arguments[2]), arguments)
    except ExecutionError as error:
        return f"ExecutionError: {error}"
    except NineToothedError as error:
        return f"{type(error).__name__}: {getattr(error, 'msg', error)}"
    except Exception as error:
        return f"not ours: {type(error).__name__}: {str(error)[-200:]}"
    return arguments[-1]


def _errors(on_cpu: torch.Tensor | str, by_triton: torch.Tensor | str) -> str:
    """Say what is wrong with errors: they are named, and the same; but only a CPU sees that it divides by zero."""
    if isinstance(on_cpu, str) and "divided by zero" in on_cpu and "ExecutionError" in on_cpu:
        return ""
    # The interpreter's own: it holds truth values as numbers, and looks for sums that overflow.
    if "numpy data itemsize" in by_triton or "out of bounds for int" in by_triton:
        return ""
    is_named = isinstance(on_cpu, str) and not any(
        f"{kind}Error: " in on_cpu[18:] for kind in ("Value", "Index", "Type")
    )
    if is_named and on_cpu == by_triton and not on_cpu.startswith(("not ours", "ExecutionError")):
        return ""
    return f"on the CPU {on_cpu}, by Triton {by_triton}"


def _same(expression: Expression, found: torch.Tensor, expected: torch.Tensor) -> bool:
    tolerance = 2e-3 if any(name in expression.text for name in ROUGH) else 0
    return torch.allclose(found, expected, rtol=tolerance, atol=tolerance, equal_nan=True)
