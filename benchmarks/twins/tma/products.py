"""Configurations of the products over tensor descriptors, and the blocks that each gives to its descriptors."""

import triton


def set_blocks(args):
    """Give the descriptors of a launch the blocks of the configuration that is tried."""
    m, n, k = args["BLOCK_SIZE_M"], args["BLOCK_SIZE_N"], args["BLOCK_SIZE_K"]
    outer = [1] * (len(args["c"].block_shape) - 2)
    args["a"].block_shape = [*outer, k, m] if args["A_TRANSPOSED"] else [*outer, m, k]
    args["b"].block_shape = [*outer, n, k] if args["B_TRANSPOSED"] else [*outer, k, n]
    args["c"].block_shape = [*outer, m, n // 2]


def configurations(choices, set_blocks=set_blocks):
    """Make configurations of (M, N, warps, stages, whether programs are persistent)."""
    return [
        triton.Config(
            {"BLOCK_SIZE_M": m, "BLOCK_SIZE_N": n, "BLOCK_SIZE_K": 64, "GROUP_SIZE_M": 8, "PERSISTENT": persistent},
            num_warps=warps,
            num_stages=stages,
            pre_hook=set_blocks,
        )
        for m, n, warps, stages, persistent in choices
    ]


PERSISTENT_CHOICES = ((128, 256, 8, 4, True), (128, 256, 8, 3, True))
CHOICES = (
    (128, 256, 8, 3, False),
    (256, 128, 8, 3, False),
    (128, 128, 8, 4, True),
    (128, 128, 4, 4, False),
    (128, 64, 4, 4, False),
    (64, 64, 4, 5, False),
)
