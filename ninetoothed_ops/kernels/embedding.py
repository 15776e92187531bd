"""output[t, :] = table[ids[t], :]: rows of a table, by their numbers; NaN for a number that the table does not have."""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange, block_size


def arrangement(ids, table, output, ROWS=block_size(upper_bound=32), COLUMNS=block_size()):
    output = output.tile(ROWS, COLUMNS)
    ids = ids.tile(ROWS).unsqueeze(1).expand(-1, output.shape[1])

    return ids, arrange.whole(table, output.shape), output


def application(ids, table, output):
    is_row = (ids >= 0) & (ids < table.source.shape[0])

    output = ntl.where(is_row[:, None], table.source[ids[:, None], output.offsets(1)[None, :]], float("nan"))


@functools.cache
def make():
    """The kernel `(ids, table, output)`: (tokens,), (rows, columns), (tokens, columns)."""
    return ninetoothed.make(arrangement, application, (Tensor(1), Tensor(2), Tensor(2)), kernel_name="embedding")
