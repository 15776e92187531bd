"""The activations of transformers that compute what NineToothed's activations compute, by what a config names them.

They are a single file of classes, each of them its own: none is a copy of another. Those that are one launch in PyTorch
already stay as they are, as PyTorch's own do: a swap would cost host time and save none on a GPU. Only in a gated MLP,
which applies them and multiplies in one launch, are they swapped.
"""

from functools import partial

from torch import nn
from torch.nn import functional

from ..modules.activations import NTGELU, NTGELUTanh, NTQuickGELU, NTReLUSquared, NTSiLU, replacement_in_mlp
from ..modules.eligibility import unsuitable
from .names import module as module_of
from .recognition import SUBCLASS, methods

activations = module_of("transformers.activations")

ACTIVATIONS: dict[str, type[nn.Module]] = {
    "SiLUActivation": NTSiLU,
    "GELUActivation": NTGELU,
    "GELUTanh": NTGELUTanh,
    "NewGELUActivation": NTGELUTanh,
    "FastGELUActivation": NTGELUTanh,
    "AccurateGELUActivation": NTGELUTanh,
    "QuickGELUActivation": NTQuickGELU,
    "ReLUSquaredActivation": NTReLUSquared,
}


def activation(module: nn.Module) -> type[nn.Module] | str | None:
    """Choose an activation of NineToothed for one of transformers' that takes several launches, or is SiLU."""
    return None if _is_one_launch(module) else _of_transformers(module)


def activation_in_mlp(module: nn.Module) -> type[nn.Module] | str | None:
    """Choose an activation of NineToothed for one of transformers' or PyTorch's, in a gated MLP."""
    return _of_transformers(module) or replacement_in_mlp(module)


def _is_one_launch(module: nn.Module) -> bool:
    act = vars(module).get("act")
    return act is functional.gelu or (isinstance(act, partial) and act.func is functional.gelu)


def _of_transformers(module: nn.Module) -> type[nn.Module] | str | None:
    """Choose an activation of NineToothed for one of transformers'; None for any other module."""
    cls = type(module)
    found = ACTIVATIONS.get(cls.__name__)
    if found is None or getattr(activations, cls.__name__, None) is not cls:
        return None
    if cls.__bases__ != (nn.Module,):
        return SUBCLASS
    files = {getattr(getattr(each, "__code__", None), "co_filename", None) for each in methods(cls).values()}
    if files != {activations.__file__}:
        return "a method of its class was patched"
    return unsuitable(module) or (found if _applies_its_own(module) else "it applies a function of its instance")


def _applies_its_own(module: nn.Module) -> bool:
    """Tell whether an activation that holds its function as `act` holds the one that its class stands for."""
    act = vars(module).get("act")
    if isinstance(act, partial):
        return act.func is functional.gelu and (act.args, act.keywords) == ((), {"approximate": "tanh"})
    bound = getattr(act, "__func__", None)
    return act is None or act is functional.gelu or bound in methods(type(module)).values()
