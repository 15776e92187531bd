"""The namespace that applications use, as `import ninetoothed.language as ntl`.

`functions/` holds the names that an application may call, by family. `primitives.py` holds the functions of `ir.Apply`
to which the frontend reduces them, and which backends have each. `types.py` holds the static types of an application's
values. Editors and type checkers read `__init__.pyi`, which `docs/stub.py` writes from the rows.

`help(ntl.exp)` shows a function's types, errors and an example. There, `run(application, *arguments)` makes a kernel
each of whose parameters is one tile, calls it and returns the last argument.
"""

from __future__ import annotations

import difflib
import sys
from collections.abc import Mapping
from dataclasses import dataclass

# The original's `__init__`, which comes here too where it was installed last, has not imported this.
if not hasattr(sys.modules["ninetoothed"], "distribution"):
    from ninetoothed.distribution import BESIDE

    raise ImportError(BESIDE)

from ninetoothed import dtypes
from ninetoothed.language.exclusions import EXCLUSIONS
from ninetoothed.language.functions import FUNCTIONS, LIBDEVICE, Function
from ninetoothed.language.functions.libdevice import EXCLUSIONS as LEFT_OUT
from ninetoothed.language.instead import INSTEAD
from ninetoothed.language.types import TRITON_MAX_TENSOR_NUMEL, Level, PropagateNan, Source, Tile, constexpr

__all__ = ["TRITON_MAX_TENSOR_NUMEL", "Level", "PropagateNan", "Source", "Tile", "constexpr", "libdevice", "math"]


@dataclass(frozen=True)
class _Namespace:
    """A namespace of functions within `ninetoothed.language`."""

    name: str
    functions: Mapping[str, Function]
    exclusions: Mapping[str, str]

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self.functions:
            raise AttributeError(f"ninetoothed.language.{self.name} has no function {name!r}{self._remedy(name)}")
        return self.functions[name]

    def _remedy(self, name: str) -> str:
        if name in self.exclusions:
            return f": {self.exclusions[name]}"
        near = difflib.get_close_matches(name, self.functions, 3)
        return f"; did you mean {' or '.join(near)}?" if near else ""

    def __dir__(self) -> list[str]:
        return sorted(self.functions)


libdevice = _Namespace("libdevice", LIBDEVICE, LEFT_OUT)
_MATH = "abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi"
math = _Namespace("math", {name: FUNCTIONS[name] for name in _MATH.split()}, {})


def __getattr__(name: str) -> Function | dtypes.DType:
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name in dtypes.BY_NAME:
        return dtypes.BY_NAME[name]
    if name.startswith("__"):
        raise AttributeError(name)
    if name in EXCLUSIONS:
        raise AttributeError(f"ninetoothed.language has no {name!r}: {EXCLUSIONS[name]}")
    raise AttributeError(f"ninetoothed.language has no {name!r}; {_remedy(name)}")


def _remedy(name: str) -> str:
    if name in INSTEAD:
        return INSTEAD[name]
    if name in LIBDEVICE:
        return f"write `ntl.libdevice.{name}`"
    near = difflib.get_close_matches(name, __dir__(), 3)
    return f"did you mean {' or '.join(near)}?" if near else "`dir(ninetoothed.language)` lists what it has"


def __dir__() -> list[str]:
    return sorted([*FUNCTIONS, *dtypes.BY_NAME, *__all__])
