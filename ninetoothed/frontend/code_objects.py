"""Compare a function's code with its text: a file that was edited after it was imported has other text."""

from __future__ import annotations
import __future__

import ast
import functools
import types
import warnings
from collections.abc import Iterator

_FUTURE = sum(getattr(__future__, name).compiler_flag for name in __future__.all_feature_names)


def was_made_of(code: types.CodeType, text: str) -> bool:
    """Tell whether code is among that of a whole file or cell.

    The file is compiled again, since what a function's bytecode is depends on the imports and classes around it.
    """
    try:
        module = _compiled(text, code.co_filename, code.co_flags & _FUTURE | ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    except SyntaxError:
        return True  # a cell of a notebook that has commands among its lines, say
    return any(alike(code, other) for other in _all(module)) or _is_rewritten(code)


@functools.lru_cache(maxsize=8)
def _compiled(text: str, file: str, flags: int) -> types.CodeType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Python has told them at the import.
        return compile(text, file, "exec", flags, dont_inherit=True)


def _all(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for nested in _nested(code):
        yield from _all(nested)


def _nested(code: types.CodeType) -> list[types.CodeType]:
    return [const for const in code.co_consts if isinstance(const, types.CodeType)]


def _is_rewritten(code: types.CodeType) -> bool:
    """Tell whether pytest has rewritten an assertion: its own variables begin with @."""
    own = any(name.startswith("@") for name in (*code.co_varnames, *code.co_names))
    return own or any(map(_is_rewritten, _nested(code)))


def alike(a: types.CodeType, b: types.CodeType) -> bool:
    """Tell whether two code objects, of one line and name, do the same; those of nested functions too."""
    places = (a.co_name, a.co_firstlineno), (b.co_name, b.co_firstlineno)
    inner = _nested(a), _nested(b)
    return (
        places[0] == places[1] and traits(a) == traits(b) and len(inner[0]) == len(inner[1]) and all(map(alike, *inner))
    )


def traits(code: types.CodeType) -> tuple:
    """Summarise a code object to compare it. Nested functions are left out: their names depend on where they are."""
    constants = [repr(const) for const in code.co_consts if not isinstance(const, types.CodeType)]
    constants = [const for const in constants if "<locals>" not in const]
    return code.co_code, constants, code.co_names, code.co_varnames, code.co_freevars
