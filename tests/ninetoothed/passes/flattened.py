"""Arrangements that flatten dimensions, and what is computed by them: for tests of text, and in the interpreter."""

import ninetoothed.language as ntl


def layer(input, weight, output, rows=64, columns=64, depth=64):
    """Tiles of (batch, length, features) by (outputs, features)."""
    output = output.flatten(end_dim=-1).tile((rows, columns))
    input = input.flatten(end_dim=-1).tile((rows, depth)).tile((1, -1)).expand((-1, output.shape[1]))
    input.dtype = input.dtype.squeeze(0)
    weight = weight.permute((1, 0)).tile((depth, columns)).tile((-1, 1)).expand((output.shape[0], -1))
    weight.dtype = weight.dtype.squeeze(1)
    return input, weight, output


def product(input, weight, output):
    total = ntl.zeros(output.shape, dtype=ntl.float32)
    for k in range(input.shape[0]):
        total += ntl.dot(input[k], weight[k])
    output = total


def turned(x, y):
    """The rows and columns of matrices, the last first, one after another."""
    return x.permute((2, 1, 0)).flatten().tile((64,)), y.permute((2, 1, 0)).flatten().tile((64,))


def flattened(x, y):
    return x.flatten().tile((64,)), y.flatten().tile((64,))


def more(x, y):
    y = x + 1


def both(x, y):
    y = x + x.source[0, 1, 2]
