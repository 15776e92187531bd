"""The emitted text: golden, deterministic, and as a person would write it. `EXPECTTEST_ACCEPT=1` rewrites the texts."""

import contextlib
import io
import os
import re
import subprocess
import sys

import expecttest
import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor
from ninetoothed.errors import UnsupportedError
from ninetoothed.runtime.selection import machine

BLOCK_SIZE = Symbol("BLOCK_SIZE", constexpr=True)


def elementwise(*tensors):
    return tuple(tensor.tile((BLOCK_SIZE,)) if tensor.ndim else tensor for tensor in tensors)


def rows(*tensors):
    return tuple(tensor.tile((1, -1)).squeeze(1) for tensor in tensors)


def squeezed_rows(*tensors):
    arranged = rows(*tensors)
    for tensor in arranged:
        tensor.dtype = tensor.dtype.squeeze(0)
    return arranged


def text(application, *arguments, arrangement=elementwise, other=None, **constants):
    """What a kernel of an application compiles to for an H200, without its imports."""
    tensors = tuple(
        Tensor(argument.ndim if isinstance(argument, torch.Tensor) else 0, other=other, unique_indices=True)
        for argument in arguments
    )
    kernel = ninetoothed.make(arrangement, application, tensors)
    return kernel.source(*arguments, gpu=machine.H200, **constants).text


def body(source):
    """The kernel alone."""
    return source[source.index("@triton.jit") :]


def vector(size=1000, dtype=torch.float32):
    return torch.empty(size, dtype=dtype)


def blocks_to_ones(x, y):
    return x.tile((BLOCK_SIZE,)), y.tile((1,))


def add(x, y, z):
    z = x + y


def total(x, y):
    y = ntl.sum(x)


def product(a, b):
    return a * b


def products(x, y):
    y = ntl.reduce(x, 0, product)


def halve(x, y):
    count = 0
    current = x

    while ntl.max(current) > 1:
        current = current / 2
        count += 1

    y = current + count


def flip(x, sign, y):
    if sign > 0:
        scaled = x * 2
    else:
        scaled = -x

    y = scaled


def fibonacci(x, n, y):
    a, b = x + 0, x + 1

    for _ in range(n):
        a, b = b, a + b

    y = a


def permute(index, x, y):
    y.source[index] = x.source[index + 1]


def blocks_of_indices(index, x, y):
    return index.tile((BLOCK_SIZE,)), x.tile((-1,)), y.tile((-1,))


def shift(x, y):
    y = x


