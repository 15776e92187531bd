"""What the printer works around in Triton, each as a small program, and the version from which on it need not.

A workaround that no supported version needs goes: where one of these tests fails, look at its place in the printer.
`tests/ninetoothed/passes/test_workarounds.py` has those of the pass.
"""

import pytest

triton = pytest.importorskip("triton")
tl = pytest.importorskip("triton.language")

VERSION = tuple(map(int, triton.__version__.split(".")[:2]))


@triton.jit
def number_of_float8(x_ptr, y_ptr, n):
    tl.store(y_ptr + tl.arange(0, 8), tl.full((8,), 1.5, tl.float8e5).to(tl.float32))


@triton.jit
def integers_to_float8(x_ptr, y_ptr, n):
    tl.store(y_ptr + tl.arange(0, 8), tl.arange(0, 8).to(tl.float8e5).to(tl.float32))


@triton.jit
def larger_bfloat16(x_ptr, y_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 8)).to(tl.bfloat16)
    tl.static_assert(tl.maximum(x, x).dtype == tl.bfloat16)


@triton.jit
def histogram_of_int64(x_ptr, y_ptr, n):
    x = tl.load(x_ptr + tl.arange(0, 8)).to(tl.int64)
    tl.store(y_ptr + tl.arange(0, 8), tl.histogram(x, 8))


@triton.jit
def place_along_all_axes(x_ptr, y_ptr, n):
    tl.store(y_ptr, tl.argmax(tl.load(x_ptr + tl.arange(0, 8)), None))


@triton.jit
def flip_of_one_element(x_ptr, y_ptr, n):
    place = tl.arange(0, 1)
    tl.store(y_ptr + place, tl.flip(tl.load(x_ptr + place), 0))


@triton.jit
def rounded_root_of_float64(x_ptr, y_ptr, n):
    tl.store(y_ptr, tl.sqrt_rn(tl.load(x_ptr).to(tl.float64)).to(tl.float32))


@triton.jit
def rounded_quotient_of_float64(x_ptr, y_ptr, n):
    x = tl.load(x_ptr).to(tl.float64)
    tl.store(y_ptr, tl.div_rn(x, x + 1).to(tl.float32))


@triton.jit
def twins(x_ptr, y_ptr, n):
    x = tl.load(x_ptr)
    a = x
    b = x
    for _ in range(n):
        c = a + b
        a = b
        b = c
    tl.store(y_ptr, a)
    tl.store(y_ptr + 1, b)


@triton.jit
def to_float8(x_ptr, y_ptr, n):
    place = tl.arange(0, 128)
    tl.store(y_ptr + place, tl.load(x_ptr + place).to(tl.float8e5).to(tl.float32))


def compiled(function, capability=90):
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {"x_ptr": "*fp32", "y_ptr": "*fp32", "n": "i32"}
    source, options = ASTSource(function, signature, {}), {"enable_fp_fusion": True}
    return triton.compile(source, target=GPUTarget("cuda", capability, 32), options=options).asm


@pytest.mark.parametrize(
    "function, mended",
    (
        (number_of_float8, (3, 7)),
        (larger_bfloat16, (3, 9)),
        (integers_to_float8, None),
        (histogram_of_int64, None),
        (place_along_all_axes, None),
        (flip_of_one_element, None),
        (rounded_root_of_float64, None),
        (rounded_quotient_of_float64, None),
    ),
    ids=lambda each: getattr(each, "__name__", ""),
)
def test_what_does_not_compile(function, mended):
    try:
        compiled(function)
        fails = False
    except Exception:  # of classes that differ by version
        fails = True
    assert fails == (mended is None or mended > VERSION)


def test_two_variables_of_one_initial_value_are_carried_as_one():
    (loop,) = (line for line in compiled(twins)["ttir"].splitlines() if "scf.for" in line)
    assert "-> (f32)" in loop


def test_float8e5_is_rounded_towards_zero_before_the_instruction_for_it():
    assert "cvt.rz" in compiled(to_float8, 80)["ptx"]
