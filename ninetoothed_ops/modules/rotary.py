"""Rotary embeddings as each family writes them, on `ninetoothed.rope`.

transformers has some forty functions `apply_rotary_pos_emb`: pairs of neighbours or of halves, tables for all columns
or for the first or the last ones, with a column for each angle or for each element, rounded to the type of the states
or not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch

from ..ops.rope import operator as rope, pair as rope_pair
from .overrides import are_overridden

# The argument of some functions beside states and tables.
POSITIONS = "position_ids"


@dataclass(frozen=True)
class Rotary:
    """The form of `rope` that computes what a family's function computes.

    columns: how a row of the tables lies: "whole", a column for each element; "doubled", so too, but only the first
    half is read, for both of each pair; "halved", a column for each pair.
    rotates: "all" columns of the states; the "first" or the "last" ones, where tables may be narrower than states,
    whose other columns stay as they are.
    keeps_type: the result has the type of the states, whatever that of the tables.
    is_reversed: the angles are the opposite ones.
    """

    interleaved: bool = False
    interleaved_output: bool | None = None
    columns: str = "whole"
    rotates: str = "all"
    keeps_type: bool = False
    is_reversed: bool = False

    def __call__(self, cos: torch.Tensor, sin: torch.Tensor, *states: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Rotate `(B, S, heads, D)` by tables `(S, columns)` or `(1 or B, S, columns)`; two of them in one launch."""
        rotary_dim, (cos, sin) = self.read(states[0], cos, sin)
        if not self.keeps_type:
            # float32 tables make a half's rotation float32, as PyTorch's promotion does.
            states = tuple(
                each if each.dtype == cos.dtype else each.to(torch.promote_types(each.dtype, cos.dtype))
                for each in states
            )
        options = self.interleaved, rotary_dim, self.interleaved_output
        if len(states) > 1 and _differ_in_heads_alone(*states[:2]):
            pair = rope_pair(states[0], states[1], sin, cos, *options)
            return (*pair, *(rope(each, sin, cos, *options) for each in states[2:]))
        return tuple(rope(each, sin, cos, *options) for each in states)

    def read(
        self, states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor
    ) -> tuple[int | None, Sequence[torch.Tensor]]:
        """Give the `rotary_dim` of `rope`, None where every column rotates, and the tables as it takes them."""
        width = self.width(cos)
        if self.columns == "doubled":
            cos, sin = cos[..., : width // 2], sin[..., : width // 2]
        if self.is_reversed:
            sin = -sin
        if width == states.shape[-1]:
            return None, (cos, sin)
        return -width if self.rotates == "last" else width, (cos, sin)

    def fits(self, states: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> bool:
        """Tell whether `__call__` computes for these what the family's function does."""
        width, whole = self.width(cos), states.shape[-1]
        is_covered = width == whole or (self.rotates != "all" and width < whole)
        are_alike = cos.shape == sin.shape and cos.dtype == sin.dtype
        is_placed = are_alike and cos.shape[-2] == states.shape[1] and cos.device == states.device
        is_even = width % 2 == 0 and 0 < width <= whole
        return is_covered and is_even and is_placed and (cos.ndim == 2 or cos.shape[0] in (1, states.shape[0]))

    def width(self, table: torch.Tensor) -> int:
        """Count the columns that a table rotates."""
        return table.shape[-1] * 2 if self.columns == "halved" else table.shape[-1]


class Way(NamedTuple):
    """A layout of states and tables: the heads of states, -2 or -3, their dimensions and those of the tables.

    States are (B, S, heads, D) or (S, heads, D), or have heads before S; tables are (B or 1, S, columns) or (S,
    columns), or (S, 1, columns) where `has_axis` for heads.
    """

    heads: int
    dims: int
    table_dims: int
    has_axis: bool = False


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
    # The names of the tables, ("cos", "sin"), ("sin", "cos"), or one for one of complex numbers.
    tables: tuple[str, ...]
    options: Mapping[str, Any]
    # The ways that were tried. Without `unsqueeze_dim` the shapes of a call tell which one it is.
    ways: tuple[Way, ...]
    rotary: Rotary = Rotary()
    # The meaning of `position_ids`: "rows", those of tables (positions, columns) that are read; "parts", so many as its
    # last dimension has, in which each head and each row of the tables is cut.
    positions: str | None = None
    # Tables may be shorter than states, of which the last tokens are rotated.
    keeps_first: bool = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        rotated = self.rotated(args, kwargs)
        return self._current()(*args, **kwargs) if rotated is None else rotated

    @property
    def is_llamas(self) -> bool:
        """Tell whether it takes what Llama's function takes: a query and a key, their heads first, and two tables."""
        takes = self.states == 2 and self.tables == ("cos", "sin") and self.positions is None
        return takes and self._way(-3, 4, 3) is not None and self.options.get("unsqueeze_dim", 1) in (1, -3)

    def _current(self) -> Callable:
        return self.file.get(self.original.__name__, self.original)

    def rotated(self, args: tuple, kwargs: dict[str, Any]) -> Any:
        """Rotate what a call gives; None if it is unknown."""
        read = None if self._is_patched() else self._read(args, kwargs)
        if read is None:
            return None
        cos, sin, way, positions = read
        states = args[: self.states]
        for each in states:
            if each.ndim != way.dims or not each.is_floating_point():
                return None
        if are_overridden(*states) or not cos.is_floating_point():
            return None
        viewed = [each.unsqueeze(0) if way.dims == 3 else each for each in states]
        viewed = [each.transpose(1, 2) if way.heads == -3 else each for each in viewed]
        first = viewed[0].shape[1] - cos.shape[-2] if self.keeps_first else 0
        turning = [each[:, first:] for each in viewed] if first > 0 else viewed
        for each in turning:
            if not self.rotary.fits(each, cos, sin):
                return None
        if positions is None:
            rotated = self.rotary(cos, sin, *turning)
        elif cos.shape[-1] % (2 * positions):
            return None
        else:
            rotated = _in_parts(self.rotary, positions, cos, sin, *turning)
        if first > 0:
            rotated = tuple(torch.cat((given[:, :first], each), 1) for given, each in zip(viewed, rotated))
        rotated = tuple(each.transpose(1, 2) if way.heads == -3 else each for each in rotated)
        rotated = tuple(each[0] if way.dims == 3 else each for each in rotated)
        return rotated[0] if self.states == 1 else rotated

    def _is_patched(self) -> bool:
        """Tell whether the file has something else now by the name of the function, or of one that it calls."""
        for name, function in self.called:
            if self.file.get(name) is not function:
                return True
        return False

    def _read(self, args: tuple, kwargs: dict[str, Any]) -> tuple[torch.Tensor, torch.Tensor, Way, int | None] | None:
        """Read tables from a call, how they lie, and into how many parts they are cut; None if that was not tried."""
        names = self.tables if self.positions is None else (*self.tables, POSITIONS)
        given = dict(zip(names, args[self.states :]))
        for name, value in kwargs.items():
            if name in names and name not in given:
                given[name] = value
            elif name not in self.options or (name != "unsqueeze_dim" and value != self.options[name]):
                return None
        if len(given) < len(names) or len(args) > self.states + len(names):
            return None
        first = given[self.tables[0]]
        cos, sin = (given["cos"], given["sin"]) if len(self.tables) == 2 else _parts(first)
        if self.positions == "rows":
            if cos.ndim != 2 or cos.shape != sin.shape:
                return None
            cos, sin = cos[given[POSITIONS]], sin[given[POSITIONS]]
        dim = kwargs.get("unsqueeze_dim", self.options.get("unsqueeze_dim"))
        heads = dim if dim is None or dim < 0 else dim - cos.ndim - 1
        way = self._way(heads, args[0].ndim, cos.ndim)
        if way is None:
            return None
        if way.has_axis:
            if cos.shape[1] != 1 or sin.shape[1:2] != (1,):
                return None
            cos, sin = cos.squeeze(1), sin.squeeze(1)
        return cos, sin, way, given[POSITIONS].shape[-1] if self.positions == "parts" else None

    def _way(self, heads: int | None, dims: int, table_dims: int) -> Way | None:
        """Find the way of a call among those that were tried."""
        for way in self.ways:
            if (way.dims, way.table_dims) == (dims, table_dims) and heads in (None, way.heads):
                return way
        return None


def _in_parts(
    rotary: Rotary, count: int, cos: torch.Tensor, sin: torch.Tensor, *states: torch.Tensor
) -> tuple[torch.Tensor, ...]:
    """Rotate each of so many parts of heads by itself, in one launch: a part is a token to `rope`, a token a batch."""
    batch, tokens = states[0].shape[:2]
    # (B S, parts, columns) and (B S, parts, heads, columns).
    cos, sin = (each.expand(batch, tokens, -1).reshape(batch * tokens, count, -1) for each in (cos, sin))
    apart = (each.reshape(batch * tokens, each.shape[2], count, -1).transpose(1, 2) for each in states)
    rotated = rotary(cos, sin, *apart)
    return tuple(each.transpose(1, 2).reshape(given.shape) for each, given in zip(rotated, states))


def _parts(table: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """View the cosines and the sines of a table of complex numbers; numbers of another kind are for nobody."""
    return (table.real, table.imag) if table.is_complex() else (table.new_empty(0), table)


def _differ_in_heads_alone(query: torch.Tensor, key: torch.Tensor) -> bool:
    is_alike = query.dtype == key.dtype and query.device == key.device
    return is_alike and query.shape[:2] == key.shape[:2] and query.shape[3] == key.shape[3]
