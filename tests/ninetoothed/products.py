"""Matrix products in blocks that a test chooses."""

import ninetoothed.language as ntl


def blocked(m, n, k):
    """The arrangement of `a @ b = c` in tiles of (m, k), (k, n) and (m, n)."""

    def arrangement(a, b, c):
        c = c.tile((m, n))
        a = a.tile((m, k)).tile((1, -1)).expand((-1, c.shape[1]))
        b = b.tile((k, n)).tile((-1, 1)).expand((c.shape[0], -1))
        a.dtype, b.dtype = a.dtype.squeeze(0), b.dtype.squeeze(1)
        return a, b, c

    return arrangement


def multiply(a, b, c):
    accumulator = ntl.zeros(c.shape, dtype=ntl.float32)
    for k in range(a.shape[0]):
        accumulator += ntl.dot(a[k], b[k])
    c = accumulator
