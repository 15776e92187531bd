"""Small random models of families whose attention is looked up by name, and what they call."""

import torch

from tests.ninetoothed_ops.integrations.calls import DEVICE
from tests.ninetoothed_ops.integrations.conftest import SIZES
from tests.ninetoothed_ops.recorder import Recorder

# Norms before and after, of one plus a weight; joint projections; rotation of pairs and of parts; parallel blocks;
# layers without rope; sliding windows, of fewer than the tests' tokens.
WINDOW = {"sliding_window": 5}
DECODERS = {
    "gemma": {},
    "gemma3_text": {**WINDOW, "layer_types": ["sliding_attention", "full_attention"], "query_pre_attn_scalar": 7},
    "phi3": WINDOW,
    "glm": {},
    "cohere2": {**WINDOW, "layer_types": ["sliding_attention", "full_attention"]},
    "stablelm": {},
    "gpt_neox": {},
    "gpt2": {},
}


def filled(model):
    """Draw weights that are large enough for every one of them to show."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3 if parameter.ndim > 1 else 0.05)
    return model.eval().to(DEVICE)


def decoder(family, implementation="sdpa", **options):
    """Make a family's model for causal language modelling."""
    import transformers

    torch.manual_seed(0)
    config = transformers.AutoConfig.for_model(
        family, **{**SIZES, "tie_word_embeddings": False, **DECODERS.get(family, {}), **options}
    )
    return filled(made(transformers.AutoModelForCausalLM, config, implementation))


def made(maker, config, implementation="sdpa"):
    """Make the model of a config; on "eager" where "sdpa" is asked for and the family has none, as some releases'."""
    cls = maker._model_mapping[type(config)]
    is_left = implementation == "sdpa" and not cls._supports_sdpa
    return maker.from_config(config, attn_implementation="eager" if is_left else implementation)


def attention_operators(call):
    """Count the calls of our attention and of PyTorch's."""
    with torch.no_grad(), Recorder() as recorder:
        call()
    ours = sum(name.startswith("ninetoothed::sdpa") for name in recorder.names)
    return ours, sum("scaled_dot_product" in name or name == "aten::_softmax" for name in recorder.counts.elements())


def gradients(model, tokens):
    """Take a training step's gradients, of all parameters in one row."""
    model.zero_grad()
    model(input_ids=tokens, labels=tokens).loss.backward()
    return torch.cat([each.grad.flatten() for each in model.parameters() if each.grad is not None])
