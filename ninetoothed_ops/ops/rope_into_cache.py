"""`rope_into_cache`: rotary position embedding of queries and keys, and the keys and values of a cache written.

As `rope(query)`, `keys.index_copy_(2, slots, rope(key))` and `values.index_copy_(2, slots, value)`, in one launch.
"""

from collections.abc import Sequence

import torch

from ninetoothed.runtime.private import base_of, has_transforms

from ..kernels import rope_into_cache as kernels
from ..registration import of_file
from . import readers
from .checks import alike, check_supported
from .rope import by_pairs, check_tables, pair as rope_pair

NAME = "rope_into_cache"


def allocate(query, key, value, sin, cos, slots, keys, values, interleaved=False, rotary_dim=None):
    check(query, key, value, sin, cos, slots, keys, values, rotary_dim)

    return query.new_empty(query.shape)


def check(query, key, value, sin, cos, slots, keys, values, rotary_dim=None) -> None:
    """Raise for arguments that do not fit together."""
    check_supported(NAME, (query, key, value, sin, cos, keys, values))
    if not (alike(query, key, value, keys, values) and _fit(query, key, value, keys, values, rotary_dim is not None)):
        raise RuntimeError(
            f"ninetoothed::{NAME} expects a query, a key and a value of (batch, tokens, heads, D), D even, and keys "
            "and values of (batch, heads, length, D), with as many heads as the key, which divide the query's, all of "
            f"one type on one device, but got {', '.join(map(_described, (query, key, value, keys, values)))}"
        )
    check_tables(NAME, query, sin, cos, rotary_dim)
    wanted = query.shape[:2]
    fits = slots.dtype in (torch.int32, torch.int64) and slots.device == query.device
    if not fits or slots.shape not in (wanted, (1, *wanted[1:]), wanted[1:]):
        raise RuntimeError(
            f"ninetoothed::{NAME} expects slots of (tokens,) or (batch, tokens), of torch.int32 or torch.int64 on "
            f"{query.device}, but got {_described(slots)} with a query of {list(query.shape)}"
        )


def _fit(query, key, value, keys, values, may_be_odd) -> bool:
    if not query.ndim == key.ndim == keys.ndim == 4:
        return False
    (batch, _, heads, width), length = key.shape, keys.shape[2]
    are_whole = heads > 0 and query.shape[2] % heads == 0 and (may_be_odd or width % 2 == 0)
    is_placed = keys.shape == values.shape == (batch, heads, length, width)

    return are_whole and is_placed and key.shape == value.shape == (*query.shape[:2], heads, query.shape[3])


def _described(tensor: torch.Tensor) -> str:
    return f"{list(tensor.shape)} of {tensor.dtype} on {tensor.device}"


def launch(output, query, key, value, sin, cos, slots, keys, values, interleaved=False, rotary_dim=None):
    if output.numel() == 0:
        return
    batch, tokens, heads, _ = key.shape
    half = (rotary_dim or key.shape[3]) // 2
    slots = slots.expand(batch, tokens)
    check_slots(slots, keys.shape[2])
    sin, cos = (by_pairs(table.expand(batch, -1, -1), half, interleaved) for table in (sin, cos))
    query, output = (tensor.unflatten(2, (heads, -1)) for tensor in (query, output))

    kernels.make(interleaved)(query, key, value, sin, cos, slots, keys, values, output)


def check_slots(slots: torch.Tensor, length: int) -> None:
    if slots.device.type == "cpu" and not ((slots >= 0) & (slots < length)).all():
        raise IndexError(f"ninetoothed::{NAME}: slots are {slots.tolist()}, and the cache has {length} of them")


def _check_writable(*caches: torch.Tensor) -> None:
    """Raise for tensors into which autograd records no write."""
    for cache in caches:
        base = base_of(cache)
        whole = cache if base is None else base
        if cache.is_inference() or (whole.is_leaf and whole.requires_grad):
            raise RuntimeError(
                f"ninetoothed::{NAME} records no write into keys or values of which one is a leaf Variable that "
                "requires grad, a view of one, or a tensor of inference; pass a clone"
            )


def recorded(query, key, value, sin, cos, slots, keys, values, interleaved=False, rotary_dim=None):
    """Compute the same by operators that have gradients: what is overwritten in the cache gets none."""
    check(query, key, value, sin, cos, slots, keys, values, rotary_dim)
    # Fakes and transformed tensors cannot be asked. What is refused below would be after the keys are written.
    if type(slots) is torch.Tensor and not has_transforms():
        check_slots(slots.expand(key.shape[:2]), keys.shape[2])
        _check_writable(keys, values)
    query, key = rope_pair(query, key, sin, cos, interleaved, rotary_dim)
    # A copy, as whoever counts the slots counts on before the gradients are computed.
    places = slots.to(torch.int64, copy=True).expand(key.shape[:2])
    for cache, states in ((keys, key), (values, value)):
        index = places[:, None, :, None].expand(*cache.shape[:2], -1, cache.shape[3])
        if has_transforms():  # PyTorch has no rule by which vmap batches the other.
            cache.copy_(cache.scatter(2, index, states.transpose(1, 2)))
        else:
            cache.scatter_(2, index, states.transpose(1, 2))

    return query


operator = of_file(
    f"{NAME}(Tensor query, Tensor key, Tensor value, Tensor sin, Tensor cos, Tensor slots, "
    "Tensor(a!) keys, Tensor(b!) values, bool interleaved=False, int? rotary_dim=None) -> Tensor",
    globals(),
)


@readers.by_annotations()
def rope_into_cache(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    sin: torch.Tensor,
    cos: torch.Tensor,
    slots: torch.Tensor,
    keys: torch.Tensor,
    values: torch.Tensor,
    interleaved: bool = False,
    rotary_dim: int | None = None,
) -> torch.Tensor:
    """Rotate `query` and `key` as `rope` does, and write into a cache; give the rotated query.

    `query` is (batch, tokens, heads, D), and so are `key` and `value`, with as many heads or a divisor. The rotated key
    of a token and its value go to `keys` and `values`, (batch, heads, length, D), at the place that `slots` tells,
    (tokens,) or (batch, tokens), on the device. A slot beyond the length raises IndexError on a CPU; on a GPU, which
    cannot stop, that token's query becomes NaN and nothing is written. Where a gradient is recorded, as of
    `index_copy_`, the cache is written by `scatter_`, whose errors those of a GPU are.
    """
    tensors: Sequence[torch.Tensor] = query, key, value, sin, cos, slots, keys, values
    are_read = type(interleaved) is bool and rotary_dim is None
    if not (are_read and readers.PLAIN.issuperset(map(type, tensors))):
        *tensors, interleaved, rotary_dim = readers.read(NAME, None, *tensors, interleaved, rotary_dim)

    return operator(*tensors, interleaved, rotary_dim)
