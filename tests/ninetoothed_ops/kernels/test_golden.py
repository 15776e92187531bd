"""The emitted text of the ten kernels for an H200, at the sizes of the paper. `EXPECTTEST_ACCEPT=1` rewrites it."""

import expecttest

from ninetoothed.runtime import device
from tests.ninetoothed_ops.kernels import calls


def emitted(name):
    """The configuration and the kernel, without the imports."""
    kernel, arguments = calls.large(name)
    source = kernel.source(*arguments, gpu=device.H200)
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
def addmm(
    input_ptr,
    mat1_ptr,
    mat2_ptr,
    beta,
    alpha,
    output_ptr,
    input_size_0,
    input_size_1,
    mat1_size_0,
    mat1_size_1,
    mat2_size_1,
    input_stride_0,
    mat1_stride_0,
    mat2_stride_0,
    output_stride_0,
):
    pid = tl.program_id(0)
    rows = tl.cdiv(input_size_0, 128)
    columns = tl.cdiv(input_size_1, 256)
    group_size = 8 * columns
    first_row = pid // group_size * 8
    group_rows = tl.minimum(rows - first_row, 8)
    pid_0 = first_row + pid % group_size % group_rows
    pid_1 = pid % group_size // group_rows
    accumulator = tl.zeros((128, 256), tl.float32)
    mat1_index_0 = pid_0 * 128 + tl.arange(0, 128)
    mat1_offsets = mat1_index_0[:, None] * mat1_stride_0 + tl.arange(0, 64)[None, :]
    mat2_index_1 = pid_1 * 256 + tl.arange(0, 256)
    mat2_offsets = tl.arange(0, 64)[:, None] * mat2_stride_0 + mat2_index_1[None, :]
    for k in range(tl.cdiv(mat1_size_1, 64)):
        mat1 = tl.load(
            mat1_ptr + k * 64 + mat1_offsets,
            mask=(mat1_index_0[:, None] < mat1_size_0) & (tl.arange(0, 64)[None, :] < mat1_size_1 - k * 64),
            other=0.0,
        )
        mat2 = tl.load(
            mat2_ptr + k * 64 * mat2_stride_0 + mat2_offsets,
            mask=(mat2_index_1[None, :] < mat2_size_1) & (tl.arange(0, 64)[:, None] < mat1_size_1 - k * 64),
            other=0.0,
        )
        accumulator = tl.dot(mat1, mat2, accumulator)
    mask = (mat1_index_0[:, None] < input_size_0) & (mat2_index_1[None, :] < input_size_1)
    input = tl.load(input_ptr + mat1_index_0[:, None] * input_stride_0 + mat2_index_1[None, :], mask=mask)
    output = beta * input.to(tl.float32) + alpha * accumulator
    tl.store(
        output_ptr + mat1_index_0[:, None] * output_stride_0 + mat2_index_1[None, :],
        output.to(tl.float16),
        mask=mask,
    )
""",
        )

    def test_bmm(self):
        self.assertExpectedInline(
            emitted("bmm"),
            """\
