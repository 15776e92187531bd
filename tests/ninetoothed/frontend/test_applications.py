"""What an application may do, run and compared with PyTorch: values, control flow, helpers, indexing, stores."""

import enum
import functools
import math

import numpy
import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor
from tests.conftest import DEVICE

BLOCK_SIZE = Symbol("BLOCK_SIZE", constexpr=True)


def elementwise(*tensors, BLOCK_SIZE=BLOCK_SIZE):
    return tuple(tensor.tile((BLOCK_SIZE,)) for tensor in tensors)


def rows(*tensors):
    return tuple(tensor.tile((1, -1)).squeeze(1) for tensor in tensors)


def make(application, *ndims, arrangement=elementwise, **options):
    return ninetoothed.make(arrangement, application, tuple(Tensor(ndim) for ndim in ndims), **options)


def randn(*shape, dtype=torch.float32):
    return torch.randn(shape, device=DEVICE, dtype=dtype)


def nans(*shape, dtype=torch.float32):
    return torch.full(shape, float("nan"), device=DEVICE, dtype=dtype)


def run(application, *inputs, block=64, **kwargs):
    """Run an elementwise application of inputs and one output of their shape."""
    output = torch.full_like(inputs[0], 77)
    make(application, *(1 for _ in inputs), 1)(*inputs, output, BLOCK_SIZE=block, **kwargs)
    return output


# -- helpers ---------------------------------------------------------------------------------------------------------


def square(x):
    return x * x


def shifted(x, by=1):
    y = x + by
    return y


def helpers_in_one_expression(x, y):
    y = square(x) + shifted(x) * shifted(x, by=2)


def locals_do_not_clash(x, y):
    by = 10
    result = shifted(x)
    y = result + by


def store_through(source, target):
    target = source * 2


def parameters_are_by_reference(x, y):
    acc = ntl.zeros(x.shape, dtype=ntl.float32)
    store_through(x, acc)
    store_through(acc, y)


def nested_functions(x, y):
    def inner(value):
        return value * scale

    scale = 3
    y = inner(inner(x)) + (lambda v: v - 1)(x)


@pytest.mark.parametrize(
    "application, expected",
    (
        (helpers_in_one_expression, lambda x: x * x + (x + 1) * (x + 2)),
        (locals_do_not_clash, lambda x: x + 11),
        (parameters_are_by_reference, lambda x: x * 4),
        (nested_functions, lambda x: x * 9 + x - 1),
    ),
)
def test_helper_functions_are_inlined(application, expected):
    x = randn(1000)
    torch.testing.assert_close(run(application, x), expected(x))


def test_a_partial_application_and_a_docstring():
    def application(x, y, factor):
        """Scales."""
        y = x * factor

    x = randn(100)
    output = torch.empty_like(x)
    kernel = ninetoothed.make(elementwise, functools.partial(application, factor=3), (Tensor(1), Tensor(1)))
    kernel(x, output, BLOCK_SIZE=32)
    torch.testing.assert_close(output, x * 3)


def test_a_lambda_arrangement_and_a_method_as_application():
    class Model:
        factor = 5

        def application(self, x, y):
            y = x * self.factor

    x = randn(100)
    output = torch.empty_like(x)
    kernel = ninetoothed.make(lambda *ts: tuple(t.tile((32,)) for t in ts), Model().application, (Tensor(1), Tensor(1)))
    kernel(x, output)
    torch.testing.assert_close(output, x * 5)


# -- closures and constants ------------------------------------------------------------------------------------------


class Mode(enum.Enum):
    DOUBLE = 0
    TRIPLE = 1


def test_closures_over_numbers_enums_types_and_modules():
    factor, mode, dtype, module = 2.5, Mode.TRIPLE, torch.float32, ntl

    def application(x, y):
        if mode is Mode.TRIPLE:
            scale: ntl.constexpr = factor * 3
        else:
            scale: ntl.constexpr = "never"
        y = module.exp(x.to(dtype)) * scale * math.pi

    x = randn(70)
    torch.testing.assert_close(run(application, x), torch.exp(x) * 7.5 * math.pi)


@pytest.mark.parametrize("dtype", (numpy.float16, numpy.float32, numpy.float64, numpy.int64, numpy.uint8, numpy.bool_))
def test_closures_over_numbers_of_numpy(dtype):
    factor, factors, table = dtype(1), numpy.ones(3, dtype), {"a": dtype(1)}

    def application(x, y, z=factor):
        y = (x * factor + factors[1]) * table["a"] + z

    x = randn(70)
    torch.testing.assert_close(run(application, x), x + 2)


def test_keyword_defaults_and_sums_of_sequences():
    def application(x, y):
        def scaled(value, *, by=2, plus):
            return value * by + plus

        y = sum([scaled(x, plus=i) for i in range(3)], start=x) + sum((1, 2))

    x = randn(70)
    torch.testing.assert_close(run(application, x), x * 7 + 6)


