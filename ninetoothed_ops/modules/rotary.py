"""Rotary embeddings as each family writes them, on `ninetoothed.rope`.

transformers has some forty functions `apply_rotary_pos_emb`: pairs of neighbours or of halves, tables for all columns
or for the first ones, with a column for each angle or for each element, rounded to the type of the states or not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from ..ops.rope import operator as rope
from ..ops.rope_pair import operator as rope_pair
from .overrides import are_overridden


@dataclass(frozen=True)
class Rotary:
    """The form of `rope` that computes what a family's function computes.

    columns: how a row of the tables lies: "whole", a column for each element; "doubled", so too, but only the first
    half is read, for both of each pair; "halved", a column for each pair.
    is_partial: tables may be narrower than the states, whose other columns stay as they are.
    keeps_type: the result has the type of the states, whatever that of the tables.
    """

    interleaved: bool = False
    interleaved_output: bool | None = None
    columns: str = "whole"
    is_partial: bool = False
    keeps_type: bool = False

    def __call__(self, cos: torch.Tensor, sin: torch.Tensor, *states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Rotate `(B, S, heads, D)` by tables `(S, columns)` or `(1 or B, S, columns)`; two of them in one launch."""
        rotary_dim, (cos, sin) = self.read(states[0], cos, sin)
        if not (self.keeps_type or states[0].dtype == states[-1].dtype == cos.dtype):
            # float32 tables make a half's rotation float32, as PyTorch's promotion does.
            states = tuple(each.to(torch.promote_types(each.dtype, cos.dtype)) for each in states)
        options = self.interleaved, rotary_dim, self.interleaved_output
        if len(states) == 2 and _differ_in_heads_alone(*states):
            return rope_pair(*states, sin, cos, *options)
        return tuple(rope(each, sin, cos, *options) for each in states)

    def read(self, states: torch.Tensor, *tables: torch.Tensor) -> tuple[int | None, Sequence[torch.Tensor]]:
        """Give the `rotary_dim` of `rope`, None where every column rotates, and the tables as it takes them."""
        width = self.width(tables[0])
        if self.columns == "doubled":
            tables = tuple(table[..., : width // 2] for table in tables)
        return None if width == states.shape[-1] else width, tables

    def fits(self, states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> bool:
        """Tell whether `__call__` computes for these what the family's function does."""
        width = self.width(cos)
        is_covered = width == states.shape[-1] or (self.is_partial and width < states.shape[-1])
        is_placed = cos.shape == sin.shape and cos.shape[-2] == states.shape[1] and cos.device == states.device
        return is_covered and is_placed and (cos.ndim == 2 or cos.shape[0] in (1, states.shape[0]))

    def width(self, table: torch.Tensor) -> int:
        """Count the columns that a table rotates."""
        return table.shape[-1] * 2 if self.columns == "halved" else table.shape[-1]


@dataclass(frozen=True)
class RotaryFunction:
    """Stands for a family's function as long as its file has that by this name, and what that calls by theirs.

    It takes the same arguments: so many `states` that are rotated, then tables, then `options`, of which it knows but
    the defaults and `unsqueeze_dim`, where the heads are that the tables lack. Calls of another kind than those that
    were tried go to the family's function.
    """

    original: Callable
    called: tuple[tuple[str, Any], ...]
    file: Mapping[str, Any]
    states: int
    # The names of the tables, ("cos", "sin"), ("sin", "cos"), or ("freqs_cis",) for one of complex numbers.
    tables: tuple[str, ...]
    options: Mapping[str, Any]
    # As `unsqueeze` takes it, negative; if the function takes none, or is not given any.
    heads: int
    rotary: Rotary = Rotary()
    # The dimensions of tables that were tried; two without a batch, which states lack too where the heads are at -2.
    dims: tuple[int, ...] = (3,)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        current = self.file.get(self.original.__name__, self.original)
        read = None if self._is_patched() else self._read(args, kwargs)
        if read is None:
            return current(*args, **kwargs)
        cos, sin, heads = read
        viewed = [self._viewed(each, cos, sin, heads) for each in args[: self.states]]
        covered = [each for each in viewed if each is not None]
        if len(covered) < self.states:
            return current(*args, **kwargs)
        rotated = self.rotary(cos, sin, *covered)
        if heads == -3:
            rotated = tuple(each.transpose(1, 2) for each in rotated)
        if args[0].ndim == 3:
            rotated = tuple(each[0] for each in rotated)
        return rotated[0] if self.states == 1 else rotated

    def _is_patched(self) -> bool:
        """Tell whether the file has something else now by the name of the function, or of one that it calls."""
        for name, function in self.called:
            if self.file.get(name) is not function:
                return True
        return False

    def _read(self, args: tuple, kwargs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, int] | None:
        """Read the tables and where the heads are from a call; None for options that were not tried."""
        tables = dict(zip(self.tables, args[self.states :]))
        for name, value in kwargs.items():
            if name in self.tables:
                tables[name] = value
            elif name not in self.options or (name != "unsqueeze_dim" and value != self.options[name]):
                return None
        if len(tables) < len(self.tables) or len(args) > self.states + len(self.tables):
            return None
        cos, sin = (tables[name] for name in ("cos", "sin")) if len(tables) == 2 else _parts(*tables.values())
        heads = kwargs.get("unsqueeze_dim", self.heads)
        return cos, sin, heads - cos.ndim - 1 if heads >= 0 else heads

    def _viewed(self, states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor, heads: int) -> torch.Tensor | None:
        """View states as `(B, S, heads, D)`; None for calls of another kind than those that were tried."""
        is_float = states.is_floating_point() and cos.is_floating_point()
        if heads not in (-2, -3) or cos.ndim not in self.dims or not is_float:
            return None
        is_flat = cos.ndim == 2 and heads == -2
        if states.ndim != (3 if is_flat else 4) or are_overridden(states):
            return None
        viewed = states.unsqueeze(0) if is_flat else states if heads == -2 else states.transpose(1, 2)
        return viewed if self.rotary.fits(viewed, cos, sin) else None


def _parts(table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """View the cosines and the sines of a table of complex numbers; numbers of another kind are for nobody."""
    return (table.real, table.imag) if table.is_complex() else (table.new_empty(0), table)


def _differ_in_heads_alone(query: torch.Tensor, key: torch.Tensor) -> bool:
    is_alike = query.dtype == key.dtype and query.device == key.device
    return is_alike and query.shape[:2] == key.shape[:2] and query.shape[3] == key.shape[3]
