"""Refuse operators and unknown names on symbolic tensors, each with what to do instead."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from ninetoothed.arrangement.operands import shape_text
from ninetoothed.errors import ArrangementAttributeError, ArrangementTypeError, arrangement_error as _error
from ninetoothed.wording import near

if TYPE_CHECKING:
    from ninetoothed.arrangement.value import Shape

_COMPUTE = (
    "rearrange tensors in the arrangement, and compute in the application, where they are tiles (perhaps `make` was"
    " given the two in the wrong order)"
)
_PERMUTE = "write `permute`, with the old place of each dimension"
_RESHAPE = "`flatten` makes several dimensions one, and `tile` splits one"
# PyTorch's names for rearranging, and the meta-operations that do it.
_INSTEAD = {
    **dict.fromkeys(("T", "mT", "transpose", "swapaxes", "movedim"), _PERMUTE),
    **dict.fromkeys(("reshape", "view", "unflatten", "split", "chunk"), _RESHAPE),
    **dict.fromkeys(("repeat", "broadcast_to", "expand_as"), "write `expand`"),
    "unfold": "write `tile` with `strides`",
    "narrow": "slice it, as in `x[2:8]`",
}


class WithoutNumbers:
    """Refuse to compute, each operator with the remedy."""

    if TYPE_CHECKING:

        @property
        def name(self) -> str: ...
        @property
        def shape(self) -> Shape: ...

    else:  # where types are checked, an unknown name is an error before anything runs

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_"):
                raise AttributeError(name)
            remedy = _INSTEAD.get(name) or near(name, (n for n in dir(self) if not n.startswith("_"))) or _COMPUTE
            raise _error(f"the symbolic tensor `{self.name}` has no {name!r}", remedy, ArrangementAttributeError)

    def _compute(self, *_: Any) -> NoReturn:
        raise _error(f"the symbolic tensor `{self.name}` has no numbers to compute with", _COMPUTE)

    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _compute
    __floordiv__ = __rfloordiv__ = __mod__ = __rmod__ = __pow__ = __rpow__ = __matmul__ = __rmatmul__ = _compute
    __and__ = __rand__ = __or__ = __ror__ = __xor__ = __rxor__ = __lshift__ = __rshift__ = _compute
    __lt__ = __le__ = __gt__ = __ge__ = __neg__ = __pos__ = __abs__ = __invert__ = _compute
    __divmod__ = __rdivmod__ = __round__ = __int__ = __float__ = __complex__ = __index__ = __array__ = _compute
    __array_ufunc__ = None  # operators of NumPy's leave the refusal to these

    @classmethod
    def __torch_function__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> NoReturn:
        name = getattr(function, "__name__", "a function")
        raise _error(f"PyTorch's `{name}` is given a symbolic tensor, which has no numbers to compute with", _COMPUTE)

    def __iter__(self) -> NoReturn:
        remedy = "index it, as in `x[0]`, or let the application run over its tiles"
        raise _error(f"the symbolic tensor `{self.name}` cannot be iterated over", remedy, ArrangementTypeError)

    def __len__(self) -> int:
        if self.shape and isinstance(self.shape[0], int):
            return self.shape[0]
        remedy = "`x.shape[0]` is its first size" if self.shape else "a scalar has no sizes"
        what = f"`{self.name}` of shape {shape_text(self.shape)} has no length that is known"
        raise _error(what, remedy, ArrangementTypeError)

    def __bool__(self) -> bool:
        return True
