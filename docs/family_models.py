"""Make a model of each family of transformers without weights, and call it without data, on the meta device."""

import contextlib
import copy
import functools
from collections.abc import Iterator
from typing import Any

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.initialization import no_init_weights
from transformers.models.auto import modeling_auto
from transformers.models.auto.configuration_auto import CONFIG_MAPPING_NAMES

from docs.family_small import SMALL

DEPTH = 4
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "depth")
# As many random numbers as all weights are views of.
COUNT = 1 << 23
RANDOM = ("normal_", "uniform_", "erfinv_", "mul_", "add_", "clamp_")
# By how their names end, the most that sizes are left to be.
EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "num_routed_experts", "zero_expert_num")
MOST = {
    EXPERTS: 16,
    ("chunk_size",): 16,
    ("num_queries",): 20,
    ("intermediate_size", "ffn_dim", "d_ff", "inner_dim"): 256,
    ("max_source_positions",): 64,
}
# How a family's model is made: as the first of these that there is. What is in none of them is a part of a family.
MAKERS = {
    "AutoModel": modeling_auto.MODEL_MAPPING_NAMES,
    "AutoModelForCausalLM": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "AutoModelForImageTextToText": modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    "AutoModelForSeq2SeqLM": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    "AutoModelForSpeechSeq2Seq": modeling_auto.MODEL_FOR_SPEECH_SEQ_2_SEQ_MAPPING_NAMES,
    "AutoModelForUniversalSegmentation": modeling_auto.MODEL_FOR_UNIVERSAL_SEGMENTATION_MAPPING_NAMES,
    "AutoModelForObjectDetection": modeling_auto.MODEL_FOR_OBJECT_DETECTION_MAPPING_NAMES,
    "AutoModelForDepthEstimation": modeling_auto.MODEL_FOR_DEPTH_ESTIMATION_MAPPING_NAMES,
    "AutoModelForMultimodalLM": modeling_auto.MODEL_FOR_MULTIMODAL_LM_MAPPING_NAMES,
    "AutoBackbone": modeling_auto.MODEL_FOR_BACKBONE_MAPPING_NAMES,
}
# Families that no maker makes of their configuration.
CLASSES = {
    "evolla": "EvollaModel",
    "funnel": "FunnelModel",
    "musicgen": "MusicgenForConditionalGeneration",
    "musicgen_melody": "MusicgenMelodyForConditionalGeneration",
}
DECODER = {"model_type": "bert", "is_decoder": True, "add_cross_attention": True}
HEAD = {"head_dim": 128}
ROPE = dict.fromkeys(("full_attention", "sliding_attention"), {"rope_type": "default", "rope_theta": 10000.0})
# Sections of a head of 128 numbers, of which half is rotated, or all.
MROPE = {
    **HEAD,
    "rope_parameters": {
        "rope_type": "default",
        "rope_theta": 1e4,
        "partial_rotary_factor": 0.5,
        "mrope_section": [8, 12, 12],
    },
}
XDROPE = {"rope_parameters": {"rope_type": "default", "rope_theta": 1e4, "mrope_section": [16, 16, 16, 16]}}
GLM = {
    **dict.fromkeys(("glm46v", "glm4v", "glmga"), "glm4v_text"),
    "glm4v_moe": "glm4v_moe_text",
    "glm_image": "glm_image_text",
}
ONE_VOCABULARY = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
# The last layers read the keys of others, which a model of few layers has not.
OWN_KEYS = {"num_kv_shared_layers": 0}
INDEXER = {
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 256,
    "indexer_budget": 64,
    "indexer_compress_ratio": 4,
}
LLAMA = {"model_type": "llama", "vocab_size": 32000, "pad_token_id": 0}
SOUND = {"text_encoder": {"model_type": "t5"}, "audio_encoder": {"model_type": "encodec"}}
# A backbone of transformers in the place of one of timm.
RESNET = {"use_timm_backbone": False, "backbone_config": {"model_type": "resnet", "out_features": ["stage3", "stage4"]}}
SIGLIP = {"model_type": "siglip_vision_model"}
# Stages that fewer layers have, too.
DINO = {"model_type": "rf_detr_dinov2", "num_hidden_layers": DEPTH, "out_features": ["stage2", "stage4"]}
# What families need beside their defaults.
OPTIONS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("autoformer", "informer", "time_series_transformer"), {"prediction_length": 8}),
    **dict.fromkeys(("conditional_detr", "dab-detr", "deformable_detr", "detr", "omdet-turbo"), RESNET),
    **dict.fromkeys(("hunyuan_v1_dense", "ministral"), HEAD),
    **dict.fromkeys(("idefics3", "smolvlm"), {"text_config": LLAMA, "pad_token_id": 0}),
    "aya_vision": {"vision_config": {**SIGLIP, "num_attention_heads": 16}},
    "chameleon": {"vocabulary_map": {"<image>": 4}},
    "cohere_compass": {"text_config": {"model_type": "cohere_compass_text", "rope_parameters": ROPE}},
    "cohere_compass_text": {"rope_parameters": ROPE},
    "dbrx": {"attn_config": {"rope_theta": 10000.0, "clip_qkv": 8.0}},
    "deepseek_ocr2": {"text_config": {"mlp_layer_types": ["dense", *["sparse"] * 11]}},
    "diffusion_gemma": {
        "vision_config": {"model_type": "gemma4_vision"},
        "text_config": {"num_experts": 8, "top_k_experts": 2, "moe_intermediate_size": 704},
    },
    "dots1": {"n_routed_experts": 8, "num_experts_per_tok": 2, "n_shared_experts": 1},
    "edgetam_vision_model": {"backbone_config": {"model_type": "resnet"}},
    "emu3": {"vocabulary_map": {"<image>": 4, "<|extra_200|>": 5}},
    "encoder-decoder": {"encoder": {"model_type": "bert"}, "decoder": DECODER},
    "esm": {"vocab_size": 33, "pad_token_id": 1},
    "fast_vlm": {"vision_config": SIGLIP},
    "gemma3n": {"text_config": {"model_type": "gemma3n_text", **OWN_KEYS}},
    "gemma3n_text": OWN_KEYS,
    "gemma4_assistant": {"text_config": {"model_type": "gemma4_text", **ONE_VOCABULARY}},
    "gemma4_unified_assistant": {"text_config": {"model_type": "gemma4_unified_text", **ONE_VOCABULARY}},
    "granite4_vision": {
        "text_config": {"model_type": "granite"},
        "deepstack_layer_map": [[1, 2]],
        "downsample_rate": "1/2",
    },
    **dict.fromkeys(("xmod",), {"default_language": "en_XX"}),
    **{family: {"text_config": {"model_type": text, **MROPE}} for family, text in GLM.items()},
    **dict.fromkeys(GLM.values(), MROPE),
    "hunyuan_vl": {"text_config": {"model_type": "hunyuan_vl_text", **HEAD, **XDROPE}},
    "hunyuan_vl_text": {**HEAD, **XDROPE},
    "deepseek_v2": {"num_experts_per_tok": 2},
    "bamba": {"attn_layer_indices": [1]},
    "jamba": {"attn_layer_period": 2, "attn_layer_offset": 1},
    "granitemoehybrid": {"layer_types": ["linear_attention", "full_attention"] * 16},
    "patchtsmixer": {"self_attn": True},
    "edgetam": {"vision_config": {"model_type": "edgetam_vision_model", "backbone_config": {"model_type": "resnet"}}},
    # A layer for each rank of cycles, and a cache of DEPTH layers: one for each call.
    "hrm_text": {"num_hidden_layers": 1, "H_cycles": 2, "L_cycles": 1},
    "hunyuan_v1_moe": {**HEAD, "num_experts": 4},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "moonshine_streaming": {"num_key_value_heads": 8},
    "musicgen": {**SOUND, "decoder": {"model_type": "musicgen_decoder"}},
    "musicgen_melody": {**SOUND, "decoder": {"model_type": "musicgen_melody_decoder"}},
    "nemotron": {"num_key_value_heads": 8},
    # What classes of boxes must reach to be kept, and their places in the order of reading.
    "pp_doclayout_v2": {"num_labels": 5, "class_thresholds": [0.25] * 5, "class_order": [2, 0, 1, 4, 3]},
    "qwen3_omni_moe": {
        "talker_config": {"spatial_merge_size": 2, "text_config": {"shared_expert_intermediate_size": 64}}
    },
    "qwen4_exp": {"text_config": {"model_type": "qwen4_exp_text", **INDEXER}},
    "qwen4_exp_text": INDEXER,
    "speech-encoder-decoder": {"encoder": {"model_type": "wav2vec2"}, "decoder": DECODER},
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "rf_detr": {"backbone_config": DINO},
    "table-transformer": RESNET,
    "vision-encoder-decoder": {"encoder": {"model_type": "vit"}, "decoder": DECODER},
    "vision-text-dual-encoder": {"vision_config": {"model_type": "vit"}, "text_config": {"model_type": "bert"}},
    "voxtral": {"audio_token_id": 24},
}


