"""The arrangement of elementwise kernels: tensors of one shape, element by element."""

from ninetoothed import block_size


def arrangement(*tensors, BLOCK_SIZE=block_size()):
    """Tensors of one shape and any strides, flattened and cut into blocks; scalars as they are."""
    return tuple(tensor.flatten().tile((BLOCK_SIZE,)) if tensor.ndim else tensor for tensor in tensors)
