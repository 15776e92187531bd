"""Say what to write instead of an unknown name: one of PyTorch's, of Triton's, or a misspelt one."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Iterable

from ninetoothed.frontend.parse import ParsedFunction
from ninetoothed.frontend.values import MEMORY_ATTRIBUTES, Scope
from ninetoothed.language.functions import FUNCTIONS, LIBDEVICE
from ninetoothed.language.instead import INSTEAD
from ninetoothed.wording import near

_ARRANGE = "rearrange the tensor in the arrangement, where it has that method"
_TYPES = ("float", "half", "bfloat16", "double", "int", "long", "bool", "type", "astype")
_MOVES = ("cuda", "cpu", "device", "contiguous", "clone", "detach", "requires_grad", "item", "tolist", "numpy")
# Attributes of PyTorch's tensors, and what an application says in their place.
_OF_TENSORS = {
    **dict.fromkeys(("tile", "expand", "unsqueeze", "pad"), _ARRANGE),
    **dict.fromkeys(_TYPES, "convert with `.to(ntl.float32)`, say"),
    **dict.fromkeys(_MOVES, "a tile is on the device already, and is no tensor of PyTorch's"),
    **dict.fromkeys(("copy_", "fill_", "zero_", "add_", "mul_"), "assign the parameter: `y = ...` stores"),
    **dict.fromkeys(("view", "view_as"), "write `ntl.reshape`"),
    **dict.fromkeys(("numel", "size"), "`x.shape` has the sizes"),
    "mask": "nothing needs one: what lies out of bounds is not stored, is left out of sums, and is read as `other`",
    "stride": "`x.source.stride(d)` is the stride of the tensor",
    "strides": "`x.source.strides` are the strides of the tensor",
}
_OFFERED = ("shape", "ndim", "dtype", "T", "to")


# Syntax that applications cannot have, and what to write in its place.
_SYNTAX = {
    ast.Break: "`break`: give the loop its bounds in `range`, or use `while`",
    ast.Continue: "`continue`: put the rest of the body under an `if`",
    ast.Try: "`try`: nothing is raised when a kernel runs; test what may fail with an `if`",
    ast.With: "`with`: enter the context where the kernel is called",
    ast.Raise: "`raise`: use `ntl.device_assert` or `ntl.static_assert`",
    ast.Delete: "`del`: leave the name be, what nobody reads costs nothing",
    ast.Global: "`global`: return the value, and assign it where the function is called",
    ast.Nonlocal: "`nonlocal`: return the value, and assign it where the function is called",
    ast.ClassDef: "class definitions: define the class outside",
    ast.AsyncFunctionDef: "`async` functions: use `def`",
    ast.Match: "`match`: compare with `if` and `elif`",
    ast.Await: "`await`: wait where the kernel is called",
    ast.Yield: "`yield`: a kernel gives nothing back, assign a parameter",
    ast.YieldFrom: "`yield from`: a kernel gives nothing back, assign a parameter",
    ast.SetComp: "set comprehensions: write a tuple, `tuple(f(i) for i in items)`",
    ast.DictComp: "dict comprehensions: write the dict's items out, or make it outside",
    ast.Set: "sets: write a tuple",
    ast.stmt: "this statement ({}): write it with assignments, `if`, `for` and `while`",
    ast.expr: "this syntax ({}): compute it outside, where it is known before the call",
}


def for_attribute(name: str, is_computed: bool) -> str:
    """Say what to write instead of an attribute that tiles do not have, or computed ones do not."""
    if name in MEMORY_ATTRIBUTES:
        return f"what is computed has no place in memory: write the name of a parameter, as in `x.{name}`"
    offered = _OFFERED if is_computed else (*_OFFERED, *MEMORY_ATTRIBUTES)
    remedy = _OF_TENSORS.get(name) or INSTEAD.get(name) or near(name, (*offered, *FUNCTIONS))
    return remedy or f"it has {', '.join(offered)}, and the functions of `ninetoothed.language`, such as `x.sum()`"


def for_function(name: str) -> str:
    """Say what to write instead of a function of PyTorch's, say, that cannot run on tiles."""
    if name in INSTEAD:
        return INSTEAD[name]
    space = {
        **dict.fromkeys(LIBDEVICE, "ninetoothed.language.libdevice"),
        **dict.fromkeys(FUNCTIONS, "ninetoothed.language"),
    }
    instead = f"`{space[name]}.{name}`" if name in space else "what `ninetoothed.language` has"
    return f"use {instead}, or write it as a plain Python function"


def for_syntax(node: ast.AST) -> str:
    """Name syntax that applications cannot have, and say what to write instead."""
    told = next(_SYNTAX[kind] for kind in type(node).__mro__ if kind in _SYNTAX)
    return told.format(type(node).__name__)


def of_python(error: Exception) -> str:
    """Word an error of Python's own, in what an application computes when it is compiled."""
    told = {KeyError: "there is no key {}", ZeroDivisionError: "{}"}.get(type(error), "{}").format(error)
    return f"{told}; this is Python's, on values that are known when compiling: mend it, or compute with tiles"


def for_name(name: str, scope: Scope) -> str:
    """Say what to write instead of a name that is not defined."""
    if name in FUNCTIONS:
        return f"write `ntl.{name}`, with `import ninetoothed.language as ntl`"
    return near(name, _visible(scope)) or (
        "assign it before, define or import it outside of the application, or make it a parameter of the kernel"
    )


def _visible(scope: Scope | None) -> Iterable[str]:
    """List the names that a function sees, without those that begin with an underscore: they are rarely meant."""
    while scope is not None:
        yield from scope.cells
        if scope.parent is None:
            function = scope.parsed.function
            found = (*function.__code__.co_freevars, *function.__globals__, *vars(builtins))
            yield from (name for name in found if not name.startswith("_"))
        scope = scope.parent


def for_a_return(parsed: ParsedFunction, names: Iterable[str]) -> str:
    """Say what to write in the place of a `return` with a value, "" where an application has none."""
    returned = next((node for node in parsed.body if isinstance(node, ast.Return) and node.value is not None), None)
    if returned is None or returned.value is None:
        return ""
    *_, last = names
    value = ast.unparse(returned.value)
    return f"; a kernel returns nothing: write `{last} = {value}` instead of `return {value}`"
