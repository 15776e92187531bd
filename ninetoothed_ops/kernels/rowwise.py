"""The arrangement of kernels of rows: a whole row is one tile."""


def rows(tensor):
    """(..., columns) as one tile of (columns,) a row."""
    tiled = tensor.flatten(end_dim=-1).tile((1, -1))
    tiled.dtype = tiled.dtype.squeeze(0)

    return tiled
