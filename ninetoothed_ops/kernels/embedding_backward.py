"""table_grad[r, :] = sum over i from starts[r] to ends[r] of grad[order[i], :], for each row of a table.

order: the tokens, sorted by the row that each takes, and those of one row in their own order: a row adds up what is its
own one token after the other, and no result depends on chance. Rows of no token get zeros. Where it is a mean, the sum
is divided by the number of tokens.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size

from .numeric import computed, widen
from .parameters import flags


def arrangement(order, starts, ends, grad, table_grad, is_mean, COLUMNS=block_size()):
    table_grad = table_grad.tile(None, COLUMNS)
    starts, ends = (each.tile(None).unsqueeze(1).expand(-1, table_grad.shape[1]) for each in (starts, ends))
    order, grad = (arrange.whole(each, table_grad.shape) for each in (order, grad))

    return order, starts, ends, grad, table_grad, is_mean


def application(order, starts, ends, grad, table_grad, is_mean):
    total = ntl.zeros(table_grad.shape, dtype=computed(grad.dtype))

    for i in range(starts, ends):
        total += widen(grad.source[order.source[i], table_grad.offsets(1)])

    table_grad = total / ntl.maximum(ends - starts, 1) if is_mean else total


@functools.cache
def make():
    """The kernel `(order, starts, ends, grad, table_grad, is_mean)`.

    (tokens,), (rows,), (rows,), (tokens, columns), (rows, columns) and a flag.
    """
    tensors = Tensor(1), Tensor(1), Tensor(1), Tensor(2), Tensor(2), *flags(1)

    return ninetoothed.make(arrangement, application, tensors, kernel_name="embedding_backward")
