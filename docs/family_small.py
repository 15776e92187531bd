"""Options of small models of families whose defaults are too large to call on a CPU, however few their layers.

Widths and sizes of images are bound to each other in each family's own way, so that none can be halved alone.
"""

from typing import Any

# Four heads of 16 numbers.
WIDTH = {"hidden_size": 64, "num_attention_heads": 4}
HEADS = {**WIDTH, "num_key_value_heads": 4}
FEW = {"vocab_size": 500, "num_hidden_layers": 4}
# Tokens below 5 are never drawn as text.
IMAGE, VIDEO, SOUND = 4, 3, 2
IMAGES = 64
OMNI = {**FEW, "hidden_size": 256, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 128}
SAM = {
    "vision_config": {**WIDTH, "image_size": IMAGES, "mlp_dim": 128},
    "prompt_encoder_config": {"image_size": IMAGES},
}
# A patch of 14 by 14 numbers; features of four, two and one place for each in a row.
GRID = 10
SAM3_VISION = {
    "backbone_feature_sizes": [[GRID * scale] * 2 for scale in (4, 2, 1)],
    "backbone_config": {"model_type": "sam3_vit_model", **WIDTH, "image_size": GRID * 14, "window_size": 5},
}
SAM3 = {"vision_config": {"model_type": "sam3_vision_model", **SAM3_VISION}}
SAM3_TRACKER = {**SAM3, "prompt_encoder_config": {"image_size": GRID * 14}}
SAM3_TRACKER_VIDEO = {**SAM3_TRACKER, "image_size": GRID * 14, "memory_attention_rope_feat_sizes": [GRID, GRID]}
BLT = {**WIDTH, "hidden_size_global": 64}
OMNI_MOE = {
    "audio_token_id": SOUND,
    "image_token_id": IMAGE,
    "video_token_id": VIDEO,
    "vision_start_token_id": 1,
    "audio_config": {"d_model": 64, "encoder_attention_heads": 4, "output_dim": 256, "downsample_hidden_size": 32},
    "vision_config": {
        "hidden_size": 64,
        "num_heads": 4,
        "out_hidden_size": 256,
        "deepstack_visual_indexes": [1, 2],
    },
    "text_config": OMNI,
}

