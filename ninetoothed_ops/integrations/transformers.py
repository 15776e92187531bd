"""The modules of transformers that compute what NineToothed's modules compute.

transformers has a copy of Llama's norm in more than a hundred files, and of four models' attention in dozens. A copy is
recognised by its code: the compiled methods of a norm must equal those of one that is known (norms.py), and the
`forward` of attention, with the attention function that it calls, that of Llama, Mistral, Qwen2 or Qwen3. So soft caps
and attention sinks are left alone, and so is a class that another library has patched. Rotary embeddings are recognised
by what they compute (rotary_trial.py).
"""

import functools
import importlib
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from torch import nn

from ninetoothed.errors import UnsupportedError

from ..modules import causal_lm
from ..modules.attention import IMPLEMENTATIONS, OTHERS, REGISTRY, ROTARY, NTAttention, projects
from ..modules.decoder_layer import NTDecoderLayer
from ..modules.eligibility import unsuitable, unsupported
from ..modules.gated_mlp import NTFusedGatedMLP, NTGatedMLP
from ..modules.linear import NTConv1D
from ..modules.rms_norm import NTRMSNorm
from ..modules.rotary_module import NTRotary, rotates
from ..modules.rotary_trial import recognised
from ..modules.substitute import substitute
from . import attention_interface
from .activations import activation, activation_in_mlp
from .names import CACHES, has_steps, module as module_of
from .norms import norm
from .recognition import MODELS, SUBCLASS, looks_up, names_of, same, undecorated

__all__ = ["attributes", "rules"]

LLAMA = "llama.modeling_llama"
# Attention whose forward calls q_norm and k_norm on each head, and attention that has none.
BARE = (f"{LLAMA}.LlamaAttention", "mistral.modeling_mistral.MistralAttention", "qwen2.modeling_qwen2.Qwen2Attention")
NORMED = ("qwen3.modeling_qwen3.Qwen3Attention",)
LAYER = f"{LLAMA}.LlamaDecoderLayer"
REGISTRATION = "ninetoothed_ops.register_attention()"
EAGER_ALONE = "it takes the eager function of its own file, whatever attn_implementation names"
PARAMETERS = ("hidden_states", "position_embeddings", "attention_mask")


def attention(module: nn.Module) -> type[nn.Module] | tuple[type[nn.Module], str] | str | None:
    """Choose NTAttention for the attention of Llama, Mistral, Qwen2 and Qwen3, and its copies."""
    if not projects(module):
        return None
    unlike = _unlike(module)
    if unlike:
        verdict, reason = rotary(module), _by_name(module, unlike)
        return (verdict[0], reason) if isinstance(verdict, tuple) else reason
    return unsuitable(module) or _unready(module) or NTAttention


def rotary(module: nn.Module) -> tuple[type[nn.Module], str] | str | None:
    """Choose NTRotary for a module whose forward rotates by a function that computes what `rope` does."""
    if not rotates(type(module)):
        return None
    reason = unsuitable(module)
    if reason:
        return reason
    try:
        substitute(NTRotary, type(module))
        return NTRotary, _by_name(module, "its attention is of no known kind")
    except UnsupportedError as error:
        return str(error)


def attention_by_name(module: nn.Module) -> str | None:
    """Tell of any other attention that knows the registry of attention functions how it runs here."""
    if _looks_up(module):
        return _by_name(module, "its attention is of no known kind")
    return EAGER_ALONE if REGISTRY in names_of(vars(type(module)).get("forward")) else None


def conv1d(module: nn.Module) -> type[nn.Module] | str | None:
    """Choose NTConv1D for the linear layer of GPT-2, whose weight is (in, out)."""
    file, cls = module_of("transformers.pytorch_utils"), type(module)
    known = getattr(file, "Conv1D", None)
    if known is None or not isinstance(module, known):
        return None
    if cls is not known:
        return SUBCLASS
    code = getattr(cls.forward, "__code__", None)
    if code is None or code.co_filename != file.__file__ or "addmm" not in code.co_names:
        return "its forward is not that of transformers' Conv1D"
    return unsuitable(module, "weight", "bias") or NTConv1D


RULES = (norm, activation, conv1d, attention, rotary, attention_by_name)


def _looks_up(module: nn.Module) -> bool:
    return looks_up(vars(type(module)).get("forward"), REGISTRY)


def _by_name(module: nn.Module, reason: str) -> str:
    """Add to the reason why attention is left alone that its scores run on `sdpa` by name, if they can."""
    if not _looks_up(module):
        return reason
    name = attention_interface.NAME
    runs = getattr(getattr(module, "config", None), "_attn_implementation", None) == name
    how = f'on ninetoothed.sdpa by attn_implementation="{name}"'
    return f"{reason}; it runs {how}" if runs else f"{reason}; it would run {how} after {REGISTRATION}"


def gated_mlp(module: nn.Module) -> type[nn.Module] | str | None:
    """Choose NTGatedMLP for the MLP of Llama and its copies, whatever their activation."""
    if not all(isinstance(getattr(module, name, None), nn.Module) for name in ("gate_proj", "up_proj", "down_proj")):
        return None
    if not same(vars(type(module)).get("forward"), f"{LLAMA}.LlamaMLP"):
        return "its forward is not that of LlamaMLP"
    return unsuitable(module) or NTGatedMLP


def fused_gated_mlp(module: nn.Module) -> type[nn.Module] | str | None:
    """Choose NTFusedGatedMLP for the MLP of Phi-3 and its copies, whatever their activation."""
    if not same(vars(type(module)).get("forward"), "phi3.modeling_phi3.Phi3MLP"):
        return None
    return unsuitable(module) or NTFusedGatedMLP


