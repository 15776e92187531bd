"""Masks of sparse attention: the keys, or blocks of keys, that an indexer has chosen for each query.

A model whose attention is "eager" or "sdpa" puts its choice into its mask itself, and hands it on to any other.
"""

from typing import Any

import torch
from torch import nn


def chosen(
    module: nn.Module, query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, arguments: dict[str, Any]
) -> torch.Tensor | None:
    """Leave of a mask what is chosen: `indices` of keys, or `block_indices` of blocks; the mask where nothing is."""
    indices, blocks = arguments.get("indices"), arguments.get("block_indices")
    if blocks is not None:
        positions = _positions(query, key, arguments.get("position_ids"))
        indexer: Any = module.indexer
        return indexer.build_block_mask(blocks, mask, key.shape[2], query.dtype, query.device, positions)
    if indices is None:
        return mask
    # (batch, queries, chosen keys); what is chosen past what a query sees stays hidden by the mask.
    kept = indices.new_zeros((*indices.shape[:2], key.shape[2]), dtype=torch.bool).scatter(-1, indices.long(), True)
    if mask is None:
        positions = _positions(query, key, None)
        return (kept & (torch.arange(key.shape[2], device=key.device) <= positions[..., None]))[:, None]
    kept = kept[:, None]
    return mask & kept if mask.dtype is torch.bool else mask.masked_fill(~kept, torch.finfo(mask.dtype).min)


def _positions(query: torch.Tensor, key: torch.Tensor, given: torch.Tensor | None) -> torch.Tensor:
    """Give the position of each query, (batch, queries): the last ones of the keys if none are given."""
    if given is None:
        given = torch.arange(key.shape[2] - query.shape[2], key.shape[2], device=query.device)
    return given.expand(query.shape[0], -1)