def test_constexpr_scalars_choose_branches():
    def application(x, y, mode, flag):
        if mode == Mode.DOUBLE and flag:
            y = x * 2
        elif mode == Mode.TRIPLE:
            y = x * 3
        else:
            y = undefined_name  # noqa: F821 - the branch is never taken

    def arrangement(x, y, mode, flag):
        return x.tile((32,)), y.tile((32,)), mode, flag

    constant = {"constexpr": True}
    tensors = (Tensor(1), Tensor(1), Tensor(0, **constant), Tensor(0, value=True, **constant))
    kernel = ninetoothed.make(arrangement, application, tensors)
    x = randn(70)
    for mode, factor in ((Mode.DOUBLE, 2), (Mode.TRIPLE, 3)):
        y = nans(70)
        kernel(x, y, mode)
        torch.testing.assert_close(y, x * factor)


def test_runtime_scalars():
    def application(x, alpha, y):
        y = x * alpha + alpha

    def arrangement(x, alpha, y):
        return x.tile((32,)), alpha, y.tile((32,))

    kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(0), Tensor(1)))
    x = randn(70)
    for alpha in (2, 2.5, True, torch.tensor(3.5, device=DEVICE), torch.tensor(4)):
        y = nans(70)
        kernel(x, alpha, y)
        torch.testing.assert_close(y, x * float(alpha) + float(alpha))


# -- stores ----------------------------------------------------------------------------------------------------------


def test_reading_a_parameter_after_assigning_it_does_not_round():
    def application(x, y, z):
        y = x / 3
        z = y * 3

    x = randn(200)
    y, z = nans(200, dtype=torch.float16), nans(200)
    make(application, 1, 1, 1)(x, y, z, BLOCK_SIZE=64)
    torch.testing.assert_close(y, (x / 3).half())
    torch.testing.assert_close(z, x)


def test_a_vector_is_its_own_transpose():
    def application(x, y):
        y = x.T

    x = randn(64)
    assert torch.equal(run(application, x), x)


def test_augmented_assignment_of_a_parameter_and_broadcast_stores():
    def application(x, y):
        y = 1
        y += x
        y *= 2

    x = randn(100)
    torch.testing.assert_close(run(application, x), (1 + x) * 2)


def test_accumulating_into_a_parameter_in_a_loop():
    def application(x, y):
        for i in range(5):
            y += x * i

    x, y = randn(100), randn(100)
    expected = y + x * 10
    make(application, 1, 1)(x, y, BLOCK_SIZE=32)
    torch.testing.assert_close(y, expected)


def test_a_loop_without_a_round_leaves_nothing():
    """Its bounds are one expression, whatever the sizes are."""

    def application(x, y):
        total = x * 1
        for i in range(x.source.shape[0] // 2, x.source.shape[0] // 2):
            total += i
        y = total

    x, y = randn(100), nans(100)
    kernel = make(application, 1, 1)
    kernel(x, y, BLOCK_SIZE=32)
    assert torch.equal(x, y)
    assert "for " not in kernel.source(x, y, BLOCK_SIZE=32, gpu="h100").text


def test_parameters_may_share_memory():
    def application(x, y, z):
        y = x + 1
        z = x

    memory = randn(100)
    original, z = memory.clone(), nans(100)
    with pytest.warns(ninetoothed.AliasingWarning, match="'x' is read after line"):
        make(application, 1, 1, 1)(memory, memory, z, BLOCK_SIZE=32)
    torch.testing.assert_close(memory, original + 1)
    torch.testing.assert_close(z, original + 1)  # x is read again after the store to y


def test_stores_to_elements_of_the_innermost_level():
    def application(x, y):
        y[0] = ntl.sum(x)
        y[1] = ntl.max(x)
        y[ntl.arange(0, 2) + 2] = ntl.full((2,), 5.0, ntl.float32)

    def arrangement(x, y):
        return x.tile((1, -1)).squeeze(1), y.tile((1, -1)).squeeze(1)

    def squeezed(x, y):
        x, y = arrangement(x, y)
        x.dtype, y.dtype = x.dtype.squeeze(0), y.dtype.squeeze(0)
        return x, y

    x, y = randn(7, 50), nans(7, 4)
    ninetoothed.make(squeezed, application, (Tensor(2), Tensor(2)))(x, y)
    five = torch.full((7,), 5.0, device=DEVICE)
    torch.testing.assert_close(y, torch.stack((x.sum(1), x.max(1).values, five, five), 1))


def test_an_element_may_be_assigned_after_the_tile():
    def application(x, y, z):
        y = x
        y[0] = 5.0
        y[1] += 1
        z = y * 2
        y += 1

    x, y, z = randn(8), nans(8), nans(8)
    make(application, 1, 1, 1)(x, y, z, BLOCK_SIZE=8)
    expected = x.clone()
    expected[0], expected[1] = 5, x[1] + 1
    torch.testing.assert_close(z, expected * 2)
    torch.testing.assert_close(y, expected + 1)


# -- control flow ----------------------------------------------------------------------------------------------------


def test_loops_carry_numbers_and_tiles():
    def application(x, y):
        count = 0
        total = 0.0
        a, b = x, x * 0
        for i in range(4):
            count += i
            total += 0.5
            a, b = b + 1, a
        y = a + b * 2 + count + total

    x = randn(100)
    a, b = x, x * 0
    for _ in range(4):
        a, b = b + 1, a
    torch.testing.assert_close(run(application, x), a + b * 2 + 6 + 2)


def test_variables_that_start_equal_are_told_apart():
    def application(x, y):
        a, b = x, x
        count, next_count = 0, 0
        for _i in range(4):
            a, b = b, a + b
            count, next_count = next_count, next_count + 1
        y = b * 10 + count

    x = randn(100)
    torch.testing.assert_close(run(application, x), x * 80 + 3)


def test_a_variable_keeps_its_value_until_it_is_read_for_the_last_time():
    """A loop's result takes over a variable that the loop, or what comes after it, still reads."""

    def application(x, y, z):
        a = x * 1
        for _i in range(3):
            total = x * 0
            for _j in range(2):
                total = total + a
            a = total
        b, c = x * 1, x * 2
        for _i in range(3):
            for _j in range(2):
                c = c + b
            b, c = c, c * 2 - 1
        y = a
        z = b + c

    x, y, z = randn(64), nans(64), nans(64)
    make(application, 1, 1, 1)(x, y, z, BLOCK_SIZE=32)
    b, c = x, x * 2
    for _ in range(3):
        c = c + b * 2
        b, c = c, c * 2 - 1
    torch.testing.assert_close(y, x * 8)
    torch.testing.assert_close(z, b + c)


def test_an_argument_is_not_what_a_loop_makes_of_it():
    def application(x, n, y):
        if ntl.sum(x) > -1:
            m = n
            for _i in range(3):
                m = m + 1
            y = x + m
        y += n

    kernel = ninetoothed.make(
        lambda x, n, y: (x.tile((1,)), n, y.tile((1,))), application, (Tensor(1), Tensor(0), Tensor(1))
    )
    x, y = torch.arange(4.0, device=DEVICE), nans(4)
    kernel(x, 5, y)
    assert y.tolist() == [13, 14, 15, 16]


def test_helpers_assign_elements_in_loops():
    def triple(target, source):
        target = source * 3

    def application(x, y):
        for i in range(x.shape[0]):
            triple(y[i], x[i])

    def arrangement(x, y):
        return x.tile((4,)).tile((2,)), y.tile((4,)).tile((2,))

    x, y = randn(16), nans(16)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x, y)
    torch.testing.assert_close(y, x * 3)


