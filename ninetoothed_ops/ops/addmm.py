"""`addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor`, as `torch.addmm`."""

import functools

import torch

from ..kernels import addmm as kernels
from ..registration import of_file
from . import readers
from .checks import alike, can_hold, check_product, refuse
from .layout import same_shape
from .mm import operator as mm
from .operands import aligned, aligned_addend
from .product_gradients import operand_gradients, save_operands


def allocate(self, mat1, mat2, *, beta=1, alpha=1):
    fits = mat1.ndim == mat2.ndim == 2 and mat1.shape[1] == mat2.shape[0] and self.ndim <= 2
    if not (fits and alike(mat1, self, mat2) and all(_may_scale(factor, mat1.dtype) for factor in (beta, alpha))):
        refuse("addmm", torch.addmm, self, mat1, mat2, beta=beta, alpha=alpha)
    check_product("addmm", mat1)
    shape = (mat1.shape[0], mat2.shape[1])
    if not same_shape(self.shape, shape):
        self.expand(shape)  # Raises where it cannot.

    return mat1.new_empty(shape)


def _may_scale(factor, dtype: torch.dtype) -> bool:
    """Tell whether PyTorch takes a scale: a real number that the type in which `dtype` is computed can hold."""
    return not isinstance(factor, complex) and can_hold(torch.promote_types(dtype, torch.float32), factor)


def launch(output, self, mat1, mat2, *, beta=1, alpha=1):
    if beta == 0:
        # What is multiplied by 0 is ignored, NaN and infinity too.
        self = self.new_zeros(())
    if alpha == 0 or mat1.shape[1] == 0:
        # No product is added, not even one of infinity, or with it.
        mat1, mat2, alpha = mat1[:, :0], mat2[:0], 0
    if self.shape != output.shape:
        self = self.expand(output.shape)

    mat1, mat2 = aligned(mat1, mat2)
    self = aligned_addend(self, mat1.shape[1])
    kernels.make()(self, mat1, mat2, float(beta), float(alpha), output)


def setup_context(ctx, inputs, keyword_only_inputs, output):
    self, mat1, mat2 = inputs
    save_operands(ctx, mat1, mat2, position=1)
    ctx.shape, (ctx.beta, ctx.alpha) = self.shape, (keyword_only_inputs[name] for name in ("beta", "alpha"))


def backward(ctx, grad):
    product = mm if ctx.alpha == 1 else functools.partial(_scaled, alpha=ctx.alpha)
    of_mat1, of_mat2 = operand_gradients(ctx, grad, product)
    if not ctx.needs_input_grad[0]:
        return None, of_mat1, of_mat2
    of_self = grad.sum_to_size(ctx.shape)

    return of_self if ctx.beta == 1 else of_self * ctx.beta, of_mat1, of_mat2


def _scaled(lhs, rhs, alpha):
    """A product times `alpha`, rounded once; 0 times NaN is NaN here, where `addmm` leaves out what it scales by 0."""
    if alpha == 0:
        return mm(lhs, rhs) * alpha
    return operator(lhs.new_empty(()), lhs, rhs, beta=0, alpha=alpha)


operator = of_file(
    "addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    globals(),
    autocast=torch.get_autocast_dtype,
)


@readers.by_annotations(beta=readers.number, alpha=readers.number)
def addmm(
    input: torch.Tensor, mat1: torch.Tensor, mat2: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`, `input` broadcast; with `beta` 0 it is ignored.

    The arguments and errors are those of `torch.addmm`, without `out`.
    """
    plain = readers.PLAIN
    are_tensors = type(input) in plain and type(mat1) in plain and type(mat2) in plain
    if not (are_tensors and isinstance(beta, readers.NUMBERS) and isinstance(alpha, readers.NUMBERS)):
        if readers.are_overridden(input, mat1, mat2):
            return torch.addmm(input, mat1, mat2, beta=beta, alpha=alpha)
        input, mat1, mat2, beta, alpha = readers.read("addmm", torch.addmm, input, mat1, mat2, beta, alpha)

    return operator(input, mat1, mat2, beta=beta, alpha=alpha)
