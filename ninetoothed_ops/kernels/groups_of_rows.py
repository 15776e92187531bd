"""The arrangement of kernels of which each program has several rows, one after another."""

from ninetoothed import arrange


def arrangement(*tensors, group, sums):
    """Give each program `group` rows, one after another; and a row of those tensors at the places `sums`."""
    rows = arrange.rows(*tensors)
    programs = rows[0].tile(group).shape

    def grouped(i, tensor):
        if tensor.ndim < 2:
            return arrange.whole(tensor, programs) if tensor.ndim else tensor
        return rows[i] if i in sums else rows[i].tile(group)

    return tuple(grouped(i, tensor) for i, tensor in enumerate(tensors))


def is_within(row):
    """Tell whether a row is one of the tensor's: the scale of one beyond the last is infinite where eps is 0."""
    return row.offsets(0) < row.source.shape[0]
