"""`linear_rope_into_cache`: q, k and v of an attention, rotated and written into a cache.

    rope_into_cache(linear(input, query), linear(input, key), linear(input, value), sin, cos, slots, keys, values)

It gives all heads of the product, (batch, tokens, heads, D): first those of the queries, rotated; the others are room
that the product takes. Where the weights lie one behind another in memory and there are few rows, this is one product
with an epilogue.
"""

import torch

from ..kernels import linear_rope_into_cache as kernels
from ..registration import of_file
from . import joint_linear
from .adjacent import concatenated
from .rope_into_cache import check, check_slots, launch as rotate_into, recorded as rotate_recorded

# More rows are a product whose tiles leave no shared memory for the angles of all their rows.
MOST_ROWS = 64
# A tile has whole heads, whose columns are as many as it may have.
WIDTHS = (16, 32, 64, 128, 256)


def flatten(input, query, key, value, *others):
    """Give whether the weights lie one behind another, and each of them, after the input."""
    input, _, are_joint, *weights = joint_linear.flatten(input, (query, key, value), ())

    return input, are_joint, *weights, *others


def allocate(input, are_joint, query, key, value, sin, cos, slots, keys, values):
    output = joint_linear.allocate(input, 3, are_joint, query, key, value)
    _check_heads(input, query, key, value, keys)
    query, key, value = _heads(output, key, keys)
    check(query, key, value, sin, cos, slots, keys, values)

    return output.unflatten(2, (-1, keys.shape[3]))


def _check_heads(input, query, key, value, keys):
    """Raise where a product does not give whole heads, as the cache has them."""
    if input.ndim != 3 or keys.ndim != 4 or keys.shape[3] == 0 or key.shape != value.shape:
        raise RuntimeError(
            "ninetoothed::linear_rope_into_cache expects an input of (batch, tokens, K), keys of (batch, heads, "
            "length, D), and weights of keys and values of one shape, but got "
            f"{[list(each.shape) for each in (input, keys, key, value)]}"
        )
    for name, weight in (("queries", query), ("keys", key)):
        if weight.shape[0] % keys.shape[3]:
            raise RuntimeError(
                f"ninetoothed::linear_rope_into_cache expects a weight of {name} that gives whole heads of "
                f"{keys.shape[3]} columns, as the cache has them, but got {list(weight.shape)}"
            )


def launch(output, input, are_joint, query, key, value, sin, cos, slots, keys, values):
    batch, tokens, heads, width = output.shape
    if output.numel() == 0:
        return
    output = output.flatten(2)
    is_one_product = are_joint and batch * tokens <= MOST_ROWS and width in WIDTHS and input.element_size() == 2
    whole = concatenated((query, key, value)) if is_one_product and input.shape[2] else None
    if whole is None:
        joint_linear.launch(output, input, 3, are_joint, query, key, value)
        query, key, value = _heads(output, key, keys)
        rotate_into(query, query, key, value, sin, cos, slots, keys, values)
        return
    slots = slots.expand(batch, tokens)
    check_slots(slots, keys.shape[2])
    sin, cos = (table.expand(batch, -1, -1).flatten(0, 1) for table in (sin, cos))
    rows = input.flatten(0, 1), whole.t(), sin, cos, slots.flatten(), keys, values, output.flatten(0, 1)
    kernels.make(width)(*rows, tokens)


def _heads(output, key, keys):
    """The heads of queries, keys and values of a product, (batch, tokens, heads, D)."""
    width, columns = keys.shape[3], key.shape[0]
    sizes = output.shape[2] - 2 * columns, columns, columns

    return [each.unflatten(2, (-1, width)) for each in output.split_with_sizes(sizes, 2)]


def recorded(input, query, key, value, sin, cos, slots, keys, values):
    """Compute the same by operators that have gradients."""
    output = joint_linear.operator(input, (query, key, value), ())
    _check_heads(input, query, key, value, keys)
    query, key, value = _heads(output, key, keys)
    query = rotate_recorded(query, key, value, sin, cos, slots, keys, values)

    return torch.cat((query, key, value), 2)


operator = of_file(
    "linear_rope_into_cache(Tensor input, Tensor query, Tensor key, Tensor value, Tensor sin, Tensor cos, "
    "Tensor slots, Tensor(a!) keys, Tensor(b!) values) -> Tensor",
    globals(),
)
