"""The functions of libdevice on a CPU, over the whole range: against mpmath, fractions and Python's integers."""

import math
import struct
from dataclasses import replace
from fractions import Fraction

import pytest
import torch

from benchmarks.functions.measure import against_mpmath, arguments, functions, measured, run
from benchmarks.functions.points import integers, numbers, specials
from ninetoothed.language.functions.libdevice_tables import CONVERSIONS, TYPES

INF, NAN = math.inf, math.nan
# Units of the last place by which float64 may be off, where it is more than two; of Bessel functions 1e-15.
ULPS = {"cyl_bessel_i0": 6, "cyl_bessel_i1": 6, "erfcinv": 4, "erfcx": 8, "normcdf": 5, "normcdfinv": 4, "tgamma": 8}
APPROXIMATE = [each.name for each in functions().values() if not each.is_exact and "float64" in each.types]


@pytest.mark.parametrize("name", APPROXIMATE)
def test_float64_follows_mpmath(name):
    found, plain = against_mpmath(name, functions()[name].types["float64"], 10), name.removeprefix("libdevice.")
    assert found["absolute"] < 1e-15 if plain in ("j0", "j1", "y0", "y1") else found["ulps"] < ULPS.get(plain, 2), found


# As GPUs compute it, NaN of negative numbers, and compared with `pow` where it is one.
OWN = "libdevice.fast_powf"


@pytest.mark.parametrize("name", [each.name for each in functions().values() if not each.is_exact and each.name != OWN])
def test_float32_is_float64_rounded(name):
    function = functions()[name]
    found = measured(replace(function, types={"float32": function.types["float32"]}), "cpu")["float32"]
    is_flushed = name == "sigmoid"  # whose denormal results are 0
    assert (found["absolute"] < 1e-7 if is_flushed else found["ulps"] < 1.5) and found["kinds"] == 0, found


def test_fast_powf_is_pow_of_positive_numbers():
    x, y = arguments(functions()[OWN].types["float32"], 300)
    found, exact = run(OWN, [x, y], "cpu"), x.double() ** y.double()
    is_plain = (x > 0) & x.isfinite() & y.isfinite()
    torch.testing.assert_close(found[is_plain], exact[is_plain].float(), rtol=1e-6, atol=0)
    assert is_plain.sum() > 10_000 and found[x < 0].isnan().all() and (x < 0).any()


# -- rounding in a direction --------------------------------------------------------------------------------------

EXACT = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "rcp": lambda x: 1 / x,
    "fma": lambda x, y, z: x * y + z,
}


def neighbours(x, dtype):
    """A finite float, and those next to it."""
    ends = (torch.tensor(each, dtype=dtype) for each in (-INF, INF))
    return [torch.tensor(x, dtype=dtype).nextafter(end).item() for end in ends]


def assert_rounded(found, exact, mode, dtype, case):
    """A float is the one that a mode gives for a fraction."""
    greatest = torch.finfo(dtype).max
    if math.isinf(found):
        beyond = exact > greatest if found > 0 else exact < -greatest
        assert beyond and mode != "rz" and mode != ("rd" if found > 0 else "ru"), case
        return
    low, high = neighbours(found, dtype)
    off = Fraction(found) - exact
    if mode == "rd" or (mode == "rz" and exact > 0):
        assert off <= 0 and (math.isinf(high) or Fraction(high) > exact), case
    elif mode == "ru" or mode == "rz":
        assert off >= 0 and (math.isinf(low) or Fraction(low) < exact), case
    else:
        others = [Fraction(each) for each in (low, high) if math.isfinite(each)]
        assert all(abs(off) <= abs(each - exact) for each in others), case