def families() -> list[str]:
    """List the families of transformers that can be made whole."""
    return sorted(family for family in CONFIG_MAPPING_NAMES if any(family in names for names in MAKERS.values()))


def made(family: str, **options: Any) -> torch.nn.Module:
    """Make a model of a family's default configuration on the meta device, of few layers if it is good for that."""
    with contextlib.suppress(Exception):
        return _made(family, shorten, options)
    return _made(family, lambda config: None, options)


def _made(family: str, change: Any, options: dict) -> torch.nn.Module:
    with torch.device("meta"), no_init_weights():
        # Some configurations change what they are given.
        config = transformers.AutoConfig.for_model(family, **copy.deepcopy(OPTIONS.get(family, {})))
        change(config)
        if family in CLASSES:
            return getattr(transformers, CLASSES[family])._from_config(config, **options).eval()
        maker = next(getattr(transformers, name) for name, names in MAKERS.items() if family in names)
        return maker.from_config(config, **options).eval()


def shorten(config: transformers.PreTrainedConfig) -> None:
    """Leave a model, and the models that it is made of, a few layers each."""
    for name in LAYERS:
        if isinstance(getattr(config, name, None), int):
            with contextlib.suppress(Exception):
                setattr(config, name, min(getattr(config, name), DEPTH))
    for name in config.sub_configs:
        if getattr(config, name, None) is not None:
            shorten(getattr(config, name))


