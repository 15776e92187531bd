"""Programs as text: what each operation looks like, and that equal programs look alike."""

import expecttest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, frontend, ir
from ninetoothed.runtime import dispatch
from tests.ninetoothed.products import blocked


def make(application, *tensors):
    return ninetoothed.make(lambda *given: given, application, tensors)


def traced(kernel, *arguments):
    """The program of a call before any pass."""
    launcher = dispatch.launcher_of(kernel)
    selection = launcher.trace(arguments, {}).selection
    return frontend.trace(launcher.definition, selection.specialisation)


def after_passes(kernel, *arguments):
    return dispatch.program(kernel, arguments, {})


def row(*sizes):
    return Tensor(len(sizes), shape=sizes).tile(sizes)


def add(x, y, alpha, z):
    z = x + alpha * y


def product(a, b, c):
    total = ntl.zeros(c.shape, dtype=ntl.float32)
    for k in range(a.shape[0]):
        total += ntl.dot(a[k], b[k])
    c = total


def larger(a, b):
    return ntl.maximum(a, b)


def branches(x, n, y):
    count = 0
    while count < n:
        count += 2
        if count == 3:
            count = n
        else:
            print("count", count)
    y = ntl.reduce(x, 0, larger) + count


def scattered(x, i, y):
    y.source[i] = x.source[i + 1]
    ntl.atomic_add(y.data_ptr() + i, 1.0)


