"""The arrangement of kernels of rows: a whole row is one tile."""


def rows(tensor):
    """(..., columns) as one tile of (columns,) a row."""
    return tensor.flatten(end_dim=-1).tile(None, -1)


def arrangement(*tensors):
    """Give each program a row of each tensor, all of each vector, and scalars as they are."""
    return each_row(tensors, rows, lambda vector: vector.tile((-1,)))


def each_row(tensors, cut, cut_vector):
    """Arrange tensors of rows by `cut`, the first of them in any case, and vectors that all rows share."""
    count = cut(tensors[0]).shape[0]

    return tuple(
        cut(tensor) if tensor.ndim > 1 else cut_vector(tensor).expand((count,)) if tensor.ndim else tensor
        for tensor in tensors
    )


def arrangement_of_groups(*tensors, group, sums):
    """Give each program `group` rows, one after another; and a row of those tensors at the places `sums`."""

    def grouped(tensor):
        return tensor.flatten(end_dim=-1).tile(None, -1, loop={0: group})

    arranged = each_row(tensors, grouped, lambda vector: vector.tile((-1,)))

    return tuple(rows(tensors[i]) if i in sums else tensor for i, tensor in enumerate(arranged))


def is_within(row):
    """Tell whether a row is one of the tensor's: the scale of one beyond the last is infinite where eps is 0."""
    return row.offsets(0) < row.source.shape[0]