def decoder_layer(module: nn.Module) -> type[nn.Module] | str | None:
    """Choose NTDecoderLayer for the decoder layer of Llama and its copies, if its norms are or become NTRMSNorms."""
    parts = ("input_layernorm", "self_attn", "post_attention_layernorm", "mlp")
    if not all(isinstance(getattr(module, name, None), nn.Module) for name in parts):
        return None
    if not (same(vars(type(module)).get("forward"), LAYER) and _adds_what_its_parts_give()):
        return "its forward is not that of LlamaDecoderLayer"
    behind: nn.Module = module.post_attention_layernorm  # type: ignore[assignment]
    if not isinstance(behind, NTRMSNorm) and norm(behind) is not NTRMSNorm:
        return "its norms stay their own"
    return unsuitable(module) or NTDecoderLayer


def rules(model: nn.Module, join: bool, loss: bool) -> tuple[Callable[[nn.Module], Any], ...]:
    """Collect the rules for a model: with `join`, those for MLPs with their activations and for layers, too.

    With `loss`, that for models whose loss needs no logits.
    """
    return (*RULES, *(_joined(model) if join else ()), *((causal_lm.replacement,) if loss else ()))


def _joined(model: nn.Module) -> tuple[Callable[[nn.Module], type[nn.Module] | str | None], ...]:
    verdicts = ((module, gated_mlp(module) or fused_gated_mlp(module)) for module in model.modules())
    parts = {id(part) for module, verdict in verdicts if isinstance(verdict, type) for part in module.children()}

    def inner(module: nn.Module) -> type[nn.Module] | str | None:
        return activation_in_mlp(module) if id(module) in parts else None

    return inner, gated_mlp, fused_gated_mlp, decoder_layer


def attributes(model: nn.Module) -> Iterable[tuple[nn.Module, str, Callable]]:
    """Find what makes and runs the steps of `generate`, where transformers has what they stand on."""
    if not has_steps():
        return ()
    from . import step_graphs

    return step_graphs.attributes(model)


class _Term(tuple):
    """The name of an operation and its operands, by which a layer's forward shows what it computes."""

    def __new__(cls, *parts: Any) -> "_Term":
        return super().__new__(cls, parts)

    def __add__(self, other: Any) -> "_Term":
        return _Term("add", self, other)


@functools.cache
def _adds_what_its_parts_give() -> bool:
    """Run the forward of LlamaDecoderLayer on terms: versions of transformers differ in what it passes and returns."""
    cls = getattr(importlib.import_module(f"{MODELS}.{LLAMA}"), "LlamaDecoderLayer", None)
    if cls is None:
        return False
    given = {name: _Term(name) for name in (*substitute(NTDecoderLayer, cls).passed, "another")}

    def attend(**kwargs: Any) -> tuple[_Term, _Term]:
        if kwargs.keys() != {"hidden_states", *given} or any(kwargs[name] is not given[name] for name in given):
            raise TypeError("its attention is called with something else")
        return _Term("self_attn", kwargs["hidden_states"]), _Term("weights")

    parts = {name: functools.partial(_Term, name) for name in ("input_layernorm", "post_attention_layernorm", "mlp")}
    input = _Term("hidden_states")
    try:
        found = undecorated(cls.forward)(SimpleNamespace(**parts, self_attn=attend), input, **given)
    except Exception:  # whatever it asks for that these terms have not
        return False
    total = _Term("add", input, _Term("self_attn", _Term("input_layernorm", input)))
    return type(found) is _Term and found == _Term("add", total, _Term("mlp", _Term("post_attention_layernorm", total)))


def _unlike(module: nn.Module) -> str | None:
    """Give the reason why the module computes something else than the attention of the four models."""
    cls, config = type(module), getattr(module, "config", None)
    if getattr(module, "attn_logit_softcapping", None) or getattr(config, "attn_logit_softcapping", None):
        return "it soft-caps its attention logits"
    forward = vars(cls).get("forward")
    if forward is None:
        return SUBCLASS
    paths = NORMED if hasattr(module, "q_norm") or hasattr(module, "k_norm") else BARE
    is_alike = same(forward, *paths)
    named = undecorated(forward).__code__.co_varnames if is_alike else ()
    if not set(PARAMETERS) <= set(named) or set(CACHES).isdisjoint(named):
        return "its forward is not that of Llama's, Mistral's, Qwen2's or Qwen3's attention"
    names = undecorated(forward).__globals__
    for name in OTHERS:
        if not same(names.get(name), f"{LLAMA}.{name}"):
            return f"its {name} is not that of Llama"
    found = recognised(names, ROTARY)
    if isinstance(found, str):
        return found
    return None if found.is_llamas else f"its {ROTARY} takes other arguments than that of Llama"


def _unready(module: Any) -> str | None:
    """Give the reason why an attention that is known cannot be swapped as it stands."""
    implementation = module.config._attn_implementation
    if implementation not in IMPLEMENTATIONS:
        return (
            f"the model's attention implementation is {implementation!r}: model.set_attn_implementation('sdpa') first"
        )
    if not _is_own(undecorated(type(module).forward).__globals__[REGISTRY].get(implementation)):
        return f"another function is registered for the attention implementation {implementation!r}"
    # Of other projections (quantised, LoRA) the weight does not tell in which type they compute.
    plain = isinstance(module.q_proj, nn.Linear) and type(module.q_proj.weight) is nn.Parameter
    return unsupported(module.q_proj.weight, "q_proj's weight") if plain else None


def _is_own(registered: Callable | None) -> bool:
    """Tell whether an attention function is transformers' or ours; for "eager", in the model's file, there is none."""
    own = vars(module_of("transformers.integrations.sdpa_attention")), vars(attention_interface)
    return registered is None or any(getattr(registered, "__globals__", None) is each for each in own)