class PrinterTest(expecttest.TestCase):
    def test_tiles_and_scalars(self):
        tensors = (Tensor(1).tile((64,)), Tensor(1).tile((64,)), Tensor(0), Tensor(1).tile((64,)))
        x = torch.zeros(90, dtype=torch.float16)
        self.assertExpectedInline(
            ir.print_program(after_passes(make(add, *tensors), x, x, 0.5, x)),
            """\
program add(
    x: f16[x_size_0] strides (1,),
    y: f16[x_size_0] strides (1,),
    alpha: f32,
    z: f16[x_size_0] strides (1,),
)
grid program_0 < (x_size_0 + 63) // 64

    # z = x + alpha * y
    alpha_1: f32 = argument alpha
    y_1: f16[64] = load y[lane_0 + 64 * program_0] where lane_0 + 64 * program_0 < x_size_0 else 0.0
    v: f32[64] = cast(y_1)
    v_1: f32[64] = full(alpha_1)
    v_2: f32[64] = mul(v_1, v)
    x_1: f16[64] = load x[lane_0 + 64 * program_0] where lane_0 + 64 * program_0 < x_size_0 else 0.0
    v_3: f32[64] = cast(x_1)
    z_1: f32[64] = add(v_3, v_2)
    v_4: f16[64] = cast(z_1)
    store z[lane_0 + 64 * program_0] = v_4 where lane_0 + 64 * program_0 < x_size_0
""",
        )

    def test_a_loop(self):
        kernel = ninetoothed.make(blocked(16, 16, 16), product, tuple(Tensor(2) for _ in range(3)))
        program = after_passes(kernel, torch.zeros(40, 64), torch.zeros(64, 48), torch.zeros(40, 48))
        self.assertExpectedInline(
            ir.print_program(program),
            """\
program product(
    a: f32[a_size_0, a_size_1] strides (a_stride_0, 1),
    b: f32[a_size_1, b_size_1] strides (b_stride_0, 1),
    c: f32[a_size_0, b_size_1] strides (c_stride_0, 1),
)
grid program_0 < (a_size_0 + 15) // 16, program_1 < b_size_1 // 16
multiples of 16: a_size_1, a_stride_0, b_size_1, b_stride_0, c_stride_0

    # total = ntl.zeros(c.shape, dtype=ntl.float32)
    total: f32[16, 16] = full(f32(0.0))
    # for k in range(a.shape[0]):
    for k_1 in range(a_size_1 // 16) carry (total_1: f32[16, 16] = total) -> (total_2):
        # total += ntl.dot(a[k], b[k])
        a_1: f32[16, 16] = load a[lane_0 + 16 * program_0, 16 * k_1 + lane_1]
                where lane_0 + 16 * program_0 < a_size_0 else 0.0
        b_1: f32[16, 16] = load b[16 * k_1 + lane_0, lane_1 + 16 * program_1]
        v: f32[16, 16] = dot(a_1, b_1, input_precision='ieee')
        total_3: f32[16, 16] = add(total_1, v)
        yield total_3
    # c = total
    store c[lane_0 + 16 * program_0, lane_1 + 16 * program_1] = total_2 where lane_0 + 16 * program_0 < a_size_0
""",
        )

    def test_branches_and_functions(self):
        kernel = make(branches, row(8), Tensor(0), Tensor(1).tile((1,)))
        self.assertExpectedInline(
            ir.print_program(after_passes(kernel, torch.zeros(8), 5, torch.zeros(1))),
            """\
program branches(
    x: f32[8] strides (1,),
    n: i32,
    y: f32[1] strides (0,),
)
grid program_0 < 1

    # while count < n:
    n_1: i32 = argument n
    v: i1 = lt(i32(0), n_1)
    while going carry (going: i1 = v, count: i32 = i32(0)) -> (going_1, count_1):
        # count += 2
        count_2: i32 = add(count, i32(2))
        # if count == 3:
        v_1: i1 = eq(count_2, i32(3))
        if v_1 -> (count_3: i32):
            yield n_1
        else:
            # print("count", count)
            print('count ', count_2, end='\\n')
            yield count_2
        # while count < n:
        v_2: i1 = lt(count_3, n_1)
        yield v_2, count_3
    # y = ntl.reduce(x, 0, larger) + count
    x_1: f32[8] = load x[lane_0]
    def larger(v_3: f32, v_4: f32):
        # return ntl.maximum(a, b)
        v_5: f32 = maximum(v_3, v_4)
        yield v_5
    v_6: f32 = reduce(x_1, axis=0, combine=larger, keep_dims=False)
    # y = ntl.reduce(x, 0, larger) + count
    v_7: f32 = cast(count_1)
    v_8: f32 = add(v_6, v_7)
    y_1: f32[1] = full(v_8)
    store y[0] = y_1
""",
        )

    def test_indices_of_the_program_s_own(self):
        kernel = make(scattered, row(4), row(4), Tensor(shape=(4,), unique_indices=True).tile((4,)))
        indices = torch.zeros(4, dtype=torch.int64)
        self.assertExpectedInline(
            ir.print_program(after_passes(kernel, torch.zeros(4), indices, torch.zeros(4))),
            """\
program scattered(
    x: f32[4] strides (1,),
    i: i64[4] strides (1,),
    y: f32[4] strides (1,),
)
grid program_0 < 1

    # y.source[i] = x.source[i + 1]
    i_1: i64[4] = load i[lane_0]
    v: i64[4] = full(i64(1))
    v_1: i64[4] = add(i_1, v)
    v_2: f32[4] = load x[v_1] where 0 <= v_1 < 4 else 0.0
    store y[i_1] = v_2 where 0 <= i_1 < 4
    # ntl.atomic_add(y.data_ptr() + i, 1.0)
    v_3: pointer(f32, y) = data_ptr(parameter='y')
    i_2: i64[4] = load i[lane_0]
    v_4: pointer(f32, y)[4] = full(v_3)
    v_5: pointer(f32, y)[4] = add(v_4, i_2)
    v_6: f32[4] = full(f32(1.0))
    v_7: f32[4] = atomic_add(v_5, v_6)
""",
        )

    def test_one_operation(self):
        kernel = make(add, row(4), row(4), Tensor(0), row(4))
        x = torch.zeros(4)
        operations = ir.walk(after_passes(kernel, x, x, 2.0, x).body)
        self.assertExpectedInline(
            "\n".join(map(ir.print_operation, operations)),
            """\
# z = x + alpha * y
alpha: f32 = argument alpha
# z = x + alpha * y
y_1: f32[4] = load y[lane_0]
# z = x + alpha * y
v: f32[4] = full(alpha)
# z = x + alpha * y
v_1: f32[4] = mul(v, y)
# z = x + alpha * y
x_1: f32[4] = load x[lane_0]
# z = x + alpha * y
z: f32[4] = add(x, v)
# z = x + alpha * y
store z[lane_0] = z_1""",
        )


def test_overhang_before_its_pass():
    kernel, x = (
        make(add, *2 * [Tensor(1).tile((64,))], Tensor(0), Tensor(1).tile((64,))),
        torch.zeros(90, dtype=torch.float16),
    )
    before, after = ir.print_program(traced(kernel, x, x, 0.5, x)), ir.print_program(after_passes(kernel, x, x, 0.5, x))
    assert before.count(" (overhang past it)") == 3 and before.replace(" (overhang past it)", "") == after


def test_equal_programs_have_equal_texts():
    x, kernel = torch.zeros(4), make(add, row(4), row(4), Tensor(0), row(4))
    texts = {ir.print_program(after_passes(kernel, x, x, 2.0, x)) for _ in range(3)}
    assert len(texts) == 1
