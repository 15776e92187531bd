"""Calls of the kernels: arguments for given sizes, shared by the tests of the emitted text."""

import pathlib
import re

import torch

from ninetoothed_ops import kernels
from ninetoothed_ops.kernels import (
    activation,
    add,
    add_rms_norm,
    addmm,
    bmm,
    column_sums,
    conv2d,
    conv2d_backward_input,
    conv2d_backward_weight,
    cross_entropy,
    cross_entropy_backward,
    gated,
    layer_norm,
    layer_norm_backward,
    linear_cross_entropy,
    linear_rope_into_cache,
    linear_swiglu,
    mm,
    repack,
    rms_norm,
    rms_norm_backward,
    rope,
    rope_backward,
    rope_into_cache,
    rope_pair,
    rope_partial,
    sdpa,
    sdpa_backward_delta,
    sdpa_backward_key_value,
    sdpa_backward_query,
    silu,
    softmax,
    softmax_backward,
    sum_of_parts,
)
from ninetoothed_ops.kernels.sdpa import NO_MASK
from tests.ninetoothed_ops.kernels import training_calls


def large(name, dtype=torch.float16):
    """A kernel and arguments of the size of the paper's tasks (or of as many elements as tell the same)."""
    return call(name, lambda *shape: torch.empty(shape, dtype=dtype), LARGE)


def small(name, dtype):
    """A kernel and random arguments of odd sizes; the output, the last tensor, is filled with NaN."""
    return call(name, lambda *shape: torch.randn(shape, dtype=dtype), SMALL)


LARGE = {
    "vector": 1 << 24,
    "rows": (4096, 4096),
    "mm": (4096, 4096, 4096),
    "bmm": (4, 2048, 2048, 2048),
    "conv2d": (4, 512, 14, 14, 512),
    "rope": (4, 1024, 48, 64),
    "rope_into_cache": (2, 1, 8, 4, 128, 1024),
    "sdpa": (4, 48, 1024, 64),
    "images": (4, 32, 16, 4096),
}
SMALL = {
    "vector": 1000,
    "rows": (7, 300),
    "mm": (70, 90, 50),
    "bmm": (3, 70, 90, 50),
    "conv2d": (2, 5, 9, 11, 7),
    "rope": (2, 3, 5, 12),
    "rope_into_cache": (2, 3, 2, 3, 12, 9),
    "sdpa": (1, 4, 70, 24),
    "images": (2, 2, 3, 2500),
}
NAMES = ("add", "addmm", "bmm", "conv2d", "mm", "rms_norm", "rope", "sdpa", "silu", "softmax")
NAMES += (
    "activation",
    "add_rms_norm",
    "cross_entropy",
    "gated",
    "layer_norm",
    "linear_rope_into_cache",
    "linear_swiglu",
    "repack",
    "rope_into_cache",
    "rope_pair",
    "rope_partial",
    "swiglu",
    *training_calls.NAMES,
)
# Kernels with options, without which they are as above.
OPTIONS = ("sdpa_capped",)
# Kernels of gradients; their outputs are the last tensors.
GRADIENTS = (
    "activation_backward",
    "column_sums",
    "conv2d_backward_input",
    "conv2d_backward_weight",
    "cross_entropy_backward",
    "gated_backward",
    "layer_norm_backward",
    "layer_norm_weight_backward",
    "linear_cross_entropy",
    "rms_norm_backward",
    "rms_norm_weight_backward",
    "rope_backward",
    "sdpa_backward_delta",
    "sdpa_backward_key_value",
    "sdpa_backward_query",
    "silu_backward",
    "softmax_backward",
    "sum_of_parts",
    "swiglu_backward",
    *training_calls.GRADIENTS,
)


# Every file that makes a kernel.
FOLDER = pathlib.Path(kernels.__file__).parent
ALL = sorted(path.stem for path in FOLDER.glob("*.py") if re.search(r"^(def make\(|make = )", path.read_text(), re.M))