# Variants of a family: as it is, and as a decoder that attends to an encoder's states, if it can be one.
VARIANTS: tuple[dict[str, Any], ...] = ({}, {"is_decoder": True, "add_cross_attention": True})


def real(family: str, variant: dict, shrink: Any, implementation: Any) -> torch.nn.Module:
    """Make a model with weights: random numbers, of which all large weights are views."""
    torch.manual_seed(0)
    options = {**OPTIONS.get(family, {}), **SMALL.get(family, {})}
    config = transformers.AutoConfig.for_model(family, **copy.deepcopy(options))
    if not all(hasattr(config, name) for name in variant):
        raise ValueError(f"{family} is no decoder")
    config = transformers.AutoConfig.for_model(family, **{**copy.deepcopy(options), **variant})
    shrink(config)
    with FewNumbers():
        model = _maker(family)(config, attn_implementation=implementation, dtype=torch.float32)
    return drawn(model.eval())


def _maker(family: str) -> Any:
    if family in CLASSES:
        return getattr(transformers, CLASSES[family])._from_config
    return next(getattr(transformers, name) for name, names in MAKERS.items() if family in names).from_config


def drawn(model: torch.nn.Module) -> torch.nn.Module:
    """Draw weights large enough for every one of them to show; large ones hold no memory of their own."""
    place = 0
    for name, parameter in model.named_parameters():
        if parameter.ndim > 1 and parameter.numel():
            inputs = parameter[0].numel()
            parameter.data = _weight(parameter.shape, place, max(round(inputs**-0.5, 3), 1e-3))
            place = (place + 7919) % 100_000
        elif name.endswith("bias"):
            parameter.data = parameter.data + 0.1 * numbers()[place : place + parameter.numel()]
    return model


