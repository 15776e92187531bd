"""The types in which tiles are computed, for applications to call."""

import ninetoothed.language as ntl


def computed(dtype):
    """The type in which values stored as `dtype` are computed: float32 for halves, int8 for bools."""
    return ntl.float32 if dtype in (ntl.float16, ntl.bfloat16) else ntl.int8 if dtype is ntl.int1 else dtype


def widen(tile):
    """The tile in the type in which its values are computed."""
    return ntl.cast(tile, computed(tile.dtype))


def factor_of(weight, unit_offset):
    """Return the factor by which a norm multiplies its rows; 1 is added to a half in float32."""
    return widen(weight) + 1 if unit_offset else widen(weight)


def rounded(tile, dtype):
    """The tile in the type in which values of `dtype` are computed, and rounded to `dtype` if it is not in that."""
    return tile if tile.dtype is computed(dtype) else widen(ntl.cast(tile, dtype))


def exponential(tile, dtype):
    """The exponential of a tile, for results of `dtype`: only float32 shows what a GPU's own instruction is off by."""
    return ntl.libdevice.exp(tile) if dtype is ntl.float32 else ntl.exp(tile)
