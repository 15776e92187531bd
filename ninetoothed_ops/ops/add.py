"""`add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor`, as `torch.add`."""

from typing import Any

import torch

from ..kernels import add as kernels
from ..nested import by_values
from ..registration import of_file
from . import readers
from .checks import FLOATS, INTEGERS, NUMBERS, can_hold, refuse
from .layout import coalesce, empty_elementwise, same_shape


def allocate(self, other, *, alpha=1):
    same = same_shape(self.shape, other.shape) and self.dtype is other.dtype
    dtype = self.dtype if same else torch.result_type(self, other)
    device = other.device if _is_number(self) else self.device
    are_numbers = self.dtype in NUMBERS and other.dtype in NUMBERS
    if not (are_numbers and _may_meet(self, other) and _may_scale(alpha, dtype, device)):
        refuse("add", torch.add, self, other, alpha=alpha, dtypes=NUMBERS)

    shape = self.shape if same else torch.broadcast_tensors(self, other)[0].shape
    return empty_elementwise((self, other), shape, dtype, device)


def _is_number(tensor: torch.Tensor) -> bool:
    """Tell whether it is a number on the CPU, which may be added to a tensor on any device."""
    return tensor.ndim == 0 and tensor.is_cpu


def _may_meet(self, other) -> bool:
    return self.device == other.device or _is_number(self) or _is_number(other)


def _may_scale(alpha, dtype: torch.dtype, device: torch.device) -> bool:
    """Tell whether PyTorch takes a scale: a bool for bools, an integer that fits for any type, a float for floats."""
    if isinstance(alpha, (bool, torch.SymBool)):
        return dtype is torch.bool
    if isinstance(alpha, int) and dtype in INTEGERS:
        info = torch.iinfo(dtype)
        return min(info.min, -info.max) <= alpha <= info.max
    if isinstance(alpha, (int, float)) and dtype in FLOATS:
        # GPUs scale halves in float32.
        return can_hold(dtype if device.type == "cpu" else torch.promote_types(dtype, torch.float32), alpha)
    return isinstance(alpha, (int, torch.SymInt)) or dtype.is_floating_point and not isinstance(alpha, complex)


def launch(output, self, other, *, alpha=1):
    if self.shape != other.shape or self.device != other.device:
        self, other = torch.broadcast_tensors(*(_converted(operand, output) for operand in (self, other)))
    if output.dtype is torch.bool:
        alpha = int(bool(alpha))

    self, other, output = coalesce((self, other, output))
    kernels.make(output.ndim)(self, other, alpha, output)


def _converted(operand: torch.Tensor, output: torch.Tensor) -> torch.Tensor:
    """A number in the output's type; one on the CPU, for a GPU, in the type that this computes in, as PyTorch does.

    That one goes over by value: copies from the CPU cannot be captured in a graph.
    """
    if operand.ndim:
        return operand  # The kernel converts it.
    if operand.device == output.device:
        return operand.to(output.dtype)
    dtype = torch.promote_types(output.dtype, torch.float32) if output.is_floating_point() else output.dtype
    return torch.full((), operand.to(dtype).item(), dtype=dtype, device=output.device)


def setup_context(ctx, inputs, keyword_only_inputs, output):
    ctx.alpha = keyword_only_inputs["alpha"]


def backward(ctx, grad):
    """Give the gradients of the broadcast operands: autograd sums and casts them, as it does for `torch.add`."""
    to_self, to_other = ctx.needs_input_grad

    return grad if to_self else None, (grad if ctx.alpha == 1 else grad * ctx.alpha) if to_other else None


operator = of_file(
    "add(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor", globals(), nested=by_values("add", torch.add)
)


def _tensor_or_number(value):
    return value if isinstance(value, torch.Tensor) else readers.number(value)


@readers.by_annotations(input=_tensor_or_number, other=_tensor_or_number, alpha=readers.number)
def add(input, other, _other=None, *, alpha=1) -> torch.Tensor:
    """`input + alpha * other`, broadcast and promoted; either may be a Python number.

    The arguments and errors are those of `torch.add`, without `out`; so it takes the former order, `(input, alpha,
    other)`, too.
    """
    if _other is not None:
        if alpha != 1:
            refuse("add", torch.add, input, other, _other, alpha=alpha)
        other, alpha = _other, other
    are_tensors = type(input) in readers.PLAIN and type(other) in readers.PLAIN
    if not (are_tensors and isinstance(alpha, readers.NUMBERS)):
        if readers.are_overridden(input, other, takes_nested=True):
            return torch.add(input, other, alpha=alpha)
        input, other, alpha = readers.read("add", torch.add, input=input, other=other, alpha=alpha)
        if not isinstance(input, torch.Tensor):
            input = _as_tensor(input, other if isinstance(other, torch.Tensor) else torch.empty((), dtype=torch.bool))
        if not isinstance(other, torch.Tensor):
            other = _as_tensor(other, input)

    return operator(input, other, alpha=alpha)


def _as_tensor(number: Any, like: torch.Tensor) -> torch.Tensor:
    """Prepare a Python number that is added to `like`.

    It changes the type of `like` only to integer, floating point or complex, as it is one itself, and integers wrap.

    Beside halves it is a float32: a GPU adds it as it is, and it does not raise the type of tensors with dimensions.
    It stays on the host, which passes it along; in a graph it is on `like`'s device, as CUDA graphs read no other.
    """
    dtype, device = like.dtype, like.device if torch.compiler.is_compiling() else "cpu"
    if isinstance(number, complex):
        return torch.full((), number, dtype=torch.complex64, device=device)
    if dtype in (torch.float16, torch.bfloat16) and like.ndim:
        dtype = torch.float32
    if isinstance(number, (float, torch.SymFloat)):
        floating = dtype.is_floating_point or dtype.is_complex
        wide = torch.full((), number, dtype=torch.float64, device=device)
        return wide.to(dtype if floating else torch.get_default_dtype())
    if dtype is torch.bool and not isinstance(number, (bool, torch.SymBool)):
        dtype = torch.int64
    return torch.full((), number, dtype=torch.int64, device=device).to(dtype)
