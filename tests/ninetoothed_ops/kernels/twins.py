"""Loops around wgmma as one writes them by hand in Triton for Hopper: what the instructions of ours are held against.

The twins of `benchmarks` run on any GPU, so that their loops compute addresses. Here tiles go through tensor
descriptors, as large as ours; the kernels are compiled, and never run.
"""

import dataclasses

import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource


@triton.jit
def place(number, m, n, ROWS: tl.constexpr, COLUMNS: tl.constexpr):
    """The row and the column of a tile, in groups of eight rows."""
    rows, columns = tl.cdiv(m, ROWS), tl.cdiv(n, COLUMNS)
    first = number // (8 * columns) * 8
    height = min(rows - first, 8)
    within = number % (8 * columns)
    return first + within % height, within // height


@triton.jit
def summed(input, other, row, column, k, IS_TURNED: tl.constexpr):
    ROWS: tl.constexpr = input.block_shape[0]
    DEPTH: tl.constexpr = input.block_shape[1]
    COLUMNS: tl.constexpr = other.block_shape[0 if IS_TURNED else 1]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, k, DEPTH):
        left = input.load([row * ROWS, start])
        if IS_TURNED:
            right = other.load([column * COLUMNS, start]).T
        else:
            right = other.load([start, column * COLUMNS])
        total = tl.dot(left, right, total)
    return total