def padded(x, y):
    return x.flatten().pad(((3, 3),)).tile((BLOCK_SIZE,)), y.tile((BLOCK_SIZE,))


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_add(self):
        self.assertExpectedInline(
            text(add, vector(), vector(), vector(), BLOCK_SIZE=128),
            """\
import triton
import triton.language as tl


@triton.jit
def add(x_ptr, y_ptr, z_ptr, x_size_0):
    pid = tl.program_id(0)
    x_index = pid * 128 + tl.arange(0, 128)
    mask = x_index < x_size_0
    x = tl.load(x_ptr + x_index, mask=mask)
    y = tl.load(y_ptr + x_index, mask=mask)
    z = x + y
    tl.store(z_ptr + x_index, z, mask=mask)
""",
        )

    def test_masked_lanes_that_a_reduction_sees_are_filled(self):
        source = text(total, vector(), vector(8), arrangement=blocks_to_ones, BLOCK_SIZE=128)
        self.assertExpectedInline(
            body(source),
            """\
@triton.jit
def total(x_ptr, y_ptr, x_size_0):
    pid = tl.program_id(0)
    x_index = pid * 128 + tl.arange(0, 128)
    x = tl.load(x_ptr + x_index, mask=x_index < x_size_0, other=0.0)
    y = tl.sum(x)
    tl.store(y_ptr + pid, y)
""",
        )

    def test_reduction_with_a_function(self):
        source = text(products, vector(), vector(8), arrangement=blocks_to_ones, other=1, BLOCK_SIZE=128)
        self.assertExpectedInline(
            body(source),
            """\
@triton.jit
def product(value_0, value_1):
    return value_0 * value_1


@triton.jit
def products(x_ptr, y_ptr, x_size_0):
    pid = tl.program_id(0)
    x_index = pid * 128 + tl.arange(0, 128)
    x = tl.load(x_ptr + x_index, mask=x_index < x_size_0, other=1.0)
    y = tl.reduce(x, 0, product)
    tl.store(y_ptr + pid, y)
""",
        )

    def test_while(self):
        self.assertExpectedInline(
            body(text(halve, vector(), vector(), BLOCK_SIZE=128)),
            """\
@triton.jit
def halve(x_ptr, y_ptr, x_size_0):
    pid = tl.program_id(0)
    x_index = pid * 128 + tl.arange(0, 128)
    mask = x_index < x_size_0
    x = tl.load(x_ptr + x_index, mask=mask, other=float("-inf"))
    going = tl.max(x) > 1.0
    current = x
    count = 0
    while going:
        current = current / 2.0
        count = count + 1
        going = tl.max(current) > 1.0
    y = current + tl.cast(count, tl.float32)
    tl.store(y_ptr + x_index, y, mask=mask)
""",
        )

    def test_if(self):
        self.assertExpectedInline(
            body(text(flip, vector(), 1, vector(), BLOCK_SIZE=128)),
            """\
@triton.jit
def flip(x_ptr, sign, y_ptr, x_size_0):
    pid = tl.program_id(0)
    x_index = pid * 128 + tl.arange(0, 128)
    mask = x_index < x_size_0
    if sign > 0:
        x = tl.load(x_ptr + x_index, mask=mask, other=0.0)
        scaled = x * 2.0
    else:
        x = tl.load(x_ptr + x_index, mask=mask, other=0.0)
        scaled = -x
    tl.store(y_ptr + x_index, scaled, mask=mask)
""",
        )

    def test_loop_with_two_carried_values_that_swap(self):
        self.assertExpectedInline(
            body(text(fibonacci, vector(), 5, vector(), BLOCK_SIZE=128)),
            """\
@triton.jit
def fibonacci(x_ptr, n, y_ptr, x_size_0):
    pid = tl.program_id(0)
    x_index = pid * 128 + tl.arange(0, 128)
    mask = x_index < x_size_0
    x = tl.load(x_ptr + x_index, mask=mask, other=0.0)
    a = x + 0.0
    b = x + 1.0
    for _ in range(n):
        b_1 = a + b
        a = b
        b = b_1
    tl.store(y_ptr + x_index, a, mask=mask)
""",
        )

    def test_gather_and_scatter(self):
        values = vector(64)
        source = text(permute, values.long(), values, vector(64), arrangement=blocks_of_indices, BLOCK_SIZE=64)
        self.assertExpectedInline(
            body(source),
            """\
@triton.jit
def permute(index_ptr, x_ptr, y_ptr, index_size_0, x_size_0):
    pid = tl.program_id(0)
    index_index = pid * 64 + tl.arange(0, 64)
    index = tl.load(index_ptr + index_index, mask=index_index < index_size_0, other=0)
    x = tl.load(
        x_ptr + index + 1,
        mask=(index_index < index_size_0) & (index + 1 >= 0) & (index + 1 < x_size_0),
        other=0.0,
    )
    tl.store(y_ptr + index, x, mask=(index_index < index_size_0) & (index >= 0) & (index < x_size_0))
""",
        )

    def test_padding_is_guarded_before_it_is_divided(self):
        source = text(shift, torch.empty(8, 7)[:, :6], vector(54), arrangement=padded, BLOCK_SIZE=16)
        self.assertExpectedInline(
            body(source),
            """\
@triton.jit
def shift(x_ptr, y_ptr, x_size_0, x_size_1, y_size_0, x_stride_0):
    pid = tl.program_id(0)
    x_index = pid * 16 + tl.arange(0, 16) - 3
    x_index_0 = x_index // x_size_1
    x_index_1 = x_index % x_size_1
    x = tl.load(
        x_ptr + x_index_0 * x_stride_0 + x_index_1,
        mask=(x_index >= 0) & (x_index < x_size_0 * x_size_1),
        other=0.0,
    )
    y_index = pid * 16 + tl.arange(0, 16)
    tl.store(y_ptr + y_index, x, mask=y_index < y_size_0)
""",
        )


def test_assembly_with_an_effect_is_run_whoever_reads_its_result():
    def application(x, y):
        ntl.inline_asm_elementwise("mov.b32 $0, $1;", "=r,r", [x], dtype=ntl.int32, is_pure=False, pack=1)
        y = x

    vector = torch.empty(98, dtype=torch.int32)
    assert text(application, vector, vector, BLOCK_SIZE=64).count("tl.inline_asm_elementwise") == 1