def given_for(count, dtype):
    mixed = [each[torch.randperm(len(each), generator=torch.Generator().manual_seed(7 + place))[:400]]
             for place, each in enumerate([numbers(dtype)] * count)]  # fmt: skip
    near = torch.rand(3, 200, dtype=torch.float64, generator=torch.Generator().manual_seed(3)).to(dtype) + 0.5
    return [torch.cat([each, other]) for each, other in zip(mixed, (near[0], near[1], -near[2]))]


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("mode", ("rn", "rz", "rd", "ru"))
@pytest.mark.parametrize("stem", EXACT)
def test_arithmetic_is_rounded_in_a_direction(stem, mode, dtype):
    function = EXACT[stem]
    given = given_for(function.__code__.co_argcount, dtype)
    found = run(f"libdevice.{stem}_{mode}", given, "cpu").tolist()
    checked = 0
    for *numbers_, result in zip(*(each.tolist() for each in given), found):
        if (
            all(map(math.isfinite, numbers_))
            and not (stem == "div" and numbers_[1] == 0)
            and (stem, numbers_[0]) != ("rcp", 0)
        ):
            assert_rounded(result, function(*map(Fraction, numbers_)), mode, dtype, (numbers_, result))
            checked += 1
    assert checked > 300


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
@pytest.mark.parametrize("mode", ("rn", "rz", "rd", "ru"))
def test_square_roots_are_rounded_in_a_direction(mode, dtype):
    x = given_for(1, dtype)[0].abs()
    for number, result in zip(x.tolist(), run(f"libdevice.sqrt_{mode}", [x], "cpu").tolist()):
        if math.isfinite(number):
            low, high = (max(Fraction(each), Fraction(0)) for each in (neighbours(result, dtype)))
            square, exact = Fraction(result) ** 2, Fraction(number)
            assert square <= exact if mode in ("rd", "rz") else square >= exact if mode == "ru" else True
            if mode == "rn":
                assert ((low + Fraction(result)) / 2) ** 2 <= exact <= ((high + Fraction(result)) / 2) ** 2
            else:
                assert high**2 > exact if mode != "ru" else low**2 < exact or exact == 0


def test_sums_that_cancel_are_negative_zeros_rounded_down():
    x, y = torch.tensor([1.0, 0.0, 0.0, -0.0]), torch.tensor([-1.0, 0.0, -0.0, -0.0])
    assert run("libdevice.add_rd", [x, y], "cpu").signbit().tolist() == [True, False, True, True]
    assert run("libdevice.add_ru", [x, y], "cpu").signbit().tolist() == [False, False, False, True]


def test_quotients_of_zeros_and_infinities_are_exact():
    x, y = torch.tensor([1.0, -1.0, INF, 1.0, 0.0, INF, 3e38]), torch.tensor([0.0, 0.0, 2.0, INF, 0.0, INF, 1e-5])
    expected = torch.tensor([INF, -INF, INF, 0.0, NAN, NAN, torch.finfo(torch.float32).max])
    torch.testing.assert_close(run("libdevice.div_rz", [x, y], "cpu"), expected, rtol=0, atol=0, equal_nan=True)


# -- conversions --------------------------------------------------------------------------------------------------

TO_WHOLE = {"rn": round, "rz": math.trunc, "rd": math.floor, "ru": math.ceil}


@pytest.mark.parametrize("mode", TO_WHOLE)
@pytest.mark.parametrize("name", CONVERSIONS)
def test_conversions(name, mode):
    source, target = (getattr(torch, TYPES[each]) for each in name.split("2"))
    x = numbers(source)[::7] if source.is_floating_point else integers(source, 1)[0]
    x = torch.cat([x, specials(source)]) if source.is_floating_point else x
    found = run(f"libdevice.{name}_{mode}", [x], "cpu")
    for number, result in zip(x.tolist(), found.tolist()):
        if target.is_floating_point:
            if math.isfinite(number):
                assert_rounded(result, Fraction(number), mode, target, (number, result))
            else:
                assert result == number or result != result
            continue
        info = torch.iinfo(target)
        if math.isnan(number):
            highest = info.min or 2 ** (info.bits - 1)
            expected = highest if info.bits == 64 or source == torch.float64 else 0
        elif math.isinf(number):
            expected = info.max if number > 0 else info.min
        else:
            expected = min(max(TO_WHOLE[mode](number), info.min), info.max)
        assert result == expected, (number, result)


# -- integers -----------------------------------------------------------------------------------------------------


def unsigned(x, bits):
    return x % 2**bits


def signed(x, bits):
    return (x + 2 ** (bits - 1)) % 2**bits - 2 ** (bits - 1)


def lower24(x, is_signed):
    return signed(x, 24) if is_signed else unsigned(x, 24)


def byte_perm(x, y, selector):
    both = (unsigned(x, 32) | unsigned(y, 32) << 32).to_bytes(8, "little")
    return int.from_bytes(bytes(both[(selector >> 4 * place) & 7] for place in range(4)), "little")


