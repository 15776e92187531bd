"""output = silu(input @ gate.T) * (input @ up.T), as one product of input with both weights.

A tile of the product has the columns of a tile of gate and those of the same tile of up, side by side.
"""

import functools

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size

from . import gated
from .mm import BLOCK_SIZE_K, BLOCK_SIZE_N

# As many rows as Hopper's instruction has: fewer would make the weights its left operand, which reshaped is copied.
BLOCK_SIZE_M = block_size(lower_bound=64)


def arrangement(input, weights, gate, up):
    """`input`: (rows, K); `weights`: (2, columns, K); `gate`, `up`: (rows, columns)."""
    gate_arranged, up_arranged = (tensor.tile((BLOCK_SIZE_M, BLOCK_SIZE_N)) for tensor in (gate, up))

    input_arranged = input.tile(BLOCK_SIZE_M, BLOCK_SIZE_K, loop=1).expand(-1, gate_arranged.shape[1])
    weights_arranged = weights.tile(-1, BLOCK_SIZE_N, BLOCK_SIZE_K, loop=2)
    weights_arranged = weights_arranged.squeeze(2).expand(gate_arranged.shape[0], -1)

    return input_arranged, weights_arranged, gate_arranged, up_arranged


def application(input, weights, gate, up):
    rows, columns = gate.shape
    total = ntl.zeros((rows, 2 * columns), dtype=ntl.float32)

    for k in range(input.shape[0]):
        total += ntl.dot(input[k], ntl.trans(ntl.reshape(weights[k], (2 * columns, weights.dtype.shape[2]))))

    gate, up = ntl.split(ntl.permute(ntl.reshape(total, (rows, 2, columns)), (0, 2, 1)))


def epilogue_arrangement(gate, up, output):
    return tuple(tensor.tile((BLOCK_SIZE_M, BLOCK_SIZE_N)) for tensor in (gate, up, output))


@functools.cache
def make():
    """The kernel `(input, weights, output)`: (rows, K), (2, columns, K), (rows, columns)."""
    weights = Tensor(shape=(2, None, None))
    tensors = (Tensor(2), weights, Tensor(2), Tensor(2))
    products = ninetoothed.make(arrangement, application, tensors, kernel_name="linear_pair")
    second = ninetoothed.make(
        epilogue_arrangement, gated.applying("silu"), tuple(Tensor(2) for _ in range(3)), kernel_name="swiglu_tiles"
    )

    return ninetoothed.fuse(products, second, {"gate": "gate", "up": "up"}, kernel_name="linear_swiglu")