def test_static_range_and_comprehensions():
    def application(x, y):
        powers = [x**i for i in range(4)]
        total = 0
        for i in ntl.static_range(1, 4):
            total += powers[i]
        for j, factor in enumerate((1, 2)):
            total += x * factor * j
        y = total

    x = randn(100)
    torch.testing.assert_close(run(application, x), x + x**2 + x**3 + 2 * x)


def next_power_of_two(n):
    power = 1
    while power < n:
        power *= 2
    return power


def bits(n):
    count = 0
    while True:
        if n == 0:
            return count
        n //= 2
        count += 1


def factorial(n):
    product = 1
    for i in range(1, n + 1):
        product *= i
    return product


def halve_to_an_odd(n):
    while n % 2 == 0:
        n //= 2


def counted_ones(n):
    ones = ntl.zeros((n,), dtype=ntl.float32)
    for _ in range(n):
        ones += 1
    return ones


def test_helpers_compute_with_known_numbers_as_python_does():
    """Sizes of tiles among them; one that computes with tiles, too, has loops of the kernel's."""

    def application(x, y):
        odd = 24
        halve_to_an_odd(odd)
        length = next_power_of_two(5) * bits(3) * factorial(3) // odd  # 8 * 2 * 6 // 3
        y = x + ntl.sum(ntl.zeros((length,), dtype=ntl.float32) + 1) + ntl.sum(counted_ones(8))

    x = randn(100)
    torch.testing.assert_close(run(application, x), x + 32 + 64)


