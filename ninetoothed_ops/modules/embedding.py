"""`torch.nn.Embedding` on NineToothed's embedding, whose gradient is the same in each run."""

import torch
from torch import nn

from ..ops.embedding import embedding
from .eligibility import in_place_of
from .overrides import are_overridden
from .quantisation import PassedBy

# A patch of the class after a swap is seen by comparing.
FORWARD = nn.Embedding.forward


class NTEmbedding(PassedBy, nn.Embedding):
    """A `torch.nn.Embedding`; with `sparse=True`, and in compiled code, it is PyTorch's."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        is_theirs = self.sparse or torch.compiler.is_compiling() or nn.Embedding.forward is not FORWARD
        if is_theirs or are_overridden(input, weight):
            return nn.Embedding.forward(self, input)
        return embedding(input, weight, self.padding_idx, self.max_norm, self.norm_type, self.scale_grad_by_freq)


def replacement(module: nn.Module) -> type[nn.Module] | str | None:
    """`NTEmbedding` for a plain `torch.nn.Embedding`, a reason for what only looks like one, None for anything else."""
    verdict = in_place_of(module, nn.Embedding, NTEmbedding, "weight")
    if verdict is NTEmbedding and module.sparse:
        return "its gradients are sparse; the operator has none"
    return verdict
