"""The forms that an input has in one family of transformers or another: random numbers, with what goes with them."""

import inspect
import itertools
import sys
from collections.abc import Callable
from typing import Any

import torch
import transformers

Config = transformers.PreTrainedConfig
Given = dict[str, Any]
LENGTH = 8
# Patches of an image, or of two frames, in rows and columns.
SIDE = 4
PATCHES = SIDE * SIDE


def forms(model: transformers.PreTrainedModel, name: str) -> list[Given]:
    """List the forms that an input has in one family or another, each with what goes with it."""
    for names, found in RULES.items():
        if name.endswith(names):
            return found(model, name)
    return [{name: tokens(model.config)}]


def normal(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


def tokens(config: Config, *shape: int) -> torch.Tensor:
    """Draw token ids that mean nothing special."""
    most = min(number(config, ("vocab_size", "codebook_size", "audio_vocab_size"), 100), 500)
    return torch.randint(
        min(5, most - 1), max(most - 4, 1), shape or (2, LENGTH), generator=torch.Generator().manual_seed(2)
    )


def _text(model: Any, name: str) -> list[Given]:
    """Token ids, of one book or of several: beside each other, or in rows of their own."""
    config = model.config
    books = number(config, ("num_codebooks", "num_channels", "n_codebooks"), 0)
    shapes: list[tuple[int, ...]] = [(2, LENGTH)]
    if books and not hasattr(config, "image_size"):
        shapes += [(2, LENGTH, books), (2, LENGTH, books + 1), (2 * books, LENGTH)]
    found: list[Given] = [{name: tokens(config, *shape)} for shape in shapes]
    if name == "input_ids":
        for each, shape in zip(found, shapes):
            # The last tokens of an entry are padding.
            each["attention_mask"] = torch.ones(shape[:2], dtype=torch.long)
            each["attention_mask"][-1, -2:] = 0
        found += [{name: each[name]} for each in found]
    return found


def _states(model: Any, name: str) -> list[Given]:
    config, taken = model.config, inspect.signature(model.forward).parameters
    width = number(config, ("hidden_size", "d_model", "embed_dim"), 64)
    states = {
        name: normal(2, LENGTH, width),
        "mask": torch.ones(2, LENGTH),
        "attention_mask": torch.ones(2, LENGTH).long(),
    }
    if "encoder" in name or "cross" in name:
        # It may be projected to the decoder's width, or have the same.
        widths = (
            number(config, ("cross_attention_hidden_size", "encoder_hidden_size"), width),
            width,
            number(config, ("text_hidden_size",), 768),
        )
        return [{name: normal(2, 5, each)} for each in dict.fromkeys((*widths, 5 * width))]
    if "context" in name and isinstance(getattr(config, "target_layer_ids", None), list):
        # What several layers of another model gave, side by side; keys are made of it and of the model's own states.
        # The first tokens of the last entry are padding.
        kept = {"attention_mask": torch.ones(2, 2 * LENGTH).long()}
        kept["attention_mask"][-1, :2] = 0
        return [{name: normal(2, LENGTH, width * len(config.target_layer_ids)), **each} for each in (kept, {})]
    if "grid_thw" in taken:
        return [*_images(model, name), states]
    bands = number(config, ("input_size", "num_mel_bins", "nb_mel_bins"), 80)
    return [
        states,
        {**states, name: normal(2, LENGTH, bands)},
        {name: normal(1, 3, 64, 64)},
        {name: normal(2, 64, 80), "mask": torch.ones(2, 64)},
    ]


def _images(model: Any, name: str) -> list[Given]:
    """Images, or frames, whole; or patches in rows, with the sizes of the grid that they were cut by."""
    kind = name.removesuffix("pixel_values")
    config = getattr(model.config, f"{kind}vision_config", model.config) if kind else model.config
    channels = number(config, ("num_channels", "in_channels", "in_chans"), 3)
    size = number(config, ("image_size", "img_size", "input_size", "force_image_size"), 64)
    size = size if 16 <= size <= 1024 else 64
    patch, windows = number(config, ("patch_size", "spatial_patch_size"), 14), number(config, ("num_windows",), 1)
    # Windows hold whole patches.
    size = max(1, size // (patch * windows)) * patch * windows if windows > 1 else size
    frames, depth = number(config, ("num_frames", "max_num_frames"), 4), number(config, ("temporal_patch_size",), 1)
    image, pixels = (channels, size, size), channels * patch * patch
    grid = torch.tensor([[1, SIDE, SIDE]])
    grids = {**dict.fromkeys(("grid_thw", "image_grid_thw", "video_grid_thw"), grid), "merge_sizes": torch.tensor([1])}
    grids |= {"image_merge_sizes": torch.tensor([1]), "image_grid_hw": grid[:, 1:]}
    places = torch.cartesian_prod(torch.arange(SIDE), torch.arange(SIDE)).expand(2, -1, -1)
    cut = {"spatial_shapes": torch.tensor([[SIDE, SIDE]] * 2), "pixel_attention_mask": torch.ones(2, PATCHES).long()}
    cut |= dict.fromkeys(("pixel_position_ids", "image_position_ids"), places)
    sizes = {"image_sizes": torch.tensor([[size, size]] * 2)}
    single, tiled = {name: normal(2, *image), **sizes}, {name: normal(1, 1, 4, *image)}
    tiled |= {"aspect_ratio_ids": torch.tensor([[1]]), "aspect_ratio_mask": torch.tensor([[[1, 0, 0, 0]]])}
    several = {
        "image_attention_mask": torch.ones(2, LENGTH, 1).long(),
        "pixel_attention_mask": torch.ones(2, 1, size, size).long(),
    }
    masks = {"patch_attention_mask": torch.ones(2, size // max(1, patch), size // max(1, patch)).bool()}
    videos = [{name: normal(1, frames, *image)}, {name: normal(2, frames, *image)}]
    return [
        *(videos if "video" in name or hasattr(config, "num_frames") else ()),
        {**single, **masks},
        single,
        {name: normal(PATCHES, pixels * depth), **grids},
        *({name: normal(PATCHES, pixels * each), **grids} for each in (1, 2)),
        {name: normal(PATCHES, channels, patch, patch), **grids},
        {name: normal(1, PATCHES, channels, patch, patch), **grids},
        {name: normal(2, PATCHES, pixels), **cut},
        {name: normal(2, 1, *image), **several, **sizes},
        {name: normal(1, 2, *image), **sizes},
        {name: normal(1, 2, 1, size, size)},
        {name: normal(1, channels, patch, PATCHES * patch), "target_sizes": torch.tensor([[SIDE, SIDE]])},
        tiled,
        *videos,
    ]


def _patches(model: Any, name: str) -> list[Given]:
    """Flattened patches, each after the numbers of its row and of its column."""
    width = 3 * number(model.config, ("patch_size",), 16) ** 2
    places = torch.cartesian_prod(torch.arange(1, SIDE + 1), torch.arange(1, SIDE + 1)).expand(2, -1, -1)
    return [{name: torch.cat((places, normal(2, PATCHES, width)), -1), "attention_mask": torch.ones(2, PATCHES)}]


def _spectra(model: Any, name: str) -> list[Given]:
    """Spectra with their bands first or last, as long as Whisper's kin know them to be, or longer or shorter."""
    config = model.config
    names = "num_mel_bins", "feature_projection_input_dim", "feature_size", "input_feat_per_channel", "input_dim"
    bands = number(config, (*names, "n_mels", "input_size"), 80)
    # A text's positions, in another part, are not those of sound.
    places = number(config, ("max_source_positions",), number(config, ("max_position_embeddings",), 32))
    found: list[Given] = []
    # Some read several spectra as one.
    for joined, length in itertools.product(
        (1, 4, 7), dict.fromkeys((2 * places if places <= 1500 else 64, 64, 128, 100))
    ):
        masks = ("input_features_mask", "attention_mask", "feature_attention_mask")
        kept: Given = dict.fromkeys(masks, torch.ones(2, length, dtype=torch.long))
        lengths = {"feature_lens": torch.tensor([length]), "aftercnn_lens": torch.tensor([(length - 1) // 2 + 1])}
        shapes = ((2, joined * bands, length), kept), ((2, length, joined * bands), kept), ((bands, length), lengths)
        found += [{name: normal(*shape), **beside} for shape, beside in shapes]
    # Encoders like Whisper's take a mask, but cannot use one of this length.
    found.insert(1, {name: found[0][name]})
    # Beside a second of sound.
    second: Given = {name: normal(1, 50, 160)}
    if "input_values" in inspect.signature(model.forward).parameters:
        return [second, *found]
    return [*found, {name: normal(2, 1, 1001, 64)}, {name: normal(2, 1, 64, bands)}]


def _waves(model: Any, name: str) -> list[Given]:
    """Samples, in one channel or without, or a spectrum under the same name."""
    length, bands = number(model.config, ("max_length",), 128), number(model.config, ("num_mel_bins",), 128)
    shapes = [(2, 4000), (2, 1, 4000), (2, length, bands), (1, 1, 16000), (1, 16000), (2, 1, 16000)]
    if "input_features" in inspect.signature(model.forward).parameters:
        shapes.insert(0, (1, 1, 16000))
    return [{name: normal(*shape)} for shape in shapes]


def _series(model: Any, name: str) -> list[Given]:
    """Past and future values of series, with the features of their times."""
    config = model.config
    context, ahead = number(config, ("context_length",), 64), number(config, ("prediction_length",), 8)
    past = context + max(getattr(config, "lags_sequence", None) or [0])
    features, channels = getattr(config, "num_time_features", 0) or 0, number(config, ("num_input_channels",), 1)
    times = {"past_time_features": normal(2, past, features), "future_time_features": normal(2, ahead, features)}
    padding = {"past_values_padding": torch.zeros(2, context).long(), "freq": torch.zeros(2, 1).long()}
    return [
        {name: normal(2, past), "past_observed_mask": torch.ones(2, past), "future_values": normal(2, ahead), **times},
        {name: normal(2, context, channels)},
        {name: normal(2, context), **padding},
    ]


def _session(model: Any, name: str) -> list[Given]:
    """Two frames of a video, with a point on an object in the first, or a text that tells what to look for."""
    file = vars(sys.modules[type(model).__module__])
    made = next(
        value
        for key, value in file.items()
        if key.endswith("InferenceSession") and value.__module__ == type(model).__module__
    )
    size = number(model.config, ("image_size",), 1024)
    session = made(video=normal(2, 3, size, size), video_height=size, video_width=size, dtype=torch.float32)
    if hasattr(session, "add_prompt"):
        session.add_prompt("something")
        session.prompt_input_ids[0], session.prompt_attention_masks[0] = (
            tokens(model.config, 1, 8),
            torch.ones(1, 8).long(),
        )
    else:
        session.obj_id_to_idx(1)
        point = {
            "point_coords": torch.tensor([[[[20.0, 30.0]]]]),
            "point_labels": torch.ones(1, 1, 1, dtype=torch.int32),
        }
        session.add_point_inputs(0, 0, point)
        session.obj_with_new_inputs = [1]
    return [{name: session, "frame_idx": 0}]


def _trajectories(model: Any, name: str) -> list[Given]:
    config = model.config
    states, actions, one = (normal(2, LENGTH, width) for width in (config.state_dim, config.act_dim, 1))
    times = torch.arange(LENGTH).expand(2, -1)
    return [
        {
            name: states,
            "actions": actions,
            "rewards": one,
            "returns_to_go": one,
            "timesteps": times,
            "attention_mask": torch.ones(2, LENGTH),
        }
    ]


def _voices(model: Any, name: str) -> list[Given]:
    """Spectra of voices, with tokens of speech to say like them, in the fewest steps."""
    config = model.config
    bands, width = number(config, ("mel_dim",), 80), number(config, ("enc_emb_dim",), 192)
    return [{name: normal(2, 16, bands), "conditioning": normal(2, width), "num_steps": 2}]


def _boxes(model: Any, name: str) -> list[Given]:
    return [{name: torch.tensor([1, 2, 3, 4]).expand(2, LENGTH, 4).clone()}]


RULES: dict[tuple[str, ...], Callable[[Any, str], list[Given]]] = {
    ("input_ids",): _text,
    ("flattened_patches",): _patches,
    ("pixel_values", "pixel_values_videos", "pixel_values_images"): _images,
    ("input_features", "spectrogram"): _spectra,
    ("input_values", "audio_values"): _waves,
    ("past_values",): _series,
    ("embeds", "hidden_states", "cross_attention_states", "context", "patch_input"): _states,
    ("bbox",): _boxes,
    ("reference_mel",): _voices,
    ("inference_session",): _session,
    # Last: others end like this.
    ("states",): _trajectories,
}


def number(config: Config, names: tuple[str, ...], default: int) -> int:
    """Find the first of some attributes that is a number, or numbers, of which the first counts, here or in a part."""
    parts = (getattr(config, name, None) for name in config.sub_configs)
    for part in (config, *(each for each in parts if each is not None)):
        for name in names:
            value = getattr(part, name, None)
            value = value[0] if isinstance(value, (tuple, list)) and value else value
            if isinstance(value, int):
                return value
    return default
