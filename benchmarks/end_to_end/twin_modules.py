"""A Llama on the Triton kernels of benchmarks/twins: its modules as someone would write them who writes no compiler."""

from typing import Any

import torch
from torch import nn


class TwinLinear(nn.Linear):
    """A linear layer by the twins of mm and addmm."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        from benchmarks.twins import launch

        rows, weight = input.reshape(-1, self.in_features), self.weight.t()
        output = launch.mm(rows, weight) if self.bias is None else launch.addmm(self.bias, rows, weight)
        return output.view(*input.shape[:-1], self.out_features)


class TwinRMSNorm(nn.Module):
    """Llama's norm by the twin of rms_norm."""

    weight: torch.Tensor
    variance_epsilon: float

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        from benchmarks.twins import launch

        return launch.rms_norm(input, self.weight.shape, self.weight, self.variance_epsilon)


class TwinSiLU(nn.Module):
    """SiLU by its twin."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        from benchmarks.twins import launch

        return launch.silu(input)


class AddedMask:
    """The last mask of truth values as one of numbers, which the twin adds: made once a step, for all layers."""

    def __init__(self) -> None:
        self.mask: torch.Tensor | None = None
        self.numbers: torch.Tensor | None = None

    def of(self, mask: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
        if mask is None or mask.dtype != torch.bool:
            return mask
        if mask is not self.mask:
            zeros = torch.zeros(mask.shape, dtype=dtype, device=mask.device)
            self.mask, self.numbers = mask, zeros.masked_fill(~mask, float("-inf"))
        return self.numbers


class TwinAttention(nn.Module):
    """Llama's attention by the twins of rope and sdpa; its projections are modules of their own."""

    config: Any
    layer_idx: int
    head_dim: int
    scaling: float
    added_mask: AddedMask

    def forward(self, hidden_states, position_embeddings, attention_mask=None, past_key_values=None, **_):
        from benchmarks.twins import launch

        shape = (*hidden_states.shape[:-1], -1, self.head_dim)
        projections = (self.q_proj, self.k_proj, self.v_proj)
        query, key, value = (project(hidden_states).view(shape) for project in projections)
        cos, sin = position_embeddings
        query, key = (launch.rope(states, sin, cos, False).transpose(1, 2) for states in (query, key))
        value = value.transpose(1, 2)
        if past_key_values is not None:
            key, value = past_key_values.update(key, value, self.layer_idx)
        mask = self.added_mask.of(attention_mask, query.dtype)
        # The model makes no mask where plain causality is meant, of a token that sees all.
        is_causal = mask is None and query.shape[2] > 1
        output = launch.sdpa(query, key, value, mask, 0.0, is_causal, scale=self.scaling, enable_gqa=True)
        return self.o_proj(output.transpose(1, 2).reshape(*hidden_states.shape[:-1], -1)), None


class Swapped:
    """Modules whose classes were exchanged, and the classes that they had."""

    def __init__(self, modules: list[tuple[nn.Module, type[nn.Module]]]) -> None:
        self.modules = modules

    def undo(self) -> None:
        for module, cls in self.modules:
            module.__class__ = cls
            vars(module).pop("added_mask", None)


def swap_modules(model: nn.Module) -> Swapped:
    """Let a Llama of transformers run on the twins; `undo` takes it back."""
    from transformers.activations import SiLUActivation
    from transformers.models.llama import modeling_llama

    twins = {
        nn.Linear: TwinLinear,
        modeling_llama.LlamaRMSNorm: TwinRMSNorm,
        SiLUActivation: TwinSiLU,
        modeling_llama.LlamaAttention: TwinAttention,
    }
    mask = AddedMask()
    swapped = Swapped([(module, type(module)) for module in model.modules() if type(module) in twins])
    for module, cls in swapped.modules:
        module.__class__ = twins[cls]
        if cls is modeling_llama.LlamaAttention:
            vars(module)["added_mask"] = mask
    return swapped
