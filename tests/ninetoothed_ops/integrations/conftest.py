"""Small random models of transformers, whose weights are large enough for every one of them to show in the logits."""

import pytest
import torch

from tests.conftest import DEVICE

SIZES = {
    "vocab_size": 97,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "max_position_embeddings": 128,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
OPTIONS = {
    "Llama": {"attention_bias": True, "mlp_bias": True},
    # Fewer than the tests' tokens.
    "Mistral": {"sliding_window": 5},
    "Qwen2": {},
    "Qwen3": {},
}


@pytest.fixture
def make():
    """make(name, implementation="sdpa", dtype=torch.float32, **config): a model for causal language modelling."""
    transformers = pytest.importorskip("transformers")

    def build(name, implementation="sdpa", dtype=torch.float32, **options):
        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(**{**SIZES, **OPTIONS.get(name, {}), **options})
        cls = getattr(transformers, f"{name}ForCausalLM")
        # A config made by hand is shared by all the models that are made of it. Gemma 2 has no "sdpa" any more.
        is_left = implementation == "sdpa" and not cls._supports_sdpa
        config._attn_implementation = "eager" if is_left else implementation
        model = cls(config)
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.normal_(std=0.3)
        return model.eval().to(DEVICE, dtype)

    return build


@pytest.fixture
def batch():
    """batch(rows, length): token ids and a mask; each row but the first is padded on the left by its number."""

    def draw(rows, length):
        generator = torch.Generator().manual_seed(rows * 1000 + length)
        tokens = torch.randint(1, SIZES["vocab_size"], (rows, length), generator=generator)
        mask = torch.arange(length)[None, :] >= torch.arange(rows)[:, None]
        return (tokens * mask).to(DEVICE), mask.long().to(DEVICE)

    return draw