SMALL: dict[str, dict[str, Any]] = {
    "blt": {
        "num_hidden_layers": 4,
        "encoder_hash_byte_group_vocab": 500,
        "patcher_config": HEADS,
        "encoder_config": BLT,
        "decoder_config": BLT,
        "global_config": HEADS,
    },
    "deepseek_vl_hybrid": {
        "image_token_id": IMAGE,
        "text_config": {"model_type": "llama", **FEW, **HEADS},
        "vision_config": {"model_type": "siglip_vision_model", **WIDTH, "image_size": IMAGES},
        "high_res_vision_config": {"model_type": "sam_vision_model", **WIDTH, "image_size": 4 * IMAGES},
    },
    "edgetam_video": {
        "image_size": 256,
        "memory_attention_rope_feat_sizes": [16, 16],
        "vision_config": {
            "backbone_feature_sizes": [[64, 64], [32, 32], [16, 16]],
            "backbone_config": {"model_type": "sam2_hiera_det_model", "image_size": [256, 256]},
        },
        "prompt_encoder_config": {"image_size": 256},
    },
    "emu3": {
        "vocabulary_map": {
            "<image>": IMAGE,
            "<|extra_200|>": 5,
            **{f"<|visual token {each:06d}|>": 100 + each for each in range(32)},
        },
        "text_config": {"model_type": "emu3_text_model", **FEW, **HEADS, "pad_token_id": 0},
        "vq_config": {"codebook_size": 32, "base_channels": 32, "hidden_size": 128},
    },
    "llama4": {
        "image_token_index": IMAGE,
        "text_config": {**FEW, **HEADS, "head_dim": 16, "intermediate_size_mlp": 128},
        "vision_config": {
            **WIDTH,
            "image_size": 56,
            "intermediate_size": 256,
            "projector_input_dim": 64,
            "projector_output_dim": 64,
            "vision_output_dim": 64,
        },
    },
    "lw_detr": {
        "projector_scale_factors": [1.0],
        "backbone_config": {
            "model_type": "lw_detr_vit",
            **WIDTH,
            "image_size": 256,
            "num_hidden_layers": 4,
            "window_block_indices": [0, 2],
            "out_indices": [2, 4],
        },
    },
    "mllama": {
        "image_token_index": IMAGE,
        "text_config": {**FEW, **HEADS, "pad_token_id": 0, "cross_attention_layers": [1, 3]},
        "vision_config": {
            "hidden_size": 64,
            "attention_heads": 4,
            "image_size": 56,
            "num_global_layers": 2,
            "intermediate_layers_indices": [1, 3],
            "vision_output_dim": 192,
        },
    },
    "qwen2_5_omni_thinker": {
        "audio_token_index": SOUND,
        "image_token_index": IMAGE,
        "video_token_index": VIDEO,
        "audio_config": {"d_model": 64, "encoder_attention_heads": 4, "output_dim": 256},
        "vision_config": {"hidden_size": 64, "num_heads": 4, "out_hidden_size": 256},
        "text_config": OMNI,
    },
    "qwen2_audio": {
        "audio_token_index": SOUND,
        "text_config": {"model_type": "qwen2", **FEW, **HEADS},
        "audio_config": {"d_model": 64, "encoder_attention_heads": 4},
    },
    "qwen3_omni_moe": {
        "thinker_config": OMNI_MOE,
        "talker_config": {"spatial_merge_size": 2, "text_config": {"shared_expert_intermediate_size": 64}},
    },
    "qwen3_omni_moe_thinker": OMNI_MOE,
    "sam": SAM,
    "sam_hq": {**SAM, "mask_decoder_config": {"vit_dim": 64}},
    "sam3_tracker": SAM3_TRACKER,
    "sam3_tracker_video": SAM3_TRACKER_VIDEO,
    # Whatever is detected is an object, and tracked.
    "sam3_video": {
        "detector_config": SAM3,
        "tracker_config": SAM3_TRACKER_VIDEO,
        "low_res_mask_size": 4 * GRID,
        "score_threshold_detection": 0.0,
        "new_det_thresh": 0.0,
        "hotstart_delay": 0,
    },
    "seamless_m4t": {
        "vocab_size": 500,
        "t2u_vocab_size": 500,
        "hidden_size": 64,
        **{
            f"{part}_attention_heads": 4
            for part in ("encoder", "decoder", "speech_encoder", "t2u_encoder", "t2u_decoder")
        },
        **{f"{part}_layers": 2 for part in ("speech_encoder", "t2u_encoder", "t2u_decoder")},
        "upsample_initial_channel": 64,
        "unit_hifi_gan_vocab_size": 500,
        "unit_embed_dim": 64,
    },
    "step3p7": {
        "image_token_id": IMAGE,
        "text_config": {
            **FEW,
            **HEADS,
            "head_dim": 16,
            "num_sliding_attention_heads": 8,
            "share_expert_dim": 64,
            "sliding_window": 4,
        },
        "vision_config": {**WIDTH, "image_size": 56, "max_position_embeddings": 16},
    },
    "tipsv2_dpt": {
        "backbone_config": {
            "model_type": "tipsv2_vision_model",
            **WIDTH,
            "num_hidden_layers": 4,
            "out_features": ["stage1", "stage2", "stage3", "stage4"],
        }
    },
    "vivit": {"num_frames": 4, "image_size": IMAGES, **WIDTH},
    "zamba": {
        **HEADS,
        "vocab_size": 500,
        "num_hidden_layers": 4,
        "attn_layer_period": 2,
        "attn_layer_offset": 0,
        "attention_hidden_size": 128,
        "attention_head_dim": 32,
        "mamba_dt_rank": 8,
    },
    "zamba2": {**HEADS, **FEW, "layers_block_type": ["linear_attention", "hybrid"] * 2},
}
