"""The gated MLPs of transformers' models: gate and up are one product, activation and multiplication one launch."""

from typing import cast

import torch
from torch import nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from ninetoothed.runtime.private import has_global_hook, has_transforms, runs_forward_alone

from ..ops.functions import FUNCTIONS
from ..ops.gated_linear import operator as gated_linear
from ..ops.linear_swiglu import operator as linear_swiglu
from .activations import NTGELU, NTActivation, NTGELUTanh, NTQuickGELU, NTReLUSquared, NTSiLU, function_of
from .joint import JointModule, joint_parameters, project, weight_alone
from .overrides import are_overridden, are_recorded, leaves_to_compiler
from .substitute import Substitute, is_outdated, kind_of, own_forward

# Activations that tell their function, by the name that `ninetoothed.gated` knows.
ACTIVATIONS = (NTGELU, NTGELUTanh, NTQuickGELU, NTReLUSquared)
# A patch of a class after a swap is seen by comparing.
FORWARDS = tuple((cls, cls.forward) for cls in (nn.SiLU, nn.GELU, nn.ReLU))


class NTGatedMLP(Substitute, JointModule):
    """The MLP of Llama and others: `gate_proj` and `up_proj`, which are one product, `act_fn` and `down_proj`.

    Where `act_fn` is an NTSiLU, `ninetoothed.linear_swiglu` has it behind the product, of many rows in its epilogue;
    where gradients are recorded, `ninetoothed.swiglu` applies it and multiplies in one launch. Where it is another
    activation of NineToothed or a `torch.nn.ReLU`, `ninetoothed.gated` does.

    `swap_modules(model, join=True)` puts it there. `forward(x)`: `(..., hidden)` -> `(..., hidden)`,
    `down_proj(act_fn(gate_proj(x)) * up_proj(x))`.
    """

    siblings = ("gate_proj", "up_proj")
    act_fn: nn.Module
    down_proj: nn.Module

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if is_outdated(self):
            return own_forward(self)(self, x)
        weights = _weights_alone(self, x)
        if weights is not None:
            return self.down_proj(linear_swiglu(x, *weights))
        gate, up = project(self, x, NTGatedMLP.siblings)
        return second_half(self.down_proj, self.act_fn, gate, up)


class NTFusedGatedMLP(Substitute):
    """The MLP of Phi-3, GLM and others: `gate_up_proj`, `activation_fn` and `down_proj`.

    `swap_modules(model, join=True)` puts it there. `forward(hidden_states)`: `(..., hidden)` -> `(..., hidden)`,
    `down_proj(activation_fn(gate) * up)` of the halves of `gate_up_proj`'s output.
    """

    gate_up_proj: nn.Module
    activation_fn: nn.Module
    down_proj: nn.Module

    def forward(self, hidden_states: torch.Tensor) -> torch.Tensor:
        if is_outdated(self):
            return own_forward(self)(self, hidden_states)
        gate, up = self.gate_up_proj(hidden_states).chunk(2, dim=-1)
        return second_half(self.down_proj, self.activation_fn, gate, up)


def _weights_alone(mlp: NTGatedMLP, x: torch.Tensor) -> list[nn.Parameter] | None:
    """Give the weights of gate and up where these and SiLU are all there is, and nothing is kept for a gradient."""
    joined = None
    if _function_of(mlp.act_fn) == "silu":
        joined = joint_parameters(mlp, x, [getattr(mlp, name) for name in NTGatedMLP.siblings])
    if joined is None or joined[1] or are_recorded(x, *joined[0]):
        return None
    return joined[0]


def _function_of(activation: nn.Module) -> str | None:
    """Name the function that calling an activation computes, if it does no more."""
    for cls, forward in FORWARDS:
        if cls.forward is not forward:
            return None
    kind = kind_of(activation)
    # The class first: see `joint._are_plain`.
    if NTSiLU is kind:
        function: str | None = "silu"
    elif nn.ReLU is kind:
        function = "relu"
    else:
        is_ours = kind in ACTIVATIONS
        function = function_of(cast(NTActivation, activation)) if is_ours else None
    return function if function is not None and runs_forward_alone(activation) and not has_global_hook() else None


def second_half(down_proj: nn.Module, activation: nn.Module, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Compute `down_proj(activation(gate) * up)`; where a gradient of the weight is recorded, by gate and up alone."""
    function = _function_of(activation)
    weight = weight_alone(down_proj)
    if (
        function is not None
        and weight is not None
        and are_recorded(weight)
        and type(gate) is type(up) is torch.Tensor
        and gate.dtype == up.dtype
        and not are_overridden(gate, up, weight)
        and not has_transforms()
    ):
        if leaves_to_compiler(down_proj, weight):
            # Inductor would keep the product's operand, too.
            return checkpoint(_in_pytorch, gate, up, weight, function, use_reentrant=False)
        return gated_linear(gate, up, weight, function)
    return down_proj(gated(activation, gate, up))


def _in_pytorch(gate: torch.Tensor, up: torch.Tensor, weight: torch.Tensor, function: str) -> torch.Tensor:
    activated = functional.silu(gate) if function == "silu" else FUNCTIONS[function](gate)
    return functional.linear(activated * up, weight)


def gated(activation: nn.Module, gate: torch.Tensor, up: torch.Tensor) -> torch.Tensor:
    """Compute `activation(gate) * up`, in one launch where there is a kernel for it."""
    function = _function_of(activation)
    alike = type(gate) is type(up) is torch.Tensor and gate.dtype == up.dtype and gate.shape == up.shape
    if function is None or not alike or are_overridden(gate, up) or leaves_to_compiler(activation, gate, up):
        return activation(gate) * up
    if function == "silu":
        return torch.ops.ninetoothed.swiglu(gate, up)
    return torch.ops.ninetoothed.gated(gate, up, function)
