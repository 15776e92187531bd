"""`addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor`, as `torch.addmm`."""

import torch

from ..kernels import addmm as kernels
from ..registration import register
from . import readers
from .checks import alike, can_hold, check_product, refuse
from .layout import same_shape
from .operands import aligned, aligned_addend


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


operator = register(
    "ninetoothed::addmm(Tensor self, Tensor mat1, Tensor mat2, *, Scalar beta=1, Scalar alpha=1) -> Tensor",
    allocate,
    launch,
    replay=True,
    autocast=torch.get_autocast_dtype,
)

_READERS = {
    **dict.fromkeys(("input", "mat1", "mat2"), readers.tensor),
    **dict.fromkeys(("beta", "alpha"), readers.number),
}


def addmm(
    input: torch.Tensor, mat1: torch.Tensor, mat2: torch.Tensor, *, beta: float = 1, alpha: float = 1
) -> torch.Tensor:
    """`beta * input + alpha * (mat1 @ mat2)`, `input` broadcast; with `beta` 0 it is ignored.

    The arguments and errors are those of `torch.addmm`, without `out`.
    """
    are_tensors = isinstance(input, torch.Tensor) and isinstance(mat1, torch.Tensor) and isinstance(mat2, torch.Tensor)
    if not (are_tensors and isinstance(beta, readers.NUMBERS) and isinstance(alpha, readers.NUMBERS)):
        input, mat1, mat2, beta, alpha = readers.read("addmm", torch.addmm, _READERS, input, mat1, mat2, beta, alpha)

    return operator(input, mat1, mat2, beta=beta, alpha=alpha)