INTEGERS = {
    "brev": lambda bits, is_signed, x: int(f"{unsigned(x, bits):0{bits}b}"[::-1], 2),
    "byte_perm": lambda bits, is_signed, x, y, s: byte_perm(x, y, s),
    "clz": lambda bits, is_signed, x: bits - unsigned(x, bits).bit_length(),
    "ffs": lambda bits, is_signed, x: (x & -x).bit_length() if x else 0,
    "hadd": lambda bits, is_signed, x, y: (x + y) // 2,
    "mul24": lambda bits, is_signed, x, y: lower24(x, is_signed) * lower24(y, is_signed),
    "mulhi": lambda bits, is_signed, x, y: x * y >> bits,
    "popc": lambda bits, is_signed, x: unsigned(x, bits).bit_count(),
    "rhadd": lambda bits, is_signed, x, y: -((x + y) // -2),
    "sad": lambda bits, is_signed, x, y, z: abs(x - y) + z,
    "hiloint2double": lambda bits, is_signed, high, low: struct.unpack("<d", struct.pack("<ii", low, high))[0],
    "int_as_float": lambda bits, is_signed, x: struct.unpack("f", struct.pack("i", x))[0],
    "uint_as_float": lambda bits, is_signed, x: struct.unpack("f", struct.pack("I", x))[0],
    "longlong_as_double": lambda bits, is_signed, x: struct.unpack("d", struct.pack("q", x))[0],
    "int2double_rn": lambda bits, is_signed, x: float(x),
    "uint2double_rn": lambda bits, is_signed, x: float(x),
}
CASES = [(name, dtype) for name in INTEGERS for dtype in functions()[f"libdevice.{name}"].types]


@pytest.mark.parametrize("name, dtype", CASES)
def test_integers_follow_python(name, dtype):
    given = arguments(functions()[f"libdevice.{name}"].types[dtype])
    given = [each[:1200] for each in given]
    found = run(f"libdevice.{name}", given, "cpu")
    info = torch.iinfo(getattr(torch, dtype))
    for *numbers_, result in zip(*(each.tolist() for each in given), found.tolist()):
        expected = INTEGERS[name](info.bits, info.min < 0, *numbers_)
        if not found.is_floating_point():
            own = torch.iinfo(found.dtype)
            expected = signed(expected, own.bits) if own.min else unsigned(expected, own.bits)
        assert result == expected or result != result and expected != expected, (numbers_, result, expected)


FLOATS = {
    "double2hiint": lambda x: struct.unpack("<ii", struct.pack("<d", x))[1],
    "double2loint": lambda x: struct.unpack("<ii", struct.pack("<d", x))[0],
    "double_as_longlong": lambda x: struct.unpack("<q", struct.pack("<d", x))[0],
    "float_as_int": lambda x: struct.unpack("i", struct.pack("f", x))[0],
    "float_as_uint": lambda x: struct.unpack("I", struct.pack("f", x))[0],
    "isfinited": math.isfinite,
    "isinf": math.isinf,
    "isnan": math.isnan,
    "signbit": lambda x: math.copysign(1.0, x) < 0,
    "finitef": math.isfinite,
    "fdim": lambda x, y: x + y if x != x or y != y else 0.0 if x <= y else x - y,
    "ilogb": lambda x: -(2**31) if x == 0 or x != x else 2**31 - 1 if math.isinf(x) else math.frexp(x)[1] - 1,
    "logb": lambda x: -INF if x == 0 else abs(x) if not math.isfinite(x) else math.frexp(x)[1] - 1,
    "llrint": lambda x: -(2**63) if x != x else round(x) if abs(x) < 2**63 else 2**63 - 1 if x > 0 else -(2**63),
    "remainder": lambda x, y: math.remainder(x, y) if math.isfinite(x) and y else NAN,
    "fmod": lambda x, y: math.fmod(x, y) if math.isfinite(x) and y else NAN,
    "copysign": math.copysign,
    "saturatef": lambda x: min(max(x, 0.0), 1.0) if x == x else 0.0,
}


@pytest.mark.parametrize("name", FLOATS)
def test_functions_without_rounding_follow_python(name):
    for types in functions()[f"libdevice.{name}"].types.values():
        if types[0] == "float16":
            continue
        given = [each[::3] for each in arguments(types, 60)]
        found = run(f"libdevice.{name}", given, "cpu")
        for *numbers_, result in zip(*(each.tolist() for each in given), found.tolist()):
            if "_as_" in name and numbers_[0] != numbers_[0]:
                continue
            expected = FLOATS[name](*numbers_)
            if found.dtype == torch.float32 and expected == expected:
                expected = torch.tensor(expected, dtype=torch.float64).float().item()
            assert result == expected or result != result and expected != expected, (numbers_, result, expected)


@pytest.mark.parametrize("name, dtype", (("ldexp", "float32"), ("scalbn", "float64")))
def test_powers_of_two_are_rounded_once(name, dtype):
    x, n = (each[::9] for each in arguments((dtype, "int32")))
    found = run(f"libdevice.{name}", [x, n], "cpu")
    for number, exponent, result in zip(x.tolist(), n.tolist(), found.tolist()):
        if math.isfinite(number):
            assert_rounded(result, Fraction(number) * Fraction(2) ** exponent, "rn", getattr(torch, dtype), number)


def test_reciprocal_roots_are_rounded_to_the_nearest():
    x = numbers(torch.float32, 4)
    x = x[(x > 0) & x.isfinite()]
    for number, result in zip(map(Fraction, x.tolist()), run("libdevice.rsqrt_rn", [x], "cpu").tolist()):
        low, high = ((Fraction(each) + Fraction(result)) / 2 for each in neighbours(result, torch.float32))
        assert low * low * number <= 1 <= high * high * number


@pytest.mark.parametrize("dtype", (torch.float32, torch.float64), ids=str)
def test_the_next_float_is_one_bit_away(dtype):
    x = numbers(dtype)[::5]
    x = x[x.isfinite() & (x != 0)]
    bits = x.view({4: torch.int32, 8: torch.int64}[x.element_size()])
    assert torch.equal(run("libdevice.nextafter", [x, x.sign() * INF], "cpu").view(bits.dtype), bits + 1)
    assert torch.equal(run("libdevice.nextafter", [x, torch.zeros_like(x)], "cpu").view(bits.dtype), bits - 1)


def test_halves_keep_their_type_beside_integers():
    x = torch.tensor([1.5, -2.0], dtype=torch.float16)
    assert run("libdevice.ldexp", [x, torch.tensor([3, 1], dtype=torch.int32)], "cpu").tolist() == [12.0, -4.0]


# What C's and CUDA's functions give where they turn.
SPECIAL = {
    "cbrt": {INF: INF, -INF: -INF, 0.0: 0.0},
    "cospi": {INF: NAN, 0.5: 0.0, 1.0: -1.0, 3e38: 1.0},
    "cyl_bessel_i0": {INF: INF, -INF: INF, 0.0: 1.0},
    "cyl_bessel_i1": {INF: INF, -INF: -INF, 0.0: 0.0},
    "erfcinv": {0.0: INF, 2.0: -INF, 1.0: 0.0, 2.5: NAN, -1.0: NAN},
    "erfcx": {INF: 0.0, -INF: INF, 0.0: 1.0},
    "exp10": {INF: INF, -INF: 0.0, 39.0: INF},
    "j0": {INF: 0.0, -INF: 0.0, 0.0: 1.0},
    "j1": {INF: 0.0, 0.0: 0.0},
    "lgamma": {INF: INF, -INF: INF, 0.0: INF, -1.0: INF},
    "normcdf": {INF: 1.0, -INF: 0.0, 0.0: 0.5},
    "normcdfinv": {0.0: -INF, 1.0: INF, 0.5: 0.0, 2.0: NAN},
    "rcbrt": {INF: 0.0, 0.0: INF, -INF: -0.0},
    "sinpi": {INF: NAN, 1.0: 0.0, 0.5: 1.0, -0.5: -1.0, 3e38: 0.0},
    "tgamma": {INF: INF, -INF: NAN, 0.0: INF, -2.0: NAN, 40.0: INF},
    "y0": {INF: 0.0, 0.0: -INF, -1.0: NAN},
    "y1": {INF: 0.0, 0.0: -INF, -1.0: NAN},
}


@pytest.mark.parametrize("name", SPECIAL)
def test_where_functions_turn(name):
    x = torch.tensor([*SPECIAL[name], NAN])
    expected = torch.tensor([*SPECIAL[name].values(), NAN])
    for dtype in (torch.float32, torch.float64):
        found = run(f"libdevice.{name}", [x.to(dtype)], "cpu")
        if dtype == torch.float64 and name in ("exp10", "tgamma"):
            expected = torch.where(x > 30, found.float() if not bool(x.isinf().all()) else expected, expected)
        torch.testing.assert_close(found.float(), expected, rtol=0, atol=0, equal_nan=True)


def test_norms_do_not_overflow_in_between():
    one = torch.tensor([2.0**1000, 2.0**-1070, INF], dtype=torch.float64)
    other = torch.tensor([2.0**1000, 2.0**-1070, NAN], dtype=torch.float64)
    root = math.sqrt(3)
    found = run("libdevice.norm3d", [one, one, other], "cpu")
    torch.testing.assert_close(found[:1], root * one[:1], rtol=1e-15, atol=0)
    assert found[2] == INF and run("libdevice.rhypot", [one, other], "cpu")[2] == 0