def test_long_programs():
    def application(x, y, z):
        total, position, doubled = x, ntl.arange(0, 8), ntl.arange(0, 8)
        for _ in ntl.static_range(1200):
            total = total + 1
            position = position // 3 + 5
        for _ in ntl.static_range(60):
            doubled = doubled + doubled
        y = x + ntl.sum(total)
        z.source[position - 7 + doubled // 3 + x.offsets(0)] = 1.0

    x, y, z = randn(8), nans(8), nans(8)
    make(application, 1, 1, 1)(x, y, z, BLOCK_SIZE=8)
    torch.testing.assert_close(y, x + x.sum() + 8 * 1200)
    assert bool((z == 1).all())


def test_while_and_if_on_runtime_scalars():
    def application(x, y):
        n = ntl.max(x)
        steps = 0
        while n > 1:
            if n % 2 == 0:
                n = n // 2
            else:
                n = 3 * n + 1
            steps += 1
        y = x * 0 + steps

    def collatz(n):
        steps = 0
        while n > 1:
            n = n // 2 if n % 2 == 0 else 3 * n + 1
            steps += 1
        return steps

    x = torch.arange(1, 33, device=DEVICE, dtype=torch.int32)
    output = run(application, x, block=1)
    assert output.tolist() == [collatz(n) for n in range(1, 33)]


def test_loop_bounds_that_differ_between_programs():
    def application(x, y):
        total = ntl.zeros((1,), dtype=ntl.float32)
        for i in range(x.offsets(0)[0]):
            total += i
        y = total

    x = randn(20)
    output = run(application, x, block=1)
    assert output.tolist() == [sum(range(i)) for i in range(20)]


@pytest.mark.parametrize(
    "start, stop, step", ((12, -1, -1), (7, -1, -3), (-3, 20, 2), (3, 9, 4), (2, 5, -1), (5, 2, 1))
)
def test_a_step_whose_sign_only_the_call_tells(start, stop, step):
    """What the counter is compared with, and where it stores, are as in Python; beyond the tile nothing is written."""

    def application(start, stop, step, y, count):
        small = 0
        for i in range(start, stop, step):
            y[i] = i
            if i < 7:
                small += 1
        count = small

    kernel = ninetoothed.make(
        lambda *tensors: (*tensors[:3], tensors[3].tile((8,)), tensors[4]),
        application,
        tuple(map(Tensor, (0, 0, 0, 1, 0))),
    )
    memory, count = torch.full((32,), 77, device=DEVICE), torch.zeros((), dtype=torch.int32, device=DEVICE)
    kernel(start, stop, step, memory[12:20], count)
    expected = torch.full_like(memory, 77)
    for i in range(start, stop, step):
        if 0 <= i < 8:
            expected[12 + i] = i
    torch.testing.assert_close(memory, expected)
    assert count == sum(i < 7 for i in range(start, stop, step))


def test_a_conditional_expression_on_a_runtime_scalar():
    def application(x, y):
        y = x if ntl.sum(x) > 0 else -x

    x = randn(4, 32)
    expected = torch.where(x.sum(1, keepdim=True) > 0, x, -x)
    output = run(application, x.flatten(), block=32)
    torch.testing.assert_close(output.view(4, 32), expected)


@pytest.mark.parametrize("s", (3, 0))
def test_only_the_side_that_is_taken_has_effects(s):
    def stored(target, value):
        target = value
        return value

    def counted(count):
        count = count + 1
        return count

    def application(s, x, y, z):
        count = 0
        number = counted(count) if s > 0 else 7
        flag = s > 0 and counted(count) > 0
        if s > 0 or counted(count) > 5:
            number = number + 10
        y = count * 100 + number + flag
        other = stored(z, x) if s > 0 else x * 2
        y += other

    kernel = ninetoothed.make(
        lambda s, *tensors: (s, *elementwise(*tensors)), application, tuple(map(Tensor, (0, 1, 1, 1)))
    )
    x, y, z = randn(100), nans(100), torch.full((100,), 77.0, device=DEVICE)
    with pytest.warns(ninetoothed.HelperAssignmentWarning, match="'stored' returns a value, and stores"):
        kernel(s, x, y, z, BLOCK_SIZE=64)
    torch.testing.assert_close(y, x + 212 if s > 0 else x * 2 + 107)
    torch.testing.assert_close(z, x if s > 0 else torch.full_like(x, 77))


@pytest.mark.parametrize("s", (3, 0, -2.5))
def test_boolean_operators_on_numbers_give_one_of_them(s):
    def application(s, x, y):
        either, both = s or 5, s and s - 1
        y = x + either * 100 + both * 10 + (x.source.shape[0] and s and s > 0)

    kernel = ninetoothed.make(
        lambda s, *tensors: (s, *elementwise(*tensors)), application, tuple(map(Tensor, (0, 1, 1)))
    )
    x, y = randn(100), nans(100)
    kernel(s, x, y, BLOCK_SIZE=64)
    torch.testing.assert_close(y, x + (s or 5) * 100 + (s and s - 1) * 10 + (100 and s and s > 0))


def test_a_runtime_if_assigns_parameters_in_one_branch():
    def application(x, y):
        y = x
        if ntl.sum(x) > 0:
            y = x * 2

    x = randn(8, 16)
    expected = torch.where(x.sum(1, keepdim=True) > 0, x * 2, x)
    torch.testing.assert_close(run(application, x.flatten(), block=16).view(8, 16), expected)


def test_a_conditional_expression_of_tuples():
    def application(x, y):
        a, (b, _) = (x, (x + 1, 0)) if ntl.sum(x) > 0 else (-x, (x, 1))
        y = a * b

    x = randn(4, 32)
    expected = torch.where(x.sum(1, keepdim=True) > 0, x * (x + 1), -x * x)
    torch.testing.assert_close(run(application, x.flatten(), block=32).view(4, 32), expected)


def test_boolean_operators_on_tiles():
    def application(x, y):
        y = ntl.where((x > 0 and not x > 1) or x == -1, 1.0, 0.0)

    x = torch.tensor([-2.0, -1.0, 0.0, 0.5, 1.0, 1.5], device=DEVICE)
    assert run(application, x).tolist() == [0, 1, 0, 1, 1, 0]


# -- types -----------------------------------------------------------------------------------------------------------


def test_products_of_halves_by_numbers_that_they_do_not_hold():
    def application(x, y):
        y = x * 1e5 + x * 2**20 - 3e-6 * x

    x = torch.tensor((0.0, 1e-3, -0.02, 1e-7), dtype=torch.float16, device=DEVICE)
    y = nans(4)
    make(application, 1, 1)(x, y, BLOCK_SIZE=4)
    torch.testing.assert_close(y, (x * 1e5 + x * 2**20 - 3e-6 * x).float(), rtol=2e-3, atol=0)
    assert torch.isfinite(y).all() and y.count_nonzero() == 3


def beside_numbers(*tensors):
    return tuple(tensor.tile((1024,)) if tensor.ndim else tensor for tensor in tensors)


# Numbers that the types do not hold. With odd ones they add up to some that both do; Triton's interpreter truncates the
# others in bfloat16.
@pytest.mark.parametrize("dtype, number, rtol", ((torch.float16, 2049, 0), (torch.bfloat16, 257, 2**-7)))
@pytest.mark.parametrize("change", (lambda x, n: x * n, lambda x, n: n + x, lambda x, n: x - n))
def test_halves_meet_single_integers_in_float32(change, dtype, number, rtol):
    def of_argument(x, n, y):
        y = change(x, n)

    def of_size(x, y):
        y = change(x, x.source.shape[0])

    def of_number(x, y):
        y = change(x, number)

    x = (torch.randint(-9, 9, (number,), device=DEVICE) * 2 + 1).to(dtype)
    is_sum = change(1, 1) != 1
    for application, n in ((of_size, ()), (of_number, ()), (of_argument, (number,))):
        y = torch.empty_like(x)
        make(application, 1, *([0] * len(n)), 1, arrangement=beside_numbers)(x, *n, y)
        torch.testing.assert_close(y, change(x.float(), number).to(dtype), rtol=0 if is_sum else rtol, atol=0)
    make(of_argument, 1, 0, 1, arrangement=beside_numbers)(x, 2**17, y := torch.empty_like(x))
    torch.testing.assert_close(y, change(x.float(), 2**17).to(dtype), rtol=rtol, atol=0)


def test_division_of_halves_and_integers_gives_float32():
    def application(x, y):
        quotient = x / 3
        ntl.static_assert(quotient.dtype is ntl.float32)
        y = quotient

    for dtype in (torch.float16, torch.bfloat16, torch.int32):
        x = torch.arange(50, device=DEVICE).to(dtype)
        y = nans(50)
        make(application, 1, 1)(x, y, BLOCK_SIZE=32)
        torch.testing.assert_close(y, x.float() / 3)


def test_python_numbers_do_not_widen():
    def application(x, y):
        ntl.static_assert((x * 2.5).dtype == ntl.float16)
        ntl.static_assert((x + 1).dtype is ntl.float16)
        y = x * 2.5 + 1

    x = randn(50, dtype=torch.float16)
    # A GPU may fuse the two into one rounding.
    torch.testing.assert_close(run(application, x), x * 2.5 + 1, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16, torch.float32, torch.float64))
