"""Cross-entropies in PyTorch's operations, which have derivatives of every order, and gradients of their gradients."""

from collections.abc import Callable, Sequence

import torch

from .rows import wide


def numbers(label_smoothing, classes, softcap, z_loss) -> tuple[float, float, float, float]:
    """Return the numbers of which kernels compute: keep, spread, softcap and z_loss."""
    return 1.0 - label_smoothing, label_smoothing / max(classes, 1), 1.0 if softcap is None else float(softcap), z_loss


def losses_of(self, target, weight, ignore_index, label_smoothing, z_loss, softcap) -> torch.Tensor:
    """Write out the losses of rows in PyTorch's operations, which have derivatives of every order."""
    scores = self.to(wide(self)).movedim(min(1, self.ndim - 1), -1)
    classes = scores.shape[-1]
    scores = scores if softcap is None else softcap * torch.tanh(scores / softcap)
    weights = scores.new_ones(classes) if weight is None else weight.to(scores.dtype)
    keep, spread, *_ = numbers(label_smoothing, classes, softcap, z_loss)
    lse = scores.logsumexp(-1)
    if target.is_floating_point():
        shares = (keep * target.movedim(min(1, self.ndim - 1), -1).to(scores.dtype) + spread) * weights
        return shares.sum(-1) * lse - (shares * scores).sum(-1) + z_loss * lse * lse
    is_kept = target != ignore_index
    named = torch.where(is_kept, target, 0).long()
    own, total = keep * weights[named], spread * weights.sum()
    picked = own * scores.gather(-1, named[..., None])[..., 0] + spread * (scores * weights).sum(-1)

    return torch.where(is_kept, (own + total) * lse - picked + z_loss * lse * lse, 0)


def second_gradients(
    formula: Callable,
    tensors: Sequence[torch.Tensor | None],
    options: Sequence,
    grad: torch.Tensor,
    grads_of_grads: Sequence[torch.Tensor],
    needed: Sequence[bool],
) -> list:
    """Differentiate gradients of a formula of tensors: those of its first, as many as `needed` has, as that says.

    Gives the gradients of the gradient of the formula, and of all tensors that are of floating point, else None.
    """
    places = [i for i, each in enumerate(tensors) if each is not None and each.is_floating_point()]

    def gradients(grad, *values):
        given = list(tensors)
        for place, value in zip(places, values):
            given[place] = value
        wanted = [i for i, is_needed in enumerate(needed) if is_needed]

        def of_wanted(*values):
            for place, value in zip(wanted, values):
                given[place] = value
            return formula(*given, *options)

        return torch.func.vjp(of_wanted, *(given[i] for i in wanted))[1](grad)

    cotangents = tuple(each for each, is_needed in zip(grads_of_grads, needed) if is_needed)
    of_grad, *found = torch.func.vjp(gradients, grad, *(tensors[i] for i in places))[1](cotangents)
    of_tensors = dict(zip(places, found))

    return [of_grad, *(of_tensors.get(i) for i in range(len(tensors)))]
