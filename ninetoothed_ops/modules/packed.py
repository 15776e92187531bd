"""Packed sequences of transformers: several in one row of tokens, of which each attends within itself.

    position_ids    0 1 2 0 1 0 1 2 3    they begin anew: transformers makes a mask of them, unless there is a cache
    cu_seq_lens_q   0 3 5 9              where each begins, and the end of the last; transformers' "sdpa" ignores it

Both run on the kernels for jagged tensors, which neither read a mask nor compute what it hides, a sliding window's
either. What they lack, such as dropout, is computed under a mask that keeps sequences apart, whatever the model's own
says.

What is found out of a mask or of `cu_seq_lens_q` is read from the GPU once, and kept with that tensor: all layers of a
forward are given the same.
"""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from ninetoothed.errors import ArgumentError, UnsupportedError
from ninetoothed.runtime.jagged import is_captured
from ninetoothed.runtime.private import version_of

from ..ops.entries import places_of
from ..ops.sdpa_jagged import operator as sdpa_jagged

# The attribute by which a tensor keeps what was found out of it: (versions, what was found).
FOUND = "ninetoothed_packed"
TOLD = "cu_seq_lens_q"


@dataclass(frozen=True, eq=False)
class Packed:
    """Sequences that lie one behind another: where each begins, with the end of the last.

    longest, length: how many tokens the longest has, and all together. seen: how many a token sees at most.
    is_all: whether they say all that a mask beside them says, which need not be read.
    """

    offsets: torch.Tensor
    longest: int
    is_all: bool
    length: int
    seen: int

    def attend(
        self, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, is_causal: bool, scale: float | None
    ) -> torch.Tensor:
        """Compute attention within each sequence, of (1, heads, length, D)."""
        scale = query.shape[-1] ** -0.5 if scale is None else scale
        entries = self.offsets, None, None, None, self.longest, self.longest
        before = self.seen - 1 if self.seen < self.longest else -1
        return sdpa_jagged(query[0], key[0], value[0], *entries, is_causal, scale, before)[0].unsqueeze(0)

    def apart(self, mask: torch.Tensor | None, length: int, is_causal: bool) -> torch.Tensor:
        """Return a mask that keeps sequences apart, and hides what another one, or causality, hides."""
        entry = places_of(self.offsets, None, length).entry
        same = entry[:, None] == entry
        if mask is None:
            return (same.tril() if is_causal else same)[None, None]
        return mask & same if mask.dtype is torch.bool else mask.masked_fill(~same, torch.finfo(mask.dtype).min)


def find(
    query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, is_causal: bool, kwargs: Mapping[str, Any]
) -> Packed | None:
    """Find the packed sequences of a call of attention; None where it has none that are known."""
    told, length = kwargs.get(TOLD), query.shape[2]
    if told is not None:
        return _of_lengths(told, query, key, mask, kwargs)
    positions = kwargs.get("position_ids")
    if length < 2 or key.shape[2] != length or not isinstance(positions, torch.Tensor):
        return None
    if torch.compiler.is_compiling() or positions.shape != (1, length) or is_captured(query) or positions.is_meta:
        return None
    if not is_causal if mask is None else mask.dtype is not torch.bool or mask.shape != (1, 1, length, length):
        return None
    keeper = positions if mask is None else mask
    found = _kept(keeper, positions)
    if found is None:
        found = _of_positions(positions[0], None if mask is None else mask[0, 0])
        _keep(keeper, positions, found)
    return found or None


def _of_positions(positions: torch.Tensor, mask: torch.Tensor | None) -> Packed | bool:
    """Return the sequences whose mask, with causality, this is; False where it is another.

    Without a mask, transformers has not looked for sequences, as with a cache: then there are several, of which each
    begins where the first one does.
    """
    begins = positions.diff(prepend=positions[:1] - 2) != 1
    seen = positions.shape[0] if mask is None else _seen(mask, begins.cumsum(0))
    if not seen:
        return False
    is_anew = (positions == positions[0]) | ~begins
    *starts, are_anew = torch.cat((begins, is_anew.all()[None])).tolist()  # One read.
    offsets = [*(i for i, is_begin in enumerate(starts) if is_begin), positions.shape[0]]
    if mask is None and (len(offsets) < 3 or not are_anew):
        return False
    longest = max(end - begin for begin, end in zip(offsets, offsets[1:]))
    told = torch.tensor(offsets, dtype=torch.int32, device=positions.device)
    return Packed(told, longest, True, offsets[-1], seen)