def call(name, make, sizes):
    if name in (*training_calls.NAMES, *training_calls.GRADIENTS):
        return training_calls.call(name, make, sizes)
    match name:
        case "activation" | "activation_backward" | "gated" | "gated_backward":
            module, count = (activation, 2) if name.startswith("activation") else (gated, 3)
            if name.endswith("_backward"):
                return module.make_backward(), tuple(make(sizes["vector"]) for _ in range(2 * count - 1))
            return module.make(), tuple(make(sizes["vector"]) for _ in range(count))
        case "silu_backward" | "swiglu_backward":
            module, count = (activation, 3) if name == "silu_backward" else (gated, 5)
            return module.make_backward("silu", 1), tuple(make(sizes["vector"]) for _ in range(count))
        case "softmax_backward" | "column_sums" | "sum_of_parts":
            rows, columns = sizes["rows"]
            if name == "sum_of_parts":
                return sum_of_parts.make(), (make(rows, columns).float(), make(columns))
            if name == "softmax_backward":
                return softmax_backward.make(2), tuple(make(rows, columns) for _ in range(3))
            return column_sums.make(), (make(rows, columns).float(), make(-(-rows // column_sums.ROWS), columns))
        case "rms_norm_backward" | "rms_norm_weight_backward":
            rows, columns = sizes["rows"]
            inputs = make(rows, columns), make(rows, columns), make(columns), 1e-6, make(rows, columns)
            if name == "rms_norm_backward":
                return rms_norm_backward.make(2), (*inputs, make(rows, columns), True, True)
            partial = make(-(-rows // 4), columns).float()
            return rms_norm_backward.make_of_groups(2, 4), (*inputs, make(rows, columns), partial, True, False)
        case "layer_norm":
            rows, columns = sizes["rows"]
            vectors = make(columns), make(columns)
            return layer_norm.make(2), (make(rows, columns), *vectors, 1e-6, make(rows, columns), True, True)
        case "layer_norm_backward" | "layer_norm_weight_backward":
            rows, columns = sizes["rows"]
            inputs = make(rows, columns), make(rows, columns), make(columns), 1e-6, make(rows, columns)
            if name == "layer_norm_backward":
                return layer_norm_backward.make(2), (*inputs, True)
            sums = (make(-(-rows // 4), columns).float() for _ in range(2))
            return layer_norm_backward.make_of_groups(2, 4), (*inputs, *sums, True, True)
        case "cross_entropy" | "cross_entropy_backward" | "linear_cross_entropy":
            rows, columns = sizes["rows"]
            named, weight = (torch.arange(rows) % columns, make(columns)), (-100, 0.9, 0.1 / columns)
            vectors, flags = [make(rows).float() for _ in range(3)], (True, True, False, True)
            chunk, logits = cross_entropy.chunk_of(columns), make(rows, columns)
            if name == "cross_entropy":
                return cross_entropy.make(2, chunk), (logits, *named, *weight, 0.1, 1.0, 1e-3, *vectors, *flags)
            if name == "linear_cross_entropy":
                numbers = *weight, 0.1, 1.0, 1e-3
                return linear_cross_entropy.make(chunk), (0.5, logits, *named, *numbers, vectors[0], *flags)
            grad, *kept = vectors
            arguments = grad, logits, *named, *weight, 1.0, 1e-3, *kept, 0, columns, make(rows, columns), *flags
            return cross_entropy_backward.make(2, chunk), arguments
        case "add" | "silu" | "swiglu":
            n = sizes["vector"]
            if name == "swiglu":
                return gated.make("silu", 1), (make(n), make(n), make(n))
            if name == "add":
                return add.make(1), (make(n), make(n), 2.0, make(n))
            return silu.make(1), (make(n), make(n))
        case "softmax" | "rms_norm":
            rows, columns = sizes["rows"]
            if name == "softmax":
                return softmax.make(2), (make(rows, columns), make(rows, columns))
            return rms_norm.make(2), (make(rows, columns), make(columns), 1e-6, make(rows, columns), True)
        case "add_rms_norm":
            rows, columns = sizes["rows"]
            input, residual, total, output = (make(rows, columns) for _ in range(4))
            return add_rms_norm.make(2), (input, residual, total, make(columns), 1e-6, output, True)
        case "mm" | "addmm":
            m, n, k = sizes["mm"]
            if name == "mm":
                return mm.make(), (make(m, k), make(k, n), make(m, n))
            return addmm.make(), (make(m, n), make(m, k), make(k, n), 2.0, 0.5, make(m, n))
        case "linear_swiglu":
            m, n, k = sizes["mm"]
            return linear_swiglu.make(), (make(m, k), make(2, n, k), make(m, n))
        case "linear_rope_into_cache":
            batch, _, heads, group, width, length = sizes["rope_into_cache"]
            width, columns = max(width, 16), sizes["mm"][2]
            all_heads = (group + 2) * heads * width
            inputs = make(batch, columns), make(columns, all_heads), make(batch, width), make(batch, width)
            cache = (make(batch, heads, length, width), make(batch, heads, length, width))
            return linear_rope_into_cache.make(width), (*inputs, torch.arange(batch), *cache, make(batch, all_heads), 1)
        case "bmm":
            b, m, n, k = sizes["bmm"]
            return bmm.make(), (make(b, m, k), make(b, k, n), make(b, m, n))
        case "conv2d_backward_input" | "conv2d_backward_weight":
            batch, channels, height, width, filters = sizes["conv2d"]
            tensors = make(batch, filters, height - 2, width - 2), make(filters, channels, 3, 3)
            tensors = (*tensors, make(batch, channels, height, width))
            grad, weight, image = (each.to(memory_format=torch.channels_last) for each in tensors)
            if name == "conv2d_backward_input":
                return conv2d_backward_input.make(padding=((2, 2), (2, 2))), (grad, weight, image)
            return conv2d_backward_weight.make(), (grad, image, weight[None])
        case "repack":
            batch, channels, height, width, _ = sizes["conv2d"]
            pixels = height * (width + 2)
            first, last = make(batch, channels, pixels), make(batch, pixels, channels)
            return repack.make(), (first, last.mT)
        case "conv2d":
            batch, channels, height, width, filters = sizes["conv2d"]
            image = make(batch, channels, height, width)
            output = make(batch, filters, height - 2, width - 2)
            return conv2d.make(), (image, make(filters, channels, 3, 3), make(filters), output, True)
        case "rope" | "rope_backward":
            batch, length, heads, width = sizes["rope"]
            tables = (make(batch, length, 1, width // 2), make(batch, length, 1, width // 2))
            kernel = rope if name == "rope" else rope_backward
            return kernel.make(), (make(batch, length, heads, width), *tables, make(batch, length, heads, width))
        case "rope_pair":
            batch, length, heads, width = sizes["rope"]
            tables = (make(batch, length, 1, width // 2), make(batch, length, 1, width // 2))
            query, key, *outputs = (make(batch, length, n, width) for n in (heads, heads // 3) * 2)
            return rope_pair.make(False), (query, key, *tables, *outputs)
        case "rope_partial":
            batch, length, heads, width = sizes["rope"]
            tables = (make(batch, length, 1, width // 4), make(batch, length, 1, width // 4))
            tensors = (make(batch, length, heads, width // 2) for _ in range(4))
            input, *others = tensors
            return rope_partial.make(False, True), (input, *tables, *others)
        case "rope_into_cache":
            batch, tokens, heads, group, width, length = sizes["rope_into_cache"]
            query, output = (make(batch, tokens, heads, group, width) for _ in range(2))
            key, value = (make(batch, tokens, heads, width) for _ in range(2))
            tables = (make(batch, tokens, 1, width // 2), make(batch, tokens, 1, width // 2))
            slots = torch.arange(tokens).expand(batch, -1)
            cache = (make(batch, heads, length, width), make(batch, heads, length, width))
            return rope_into_cache.make(), (query, key, value, *tables, slots, *cache, output)
        case "sdpa" | "sdpa_capped":
            batch, heads, length, width = sizes["sdpa"]
            q, k, v, output = (make(batch, heads, length, width) for _ in range(4))
            mask = make(1).expand(batch, heads, length, length)
            if name == "sdpa_capped":
                return sdpa.make(is_capped=True), (q, k, v, mask, width**-0.5, output, NO_MASK, True, 2.0)
            return sdpa.make(), (q, k, v, mask, width**-0.5, output, NO_MASK, True)
        case "sdpa_backward_delta" | "sdpa_backward_key_value" | "sdpa_backward_query":
            batch, heads, length, width = sizes["sdpa"]
            grad, output, q, k, v, q_grad, k_grad, v_grad = (make(batch, heads, length, width) for _ in range(8))
            lse, delta = (make(batch, heads, length, 1).float() for _ in range(2))
            if name == "sdpa_backward_delta":
                return sdpa_backward_delta.make(), (grad, output, delta)
            mask, lengths = make(1).expand(batch, heads, length, length), make(batch)
            given = q, k, v, mask, lengths, 0, width**-0.5, 0.0, grad, lse, lse, delta
            if name == "sdpa_backward_query":
                return sdpa_backward_query.make(), (*given, q_grad, NO_MASK, True, False, False)
            return sdpa_backward_key_value.make(), (*given, k_grad, v_grad, NO_MASK, True, False, False)
    raise AssertionError(name)
