"""The mask of one token over a static cache, which `generate` makes on the host before each compiled step.

transformers makes it in a dozen launches, while the GPU waits. For plain causal attention it says of each slot of the
cache whether the attention mask of the tokens so far shows it: that is two launches. `generate` looks for a model's own
`create_masks_for_generate`; the one here has the same values, and leaves whatever is not plain to transformers.
"""

from typing import Any

import torch
from torch.nn import functional
from transformers import cache_utils, masking_utils

from .names import cache_in
from .recognition import undecorated

NAME = "create_masks_for_generate"


def create_masks_for_generate(
    config: Any, inputs_embeds: torch.Tensor, attention_mask: torch.Tensor | None, **others: Any
) -> Any:
    """Make the masks of a step as `transformers.masking_utils.create_masks_for_generate` does."""
    is_token = inputs_embeds.shape[1] == 1 and type(attention_mask) is torch.Tensor and attention_mask.ndim == 2
    if is_token and _is_plain(config.get_text_config(), others):
        missing = _length_of(cache_in(others)) - attention_mask.shape[1]  # type: ignore[union-attr]
        if missing >= 0:
            shown = attention_mask.to(device=inputs_embeds.device, dtype=torch.bool)  # type: ignore[union-attr]
            return functional.pad(shown, (0, missing))[:, None, None]
    given = {"config": config, "inputs_embeds": inputs_embeds, "attention_mask": attention_mask}
    return masking_utils.create_masks_for_generate(**given, **others)


def _is_plain(config: Any, others: dict[str, Any]) -> bool:
    """Tell whether all layers attend causally to all tokens, and masks of PyTorch's attention are transformers' own."""
    more = ("or_mask_function", "and_mask_function", "block_sequence_ids")
    windows = ("layer_types", "sliding_window", "attention_chunk_size")
    if not getattr(config, "is_causal", True) or any(others.get(name) is not None for name in more):
        return False
    made = masking_utils.ALL_MASK_ATTENTION_FUNCTIONS.get(config._attn_implementation)
    functions = made, masking_utils.create_masks_for_generate
    # Those of transformers' file, unpatched.
    are_own = all(getattr(undecorated(each), "__globals__", None) is vars(masking_utils) for each in functions)
    return made is masking_utils.sdpa_mask and are_own and all(getattr(config, name, None) is None for name in windows)


def _length_of(cache: Any) -> int:
    """Find the length of a static cache of transformers that holds all tokens; -1 of any other."""
    first: Any = cache.layers[0] if type(cache) is cache_utils.StaticCache and cache.layers else None
    is_static = type(first) is cache_utils.StaticLayer and getattr(first, "is_initialized", False)
    return first.max_cache_len if is_static else -1
