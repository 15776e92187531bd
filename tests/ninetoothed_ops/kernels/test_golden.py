"""The emitted text of the ten kernels for an H200, at the sizes of the paper. `EXPECTTEST_ACCEPT=1` rewrites it."""

import difflib

import expecttest

from ninetoothed.runtime.selection import machine
from tests.ninetoothed_ops.kernels import calls


def emitted(name):
    """The configuration and the kernel, without the imports."""
    kernel, arguments = calls.large(name)
    source = kernel.source(*arguments, gpu=machine.H200)
    configuration = source.configuration
    options = f"# num_warps={configuration.num_warps}, num_stages={configuration.num_stages}\n"
    return options + source.text[source.text.index("@triton.jit") :]


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_add(self):
        self.assertExpectedInline(
            emitted("add"),
            """\
# num_warps=4, num_stages=3
@triton.jit
def add(input_ptr, other_ptr, alpha, output_ptr, input_size_0):
    pid = tl.program_id(0)
    input_index = pid * 1024 + tl.arange(0, 1024)
    mask = input_index < input_size_0
    input = tl.load(input_ptr + input_index, mask=mask)
    other = tl.load(other_ptr + input_index, mask=mask)
    output = input.to(tl.float32) + alpha * other.to(tl.float32)
    tl.store(output_ptr + input_index, output.to(tl.float16), mask=mask)
""",
        )

    def test_addmm(self):
        self.assertExpectedInline(
            emitted("addmm"),
            """\
# num_warps=8, num_stages=3
@triton.jit
def addmm(mat1_desc, mat2_desc, input_desc, output_desc, beta, alpha, input_size_0, input_size_1, mat1_size_1):
    rows = tl.cdiv(input_size_0, 128)
    columns = tl.cdiv(input_size_1, 256)
    group_size = columns * 8
    for pid in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0), flatten=True):
        first_row = pid // group_size * 8
        group_rows = tl.minimum(rows - first_row, 8)
        pid_0 = first_row + pid % group_size % group_rows
        pid_1 = pid % group_size // group_rows
        accumulator = tl.zeros((128, 256), tl.float32)
        for k in range(tl.cdiv(mat1_size_1, 64)):
            mat1 = mat1_desc.load([pid_0 * 128, k * 64])
            mat2 = mat2_desc.load([k * 64, pid_1 * 256])
            accumulator = tl.dot(mat1, mat2, accumulator)
        input = input_desc.load([pid_0 * 128, pid_1 * 256])
        left, right = tl.split(tl.permute(tl.reshape(accumulator, (128, 2, 128)), (0, 2, 1)))
        output = tl.fma(beta, input.to(tl.float32), alpha * left)
        output_desc.store([pid_0 * 128, pid_1 * 256], output.to(tl.float16))
        input = input_desc.load([pid_0 * 128, pid_1 * 256 + 128])
        output = tl.fma(beta, input.to(tl.float32), alpha * right)
        output_desc.store([pid_0 * 128, pid_1 * 256 + 128], output.to(tl.float16))
""",
        )

    def test_bmm(self):
        self.assertExpectedInline(
            emitted("bmm"),
            """\
# num_warps=8, num_stages=3
@triton.jit
def bmm(input_desc, other_desc, output_desc, input_size_0, input_size_1, input_size_2, other_size_2):
    rows = tl.cdiv(input_size_1, 128)
    columns = tl.cdiv(other_size_2, 256)
    group_size = columns * 8
    for pid in tl.range(tl.program_id(0), rows * columns * input_size_0, tl.num_programs(0), flatten=True):
        tile = pid % (rows * columns)
        first_row = tile // group_size * 8
        group_rows = tl.minimum(rows - first_row, 8)
        pid_1 = first_row + tile % group_size % group_rows
        pid_2 = tile % group_size // group_rows
        pid_0 = pid // (rows * columns)
        accumulator = tl.zeros((128, 256), tl.float32)
        for k in range(tl.cdiv(input_size_2, 64)):
            input = tl.reshape(input_desc.load([pid_0, pid_1 * 128, k * 64]), (128, 64))
            other = tl.reshape(other_desc.load([pid_0, k * 64, pid_2 * 256]), (64, 256))
            accumulator = tl.dot(input, other, accumulator)
        left, right = tl.split(tl.permute(tl.reshape(accumulator, (128, 2, 128)), (0, 2, 1)))
        output_desc.store([pid_0, pid_1 * 128, pid_2 * 256], tl.reshape(left.to(tl.float16), (1, 128, 128)))
        output_desc.store([pid_0, pid_1 * 128, pid_2 * 256 + 128], tl.reshape(right.to(tl.float16), (1, 128, 128)))
""",
        )

    def test_conv2d(self):
        self.assertExpectedInline(
            emitted("conv2d"),
            """\
# num_warps=4, num_stages=4
@triton.jit
def conv2d(input_ptr, weight_ptr, bias_ptr, output_ptr, input_size_0, output_size_0):
    pid = tl.program_id(0)
    rows = tl.cdiv(input_size_0 * 9, 4)
    first_row = pid // 64 * 8
    group_rows = tl.minimum(rows - first_row, 8)
    pid_1 = first_row + pid % 64 % group_rows
    pid_2 = pid % 64 // group_rows
    accumulator = tl.zeros((64, 64), tl.float32)
    input_index = pid_1 * 64 + tl.arange(0, 64)
    input_index_0 = input_index // 144
    input_index_2 = input_index // 12 % 12
    input_index_3 = input_index % 12
    input_offsets = (
        (input_index_0 * 100352 + input_index_2 * 14 + input_index_3)[:, None]
        + tl.arange(0, 128)[None, :] * 196
    )
    weight_index_0 = pid_2 * 64 + tl.arange(0, 64)
    for k in range(36):
        input = tl.load(
            input_ptr + k % 4 * 128 * 196 + k // 12 * 14 + k // 4 % 3 + input_offsets,
            mask=input_index[:, None] < input_size_0 * 144,
            other=0.0,
        )
        weight_index_1 = k % 4 * 128 + tl.arange(0, 128)
        weight = tl.load(weight_ptr + k // 4 + weight_index_0[None, :] * 4608 + weight_index_1[:, None] * 9)
        accumulator = tl.dot(input, weight, accumulator)
    mask = input_index[:, None] < output_size_0 * 144
    bias = tl.load(tl.broadcast_to(bias_ptr + weight_index_0[None, :], (64, 64)), mask=mask)
    output = (1.0 * bias).to(tl.float32) + 1.0 * tl.where(input_index[:, None] < input_size_0 * 144, accumulator, 0.0)
    output_index_2 = input_index % 144
    tl.store(
        output_ptr + (input_index_0 * 73728 + output_index_2)[:, None] + weight_index_0[None, :] * 144,
        output.to(tl.float16),
        mask=mask,
    )
""",
        )

    def test_mm(self):
        self.assertExpectedInline(
            emitted("mm"),
            """\
# num_warps=8, num_stages=3
@triton.jit
def mm(input_desc, other_desc, output_desc, input_size_0, input_size_1, other_size_1):
    rows = tl.cdiv(input_size_0, 128)
    columns = tl.cdiv(other_size_1, 256)
    group_size = columns * 8
    for pid in tl.range(tl.program_id(0), rows * columns, tl.num_programs(0), flatten=True):
        first_row = pid // group_size * 8
        group_rows = tl.minimum(rows - first_row, 8)
        pid_0 = first_row + pid % group_size % group_rows
        pid_1 = pid % group_size // group_rows
        accumulator = tl.zeros((128, 256), tl.float32)
        for k in range(tl.cdiv(input_size_1, 64)):
            input = input_desc.load([pid_0 * 128, k * 64])
            other = other_desc.load([k * 64, pid_1 * 256])
            accumulator = tl.dot(input, other, accumulator)
        left, right = tl.split(tl.permute(tl.reshape(accumulator, (128, 2, 128)), (0, 2, 1)))
        output_desc.store([pid_0 * 128, pid_1 * 256], left.to(tl.float16))
        output_desc.store([pid_0 * 128, pid_1 * 256 + 128], right.to(tl.float16))
""",
        )

    def test_rms_norm(self):
        self.assertExpectedInline(
            emitted("rms_norm"),
            """\
# num_warps=8, num_stages=3
@triton.jit
def rms_norm(input_ptr, weight_ptr, eps, output_ptr, input_size_1):
    pid = tl.program_id(0)
    mask = tl.arange(0, 4096) < input_size_1
    input = tl.load(input_ptr + pid * input_size_1 + tl.arange(0, 4096), mask=mask, other=0.0)
    wide = input.to(tl.float32)
    weight = tl.load(weight_ptr + tl.arange(0, 4096), mask=mask)
    factor = weight.to(tl.float32)
    normalized = wide * tl.rsqrt(tl.sum(wide * wide) / tl.cast(input_size_1, tl.float32) + eps)
    output = normalized * factor
    tl.store(output_ptr + pid * input_size_1 + tl.arange(0, 4096), output.to(tl.float16), mask=mask)
""",
        )

    def test_rope(self):
        self.assertExpectedInline(
            emitted("rope"),
            """\
# num_warps=8, num_stages=3
@triton.jit
def rope(input_ptr, sin_ptr, cos_ptr, output_ptr, input_stride_0, sin_stride_0, cos_stride_0, output_stride_0):
    pid_0 = tl.program_id(1)
    pid_1 = tl.program_id(0)
    sin = tl.load(sin_ptr + pid_0 * sin_stride_0 + pid_1 * 32 + tl.arange(0, 32))
    sine = sin.to(tl.float32)
    cos = tl.load(cos_ptr + pid_0 * cos_stride_0 + pid_1 * 32 + tl.arange(0, 32))
    cosine = cos.to(tl.float32)
    mask = tl.arange(0, 64)[:, None] < 48
    input = tl.load(
        input_ptr + pid_0 * input_stride_0 + pid_1 * 3072 + tl.arange(0, 64)[:, None] * 64 + tl.arange(0, 64)[None, :],
        mask=mask,
        other=0.0,
    )
    even, odd = tl.split(tl.reshape(input.to(tl.float32), (64, 32, 2)))
    tl.store(
        output_ptr
        + pid_0 * output_stride_0
        + pid_1 * 3072
        + tl.arange(0, 64)[:, None] * 64
        + tl.arange(0, 64)[None, :],
        tl.reshape(
            tl.join(
                tl.fma(even, cosine[None, :], -(odd * sine[None, :])),
                tl.fma(even, sin.to(tl.float32)[None, :], odd * cos.to(tl.float32)[None, :]),
            ),
            (64, 64),
        ).to(tl.float16),
        mask=mask,
    )
""",
        )

    def test_sdpa(self):
        self.assertExpectedInline(
            emitted("sdpa"),
            """\
# num_warps=4, num_stages=3
@triton.jit
def sdpa(query_desc, key_desc, value_desc, output_desc, scale, key_size_2):
    pid_0 = tl.program_id(2)
    pid_1 = tl.program_id(1)
    pid_2 = tl.num_programs(0) - 1 - tl.program_id(0)
    scale_log2e = scale * 1.4426950408889634
    start = -1e+38 / tl.maximum(scale, 1.0)
    query = tl.reshape(query_desc.load([pid_0, pid_1, pid_2 * 64, 0]), (64, 64))
    total = tl.zeros((64,), tl.float32)
    accumulator = tl.zeros((64, 64), tl.float32)
    peak = tl.full((64,), start, tl.float32)
    for j in range(tl.minimum(key_size_2 // 64, pid_2)):
        key = tl.reshape(key_desc.load([pid_0, pid_1, j * 64, 0]), (64, 64))
        scores = tl.dot(query, tl.trans(key))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        decay = tl.exp2((peak - new_peak) * scale_log2e)
        weights = tl.exp2(tl.fma(scores, scale_log2e, -(new_peak * scale_log2e)[:, None]))
        total = total * decay + tl.sum(weights, axis=1)
        mul = accumulator * decay[:, None]
        cast = weights.to(tl.float16)
        value = tl.reshape(value_desc.load([pid_0, pid_1, j * 64, 0]), (64, 64))
        accumulator = tl.dot(cast, value, mul)
        peak = new_peak
    index_1 = pid_2 * 64 + tl.arange(0, 64)
    j = tl.minimum(key_size_2 // 64, pid_2)
    if j < tl.cdiv(tl.minimum(pid_2 * 64 + 64, key_size_2), 64):
        key = tl.reshape(key_desc.load([pid_0, pid_1, j * 64, 0]), (64, 64))
        scores = tl.dot(query, tl.trans(key))
        index = j * 64 + tl.arange(0, 64)
        visible = index[None, :] <= index_1[:, None]
        scores = tl.where(visible, scores, float("-inf"))
        lt = index[None, :] < key_size_2
        scores = tl.where(lt, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        decay = tl.exp2((peak - new_peak) * scale_log2e)
        weights = tl.exp2(tl.fma(scores, scale_log2e, -(new_peak * scale_log2e)[:, None]))
        weights = tl.where(lt, weights, 0.0)
        total = total * decay + tl.sum(weights, axis=1)
        mul = accumulator * decay[:, None]
        cast = weights.to(tl.float16)
        value = tl.reshape(value_desc.load([pid_0, pid_1, j * 64, 0]), (64, 64))
        accumulator = tl.dot(cast, value, mul)
        peak = new_peak
    output = accumulator / tl.where(total == 0.0, 1.0, total)[:, None]
    output_desc.store([pid_0, pid_1, pid_2 * 64, 0], tl.reshape(output.to(tl.float16), (1, 1, 64, 64)))
""",
        )

    def test_sdpa_capped(self):
        """What a cap changes."""
        both = (emitted(name).splitlines(keepends=True) for name in ("sdpa", "sdpa_capped"))
        lines = [line for line in difflib.ndiff(*both) if line[0] in "+-"]
        self.assertExpectedInline(
            "".join(lines),
            """\
-     scale_log2e = scale * 1.4426950408889634
-     start = -1e+38 / tl.maximum(scale, 1.0)
-     peak = tl.full((64,), start, tl.float32)
+     peak = tl.full((64,), -5e+37, tl.float32)
+         grown = tl.exp2(scores * (scale * 1.4426950408889634))
+         scores = 1.0 - libdevice.fast_dividef(tl.full((), 2.0, tl.float32), 1.0 + grown)
-         decay = tl.exp2((peak - new_peak) * scale_log2e)
+         decay = tl.exp2((peak - new_peak) * 2.8853900817779268)
-         weights = tl.exp2(tl.fma(scores, scale_log2e, -(new_peak * scale_log2e)[:, None]))
+         weights = tl.exp2(
+             tl.fma(scores, tl.full((), 2.8853900817779268, tl.float32), -(new_peak * 2.8853900817779268)[:, None]),
+         )
+         grown = tl.exp2(scores * (scale * 1.4426950408889634))
+         scores = 1.0 - libdevice.fast_dividef(tl.full((), 2.0, tl.float32), 1.0 + grown)
-         lt = index[None, :] < key_size_2
-         scores = tl.where(lt, scores, float("-inf"))
+         scores = tl.where(index[None, :] < key_size_2, scores, float("-inf"))
-         decay = tl.exp2((peak - new_peak) * scale_log2e)
+         decay = tl.exp2((peak - new_peak) * 2.8853900817779268)
-         weights = tl.exp2(tl.fma(scores, scale_log2e, -(new_peak * scale_log2e)[:, None]))
-         weights = tl.where(lt, weights, 0.0)
+         weights = tl.exp2(
+             tl.fma(scores, tl.full((), 2.8853900817779268, tl.float32), -(new_peak * 2.8853900817779268)[:, None]),
+         )
""",
        )

    def test_silu(self):
        self.assertExpectedInline(
            emitted("silu"),
            """\
# num_warps=4, num_stages=3
@triton.jit
def silu(input_ptr, output_ptr, input_size_0):
    pid = tl.program_id(0)
    input_index = pid * 1024 + tl.arange(0, 1024)
    mask = input_index < input_size_0
    input = tl.load(input_ptr + input_index, mask=mask)
    output = input.to(tl.float32) * tl.sigmoid(input.to(tl.float32))
    tl.store(output_ptr + input_index, output.to(tl.float16), mask=mask)
""",
        )

    def test_softmax(self):
        self.assertExpectedInline(
            emitted("softmax"),
            """\
# num_warps=8, num_stages=3
@triton.jit
def softmax(input_ptr, output_ptr, input_size_1):
    pid = tl.program_id(0)
    mask = tl.arange(0, 4096) < input_size_1
    input = tl.load(input_ptr + pid * input_size_1 + tl.arange(0, 4096), mask=mask, other=float("-inf"))
    wide = input.to(tl.float32)
    numerator = tl.exp2((wide - tl.max(wide)) * 1.4426950408889634)
    output = numerator / tl.sum(numerator)
    tl.store(output_ptr + pid * input_size_1 + tl.arange(0, 4096), output.to(tl.float16), mask=mask)
""",
        )

    def test_softmax_backward(self):
        self.assertExpectedInline(
            emitted("softmax_backward"),
            """\
# num_warps=8, num_stages=3
@triton.jit
def softmax_backward(grad_ptr, output_ptr, input_grad_ptr, grad_size_1):
    pid = tl.program_id(0)
    mask = tl.arange(0, 4096) < grad_size_1
    grad = tl.load(grad_ptr + pid * grad_size_1 + tl.arange(0, 4096), mask=mask, other=0.0)
    output = tl.load(output_ptr + pid * grad_size_1 + tl.arange(0, 4096), mask=mask, other=0.0)
    weighted = grad.to(tl.float32) * output.to(tl.float32)
    input_grad = tl.fma(-output.to(tl.float32), tl.sum(weighted), weighted)
    tl.store(input_grad_ptr + pid * grad_size_1 + tl.arange(0, 4096), input_grad.to(tl.float16), mask=mask)
""",
        )

    def test_rms_norm_weight_backward(self):
        self.assertExpectedInline(
            emitted("rms_norm_weight_backward"),
            """\
# num_warps=8, num_stages=3
@triton.jit
def rms_norm_weight_backward(
    grad_ptr,
    input_ptr,
    weight_ptr,
    eps,
    input_grad_ptr,
    partial_grad_ptr,
    grad_size_0,
    grad_size_1,
):
    pid = tl.program_id(0)
    mask = tl.arange(0, 4096) < grad_size_1
    weight = tl.load(weight_ptr + tl.arange(0, 4096), mask=mask, other=0.0)
    factor = weight.to(tl.float32)
    grad = tl.load(grad_ptr + pid * 4 * grad_size_1 + tl.arange(0, 4096), mask=mask, other=0.0)
    input = tl.load(input_ptr + pid * 4 * grad_size_1 + tl.arange(0, 4096), mask=mask, other=0.0)
    total = tl.zeros((4096,), tl.float32)
    grad_offsets = (pid * 4 + 1) * grad_size_1 + tl.arange(0, 4096)
    input_grad_offsets = pid * 4 * grad_size_1 + tl.arange(0, 4096)
    for i in range(3):
        grad_1 = tl.load(grad_ptr + i * grad_size_1 + grad_offsets, mask=mask, other=0.0)
        input_1 = tl.load(input_ptr + i * grad_size_1 + grad_offsets, mask=mask, other=0.0)
        slope = grad.to(tl.float32)
        row = input.to(tl.float32)
        scale = tl.where(
            i + pid * 4 < grad_size_0,
            tl.rsqrt(tl.sum(row * row) / tl.cast(grad_size_1, tl.float32) + eps),
            0.0,
        )
        total = total + slope * (row * scale)
        mul = slope * factor
        result = scale * tl.fma(-row, scale * scale * (tl.sum(mul * row) / tl.cast(grad_size_1, tl.float32)), mul)
        tl.store(input_grad_ptr + i * grad_size_1 + input_grad_offsets, result.to(tl.float16), mask=mask)
        grad = grad_1
        input = input_1
    slope = grad.to(tl.float32)
    row = input.to(tl.float32)
    scale = tl.where(
        pid * 4 + 3 < grad_size_0,
        tl.rsqrt(tl.sum(row * row) / tl.cast(grad_size_1, tl.float32) + eps),
        0.0,
    )
    total_1 = total + slope * (row * scale)
    mul = slope * factor
    result = scale * tl.fma(-row, scale * scale * (tl.sum(mul * row) / tl.cast(grad_size_1, tl.float32)), mul)
    tl.debug_barrier()
    tl.store(input_grad_ptr + (pid * 4 + 3) * grad_size_1 + tl.arange(0, 4096), result.to(tl.float16), mask=mask)
    tl.store(partial_grad_ptr + pid * grad_size_1 + tl.arange(0, 4096), total_1, mask=mask)
""",
        )
