"""sdpa with dropout, and the log-sum-exp of each row, of base 2, from which gradients have its weights.

    weights = softmax(query @ key^T * scale + mask);  output = (weights * kept / (1 - rate)) @ value
    lse = log2(sum over keys of exp(query @ key^T * scale + mask))

Where a mask is added, lse is in two parts: the peak of the row, and the rest, which would be lost beside a peak of
-1e38, such as the lowest number in a mask makes. For soft caps and sinks see `sdpa`; a sink has its part in lse.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor

from .attention import (
    ADDITIVE_MASK,
    LOG2E,
    absent,
    attention,
    by_rows,
    cap_of,
    inputs,
    matrices,
    numbers,
    rows,
    vectors,
    window_of,
)
from .parameters import flags


def arrangement(query, key, value, mask, lengths, seed, scale, rate, output, lse, peak, *options):
    *others, sinks, is_capped, has_sinks, left, right, is_windowed = options
    tiled, last = by_rows(query, key, value, mask, lengths), (is_capped, has_sinks, left, right, is_windowed)
    sinks = numbers(sinks) if sinks.ndim else sinks

    return *tiled, seed, scale, rate, rows(output), rows(lse), rows(peak), *others, sinks, *last


def application(
    query, key, value, mask, lengths, seed, scale, rate, output, lse, peak,
    masking, is_causal, is_eager, ragged, drops, softcap, sinks, is_capped, has_sinks, left, right, is_windowed,
):  # fmt: skip
    held, drop = lengths if ragged else None, (seed, rate) if drops else None
    cap, unit = ((scale, softcap), softcap) if is_capped else (None, scale)
    sink = sinks if has_sinks else None
    window = (left, right) if is_windowed else None
    highest, total, accumulator = attention(
        query, key, value, mask, unit, output, masking, is_causal, held, drop, cap, sink, window
    )
    divisor = total if is_eager else ntl.where(total == 0.0, 1.0, total)

    # A rate of 1 keeps nothing, which may be divided by any number.
    output = accumulator / (divisor * max(1.0 - rate, 1e-30) if drops else divisor)[:, None]

    # Of a row that sees nothing, each weight is 0; NaN where that is asked for.
    rest = ntl.log2(total) if is_eager else ntl.where(total == 0.0, float("inf"), ntl.log2(total))

    if masking == ADDITIVE_MASK:
        peak = ntl.where(highest == float("-inf"), 0.0, highest)[:, None]
        lse = rest[:, None]
    else:
        lse = (ntl.where(total == 0.0, 0.0, highest * (unit * LOG2E)) + rest)[:, None]


@functools.cache
def make(is_capped=False, has_sinks=False, jagged_dim=None, is_windowed=False):
    """The kernel, of the parameters of `application`; those of its gradients have the first of them, too.

    (batch, heads, length, D); the heads of key and value are equal in number to the query's, or divide it. `mask`:
    (batch, heads, queries, keys), of any strides. `lengths`: (batch,), the number of keys of each batch entry, read
    where `ragged`. `seed`: an integer; `rate`: the part of the weights that is dropped, where it `drops` any. `lse` and
    `peak`, which is written where a mask is added: (batch, heads, queries, 1). `softcap` and `sinks` are parameters
    where they are asked for, as in `sdpa.make`. `jagged_dim` is that of all but the mask. `left` and `right`: how many
    keys before and after its own place a row sees, where there is a window.
    """
    query, key, value, output = matrices(4, jagged_dim=jagged_dim)
    options = cap_of(is_capped), Tensor(4) if has_sinks else absent(), *flags(0, is_capped, has_sinks)
    options = *options, *window_of(is_windowed)
    tensors = *inputs(query, key, value, Tensor(4)), output, *vectors(2, jagged_dim=jagged_dim), *flags(5), *options

    return ninetoothed.make(arrangement, application, tensors, kernel_name="sdpa_with_lse")
