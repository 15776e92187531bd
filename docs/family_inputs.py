"""Guess what a model of transformers may be called with: random numbers, in shapes that one family or another takes.

The signature of a model's forward names its inputs, and its config has their sizes; of their shapes neither tells.
There are few, so that all are tried in turn.
"""

import inspect
import itertools
from collections.abc import Iterator

import torch
import transformers

from docs.family_forms import Config, Given, forms

TRIED = 36
# What a model takes though it could be called without.
MORE = ("bbox",)
# What comes with another input.
BESIDE = (
    *("attention_mask", "grid_thw", "image_grid_thw", "merge_sizes", "spatial_shapes", "pixel_attention_mask"),
    *("aspect_ratio_ids", "aspect_ratio_mask", "pixel_position_ids", "input_features_mask", "mask", "feature_lens"),
    *("actions", "past_time_features", "past_observed_mask", "past_values_padding", "freq"),
)
KINDS = ("mm_token_type_ids", "token_type_ids")


def inputs(model: transformers.PreTrainedModel) -> Iterator[Given]:
    """Yield what a model may be called with, the likeliest first."""
    taken = inspect.signature(model.forward).parameters
    names = list(_needed(model))
    images = [name for name in taken if name.endswith(("pixel_values", "pixel_values_videos"))]
    sounds = [name for name in taken if name in ("input_features", "audio_input_features", "input_values")]
    others = [name for name in ("encoder_hidden_states", "cross_attention_states") if name in taken]
    texts = [name for name in ("input_ids",) if name in taken]
    tried: set[tuple[str, ...]] = set()
    for more in (images[:1], sounds[:1], images, [], others, texts):
        together = tuple(dict.fromkeys((*names, *more)))
        if not together or together in tried:
            continue
        tried.add(together)
        choices = [forms(model, name) for name in together]
        for chosen in itertools.islice(itertools.product(*choices), TRIED):
            given = {name: value for form in chosen for name, value in form.items() if name in taken}
            if more and "input_ids" in given:
                yield from _beside_text(model, given)
            yield given


def _needed(model: transformers.PreTrainedModel) -> dict[str, None]:
    """Name what a model cannot be called without: its main input, what has no default, and what a decoder reads."""
    taken = inspect.signature(model.forward).parameters
    main = model.main_input_name
    names = [name for name in ((main,) if isinstance(main, str) else main) if name in taken]
    names += [
        each.name for each in taken.values() if each.default is each.empty and each.kind is each.POSITIONAL_OR_KEYWORD
    ]
    config = model.config
    if getattr(config, "is_encoder_decoder", False) and "decoder_input_ids" in taken:
        names.append("decoder_input_ids")
    if getattr(config, "add_cross_attention", False):
        names.append("encoder_hidden_states")
    names += [name for name in MORE if name in taken]
    if not names:
        names = [
            name for name in taken if name in ("input_ids", "flattened_patches", "pixel_values", "input_features")
        ][:1]
    return dict.fromkeys(name for name in names if name not in BESIDE)


def _beside_text(model: transformers.PreTrainedModel, given: Given) -> Iterator[Given]:
    """Yield the inputs of a model with as many placeholders in the text as there are features of images or sounds."""
    for kind in ("image", "video", "audio"):
        features, placeholder = getattr(model, f"get_{kind}_features", None), _placeholder(model.config, kind)
        if features is None or placeholder is None:
            continue
        taken = inspect.signature(features).parameters
        try:
            with torch.no_grad():
                found = features(**{name: value for name, value in given.items() if name in taken})
        except Exception:  # another shape may do
            continue
        pooled = getattr(found, "pooler_output", None)
        found = getattr(found, "last_hidden_state", found) if pooled is None else pooled
        count = sum(each.numel() // each.shape[-1] for each in (found if isinstance(found, (list, tuple)) else [found]))
        text = [5, 6, *[placeholder] * count, 7, 8, 9]
        tokens = torch.tensor([text])
        kinds = (tokens == placeholder).long()
        others = {name: value for name, value in given.items() if name not in ("input_ids", "attention_mask")}
        yield {
            **others,
            "input_ids": tokens,
            **{name: kinds for name in KINDS if name in inspect.signature(model.forward).parameters},
        }


def _placeholder(config: Config, kind: str) -> int | None:
    names = (f"{kind}_token_id", f"{kind}_token_index", f"{kind}_placeholder_token_id", "media_placeholder_token_id")
    return next((value for name in names if isinstance(value := getattr(config, name, None), int)), None)