@pytest.mark.slow
def test_text_does_not_depend_on_the_process():
    program = (
        "import torch; from ninetoothed_ops.kernels import sdpa; from ninetoothed.runtime.selection import machine;"
        "q, m = torch.empty(2, 4, 128, 64), torch.empty(2, 4, 128, 128);"
        "print(sdpa.make().source(q, q, q, m, 0.1, q, 2, True, gpu=machine.H200))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True)
    own = io.StringIO()
    with contextlib.redirect_stdout(own):
        exec(program)
    assert done.stdout == own.getvalue() and "tl.dot" in done.stdout


def test_only_arguments_that_the_text_uses_are_taken():
    source = text(add, vector(), vector(), vector(), BLOCK_SIZE=128)
    assert "def add(x_ptr, y_ptr, z_ptr, x_size_0):" in source


def test_no_guard_and_no_size_where_none_can_fail():
    def increment(x, y):
        y = x + 1

    def arrangement(x, y):
        return x.tile((BLOCK_SIZE, -1)), y.tile((BLOCK_SIZE, -1))

    tensors = (Tensor(shape=(64, 32)), Tensor(shape=(64, 32)))
    matrix = torch.empty(64, 32)
    kernel = ninetoothed.make(arrangement, increment, tensors)
    source = kernel.source(matrix, matrix, gpu=machine.H200, BLOCK_SIZE=16).text
    assert "mask" not in source and "def increment(x_ptr, y_ptr" in source


def test_wide_tensors_are_indexed_in_64_bits():
    def copy(x, y):
        y = x + 0

    narrow, wide = vector(1000), torch.empty(1).expand(2**31 + 5)
    assert "int64" not in text(copy, narrow, narrow, BLOCK_SIZE=128)
    assert "pid.to(tl.int64) * 2048" in text(copy, wide, wide, BLOCK_SIZE=128)  # 16 tiles side by side


def test_a_loads_waits_for_a_store_to_the_same_memory():
    def shift(x):
        x[0] = x[1] + 1
        x[1] = x[0] * 2
        x[2] = x[1] + x[3]

    def arrangement(x):
        return (x.tile((BLOCK_SIZE,)).tile((4,)),)

    assert "tl.debug_barrier()" in text(shift, vector(512), arrangement=arrangement, BLOCK_SIZE=128)


def test_a_load_waits_for_a_store_to_what_may_be_the_same_memory():
    def both(x, y, z):
        y = x + 1
        z = x * 2

    def one(x, y, z):
        z = x + y

    x, y, z = (vector(512) for _ in range(3))
    emitted = text(both, x, x, z, BLOCK_SIZE=128)
    first, second = emitted.index("tl.store"), emitted.rindex("tl.load")
    assert first < emitted.index("tl.debug_barrier()") < second
    assert "debug_barrier" not in text(both, x, y, z, BLOCK_SIZE=128)
    assert "debug_barrier" not in text(one, x, y, x, BLOCK_SIZE=128)


@pytest.mark.parametrize("places", (lambda i: 2047 - i, lambda i: (i + 1024) % 2048, lambda i: i))
def test_a_store_waits_for_loads_of_other_elements_in_place(places):
    def by_pointers(x, y):
        y = ntl.load(x.data_ptr() + places(ntl.arange(0, 2048)))

    def by_indices(x, y):
        y = x.source[places(y.offsets(0))]

    def alike(x, y):
        y = x + 1

    x, y = vector(2048), vector(2048)
    for application in (by_pointers, by_indices, alike):
        assert "debug_barrier" not in text(application, x, y, BLOCK_SIZE=2048)
        assert ("debug_barrier" in text(application, x, x, BLOCK_SIZE=2048)) == (application is not alike)


def test_rounds_of_a_loop_wait_for_each_other_in_place():
    def arrangement(x, y):
        return x.tile((128,)).tile((-1,)), y.tile((128,)).tile((-1,))

    def steps(x, y):
        total = ntl.zeros((128,), dtype=ntl.float32)
        for i in range(x.shape[0]):
            total += x[i]
            y[i] = total

    def steps_of_itself(x, y):
        for i in range(1, x.shape[0]):
            y[i] = y[i - 1] + x[i]

    x, y = vector(512), vector(512)
    assert "debug_barrier" not in text(steps, x, y, arrangement=arrangement)
    assert "debug_barrier" in text(steps, x, x, arrangement=arrangement)
    assert "debug_barrier" in text(steps_of_itself, x, y, arrangement=arrangement)


def stores_in_turn(x, y):
    value = x + 1
    for k in range(y.shape[0]):
        y[k] = value + k


def stores_twice(x, y):
    value = x + 1
    y[0] = value
    y[1] = value + 1


def stores_one_again(x, y):
    value = x + 1
    for k in range(y.shape[0]):
        y[0] = value + k


@pytest.mark.parametrize(
    "application, step, waits",
    (
        (stores_in_turn, 128, False),
        (stores_in_turn, 32, True),
        (stores_twice, 128, False),
        (stores_twice, 32, True),
        (stores_one_again, 32, False),
    ),
)
def test_a_store_waits_for_another_to_places_that_they_share(application, step, waits):
    def arrangement(x, y):
        return x.tile((128,)), y.tile((128,), strides=(step,), floor_mode=True).tile((-1,))

    emitted = text(application, vector(128), vector(1024), arrangement=arrangement)
    assert ("debug_barrier" in emitted) == waits


def test_float8e4nv_is_refused_on_gpus_before_ada():
    def copy(x, y):
        y = x

    x = torch.empty(64, dtype=torch.float8_e4m3fn)
    kernel = ninetoothed.make(
        lambda *tensors: tuple(each.tile((64,)) for each in tensors), copy, (Tensor(1), Tensor(1))
    )
    kernel.source(x, x, gpu="h100")
    with pytest.raises(UnsupportedError, match=r"y = x") as error:
        kernel.source(x, x, gpu="a100")
    assert "float8e4nv is not there on GPUs of sm_80; use float8_e5m2 or float16 there" in str(error.value)


def test_products_of_float64_are_refused_where_triton_compiles_none():
    from ninetoothed_ops.kernels import mm

    matrix = torch.empty(64, 64, dtype=torch.float64)
    text = str(mm.make().source(matrix, matrix, matrix, gpu=machine.H200))
    assert "tl.zeros" in text and "out_dtype=tl.float64" in text
    with pytest.raises(UnsupportedError, match=r"mm.py:\d+: `dot` of float64 is not there on .* sm_100"):
        mm.make().source(matrix, matrix, matrix, gpu=machine.B200)


@pytest.mark.parametrize("precision, expected", (("highest", "ieee"), ("high", "tf32")))
def test_float32_products_state_their_precision(precision, expected):
    from ninetoothed_ops.kernels import mm

    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        matrix = torch.empty(64, 64)
        assert f'input_precision="{expected}"' in mm.make().source(matrix, matrix, matrix, gpu=machine.H200).text
    finally:
        torch.set_float32_matmul_precision(before)


def test_short_inner_dimensions_are_multiplied_and_summed():
    def product(x, y, z):
        z = ntl.dot(x, y)

    def whole(*tensors):
        return tuple(tensor.tile((-1, -1)) for tensor in tensors)

    source = text(product, torch.empty(16, 4), torch.empty(4, 16), torch.empty(16, 16), arrangement=whole)
    assert "tl.sum(x[:, None, :] * tl.permute(y, 1, 0)[None, :, :], axis=2)" in source


def test_users_names_survive():
    def normalise(x, y):
        mean = ntl.sum(x) / x.shape[0]
        centred = x - mean
        variance = ntl.sum(centred * centred) / x.shape[0]
        y = centred / ntl.sqrt(variance)

    source = text(normalise, torch.empty(8, 64), torch.empty(8, 64), arrangement=squeezed_rows)
    for name in ("mean", "centred", "variance"):
        assert f"    {name} = " in source


def test_parameters_named_as_sizes_are():
    def add(x, x_size_0, y):
        y = x + x_size_0

    source = text(add, vector(), 3, vector(), BLOCK_SIZE=128)
    size = re.search(r"def add\(x_ptr, x_size_0, y_ptr, (\w+)\):", source).group(1)
    assert f"x_index < {size}" in source and "x + tl.cast(x_size_0, tl.float32)" in source


def test_results_of_one_function_have_variables_of_their_own():
    def difference(x, y):
        halves = ntl.split(ntl.reshape(x, (64, 2)))
        y = ntl.sum(halves[0]) - ntl.max(halves[1])

    source = text(difference, vector(), vector(), BLOCK_SIZE=128)
    assert "split, split_1 = tl.split(" in source and "tl.sum(split) - tl.max(tl.where(" in source


def test_a_breakpoint_is_for_the_cpu():
    def stop(x, y):
        breakpoint()
        y = x + 1

    with pytest.raises(UnsupportedError, match="CPU"):
        text(stop, vector(), vector(), BLOCK_SIZE=128)
