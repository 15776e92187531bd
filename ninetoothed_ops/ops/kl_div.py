"""`kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor`, as `torch.kl_div`.

And `kl_div_backward`, its gradients. Those of gradients are written out in PyTorch's own operations.
"""

import torch
from torch.nn import functional

from ..kernels import kl_div as kernels, kl_div_backward as gradient_kernels
from ..kernels.cross_entropy import chunk_of
from ..registration import of_file
from . import readers
from .checks import alike, refuse
from .cross_entropy import REDUCTIONS
from .dtensors import is_dtensor
from .layout import coalesce, empty_elementwise, same_shape
from .rows import empty_where, wide
from .written_losses import second_gradients

_NONE, _MEAN, _SUM = REDUCTIONS.values()
# Besides those of all losses, the sum by the size of the first dimension.
NAMES = (*REDUCTIONS, "batchmean")


def allocate(self, target, reduction=_MEAN, *, log_target=False):
    fits = alike(self, target) and same_shape(self.shape, target.shape)
    if not (fits and reduction in REDUCTIONS.values()):
        refuse("kl_div", torch.kl_div, self, target, reduction, log_target=log_target)
    if reduction != _NONE:
        return self.new_empty(())

    return empty_elementwise((self, target), self.shape, self.dtype, self.device)


def launch(output, self, target, reduction=_MEAN, *, log_target=False):
    if reduction == _NONE:
        self, target, output = coalesce((self, target, output))
        kernels.make(output.ndim)(self, target, output, log_target)
        return
    if self.numel() == 0:
        output.fill_(float("nan") if reduction == _MEAN else 0.0)
        return
    columns = self.shape[-1] if self.ndim else 1
    losses = self.new_empty(self.numel() // columns, dtype=wide(self))
    kernel = kernels.make_of_rows(chunk_of(columns))
    kernel(self.reshape(-1, columns), target.reshape(-1, columns), losses, log_target)
    output.copy_(losses.sum() / (self.numel() if reduction == _MEAN else 1))


def setup_context(ctx, inputs, output, keyword_only_inputs):
    self, target, reduction = inputs
    ctx.options = reduction, keyword_only_inputs["log_target"]
    # The gradient of the input does not depend on it.
    ctx.save_for_backward(self if ctx.needs_input_grad[1] else target, target)


def backward(ctx, grad):
    *needed, _ = ctx.needs_input_grad
    found = gradient(grad, *ctx.saved_tensors, *ctx.options, needed)

    return *(each if is_needed else None for each, is_needed in zip(found, needed)), None


def allocate_gradient(grad, self, target, reduction, log_target, needed):
    fits = alike(self, grad, target) and same_shape(self.shape, target.shape)
    if not (fits and same_shape(grad.shape, self.shape if reduction == _NONE else ())):
        raise RuntimeError(
            f"ninetoothed::kl_div_backward expects a grad like the loss of {list(self.shape)} {self.dtype} and a "
            f"target like it, but got {list(grad.shape)} {grad.dtype} and {list(target.shape)} {target.dtype}"
        )

    return empty_where(needed, self, target)


def launch_gradient(outputs, grad, self, target, reduction, log_target, needed):
    found = [output if is_needed else self for output, is_needed in zip(outputs, needed)]
    grad, self, target, *found = coalesce((grad.expand(self.shape), self, target, *found))
    scale = 1 / max(self.numel(), 1) if reduction == _MEAN else 1.0
    gradient_kernels.make(self.ndim)(grad, self, target, scale, *found, log_target, *needed)


def setup_context_gradient(ctx, inputs, output):
    *tensors, reduction, log_target, ctx.needed = inputs
    ctx.options = reduction, log_target
    ctx.save_for_backward(*tensors)


def backward_gradient(ctx, *grads):
    grad, *tensors = ctx.saved_tensors
    found = second_gradients(_written_out, tensors, ctx.options, grad, grads, ctx.needed)

    return *found, None, None, None


def _written_out(self, target, reduction, log_target) -> torch.Tensor:
    self, mass = self.to(wide(self)), target.to(wide(target))
    losses = mass.exp() * (mass - self) if log_target else torch.xlogy(mass, mass) - mass * self
    reduced = losses if reduction == _NONE else losses.sum() if reduction == _SUM else losses.mean()

    return reduced.to(target.dtype)


operator = of_file(
    "kl_div(Tensor self, Tensor target, int reduction=1, *, bool log_target=False) -> Tensor",
    globals(),
    autocast={"cuda": torch.float32, "cpu": torch.float32}.get,
)
gradient = of_file(
    "kl_div_backward(Tensor grad, Tensor self, Tensor target, int reduction, bool log_target, bool[2] needed) "
    "-> (Tensor, Tensor)",
    globals(),
    "_gradient",
    autocast=None,
)


@readers.by_annotations()
def kl_div(
    input: torch.Tensor,
    target: torch.Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> torch.Tensor:
    """`target * (log(target) - input)`, reduced: inputs are logarithms, and with `log_target` targets are, too.

    The arguments and errors are those of `torch.nn.functional.kl_div`.
    """
    if size_average is not None or reduce is not None:
        reduction = "none" if reduce is False else "sum" if size_average is False else "mean"
    are_plain = type(input) in readers.PLAIN and type(target) in readers.PLAIN
    if not (are_plain and reduction in NAMES and type(log_target) is bool):
        if readers.are_overridden(input, target) or reduction not in NAMES:  # which raises
            return functional.kl_div(input, target, reduction=reduction, log_target=log_target)
        given = {"input": input, "target": target, "log_target": log_target}
        input, target, log_target = readers.read("kl_div", functional.kl_div, **given)
    batch = input.shape[0] if input.ndim else 1
    if input.shape != target.shape:
        input, target = torch.broadcast_tensors(input, target)
    if input.dtype is not target.dtype:
        dtype = torch.promote_types(input.dtype, target.dtype)
        input, target = input.to(dtype), target.to(dtype)
    if reduction == "batchmean":
        return operator(input, target, _SUM, log_target=log_target) / batch
    if reduction == "mean" and is_dtensor(input):
        # Sums of parts can be added up; a part does not know of how many numbers the mean is.
        return operator(input, target, _SUM, log_target=log_target) / input.numel()

    return operator(input, target, REDUCTIONS[reduction], log_target=log_target)
