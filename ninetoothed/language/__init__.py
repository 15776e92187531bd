"""The namespace that applications use, as `import ninetoothed.language as ntl`.

`functions.py` holds the names that an application may call. `primitives.py` holds the functions of `ir.Apply` to which
the frontend reduces them, and which backends have each. A name of `triton.language` that is in neither is a named error
where it is used.
"""

from __future__ import annotations

import difflib
import enum
from dataclasses import dataclass

from ninetoothed import dtypes
from ninetoothed.language.functions import FUNCTIONS, LIBDEVICE, Function


@dataclass(frozen=True)
class _Namespace:
    """A namespace of functions within `ninetoothed.language`."""

    name: str
    functions: dict[str, Function]

    def __getattr__(self, name: str) -> Function:
        if name.startswith("__"):
            raise AttributeError(name)
        if name not in self.functions:
            raise AttributeError(f"ninetoothed.language.{self.name} has no function {name!r}")
        return self.functions[name]

    def __dir__(self):
        return sorted(self.functions)


libdevice = _Namespace("libdevice", LIBDEVICE)
_MATH = "abs ceil cos div_rn erf exp exp2 fdiv floor fma log log2 rsqrt sin sqrt sqrt_rn umulhi"
math = _Namespace("math", {name: FUNCTIONS[name] for name in _MATH.split()})


class PropagateNan(enum.Enum):
    """Whether `maximum`, `minimum` and `clamp` give NaN for an operand that is NaN."""

    NONE = 0
    ALL = 0xFFFF


class constexpr:
    """Marks an annotation as known when compiling (`p: ntl.constexpr = "ieee"`); calling it returns its argument."""

    def __new__(cls, value=None):
        return value


def __getattr__(name: str):
    if name in FUNCTIONS:
        return FUNCTIONS[name]
    if name in dtypes.BY_NAME:
        return dtypes.BY_NAME[name]
    if name.startswith("__"):
        raise AttributeError(name)
    near = difflib.get_close_matches(name, __dir__(), 3)
    offered = f"did you mean {' or '.join(near)}?" if near else f"it offers: {', '.join(__dir__())}"
    raise AttributeError(f"ninetoothed.language has no {name!r}; {offered}")


def __dir__():
    return sorted([*FUNCTIONS, *dtypes.BY_NAME, "libdevice", "math", "constexpr", "PropagateNan"])
