"""Make a model of each family of transformers without weights, and call it without data, on the meta device."""

import contextlib
import copy
import inspect
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
import transformers
from torch.utils._python_dispatch import TorchDispatchMode
from transformers.models.auto import modeling_auto

from ninetoothed_ops.integrations import attention_interface

DEPTH = 4
LAYERS = ("num_hidden_layers", "n_layer", "n_layers", "num_layers", "encoder_layers", "decoder_layers", "depth")
# How a family's model is made: as the first of these that there is. What is in none of them is a part of a family.
MAKERS = {
    "AutoModel": modeling_auto.MODEL_MAPPING_NAMES,
    "AutoModelForCausalLM": modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    "AutoModelForImageTextToText": modeling_auto.MODEL_FOR_IMAGE_TEXT_TO_TEXT_MAPPING_NAMES,
    "AutoModelForSeq2SeqLM": modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
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
ONE_VOCABULARY = {"hidden_size_per_layer_input": 0, "vocab_size_per_layer_input": 0}
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
# What families need beside their defaults.
OPTIONS: dict[str, dict[str, Any]] = {
    **dict.fromkeys(("autoformer", "informer", "time_series_transformer"), {"prediction_length": 8}),
    **dict.fromkeys(("conditional_detr", "dab-detr", "deformable_detr", "detr", "omdet-turbo"), RESNET),
    **dict.fromkeys(("hunyuan_v1_dense", "hunyuan_vl_text", "ministral"), HEAD),
    **dict.fromkeys(("idefics3", "smolvlm"), {"text_config": LLAMA, "pad_token_id": 0}),
    "aya_vision": {"vision_config": {**SIGLIP, "num_attention_heads": 16}},
    "chameleon": {"vocabulary_map": {"<image>": 4}},
    "cohere_compass": {"text_config": {"model_type": "cohere_compass_text", "rope_parameters": ROPE}},
    "cohere_compass_text": {"rope_parameters": ROPE},
    "dbrx": {"attn_config": {"rope_theta": 10000.0}},
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
    "gemma4_assistant": {"text_config": {"model_type": "gemma4_text", **ONE_VOCABULARY}},
    "gemma4_unified_assistant": {"text_config": {"model_type": "gemma4_unified_text", **ONE_VOCABULARY}},
    "granite4_vision": {
        "text_config": {"model_type": "granite"},
        "deepstack_layer_map": [[1, 2]],
        "downsample_rate": "1/2",
    },
    "hunyuan_v1_moe": {**HEAD, "num_experts": 4},
    "hunyuan_vl": {"text_config": {"model_type": "hunyuan_vl_text", **HEAD}},
    "lfm2_moe": {"layer_types": ["conv", "conv", "full_attention", "conv"] * 8},
    "moonshine_streaming": {"num_key_value_heads": 8},
    "musicgen": {**SOUND, "decoder": {"model_type": "musicgen_decoder"}},
    "musicgen_melody": {**SOUND, "decoder": {"model_type": "musicgen_melody_decoder"}},
    "nemotron": {"num_key_value_heads": 8},
    "qwen4_exp": {"text_config": {"model_type": "qwen4_exp_text", **INDEXER}},
    "qwen4_exp_text": INDEXER,
    "t5gemma2_encoder": {"text_config": {"dropout_rate": 0.0}},
    "table-transformer": RESNET,
    "vision-encoder-decoder": {"encoder": {"model_type": "vit"}, "decoder": DECODER},
    "vision-text-dual-encoder": {"vision_config": {"model_type": "vit"}, "text_config": {"model_type": "bert"}},
}


def made(family: str, **options: Any) -> torch.nn.Module:
    """Make a model of a family's default configuration on the meta device, of few layers if it is good for that."""
    with contextlib.suppress(Exception):
        return _made(family, shorten, options)
    return _made(family, lambda config: None, options)


def _made(family: str, change: Any, options: dict) -> torch.nn.Module:
    with torch.device("meta"), transformers.initialization.no_init_weights():
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


class Guesses(TorchDispatchMode):
    """Answers where a call depends on data that the meta device has not: true, one, and so many as fit one entry."""

    def __torch_dispatch__(self, function: Any, types: Any, args: tuple = (), kwargs: dict | None = None) -> Any:
        kwargs = kwargs or {}
        name = function.overloadpacket.__name__
        first = args[0] if args and isinstance(args[0], torch.Tensor) else None
        if first is not None and first.is_meta:
            if name == "_local_scalar_dense":
                return {torch.bool: True}.get(first.dtype, 1)
            if name == "_to_copy" and kwargs.get("device", first.device).type != "meta":
                return torch.ones(first.shape, dtype=kwargs.get("dtype") or first.dtype)
            if name == "nonzero":
                return torch.empty(1, first.ndim, dtype=torch.long, device="meta")
            if name == "repeat_interleave" and function._overloadname == "Tensor":
                return torch.empty(1, dtype=torch.long, device="meta")
            if name == "_grouped_mm":
                return first.new_empty(*first.shape[:-1], args[1].shape[-1])
        return function(*args, **kwargs)


def reached(model: torch.nn.Module, classes: set[type]) -> set[type]:
    """Call a model, then the models that it is made of, until our attention was called by modules of all the classes.

    Nothing is computed on the meta device: a call ends where it depends on data, or on inputs, that are not guessed.
    """
    found: set[type] = set()
    check = attention_interface._check

    def record(module: torch.nn.Module, kwargs: dict) -> None:
        check(module, kwargs)
        found.add(type(module))

    with mock.patch.object(attention_interface, "_check", record), torch.no_grad():
        for part in (each for each in model.modules() if isinstance(each, transformers.PreTrainedModel)):
            for mode in (contextlib.nullcontext(), Guesses()):
                if not {type(module) for module in part.modules()} & classes <= found:
                    with contextlib.suppress(Exception), mode:
                        part(**dict(_inputs(part)))
    return found & classes


def _inputs(model: transformers.PreTrainedModel) -> Iterator[tuple[str, Any]]:
    """Guess what a model may be called with, of one entry: its main input, and what it cannot be called without."""
    config = model.config
    tokens = torch.ones(1, 8, dtype=torch.long, device="meta")
    needed = (each for each in inspect.signature(model.forward).parameters.values() if each.default is each.empty)
    names = dict.fromkeys(
        (model.main_input_name, *(each.name for each in needed if each.kind is each.POSITIONAL_OR_KEYWORD))
    )
    if len(names) > 1 and model.main_input_name not in inspect.signature(model.forward).parameters:
        names.pop(model.main_input_name)
    for name in names:
        if name.startswith("pixel_values") and not name.endswith("mask"):
            yield name, torch.empty(1, *_image(config, name), device="meta")
        elif name == "input_features":
            yield name, torch.empty(1, *_spectrum(config), device="meta")
        elif name == "input_values":
            yield name, torch.empty(1, 16000, device="meta")
        elif name.endswith("grid_thw"):
            yield name, torch.ones(1, 3, dtype=torch.long, device="meta")
        elif name.endswith(("embeds", "hidden_states")):
            yield name, torch.empty(1, 8, _number(config, ("hidden_size", "d_model"), 64), device="meta")
        else:
            yield name, tokens
    if getattr(config, "is_encoder_decoder", False):
        yield "decoder_input_ids", tokens


def _image(config: transformers.PreTrainedConfig, name: str) -> tuple[int, ...]:
    size = _number(config, ("image_size", "img_size", "input_size"), 224)
    frames = (_number(config, ("num_frames",), 16),) if name.endswith("videos") or hasattr(config, "num_frames") else ()
    return (*frames, _number(config, ("num_channels", "in_chans"), 3), size, size)


def _spectrum(config: transformers.PreTrainedConfig) -> tuple[int, int]:
    """Give the shape of audio features: bands first to Whisper and its kin, which know how long they are."""
    names = "num_mel_bins", "feature_projection_input_dim", "feature_size", "input_feat_per_channel", "input_dim"
    bands, length = _number(config, names, 80), _number(config, ("max_source_positions",), 0)
    return (bands, 2 * length) if length and hasattr(config, "num_mel_bins") else (64, bands)


def _number(config: transformers.PreTrainedConfig, names: tuple[str, ...], default: int) -> int:
    """Find the first of some attributes that is a number, or numbers, of which the first counts, here or in a part."""
    parts = (getattr(config, name, None) for name in config.sub_configs)
    for part in (config, *(each for each in parts if each is not None)):
        for name in names:
            value = getattr(part, name, None)
            value = value[0] if isinstance(value, (tuple, list)) and value else value
            if isinstance(value, int):
                return value
    return default