def _seen(mask: torch.Tensor, entry: torch.Tensor) -> int:
    """Count what a token sees at most where a mask shows it those before it in its sequence, or the last of them.

    0 for a mask that shows others.
    """
    seen = int(mask.sum(-1).max())
    shown = (entry[:, None] == entry).tril().triu(1 - seen)
    return seen if torch.equal(mask, shown) else 0


def _of_lengths(
    told: Any, query: torch.Tensor, key: torch.Tensor, mask: torch.Tensor | None, kwargs: Mapping[str, Any]
) -> Packed:
    """Return the sequences that a caller tells; raise for what they cannot be."""
    length, others = query.shape[2], kwargs.get("cu_seq_lens_k", told)
    if query.shape[0] != 1 or key.shape[2] != length or not isinstance(told, torch.Tensor) or told.ndim != 1:
        raise UnsupportedError(
            f"{TOLD} tells packed sequences: one row of tokens, without a cache that holds others; this call has "
            f"{query.shape[0]} rows of {length} tokens and {key.shape[2]} keys. Leave it out, or flatten the batch"
        )
    if torch.compiler.is_compiling() or is_captured(query):
        longest = kwargs.get("max_length_q")
        return Packed(told, longest if isinstance(longest, int) else length, mask is None, length, length)
    keeper = told if mask is None else mask
    found = _kept(keeper, told)
    if found is None or found.length != length:
        found = _checked(told, others, length, mask)
        _keep(keeper, told, found)
    return found


def _checked(told: torch.Tensor, others: Any, length: int, mask: torch.Tensor | None) -> Packed:
    """Read what a caller tells, and check it: rows in no sequence would not be computed."""
    offsets = told.tolist()
    sizes = [end - begin for begin, end in zip(offsets, offsets[1:])]
    is_same = others is told or isinstance(others, torch.Tensor) and others.tolist() == offsets
    if offsets[:1] != [0] or offsets[-1] != length or min(sizes, default=0) < 0 or not is_same:
        raise ArgumentError(
            f"{TOLD} is {_shortened(offsets)}, and cu_seq_lens_k {'the same' if is_same else 'another'}, for {length} "
            "tokens; give both the begins of all sequences, from 0 on, and the end of the last"
        )
    seen = length if mask is None else 0
    if mask is not None and mask.dtype is torch.bool and mask.shape == (1, 1, length, length):
        seen = _seen(mask[0, 0], places_of(told, None, length).entry)
    return Packed(told, max(sizes, default=0), bool(seen), length, seen)


def _shortened(values: list[int]) -> str:
    return str(values) if len(values) < 8 else f"[{', '.join(map(str, values[:3]))}, ..., {values[-1]}]"


def _kept(tensor: torch.Tensor, other: torch.Tensor) -> Any:
    """Return what was found out of two tensors, if neither was written to since."""
    known, versions, found = getattr(tensor, FOUND, (None, None, None))
    is_known = known is not None and known() is other and versions is not None and versions == _versions(tensor, other)
    return found if is_known else None


def _keep(tensor: torch.Tensor, other: torch.Tensor, found: Any) -> None:
    setattr(tensor, FOUND, (weakref.ref(other), _versions(tensor, other), found))


def _versions(*tensors: torch.Tensor) -> tuple[int, ...] | None:
    """Return how often tensors were written to; None where one does not tell, as those of inference."""
    versions = tuple(None if each.is_inference() else version_of(each) for each in tensors)
    return None if None in versions else versions  # type: ignore[return-value]