@pytest.mark.parametrize(
    "name", ("exp", "exp2", "log", "log2", "sqrt", "rsqrt", "sin", "cos", "sigmoid", "tanh", "erf")
)
def test_functions_take_every_float(name, dtype):
    def application(x, y):
        y = getattr(ntl, name)(x)

    x = (torch.rand(100, device=DEVICE, dtype=torch.float64) + 0.5).to(dtype)
    expected = getattr(torch, name)(x.double())
    tolerance = {torch.float16: 2e-3, torch.bfloat16: 2e-2, torch.float32: 1e-5, torch.float64: 1e-12}[dtype]
    torch.testing.assert_close(run(application, x).double(), expected, rtol=tolerance, atol=tolerance)


def test_integer_powers_are_exact():
    def application(x, y, z):
        z = x**y + 2**y

    x = torch.tensor([3, -3, 7, -1, 0, 0, 3, 5, -1, 1, 0, 2**63 - 1], device=DEVICE)
    y = torch.tensor([30, 31, 20, 63, 0, 5, 65, -1, -3, -2, -1, -1], device=DEVICE)
    z = torch.empty_like(x)
    make(application, 1, 1, 1)(x, y, z, BLOCK_SIZE=16)
    assert torch.equal(z, x**y + 2**y)


def test_numbers_beyond_the_range_of_a_tile_are_compared_and_converted():
    def application(x, y):
        y = (x < 1000) + (x == 2**40) + (-1000 > x) + ntl.cast(300, ntl.int8) + ntl.int8(-129)

    x = torch.arange(-64, 64, device=DEVICE, dtype=torch.int8)
    assert run(application, x.int()).tolist() == [1 + 44 + 127] * 128
    y = torch.zeros(128, device=DEVICE, dtype=torch.int32)
    make(application, 1, 1)(x, y, BLOCK_SIZE=32)
    assert y.tolist() == [1 + 44 + 127] * 128