def _weight(shape: torch.Size, place: int, scale: float) -> torch.Tensor:
    """View numbers as a weight, row after row, or rows that overlap where there are too few."""
    found, row, count = numbers(scale), shape[1:].numel(), shape.numel()
    if count <= len(found) - place:
        return found[place : place + count].view(shape)
    step = (len(found) - place - row) // max(1, shape[0] - 1)
    if step < 1:
        return found.repeat(count // len(found) + 1)[:count].view(shape)
    return found.as_strided(shape, (step, *torch.empty(shape[1:], device="meta").stride()), place)


@functools.cache
def numbers(scale: float = 1.0) -> torch.Tensor:
    """Draw the random numbers of all weights."""
    return torch.randn(COUNT, generator=torch.Generator().manual_seed(0)) * scale


class FewNumbers(TorchDispatchMode):
    """Leaves out of a model's own initialisation the random numbers of weights that are drawn later."""

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        name = function.overloadpacket.__name__
        if name in RANDOM and args[0].numel() > 1 << 14:
            if name in ("normal_", "uniform_") and args[0].numel() <= COUNT and args[0].is_contiguous():
                args[0].view(-1).copy_(numbers(0.02)[: args[0].numel()])
            return args[0]
        return function(*args, **(kwargs or {}))


def narrow(config: transformers.PreTrainedConfig) -> None:
    """Make a model's layers few, their widths small, and of wide ones the heads a quarter as many."""
    small(config)
    for part in parts_of(config):
        width, heads = getattr(part, "hidden_size", None), getattr(part, "num_attention_heads", None)
        if isinstance(width, int) and isinstance(heads, int) and width >= 2048 and heads % 4 == 0:
            for name in ("num_attention_heads", "num_key_value_heads"):
                if isinstance(getattr(part, name, None), int):
                    setattr(part, name, max(1, getattr(part, name) // 4))
            part.hidden_size = width // 4
        if isinstance(getattr(part, "out_hidden_size", None), int) and part.out_hidden_size >= 2048:
            part.out_hidden_size //= 4


def small(config: transformers.PreTrainedConfig) -> None:
    """Leave a model a few layers, a few experts, narrow MLPs, and small images and sounds."""
    shorten(config)
    for part in parts_of(config):
        for name, value in list(vars(part).items()):
            most = next((most for ends, most in MOST.items() if name.endswith(ends)), None)
            if most and isinstance(value, int) and value > most:
                with contextlib.suppress(Exception):
                    setattr(part, name, most)
        if hasattr(part, "num_mel_bins") and isinstance(getattr(part, "max_length", None), int):
            part.max_length = min(part.max_length, 128)
        _shrink_images(part)


def _shrink_images(config: transformers.PreTrainedConfig) -> None:
    patch = getattr(config, "patch_size", None)
    patch = patch if isinstance(patch, int) else 16
    for name in ("image_size", "img_size", "input_size"):
        value = getattr(config, name, None)
        size = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(size, int) and size > 256:
            new = next((each for each in range(256, 31, -1) if each % patch == 0 == size % each), 256 // patch * patch)
            with contextlib.suppress(Exception):
                setattr(config, name, new if isinstance(value, int) else type(value)([new] * len(value)))


def parts_of(config: transformers.PreTrainedConfig) -> Iterator[transformers.PreTrainedConfig]:
    """Find a config and all that it is made of."""
    yield config
    for name in config.sub_configs:
        if isinstance(getattr(config, name, None), transformers.PreTrainedConfig):
            yield from parts_of(getattr(config, name))


# The first that a family can be made and called with is taken.
WAYS_TO_SHRINK = (narrow, small, shorten)