@triton.jit
def halves(total):
    return tl.split(total.reshape(total.shape[0], 2, total.shape[1] // 2).permute(0, 2, 1))


@triton.jit
def mm(input, other, output, m, n, k, IS_TURNED: tl.constexpr):
    ROWS: tl.constexpr = output.block_shape[0]
    COLUMNS: tl.constexpr = output.block_shape[1]
    row, column = place(tl.program_id(0), m, n, ROWS, COLUMNS)
    total = summed(input, other, row, column, k, IS_TURNED)
    output.store([row * ROWS, column * COLUMNS], total.to(tl.float16))


@triton.jit
def persistent_mm(input, other, output, m, n, k, IS_TURNED: tl.constexpr):
    ROWS: tl.constexpr = output.block_shape[0]
    HALF: tl.constexpr = output.block_shape[1]
    tiles = tl.cdiv(m, ROWS) * tl.cdiv(n, 2 * HALF)
    for number in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        row, column = place(number, m, n, ROWS, 2 * HALF)
        left, right = halves(summed(input, other, row, column, k, IS_TURNED))
        output.store([row * ROWS, column * 2 * HALF], left.to(tl.float16))
        output.store([row * ROWS, column * 2 * HALF + HALF], right.to(tl.float16))


@triton.jit
def persistent_addmm(mat1, mat2, input, output, beta, alpha, m, n, k):
    ROWS: tl.constexpr = output.block_shape[0]
    HALF: tl.constexpr = output.block_shape[1]
    tiles = tl.cdiv(m, ROWS) * tl.cdiv(n, 2 * HALF)
    for number in tl.range(tl.program_id(0), tiles, tl.num_programs(0), flatten=True):
        row, column = place(number, m, n, ROWS, 2 * HALF)
        left, right = halves(summed(mat1, mat2, row, column, k, False))
        added = input.load([row * ROWS, column * 2 * HALF]).to(tl.float32)
        output.store([row * ROWS, column * 2 * HALF], (beta * added + alpha * left).to(tl.float16))
        added = input.load([row * ROWS, column * 2 * HALF + HALF]).to(tl.float32)
        output.store([row * ROWS, column * 2 * HALF + HALF], (beta * added + alpha * right).to(tl.float16))


@triton.jit
def batch_summed(input, other, batch, row, column, k):
    ROWS: tl.constexpr = input.block_shape[1]
    DEPTH: tl.constexpr = input.block_shape[2]
    COLUMNS: tl.constexpr = other.block_shape[2]
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for start in range(0, k, DEPTH):
        left = input.load([batch, row * ROWS, start]).reshape(ROWS, DEPTH)
        total = tl.dot(left, other.load([batch, start, column * COLUMNS]).reshape(DEPTH, COLUMNS), total)
    return total


@triton.jit
def persistent_bmm(input, other, output, batches, m, n, k):
    ROWS: tl.constexpr = output.block_shape[1]
    HALF: tl.constexpr = output.block_shape[2]
    tiles = tl.cdiv(m, ROWS) * tl.cdiv(n, 2 * HALF)
    for number in tl.range(tl.program_id(0), batches * tiles, tl.num_programs(0), flatten=True):
        batch = number // tiles
        row, column = place(number % tiles, m, n, ROWS, 2 * HALF)
        left, right = halves(batch_summed(input, other, batch, row, column, k))
        output.store([batch, row * ROWS, column * 2 * HALF], left.to(tl.float16).reshape(1, ROWS, HALF))
        output.store([batch, row * ROWS, column * 2 * HALF + HALF], right.to(tl.float16).reshape(1, ROWS, HALF))


@triton.jit
def attend(key, value, query, batch, head, start, stop, rows, length, factor, state, IS_CAUSAL, IS_EDGE):
    """The state (peaks, sums of weights, weighted values) after the keys from `start` to `stop`."""
    KEYS: tl.constexpr = key.block_shape[2]
    WIDTH: tl.constexpr = key.block_shape[3]
    peak, total, output = state
    for first in tl.range(start, stop, KEYS, num_stages=1 if IS_EDGE else None):
        scores = tl.dot(query, key.load([batch, head, first, 0]).reshape(KEYS, WIDTH).T)
        if IS_EDGE:
            columns = first + tl.arange(0, KEYS)[None, :]
            visible = columns < length
            if IS_CAUSAL:
                visible = visible & (columns <= rows[:, None])
            scores = tl.where(visible, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, 1) * factor)
        weights = tl.exp2(scores * factor - new_peak[:, None])
        decay = tl.exp2(peak - new_peak)
        total = total * decay + tl.sum(weights, 1)
        values = value.load([batch, head, first, 0]).reshape(KEYS, WIDTH)
        output = tl.dot(weights.to(tl.float16), values, output * decay[:, None])
        peak = new_peak
    return peak, total, output


@triton.jit
def sdpa(query, key, value, output, factor, heads, length, IS_CAUSAL: tl.constexpr):
    ROWS: tl.constexpr = query.block_shape[2]
    KEYS: tl.constexpr = key.block_shape[2]
    WIDTH: tl.constexpr = query.block_shape[3]
    batch, head, first = tl.program_id(1) // heads, tl.program_id(1) % heads, tl.program_id(0) * ROWS
    rows = first + tl.arange(0, ROWS)
    queries = query.load([batch, head, first, 0]).reshape(ROWS, WIDTH)
    peak, total = tl.full((ROWS,), float("-inf"), tl.float32), tl.zeros((ROWS,), tl.float32)
    state = peak, total, tl.zeros((ROWS, WIDTH), tl.float32)
    whole, stop = length // KEYS * KEYS, length
    if IS_CAUSAL:
        whole, stop = min(first // KEYS * KEYS, whole), min(first + ROWS, length)
    state = attend(key, value, queries, batch, head, 0, whole, rows, length, factor, state, IS_CAUSAL, False)
    state = attend(key, value, queries, batch, head, whole, stop, rows, length, factor, state, IS_CAUSAL, True)
    peak, total, values = state
    output.store([batch, head, first, 0], (values / total[:, None]).to(tl.float16).reshape(1, 1, ROWS, WIDTH))


@triton.jit
def conv2d(weight, input, output, images, stride_h, stride_w, ROWS: tl.constexpr):
    """512 channels of 14 x 14, the channels innermost, and filters of 3 x 3; the sum in parts, by the second axis."""
    COLUMNS: tl.constexpr = weight.block_shape[0]
    DEPTH: tl.constexpr = weight.block_shape[1]
    row, column = place(tl.program_id(0), images * 144, 512, ROWS, COLUMNS)
    pixels = row * ROWS + tl.arange(0, ROWS)
    image, h, w = pixels // 144, pixels // 12 % 12, pixels % 12
    inputs = input + (image * 100352 + h * stride_h + w * stride_w)[:, None] + tl.arange(0, DEPTH)[None, :]
    blocks: tl.constexpr = 512 // DEPTH
    steps = 9 * blocks // tl.num_programs(1)
    total = tl.zeros((ROWS, COLUMNS), tl.float32)
    for k in range(tl.program_id(1) * steps, tl.program_id(1) * steps + steps):
        r, s, channel = k // (3 * blocks), k // blocks % 3, k % blocks * DEPTH
        moved = inputs + r * stride_h + s * stride_w + channel
        left = tl.load(moved, mask=image[:, None] < images, other=0.0)
        right = weight.load([column * COLUMNS, k * DEPTH]).T
        total = tl.dot(left, right, total)
    places = (tl.program_id(1) * images * 144 + pixels)[:, None] * 512 + column * COLUMNS + tl.arange(0, COLUMNS)
    tl.store(output + places, total, mask=image[:, None] < images)


_TYPES = {"alpha": "fp32", "beta": "fp32", "factor": "fp32"}
_MULTIPLES = frozenset({"m", "n", "k", "length", "stride_h", "stride_w"})


def compiled(kernel, own, **constants):
    """A kernel of this file, with the descriptors, warps and stages of `own`, a compiled one of ours."""
    blocks = {each.source: list(each.block) for each in own.emitted.descriptors}
    pointers = {each.source: "*fp16" for each in own.emitted.arguments if each.role == "pointer"}
    types = {**_TYPES, **pointers, **dict.fromkeys(constants, "constexpr")}
    types |= {name: f"tensordesc<fp16{block}>" for name, block in blocks.items()}
    signature = {name: types.get(name, "i32") for name in kernel.arg_names}
    aligned = [(i,) for i, name in enumerate(signature) if name in _MULTIPLES or name in pointers]
    source = ASTSource(kernel, signature, constants, dict.fromkeys(aligned, [["tt.divisibility", 16]]))
    metadata = own.kernel.metadata
    options = {"num_warps": metadata.num_warps, "num_stages": metadata.num_stages, "enable_fp_fusion": True}
    kernel = triton.compile(source, target=GPUTarget("cuda", own.gpu.architecture, 32), options=options)
    return dataclasses.replace(own, kernel=kernel)