@pytest.mark.parametrize("dtype, bits", ((torch.int8, 8), (torch.int32, 32), (torch.uint8, 8), (torch.int64, 64)))
def test_known_shifts_stay_within_the_bits(dtype, bits):
    def shifted(x, y):
        y = (x << bits - 1 >> bits - 1) + (x << 0)

    def too_far(x, y):
        y = x << bits

    def backwards(x, y):
        y = x >> -1

    x = torch.tensor([1, 2, 3], device=DEVICE).to(dtype)
    assert torch.equal(run(shifted, x), ((x << bits - 1) >> bits - 1) + x)
    for application, distance in ((too_far, bits), (backwards, -1)):
        message = f"has {bits} bits, which `.*` cannot shift by {distance}"
        with pytest.raises(ninetoothed.ApplicationError, match=message):
            run(application, x)


def test_integer_division_floors():
    def application(x, y, q, r):
        q = x // y
        r = x % y

    x = torch.tensor([7, -7, 7, -7, 0], device=DEVICE, dtype=torch.int32)
    y = torch.tensor([3, 3, -3, -3, 5], device=DEVICE, dtype=torch.int32)
    q, r = torch.empty_like(x), torch.empty_like(x)
    make(application, 1, 1, 1, 1)(x, y, q, r, BLOCK_SIZE=8)
    assert q.tolist() == (x // y).tolist() and r.tolist() == (x % y).tolist()


# -- reductions, shapes ----------------------------------------------------------------------------------------------


def whole_rows(x, y):
    x, y = x.tile((1, -1)).squeeze(1), y.tile((1, -1)).squeeze(1)
    x.dtype, y.dtype = x.dtype.squeeze(0), y.dtype.squeeze(0)
    return x, y


def softmax(x, y):
    row = x.to(ntl.float32)
    numerator = ntl.exp(row - ntl.max(row))
    y = numerator / ntl.sum(numerator)


@pytest.mark.parametrize("size", (1, 5, 64, 100))
def test_rows_of_any_length(size):
    x, y = randn(6, size), nans(6, size)
    ninetoothed.make(whole_rows, softmax, (Tensor(2, other=float("-inf")), Tensor(2)))(x, y)
    torch.testing.assert_close(y, torch.softmax(x, -1))


def test_lanes_that_round_up_are_no_elements_whatever_other_is():
    def application(x, y):
        y = ntl.sum(x)

    def arrangement(x, y):
        x, y = x.tile((-1,)), y.tile((-1,))
        return x, y

    x, y = torch.ones(5, device=DEVICE), nans(1)
    ninetoothed.make(arrangement, application, (Tensor(1, other=10.0), Tensor(1)))(x, y)
    assert y.item() == 5


@pytest.mark.parametrize("other, expected", ((float("-inf"), -128), (float("inf"), 127), (-3.0, -3)))
def test_other_of_integers(other, expected):
    def application(x, y):
        y = x

    x, y = torch.ones(3, device=DEVICE, dtype=torch.int8), torch.zeros(4, device=DEVICE, dtype=torch.int8)
    arrangement = lambda x, y: (x.pad(((1, 0),)).tile((4,)), y.tile((4,)))  # noqa: E731
    ninetoothed.make(arrangement, application, (Tensor(1, other=other), Tensor(1)))(x, y)
    assert y.tolist() == [expected, 1, 1, 1]


def test_tiles_made_without_memory_have_no_padding():
    def application(x, y):
        y = x + ntl.sum(ntl.arange(0, 5)) + ntl.max(ntl.arange(0, 5) - 9)

    x = randn(8)
    torch.testing.assert_close(run(application, x), x + 10 - 5)


def test_scans_of_tiles_made_without_memory_have_no_padding():
    def application(x, y):
        backwards = ntl.cumsum(ntl.arange(0, 5) + 1, axis=0, reverse=True)
        total = ntl.zeros((5,), dtype=ntl.float32)
        for i in range(3):
            total += ntl.arange(0, 5) + i
        y = x + backwards[4] * 1000 + backwards[0] * 10 + ntl.sum(total)

    x = randn(8)
    torch.testing.assert_close(run(application, x), x + 5000 + 150 + 45)


def test_join_split_permute_reshape_and_indexing():
    def application(x, y):
        even, odd = ntl.split(ntl.reshape(x, (16, 2)))
        swapped = ntl.reshape(ntl.join(odd, even), (32,))
        matrix = ntl.reshape(swapped, (4, 8))
        y = ntl.ravel(ntl.trans(ntl.trans(matrix))) + ntl.ravel(matrix[:, None, :][:, 0, :]) + matrix[1, 2]

    x = randn(32)
    swapped = x.view(16, 2).flip(1).reshape(32)
    torch.testing.assert_close(run(application, x, block=32), swapped * 2 + swapped.view(4, 8)[1, 2])


@pytest.mark.parametrize("heads, depth", ((3, 8), (5, 10), (4, 4)))
def test_reshape_splits_dimensions_that_are_rounded_up(heads, depth):
    def application(x, y):
        even, odd = ntl.split(ntl.reshape(x, (x.shape[0], x.shape[1] // 2, 2)))
        y = ntl.reshape(ntl.join(-odd, even), x.shape)

    constant = {"constexpr": True}
    tensors = (Tensor(2, shape_options=constant), Tensor(2, shape_options=constant))
    x, y = randn(heads, depth), nans(heads, depth)
    ninetoothed.make(lambda x, y: (x.tile((-1, -1)), y.tile((-1, -1))), application, tensors)(x, y)
    torch.testing.assert_close(y, torch.stack((-x[:, 1::2], x[:, ::2]), -1).flatten(1))


def test_reshape_across_padding_is_an_error():
    def application(x, y):
        y = ntl.ravel(ntl.reshape(x, (4, 3)))

    x = randn(12)
    with pytest.raises(ninetoothed.ApplicationError, match="must be powers of two"):
        run(application, x, block=12)


def test_reduce_and_scan_with_combining_functions():
    def maximum(a, b):
        return ntl.maximum(a, b)

    def application(x, y):
        y = ntl.associative_scan(x, 0, maximum) + ntl.reduce(x, 0, maximum) + ntl.cumsum(x, 0)

    x = randn(32)
    torch.testing.assert_close(run(application, x, block=32), x.cummax(0).values + x.max() + x.cumsum(0))


def test_combining_functions_choose_with_if():
    def greater(a, b):
        r = b
        if a > b:
            r = a
        return r

    def last_positive(value, position, next_value, next_position):
        if next_value > 0:
            if next_position >= position:
                value, position = next_value, next_position
        elif value <= 0:
            value, position = -1.0, -1
        return value, position

    def application(x, y, z):
        y = ntl.reduce(x, 0, greater) + ntl.associative_scan(x, 0, greater)
        value, position = ntl.reduce((x, ntl.arange(0, 32)), 0, last_positive)
        z = value * 100 + position

    x, y, z = randn(32), nans(32), nans(32)
    x[31], x[20] = -1, 1
    make(application, 1, 1, 1)(x, y, z, BLOCK_SIZE=32)
    torch.testing.assert_close(y, x.max() + x.cummax(0).values)
    last = x.gt(0).nonzero().max()
    torch.testing.assert_close(z, (x[last] * 100 + last).expand(32))


def test_what_a_loop_assigns_before_it_looks_is_its_own():
    """Functions and text cannot be carried from round to round, and need not be."""

    def application(x, y):
        total = x
        for outer in ntl.static_range(2):
            change = lambda value: value + 100  # noqa: E731
            name = "outer" if outer == 0 else "later"
            for _ in range(x.source.shape[0]):
                change = lambda value: value * 1  # noqa: E731
                name = "inner"
                total = change(total) + (1 if name == "inner" else 100)
        y = total

    x = randn(8)
    torch.testing.assert_close(run(application, x), x + 16)


def test_arithmetic_and_shapes_under_the_names_of_triton():
    def application(x, y):
        column = ntl.unsqueeze(ntl.add(x, 1.0), -1)
        y = ntl.math.exp(ntl.squeeze(column, 1)) - ntl.mul(ntl.sub(2, x), ntl.to_tensor(3.0))

    x = randn(64)
    torch.testing.assert_close(run(application, x), torch.exp(x + 1) - (2 - x) * 3)


def test_squeezing_a_tile_of_more_than_one_element():
    def application(x, y):
        y = ntl.squeeze(x, 0)

    with pytest.raises(ninetoothed.ApplicationError, match=r"`squeeze` takes away .*, not dimension 0 of \(64,\)"):
        run(application, randn(64))


def test_nan_in_extrema():
    def application(x, y):
        y = ntl.maximum(x, 0.0, propagate_nan=ntl.PropagateNan.ALL)

    x = randn(64)
    x[3] = float("nan")
    torch.testing.assert_close(run(application, x), torch.maximum(x, x.new_zeros(())), equal_nan=True)


def test_four_random_numbers_at_once():
    def uniform(x, y):
        a, b, c, d = ntl.rand4x(7, ntl.arange(0, 64))
        y = ntl.where(x > 0, a - ntl.rand(7, ntl.arange(0, 64)), (a < 1) & (b < 1) & (c < 1) & (d >= 0))

    def normal(x, y):
        a, b, c, d = ntl.randn4x(7, ntl.arange(0, 64))
        y = ntl.where(x > 0, a - ntl.randn(7, ntl.arange(0, 64)), ntl.abs(b - c * d) < 100)

    def wide(x, y):
        y = ntl.uint_to_uniform_float(ntl.arange(0, 64).to(ntl.int64) - 1)

    x = torch.tensor([0.0, 1.0], device=DEVICE).repeat(32)
    for application in (uniform, normal):
        torch.testing.assert_close(run(application, x), 1 - x)
    indices = torch.arange(-1.0, 63, device=DEVICE).clamp_min(0)
    torch.testing.assert_close(run(wide, x) * 2.0**62, indices / 2, rtol=1e-5, atol=0)


# -- source, offsets, gathers ----------------------------------------------------------------------------------------


def test_offsets_and_shapes():
    def application(x, y):
        rows, columns = x.offsets(0), x.offsets(1)
        inside = rows[:, None] < x.source.shape[0] and columns[None, :] < x.source.shape[1]
        y = ntl.where(inside, rows[:, None] * 100 + columns[None, :] + x.shape[0] * 1000, -1)

    x = torch.zeros(7, 9, device=DEVICE)
    y = torch.full((7, 9), -5, device=DEVICE, dtype=torch.int64)
    ninetoothed.make(lambda x, y: (x.tile((4, 2)), y.tile((4, 2))), application, (Tensor(2), Tensor(2)))(x, y)
    expected = torch.arange(7)[:, None] * 100 + torch.arange(9)[None, :] + 4000
    assert torch.equal(y.cpu(), expected)


def test_a_parameter_has_its_place_after_it_is_assigned():
    def add_places(target):
        target += target.offsets(0) + target.source.shape[0]

    def application(x, y, z):
        y = x
        add_places(y)
        y = y * 1.0
        y.source[y.source.shape[0] - 1] = 5.0
        z = ntl.load(y.data_ptr() + y.offsets(), mask=y.offsets(0) < y.source.shape[0])

    x, y, z = randn(100), nans(100), nans(100)
    make(application, 1, 1, 1)(x, y, z, BLOCK_SIZE=128)
    expected = x + torch.arange(100, device=DEVICE) + 100
    expected[99] = 5
    torch.testing.assert_close(y, expected)
    torch.testing.assert_close(z, expected)


def test_extrema_of_indices():
    def application(x, y):
        first, last = ntl.min(x.offsets(0)), ntl.max(x.offsets(0))
        y = x * 0 + first * 1000 + last + ntl.max(5 - ntl.arange(0, 3))

    x = randn(20)
    starts = torch.arange(20, device=DEVICE) // 8 * 8
    torch.testing.assert_close(run(application, x, block=8), (starts * 1000 + starts + 7 + 5).float())


def test_gather_and_scatter_through_the_source():
    def application(index, table, output):
        positions = index
        output = table.source[positions, 1]

    def arrangement(index, table, output):
        return (
            index.tile((16,)),
            table.tile((-1, -1)).flatten().expand((index.tile((16,)).shape[0],)),
            output.tile((16,)),
        )

    table = randn(10, 3)
    index = torch.randint(-3, 13, (50,), device=DEVICE)
    output = nans(50)
    tensors = (Tensor(1), Tensor(2, other=-7.0), Tensor(1))
    ninetoothed.make(arrangement, application, tensors)(index, table, output)
    inside = (index >= 0) & (index < 10)
    expected = torch.where(inside, table[index.clamp(0, 9), 1], -7.0)
    torch.testing.assert_close(output, expected)


def test_atomics_through_pointers():
    def application(x, counts):
        ntl.atomic_add(counts.source.data_ptr() + x, 1)

    def arrangement(x, counts):
        return x.tile((32,)), counts.tile((-1,)).expand((x.tile((32,)).shape[0],))

    x = torch.randint(0, 7, (500,), device=DEVICE, dtype=torch.int32)
    counts = torch.zeros(8, device=DEVICE, dtype=torch.int32)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x[:480], counts)
    assert torch.equal(counts.cpu(), torch.bincount(x[:480].cpu(), minlength=8).int())


def test_neighbours_by_index_arithmetic_keep_their_guards():
    """x[i - 1] of the first tile is out of bounds: it reads `other`."""

    def application(x, y):
        for i in range(x.shape[0]):
            y[i] = x[i] + x[i - 1] if i > 0 else x[i]

    def arrangement(x, y):
        return x.tile((4,)).tile((-1,)), y.tile((4,)).tile((-1,))

    x, y = randn(18), nans(18)
    ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))(x, y)
    padded = torch.cat((x, torch.zeros(2, device=DEVICE))).view(5, 4)
    previous = torch.cat((torch.zeros(1, 4, device=DEVICE), padded[:-1]))
    torch.testing.assert_close(y, (padded + previous).flatten()[:18])


def test_jit_with_annotations():
    BLOCK = Symbol("BLOCK", meta=True)

    @ninetoothed.jit
    def add(x: Tensor(1).tile((BLOCK,)), y: Tensor(1).tile((BLOCK,)), z: Tensor(1).tile((BLOCK,))):
        z = x + y

    x, y, z = randn(777), randn(777), nans(777)
    assert add(x, y, z) is None
    assert torch.equal(z, x + y)


def test_a_default_device_changes_nothing():
    def application(x, y):
        offsets = ntl.arange(0, 16)
        y = ntl.where((offsets > 2) & (x > 0), x + 0.1, ntl.rand(3, offsets))
        ntl.atomic_add(y.source.data_ptr() + offsets, x)

    kernel = ninetoothed.make(lambda x, y: (x.tile((16,)), y.tile((16,))), application, (Tensor(1), Tensor(1)))
    x = torch.randn(16, device=DEVICE).half()
    y, other = torch.zeros_like(x), torch.zeros_like(x)
    kernel(x, y)
    with torch.device("meta"):
        kernel(x, other)
    assert torch.equal(y, other)
