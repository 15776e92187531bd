"""The norms of transformers that compute what NineToothed's norms compute.

Each family has a file, and a norm in it: a copy of one of the classes below, which differ in where they round, in the
factor that they make of their weight, and in the names of what they hold.
"""

from torch import nn

from ..modules.eligibility import unsuitable
from ..modules.layer_norm import NTChannelsLayerNorm, NTDebertaLayerNorm, NTRoundedLayerNorm, NTUnitOffsetLayerNorm
from ..modules.rms_norm import NTRMSNorm, NTRoundedRMSNorm, NTT5RMSNorm, NTUnitOffsetRMSNorm, NTUnroundedRMSNorm
from .recognition import SUBCLASS, computes_like, methods, undecorated

# The classes of which others are copies, each by its file, and what is put in the place of a copy.
NORMS: dict[str, type[nn.Module]] = {
    "llama.modeling_llama.LlamaRMSNorm": NTRMSNorm,
    "llama4.modeling_llama4.Llama4TextRMSNorm": NTRMSNorm,
    "gemma.modeling_gemma.GemmaRMSNorm": NTUnitOffsetRMSNorm,
    "olmo2.modeling_olmo2.Olmo2RMSNorm": NTRoundedRMSNorm,
    "helium.modeling_helium.HeliumRMSNorm": NTRoundedRMSNorm,
    "moshi.modeling_moshi.MoshiRMSNorm": NTRoundedRMSNorm,
    "gemma3n.modeling_gemma3n.Gemma3nRMSNorm": NTRoundedRMSNorm,
    "llama4.modeling_llama4.Llama4TextL2Norm": NTRoundedRMSNorm,
    "deepseek_v4.modeling_deepseek_v4.DeepseekV4UnweightedRMSNorm": NTRoundedRMSNorm,
    "imagegpt.modeling_imagegpt.ImageGPTLayerNorm": NTUnroundedRMSNorm,
    "t5.modeling_t5.T5LayerNorm": NTT5RMSNorm,
    "cohere.modeling_cohere.CohereLayerNorm": NTRoundedLayerNorm,
    "olmo.modeling_olmo.OlmoLayerNorm": NTRoundedLayerNorm,
    "deberta.modeling_deberta.DebertaLayerNorm": NTDebertaLayerNorm,
    "nemotron.modeling_nemotron.NemotronLayerNorm1P": NTUnitOffsetLayerNorm,
    "videoprism.modeling_videoprism.VideoPrismLayerNorm": NTUnitOffsetLayerNorm,
    "convnext.modeling_convnext.ConvNextLayerNorm": NTChannelsLayerNorm,
}
# The names by which norms hold what they add to the mean of squares, or to the variance.
EPS = ("variance_epsilon", "eps")
UNKNOWN = "its code is not that of a norm that NineToothed knows"


def norm(module: nn.Module) -> type[nn.Module] | str | None:
    """Choose a norm of NineToothed for a copy of a norm that is known; None for what is no norm by its name."""
    cls = type(module)
    if cls.__module__.startswith("torch.") or not any("Norm" in each.__name__ for each in cls.__mro__):
        return None
    found = next((new for path, new in NORMS.items() if computes_like(cls, path)), None)
    if found is not None:
        return _unsuitable(module) or found
    if isinstance(module, (nn.RMSNorm, nn.LayerNorm)) or not any("RMSNorm" in each.__name__ for each in cls.__mro__):
        return None
    return UNKNOWN if cls.__bases__ == (nn.Module,) else SUBCLASS


def _unsuitable(module: nn.Module) -> str | None:
    """Give the reason why a norm that is known cannot be swapped as it stands; None if it can."""
    names = [name for name in ("weight", "bias") if hasattr(module, name)]
    # Early versions of Gemma 3n's have a buffer of one number in place of a weight.
    buffers = {name: each.ndim for name, each in module.named_buffers(recurse=False)}
    read = [name for name in names if buffers.get(name) != 0]
    buffer = next((name for name in read if name in buffers), None)
    reason = f"its {buffer} is a buffer" if buffer else unsuitable(module, *read) or _without_eps(module)
    if reason:
        return reason
    parameters = (module._parameters[name] for name in read)
    is_flat = all(each is None or each.ndim <= 1 for each in parameters)
    return None if is_flat else "its weight has several dimensions"


def _without_eps(module: nn.Module) -> str | None:
    """Give the reason to leave alone a norm that reads an eps from elsewhere than itself, as from its class."""
    codes = (getattr(undecorated(each), "__code__", None) for each in methods(type(module)).values())
    named = {name for code in codes if code is not None for name in code.co_names}
    missing = named.intersection(EPS) - vars(module).keys()
    return f"its {missing.pop()} is no attribute of the instance" if missing else None
