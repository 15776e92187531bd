"""The models that generate: random weights made on the device, or a folder's."""

import torch

# By name: transformers' configuration. The first has the shapes of DeepSeek-R1-Distill-Llama-8B.
SIZES = {
    "8b": {
        "hidden_size": 4096,
        "intermediate_size": 14336,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 131072,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    },
    # The shapes of Llama 3.2 1B, its embedding not tied.
    "1b": {
        "hidden_size": 2048,
        "intermediate_size": 8192,
        "num_hidden_layers": 16,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "vocab_size": 128256,
        "rms_norm_eps": 1e-5,
        "max_position_embeddings": 131072,
        "rope_parameters": {"rope_type": "default", "rope_theta": 500000.0},
    },
    "tiny": {
        "hidden_size": 64,
        "intermediate_size": 96,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 128,
    },
}
# The same as Llama 3.2 1B has it: one weight for the embedding and the head.
SIZES["1b-tied"] = {**SIZES["1b"], "tie_word_embeddings": True}


def build(size, device, dtype, **config):
    """Make a model of a size with random weights: nothing is read, and nothing is made on the host."""
    import transformers

    ids = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": None}
    config = transformers.LlamaConfig(**{"tie_word_embeddings": False, **SIZES[size], **config, **ids})
    with torch.device("meta"):
        model = transformers.LlamaForCausalLM(config).to(dtype)
    model = model.to_empty(device=device)
    if config.tie_word_embeddings:
        model.tie_weights()
    generator = torch.Generator(device).manual_seed(0)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name:
                parameter.fill_(1.0)
            else:
                parameter.normal_(0, 0.02, generator=generator)
    # Its buffers are computed when it is made.
    model.model.rotary_emb = type(model.model.rotary_emb)(config).to(device)
    return model.eval().requires_grad_(False)


def load(path, device, dtype):
    """Load the model of a folder; nothing is downloaded."""
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(path, local_files_only=True, dtype=dtype)
    model.generation_config.eos_token_id = None
    return model.eval().to(device).requires_grad_(False)


def bytes_of_a_step(model):
    """Count the bytes of the weights that a step reads: all but the embedding, of which it reads a few rows.

    The cache is left out: of 8B, 160 keys of two sequences are 0.3 % of this, 2080 are 3.6 %.
    """
    embedding = model.get_input_embeddings().weight
    is_tied = model.get_output_embeddings().weight is embedding
    weights = [p for p in model.parameters() if p is not embedding or is_tied]
    return sum(weight.numel() * weight.element_size() for weight in weights)
