"""`sdpa(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, *, scale=None, enable_gqa=False) -> Tensor`.

As `torch.nn.functional.scaled_dot_product_attention`. The operator has four options more. `safe`: rows whose scores are
all -inf give zeros, as there, or NaN, as attention written out with a softmax does. `lengths`, on the device: how many
keys each batch entry has, as in a cache that is larger than what it holds; the others are not read. `softcap`: scores
become softcap * tanh(scores / softcap) before the mask. `sinks`: one more score of every row for each head, which has
no value.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch.nn import functional

from ninetoothed.errors import ArgumentError, UnsupportedError
from ninetoothed.runtime import private

from ..kernels import sdpa as kernels
from ..registration import of_file
from . import readers, sdpa_nested, sdpa_with_lse
from .checks import alike, check_product, of_shapes, refuse
from .dtensors import is_dtensor
from .layout import same_shape


@dataclass(frozen=True)
class Options:
    """The options that are taken by keyword alone."""

    scale: float | None = None
    enable_gqa: bool = False
    safe: bool = True
    softcap: float | None = None


def allocate(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, lengths=None, sinks=None, **options):
    batch = _checked(query, key, value, attn_mask, dropout_p, is_causal, lengths, sinks, Options(**options))
    return sdpa_with_lse.empty_output(query, (*batch, query.shape[-2], value.shape[-1]))


def _checked(query, key, value, attn_mask, dropout_p, is_causal, lengths, sinks, asked: Options) -> tuple[int, ...]:
    """Return the dimensions before the last two, broadcast; raise for arguments that do not fit together."""
    batch = _batch(query.shape, key.shape, value.shape, asked.enable_gqa) if alike(query, key, value) else None
    fits = attn_mask is None or batch is not None and _masks(attn_mask, query, key, batch)
    if not 0.0 <= dropout_p <= 1.0:
        # PyTorch's kernels for GPUs take such a rate, or blame another thing.
        raise RuntimeError(f"dropout probability has to be between 0 and 1, but got {dropout_p:g}")
    if batch is None or not fits:
        options = {"attn_mask": attn_mask, "dropout_p": dropout_p, "is_causal": is_causal}
        options |= {"scale": asked.scale, "enable_gqa": asked.enable_gqa}
        refuse("sdpa", functional.scaled_dot_product_attention, query, key, value, **options)
    check_product("sdpa", query)
    if lengths is not None:
        _check_lengths(lengths, query, batch[:-1])
    if sinks is not None:
        _check_sinks(sinks, query, batch)
    if asked.softcap is not None and not 0.0 < asked.softcap < math.inf:
        raise ArgumentError(
            f"ninetoothed::sdpa takes a finite softcap above zero, but got {asked.softcap}; leave it out for scores "
            "that are not capped"
        )

    return batch


@of_shapes
def _batch(query, key, value, enable_gqa: bool) -> tuple[int, ...] | None:
    """The dimensions before the last two, broadcast; None where the shapes do not fit together."""
    if min(map(len, (query, key, value))) < (3 if enable_gqa else 2) or query[-1] != key[-1] or key[-2] != value[-2]:
        return None
    leading = [tuple(shape[:-2]) for shape in (query, key, value)]
    if leading[0] == leading[1] == leading[2]:
        return leading[0]
    if enable_gqa:
        heads = [shape[-1] if shape else 0 for shape in leading]
        if 0 in heads or any(heads[0] % count for count in heads):
            return None
        leading = [(*shape[:-1], heads[0]) for shape in leading]
    try:
        return tuple(torch.broadcast_shapes(*leading))
    except RuntimeError:
        return None


def _masks(attn_mask, query, key, batch) -> bool:
    if attn_mask.dtype not in (torch.bool, torch.float32, query.dtype) or attn_mask.device != query.device:
        return False
    try:
        attn_mask.expand(*batch, query.shape[-2], key.shape[-2])
    except RuntimeError:
        return False
    return attn_mask.ndim >= 2


def _check_lengths(lengths, query, batch) -> None:
    """Check that there is a number for each batch entry, of the dimensions before the heads, or one for all."""
    fits = lengths.ndim <= max(len(batch), 1) and lengths.dtype in (torch.int32, torch.int64)
    sizes = zip(lengths.shape[::-1], batch[::-1] or (1,), strict=False)
    if not fits or lengths.device != query.device or any(size not in (1, wanted) for size, wanted in sizes):
        raise ArgumentError(
            f"ninetoothed::sdpa takes lengths of the shape (), (1,) or {tuple(batch)}, of torch.int32 or torch.int64, "
            f"on {query.device}, but got {tuple(lengths.shape)} of {lengths.dtype} on {lengths.device}"
        )


def _check_sinks(sinks, query, batch) -> None:
    heads = batch[-1] if batch else 1
    fits = sinks.ndim == 1 and sinks.shape[0] == heads and sinks.dtype in (query.dtype, torch.float32)
    if not fits or sinks.device != query.device:
        raise ArgumentError(
            f"ninetoothed::sdpa takes a sink for each head, of the shape ({heads},), of {query.dtype} or float32, on "
            f"{query.device}, but got {tuple(sinks.shape)} of {sinks.dtype} on {sinks.device}"
        )


def launch(
    output, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, lengths=None, sinks=None, **options
):
    if output.numel() == 0:
        return
    asked = Options(**options)
    scale, safe = _scale(query, asked.scale), asked.safe
    if dropout_p > 0:
        tensors = _in_four_dimensions(output.shape[:-2], query, key, value, attn_mask, lengths)
        arguments = (*tensors, sinks, new_seed(query), dropout_p, is_causal, scale, safe, asked.softcap)
        dropped = sdpa_with_lse.allocate(*arguments)
        sdpa_with_lse.launch(dropped, *arguments)
        output.copy_(dropped[0].view(output.shape))
        return
    if scale < sdpa_with_lse.LOWEST_SCALE:
        query, scale = sdpa_with_lse.scaled_above(query, scale)
    batch = output.shape[:-2]
    query, key, value = _expanded(query, batch), _of_own_heads(key, batch), _of_own_heads(value, batch)
    if attn_mask is None:
        masking, mask = kernels.NO_MASK, query  # It is not read; any tensor of as many rows will do.
    else:
        masking = kernels.BOOLEAN_MASK if attn_mask.dtype is torch.bool else kernels.ADDITIVE_MASK
        mask = attn_mask.expand(*output.shape[:-1], key.shape[-2])
    if output.ndim != 4:
        query, key, value, mask, output = map(_four_dimensions, (query, key, value, mask, output))
    sinks = None if sinks is None else sdpa_with_lse.of_rows(sinks, output)

    if query.shape[2] == 1 and query.shape[1] != key.shape[1] == value.shape[1] and not is_causal:
        heads = key.shape[1]
        query, mask, output = (_grouped(tensor, heads) for tensor in (query, mask, output))
        sinks = None if sinks is None else _grouped(sinks, heads)

    lengths = None if lengths is None else _of_entries(lengths, batch[:-1])
    last = asked.softcap, lengths, sinks
    kernel = kernels.make(not safe, *(each is not None for each in last))
    given = (each for each in last if each is not None)
    kernel(query, key, value, mask, scale, output, masking, is_causal, *given)


def _of_entries(lengths: torch.Tensor, batch) -> torch.Tensor:
    """Give the number of each batch entry, in one dimension."""
    return (lengths.expand(batch) if batch else lengths).reshape(-1)


def _grouped(tensor: torch.Tensor, heads: int) -> torch.Tensor:
    """(batch, heads * group, 1, D) as (batch, heads, group, D): queries of the same keys are rows of one tile."""
    return tensor.unflatten(1, (heads, -1)).squeeze(3)


def _expanded(tensor: torch.Tensor, leading) -> torch.Tensor:
    """Expand what is before the last two dimensions; a tensor of that shape is itself, and no view for autograd."""
    return tensor if same_shape(tensor.shape[:-2], leading) else tensor.expand(*leading, *tensor.shape[-2:])


def _of_own_heads(tensor: torch.Tensor, batch) -> torch.Tensor:
    """Keys or values for every batch entry, with their own number of heads."""
    return _expanded(tensor, (*batch[:-1], tensor.shape[-3] if tensor.ndim > 2 else 1))


def _four_dimensions(tensor: torch.Tensor) -> torch.Tensor:
    """(..., heads, length, D) as (batch, heads, length, D)."""
    if tensor.ndim == 4:
        return tensor

    return tensor.flatten(0, -4) if tensor.ndim > 4 else tensor[(None,) * (4 - tensor.ndim)]


def _scale(query, scale) -> float:
    return max(query.shape[-1], 1) ** -0.5 if scale is None else scale


def new_seed(query) -> torch.Tensor:
    """Draw a number for dropout from the generator of the device, without waiting for the device."""
    return torch.randint(2**63 - 1, (), device=query.device)


def recorded(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, lengths=None, sinks=None, **options):
    """Compute the same by operators that have gradients."""
    asked = Options(**options)
    batch = _checked(query, key, value, attn_mask, dropout_p, is_causal, lengths, sinks, asked)
    arguments = _in_four_dimensions(batch, query, key, value, attn_mask, lengths)
    seed = new_seed(query) if dropout_p > 0 else None
    others = dropout_p, is_causal, _scale(query, asked.scale), asked.safe, asked.softcap
    output, _ = sdpa_with_lse.operator(*arguments, sinks, seed, *others)

    return output if len(batch) == 2 else output.view(*batch, *output.shape[-2:])


@of_shapes
def _is_whole(query, key, value, batch) -> bool:
    """Tell whether attention of these shapes has four dimensions, and nothing is expanded but heads."""
    if not len(query) == len(key) == len(value) == 4 or not same_shape(key[:2], value[:2]):
        return False
    return same_shape(query[:2], batch) and same_shape(key[:1], batch[:1])


def _in_four_dimensions(batch, query, key, value, mask, lengths) -> tuple:
    """Expand and view what attention takes as `sdpa_with_lse` takes it, so that gradients are summed where needed."""
    if mask is lengths is None and _is_whole(query.shape, key.shape, value.shape, batch):
        return query, key, value, None, None
    scores = query.shape[-2], key.shape[-2]
    query, key, value = _expanded(query, batch), _of_own_heads(key, batch), _of_own_heads(value, batch)
    if len(batch) > 0 and key.shape[-3] != value.shape[-3]:
        key, value = (each.repeat_interleave(batch[-1] // each.shape[-3], -3) for each in (key, value))
    if mask is not None:
        if mask.requires_grad and mask.shape[-2:] != scores and mask.dtype.itemsize < 4:
            mask = mask.float()  # Its gradient is summed up over rows or columns, and rounded once.
        mask = mask.expand(*(mask.shape[:-2] if len(batch) <= 2 else batch), *scores)
        mask = _four_dimensions(mask)
    lengths = None if lengths is None else _of_entries(lengths, batch[:-1])

    return *map(_four_dimensions, (query, key, value)), mask, lengths


operator = of_file(
    "sdpa(Tensor query, Tensor key, Tensor value, Tensor? attn_mask=None, float dropout_p=0.0, "
    "bool is_causal=False, Tensor? lengths=None, Tensor? sinks=None, *, float? scale=None, bool enable_gqa=False, "
    "bool safe=True, float? softcap=None) -> Tensor",
    globals(),
    autocast=torch.get_autocast_dtype,
    nested=sdpa_nested.sdpa,
    tags=(torch.Tag.nondeterministic_seeded,),
)


def _checked_window(window_size: tuple[int, int]) -> tuple[int, int]:
    """Return the two bounds of a window, where that is what was given."""
    bounds = tuple(window_size) if isinstance(window_size, tuple | list) else ()
    if len(bounds) != 2 or any(type(each) is not int or each < -1 for each in bounds):
        raise ArgumentError(
            f"ninetoothed::sdpa takes a window_size of two integers, from -1 on, but got {window_size!r}; give how "
            "many keys before and after its own place a row sees, and -1 for all of them"
        )
    return bounds[0], bounds[1]


@readers.by_annotations()
def sdpa(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attn_mask: torch.Tensor | None = None,
    dropout_p: float = 0.0,
    is_causal: bool = False,
    *,
    scale: float | None = None,
    enable_gqa: bool = False,
    lengths: torch.Tensor | None = None,
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
    window_size: tuple[int, int] | None = None,
) -> torch.Tensor:
    """`softmax(query @ key^T * scale + mask) @ value`, for (..., heads, length, D) and any number of dimensions before.

    A row whose scores are all -inf, masked or overflown, gives zeros. What a boolean mask hides has no part in the
    result, NaN neither. `dropout_p` is the part of the weights that is set to 0, drawn anew in each call from the
    device's default generator, which `torch.manual_seed` sets.

    `lengths`, on the device, of torch.int32 or torch.int64 and of the shape (), (1,) or that of the dimensions before
    the heads, says how many keys and values each batch entry has. Those from there on have no part, and whole blocks of
    them are not read: a cache may be larger than what it holds. Rows without any key give zeros.

    `softcap`, above zero, keeps scores between -softcap and softcap: `softcap * tanh(query @ key^T * scale / softcap)`
    stands in the place of `query @ key^T * scale`. `sinks`, of the shape (heads,), are one more score for every row of
    a head, which has no value: weights of the others add up to less than 1.

    Nested tensors of layout `torch.jagged`, (batch, heads, jagged, D), attend within each entry, by the same kernels;
    those with a mask or dropout are PyTorch's own. `window_size=(left, right)`, as of PyTorch's `varlen_attn`, lets a
    row see the keys from `left` before its own place to `right` after it, -1 for all of them; blocks outside are not
    read.

    The arguments and errors are otherwise those of `torch.nn.functional.scaled_dot_product_attention`.
    """
    plain = readers.PLAIN
    are_tensors = type(query) in plain and type(key) in plain and type(value) in plain
    is_mask = type(attn_mask) in readers.PLAIN_OR_NONE
    are_given = lengths is not None or sinks is not None or softcap is not None
    if window_size is not None and (are_given or not private.is_jagged(query) or torch.compiler.is_compiling()):
        raise UnsupportedError(
            "ninetoothed::sdpa takes a window_size of nested tensors alone, outside of graphs, and without lengths, "
            "sinks and softcap; give a boolean mask"
        )
    are_numbers = type(dropout_p) is float and (scale is None or type(scale) is float)
    if not (are_tensors and is_mask and are_numbers and type(is_causal) is type(enable_gqa) is bool):
        args = query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa
        if not are_given and private.is_jagged(query):
            compute = operator if torch.compiler.is_compiling() else sdpa_nested.sdpa
            options: Any = {} if window_size is None else {"window_size": _checked_window(window_size)}
            return compute(*args[:6], scale=scale, enable_gqa=enable_gqa, **options)
        is_drawn = is_dtensor(query) and dropout_p != 0  # Of each part, PyTorch draws other numbers.
        if not are_given and (is_drawn or readers.are_overridden(query, key, value, attn_mask)):
            return functional.scaled_dot_product_attention(*args[:6], scale=scale, enable_gqa=enable_gqa)
        read = readers.read("sdpa", functional.scaled_dot_product_attention, *args)
        query, key, value, attn_mask, dropout_p, is_causal, scale, enable_gqa = read

    if are_given:
        lengths, sinks, softcap = readers.read("sdpa", None, lengths=lengths, sinks=sinks, softcap=softcap)
        arguments = query, key, value, attn_mask, dropout_p, is_causal, lengths, sinks
        return operator(*arguments, scale=scale, enable_gqa=enable_gqa, softcap=softcap)
    if scale is None and enable_gqa is False:  # PyTorch takes almost a microsecond to read two keywords.
        return operator(query, key, value, attn_mask, dropout_p, is_causal)
    return operator(query, key, value, attn_mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa)