# num_warps=8, num_stages=3
@triton.jit
def bmm(
    input_ptr,
    other_ptr,
    output_ptr,
    input_size_1,
    input_size_2,
    other_size_2,
    input_stride_0,
    input_stride_1,
    other_stride_0,
    other_stride_1,
    output_stride_0,
    output_stride_1,
):
    pid = tl.program_id(0)
    rows = tl.cdiv(input_size_1, 128)
    columns = tl.cdiv(other_size_2, 256)
    tile = pid % (rows * columns)
    group_size = 8 * columns
    first_row = tile // group_size * 8
    group_rows = tl.minimum(rows - first_row, 8)
    pid_1 = first_row + tile % group_size % group_rows
    pid_2 = tile % group_size // group_rows
    pid_0 = pid // (rows * columns)
    accumulator = tl.zeros((128, 256), tl.float32)
    input_index_1 = pid_1 * 128 + tl.arange(0, 128)
    input_offsets = pid_0 * input_stride_0 + input_index_1[:, None] * input_stride_1 + tl.arange(0, 64)[None, :]
    other_index_2 = pid_2 * 256 + tl.arange(0, 256)
    other_offsets = pid_0 * other_stride_0 + tl.arange(0, 64)[:, None] * other_stride_1 + other_index_2[None, :]
    for k in range(tl.cdiv(input_size_2, 64)):
        input = tl.load(
            input_ptr + k * 64 + input_offsets,
            mask=(input_index_1[:, None] < input_size_1) & (tl.arange(0, 64)[None, :] < input_size_2 - k * 64),
            other=0.0,
        )
        other = tl.load(
            other_ptr + k * 64 * other_stride_1 + other_offsets,
            mask=(other_index_2[None, :] < other_size_2) & (tl.arange(0, 64)[:, None] < input_size_2 - k * 64),
            other=0.0,
        )
        accumulator = tl.dot(input, other, accumulator)
    tl.store(
        output_ptr + pid_0 * output_stride_0 + input_index_1[:, None] * output_stride_1 + other_index_2[None, :],
        accumulator.to(tl.float16),
        mask=(input_index_1[:, None] < input_size_1) & (other_index_2[None, :] < other_size_2),
    )
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
    group_size = 64
    first_row = pid // group_size * 8
    group_rows = tl.minimum(rows - first_row, 8)
    pid_1 = first_row + pid % group_size % group_rows
    pid_2 = pid % group_size // group_rows
    accumulator = tl.zeros((64, 64), tl.float32)
    input_index = pid_1 * 64 + tl.arange(0, 64)
    input_index_0 = input_index // 144
    input_index_2 = input_index // 12 % 12
    input_index_3 = input_index % 12
    weight_index_0 = pid_2 * 64 + tl.arange(0, 64)
    for k in range(36):
        input_index_1 = k * 128 + tl.arange(0, 128)
        input_index_1_1 = input_index_1 // 9
        input_index_2_1 = input_index_1 // 3 % 3
        input_index_3_1 = input_index_1 % 3
        input = tl.load(
            input_ptr
            + (input_index_0 * 100352 + input_index_2 * 14 + input_index_3)[:, None]
            + (input_index_1_1 * 196 + input_index_2_1 * 14 + input_index_3_1)[None, :],
            mask=input_index[:, None] < input_size_0 * 144,
            other=0.0,
        )
        weight = tl.load(
            weight_ptr
            + weight_index_0[None, :] * 4608
            + (input_index_1_1 * 9 + input_index_2_1 * 3 + input_index_3_1)[:, None],
        )
        accumulator = tl.dot(input, weight, accumulator)
    mask = input_index[:, None] < output_size_0 * 144
    bias = tl.load(tl.broadcast_to(bias_ptr + weight_index_0[None, :], (64, 64)), mask=mask)
    output = (1.0 * bias).to(tl.float32) + 1.0 * accumulator
    tl.store(
        output_ptr
        + (input_index_0 * 73728 + input_index_2 * 12 + input_index_3)[:, None]
        + weight_index_0[None, :] * 144,
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
def mm(
    input_ptr,
    other_ptr,
    output_ptr,
    input_size_0,
    input_size_1,
    other_size_1,
    input_stride_0,
    other_stride_0,
    output_stride_0,
):
    pid = tl.program_id(0)
    rows = tl.cdiv(input_size_0, 128)
    columns = tl.cdiv(other_size_1, 256)
    group_size = 8 * columns
    first_row = pid // group_size * 8
    group_rows = tl.minimum(rows - first_row, 8)
    pid_0 = first_row + pid % group_size % group_rows
    pid_1 = pid % group_size // group_rows
    accumulator = tl.zeros((128, 256), tl.float32)
    input_index_0 = pid_0 * 128 + tl.arange(0, 128)
    input_offsets = input_index_0[:, None] * input_stride_0 + tl.arange(0, 64)[None, :]
    other_index_1 = pid_1 * 256 + tl.arange(0, 256)
    other_offsets = tl.arange(0, 64)[:, None] * other_stride_0 + other_index_1[None, :]
    for k in range(tl.cdiv(input_size_1, 64)):
        input = tl.load(
            input_ptr + k * 64 + input_offsets,
            mask=(input_index_0[:, None] < input_size_0) & (tl.arange(0, 64)[None, :] < input_size_1 - k * 64),
            other=0.0,
        )
        other = tl.load(
            other_ptr + k * 64 * other_stride_0 + other_offsets,
            mask=(other_index_1[None, :] < other_size_1) & (tl.arange(0, 64)[:, None] < input_size_1 - k * 64),
            other=0.0,
        )
        accumulator = tl.dot(input, other, accumulator)
    tl.store(
        output_ptr + input_index_0[:, None] * output_stride_0 + other_index_1[None, :],
        accumulator.to(tl.float16),
        mask=(input_index_0[:, None] < input_size_0) & (other_index_1[None, :] < other_size_1),
    )
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
    normalized = wide * tl.rsqrt(tl.sum(wide * wide) / tl.cast(input_size_1, tl.float32) + eps)
    weight = tl.load(weight_ptr + tl.arange(0, 4096), mask=mask)
    output = normalized * weight.to(tl.float32)
    tl.store(output_ptr + pid * input_size_1 + tl.arange(0, 4096), output.to(tl.float16), mask=mask)
""",
        )

    def test_rope(self):
        self.assertExpectedInline(
            emitted("rope"),
            """\
# num_warps=4, num_stages=3
@triton.jit
def rope(
    input_ptr,
    sin_ptr,
    cos_ptr,
    output_ptr,
    input_size_1,
    input_size_2,
    input_size_3,
    sin_size_2,
    output_size_3,
    input_stride_0,
    input_stride_1,
    input_stride_2,
    sin_stride_0,
    sin_stride_1,
    cos_stride_0,
    cos_stride_1,
    output_stride_0,
    output_stride_1,
    output_stride_2,
):
    pid = tl.program_id(0)
    pid_0 = pid // input_size_1
    pid_1 = pid % input_size_1
    input_index_3 = tl.arange(0, 32) * 2
    input = tl.load(
        input_ptr
        + pid_0 * input_stride_0
        + pid_1 * input_stride_1
        + tl.arange(0, 64)[:, None] * input_stride_2
        + input_index_3[None, :],
        mask=(
            (0 < tl.maximum(input_size_3 + 2 - sin_size_2 * 2, 0))
            & (tl.arange(0, 64)[:, None] < input_size_2)
            & (tl.arange(0, 32)[None, :] < sin_size_2)
        ),
        other=0.0,
    )
    even = input.to(tl.float32)
    input_index_3_1 = 1 + tl.arange(0, 32) * 2
    input = tl.load(
        input_ptr
        + pid_0 * input_stride_0
        + pid_1 * input_stride_1
        + tl.arange(0, 64)[:, None] * input_stride_2
        + input_index_3_1[None, :],
        mask=(
            (tl.arange(0, 64)[:, None] < input_size_2)
            & (tl.arange(0, 32)[None, :] < sin_size_2)
            & (1 < tl.maximum(input_size_3 + 2 - sin_size_2 * 2, 0))
            & (input_index_3_1[None, :] < input_size_3)
        ),
        other=0.0,
    )
    odd = input.to(tl.float32)
    mask = tl.arange(0, 32) < sin_size_2
    sin = tl.load(sin_ptr + pid_0 * sin_stride_0 + pid_1 * sin_stride_1 + tl.arange(0, 32), mask=mask, other=0.0)
    sine = sin.to(tl.float32)
    cos = tl.load(cos_ptr + pid_0 * cos_stride_0 + pid_1 * cos_stride_1 + tl.arange(0, 32), mask=mask, other=0.0)
    cosine = cos.to(tl.float32)
    tl.store(
        output_ptr
        + pid_0 * output_stride_0
        + pid_1 * output_stride_1
        + tl.arange(0, 64)[:, None] * output_stride_2
        + input_index_3[None, :],
        (even * cosine[None, :] - odd * sine[None, :]).to(tl.float16),
        mask=(
            (0 < tl.maximum(output_size_3 + 2 - sin_size_2 * 2, 0))
            & (tl.arange(0, 64)[:, None] < input_size_2)
            & (tl.arange(0, 32)[None, :] < sin_size_2)
        ),
    )
    tl.store(
        output_ptr
        + pid_0 * output_stride_0
        + pid_1 * output_stride_1
        + tl.arange(0, 64)[:, None] * output_stride_2
        + input_index_3_1[None, :],
        (even * sine[None, :] + odd * cosine[None, :]).to(tl.float16),
        mask=(
            (tl.arange(0, 64)[:, None] < input_size_2)
            & (tl.arange(0, 32)[None, :] < sin_size_2)
            & (1 < tl.maximum(output_size_3 + 2 - sin_size_2 * 2, 0))
            & (input_index_3_1[None, :] < output_size_3)
        ),
    )
""",
        )

    def test_sdpa(self):
        self.assertExpectedInline(
            emitted("sdpa"),
            """\
# num_warps=4, num_stages=3
@triton.jit
def sdpa(
    query_ptr,
    key_ptr,
    value_ptr,
    scale,
    output_ptr,
    query_size_1,
    query_size_2,
    key_size_1,
    key_size_2,
    query_stride_0,
    query_stride_1,
    key_stride_0,
    key_stride_1,
    value_stride_0,
    value_stride_1,
    output_stride_0,
    output_stride_1,
):
    pid = tl.program_id(0)
    extent = tl.cdiv(query_size_2, 128)
    pid_0 = pid // (query_size_1 * extent)
    pid_1 = pid // extent % query_size_1
    pid_2 = pid % extent
    index = pid_2 * 128 + tl.arange(0, 128)
    first = tl.min(index)
    numerator = tl.minimum(first + 1, key_size_2)
    whole = numerator >> 6
    stop = tl.minimum(first + 128, key_size_2)
    mask = index[:, None] < query_size_2
    query = tl.load(
        query_ptr + pid_0 * query_stride_0 + pid_1 * query_stride_1 + index[:, None] * 64 + tl.arange(0, 64)[None, :],
        mask=mask,
        other=0.0,
    )
    total = tl.zeros((128,), tl.float32)
    accumulator = tl.zeros((128, 64), tl.float32)
    peak = tl.full((128,), float("-inf"), tl.float32)
    key_offsets = (
        pid_0 * key_stride_0
        + pid_1 // (query_size_1 // key_size_1) * key_stride_1
        + tl.arange(0, 64)[:, None] * 64
        + tl.arange(0, 64)[None, :]
    )
    value_offsets = (
        pid_0 * value_stride_0
        + pid_1 // (query_size_1 // key_size_1) * value_stride_1
        + tl.arange(0, 64)[:, None] * 64
        + tl.arange(0, 64)[None, :]
    )
    for j in range(whole):
        mask_1 = tl.arange(0, 64)[:, None] < key_size_2 - j * 64
        key = tl.load(key_ptr + j * 64 * 64 + key_offsets, mask=mask_1, other=0.0)
        scores = tl.dot(query, tl.trans(key))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        factor = scale * 1.4426950408889634
        decay = tl.exp2(peak * factor - new_peak * factor)
        weights = tl.exp2(scores * factor - (new_peak * factor)[:, None])
        total = total * decay + tl.sum(weights, axis=1)
        value = tl.load(value_ptr + j * 64 * 64 + value_offsets, mask=mask_1, other=0.0)
        accumulator = tl.dot(weights.to(tl.float16), value, accumulator * decay[:, None])
        peak = new_peak
    numerator_1 = stop + 64 - 1
    for j in range(whole, numerator_1 >> 6):
        mask_1 = (j >= 0) & (tl.arange(0, 64)[:, None] < key_size_2 - j * 64)
        key = tl.load(key_ptr + j * 64 * 64 + key_offsets, mask=mask_1, other=0.0)
        scores = tl.dot(query, tl.trans(key))
        index_1 = j * 64 + tl.arange(0, 64)
        columns = index_1[None, :]
        visible = columns < key_size_2
        visible = visible & (columns <= index[:, None])
        scores = tl.where(visible, scores, float("-inf"))
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        factor = scale * 1.4426950408889634
        decay = tl.exp2(peak * factor - new_peak * factor)
        weights = tl.exp2(scores * factor - (new_peak * factor)[:, None])
        total = total * decay + tl.sum(weights, axis=1)
        value = tl.load(value_ptr + j * 64 * 64 + value_offsets, mask=mask_1, other=0.0)
        accumulator = tl.dot(weights.to(tl.float16), value, accumulator * decay[:, None])
        peak = new_peak
    output = accumulator / tl.where(total == 0.0, 1.0, total)[:, None]
    tl.store(
        output_ptr
        + pid_0 * output_stride_0
        + pid_1 * output_stride_1
        + index[:, None] * 64
        + tl.arange(0, 64)[None, :],
        output.to(tl.float16),
        mask=mask,
    )
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
    numerator = tl.exp(wide - tl.max(wide))
    output = numerator / tl.sum(numerator)
    tl.store(output_ptr + pid * input_size_1 + tl.arange(0, 4096), output.to(tl.float16), mask=mask)
""",
        )
