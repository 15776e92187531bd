"""The functions of CUDA's libdevice as data: by signature, a line of name, result, example and the example's result.

The language of signatures is that of `ninetoothed/language/signature.py`. Examples are of the first type of each place.
"""

from __future__ import annotations

# fmt: off
TABLES: dict[str, str] = {
    "x: float32|float64 T -> T": """
abs           | the absolute value of x                                           | -2.0 | 2.
acos          | the arc cosine of x, an angle in [0, pi]                          | 0.5 | 1.0472
acosh         | the inverse hyperbolic cosine of x                                | 2.0 | 1.3170
asin          | the arc sine of x, an angle in [-pi / 2, pi / 2]                  | 0.5 | 0.5236
asinh         | the inverse hyperbolic sine of x                                  | 1.0 | 0.8814
atan          | the arc tangent of x, an angle in [-pi / 2, pi / 2]               | 1.0 | 0.7854
atanh         | the inverse hyperbolic tangent of x                               | 0.5 | 0.5493
ceil          | x, rounded up to a whole number                                   | 1.2 | 2.
cos           | the cosine of x                                                   | 1.0 | 0.5403
cosh          | the hyperbolic cosine of x                                        | 1.0 | 1.5431
erf           | the error function of x                                           | 0.5 | 0.5205
erfc          | 1 - erf(x), without its cancellation                              | 0.5 | 0.4795
erfinv        | the y with erf(y) = x                                             | 0.5 | 0.4769
exp           | e to the power of x                                               | 1.0 | 2.7183
exp2          | 2 to the power of x                                               | 3.0 | 8.
expm1         | exp(x) - 1, precise near 0                                        | 0.5 | 0.6487
floor         | x, rounded down to a whole number                                 | 1.2 | 1.
j0            | the Bessel function of the first kind, of order 0                 | 1.0 | 0.7652
j1            | the Bessel function of the first kind, of order 1                 | 1.0 | 0.4401
lgamma        | the logarithm of the absolute gamma function of x                 | 4.0 | 1.7918
log           | the natural logarithm of x                                        | 2.0 | 0.6931
log10         | the logarithm of x to base 10                                     | 2.0 | 0.3010
log1p         | log(1 + x), precise near 0                                        | 1.0 | 0.6931
log2          | the logarithm of x to base 2                                      | 8.0 | 3.
nearbyint     | x, rounded to the nearest whole number, to an even one halfway    | 2.5 | 2.
rint          | x, rounded to the nearest whole number, to an even one halfway    | 2.5 | 2.
round         | x, rounded to the nearest whole number, away from 0 halfway       | 2.5 | 3.
rsqrt         | 1 / sqrt(x)                                                       | 4.0 | 0.5000
sin           | the sine of x                                                     | 1.0 | 0.8415
sinh          | the hyperbolic sine of x                                          | 1.0 | 1.1752
sqrt          | the square root of x                                              | 2.0 | 1.4142
tan           | the tangent of x                                                  | 1.0 | 1.5574
tanh          | the hyperbolic tangent of x                                       | 1.0 | 0.7616
tgamma        | the gamma function of x                                           | 4.0 | 6.
trunc         | x without its fraction                                            | -1.8 | -1.
cbrt          | the cube root of x                                                | -8.0 | -2.
rcbrt         | 1 / cbrt(x)                                                       | 8.0 | 0.5000
cospi         | cos(pi * x), exact where x is a multiple of 1/2                   | 1.0 | -1.
sinpi         | sin(pi * x), exact where x is a multiple of 1/2                   | 0.5 | 1.
exp10         | 10 to the power of x                                              | 2.0 | 100.
cyl_bessel_i0 | the modified Bessel function of the first kind, of order 0        | 1.0 | 1.2661
cyl_bessel_i1 | the modified Bessel function of the first kind, of order 1        | 1.0 | 0.5652
y0            | the Bessel function of the second kind, of order 0; NaN left of 0 | 1.0 | 0.0883
y1            | the Bessel function of the second kind, of order 1; NaN left of 0 | 1.0 | -0.7812
erfcx         | exp(x * x) * erfc(x), without overflow in between                 | 1.0 | 0.4276
erfcinv       | the y with erfc(y) = x                                            | 0.5 | 0.4769
normcdf       | the probability that a normal variable is less than x             | 1.0 | 0.8413
normcdfinv    | the y with normcdf(y) = x                                         | 0.8413 | 0.9998
logb          | the exponent of x in base 2, as a float; -inf of 0                | 10.0 | 3.
""",
    "x: float32|float64 T, y: T -> T": """
atan2     | the angle of the point (y, x), in [-pi, pi]                        | 1.0, -1.0 | 2.3562
copysign  | x with the sign of y                                               | 2.0, -1.0 | -2.
div_rn    | x / y, rounded to the nearest number                               | 1.0, 4.0 | 0.2500
fmod      | the remainder of x / y, with the sign of x                         | -7.0, 4.0 | -3.
hypot     | sqrt(x * x + y * y), without overflow in between                   | 3.0, 4.0 | 5.
pow       | x to the power of y                                                | 2.0, 3.0 | 8.
fdim      | x - y where that is positive, else 0                               | 5.0, 3.0 | 2.
nextafter | the float next to x towards y                                      | 1.0, 2.0 | 1.0000
remainder | x - n * y, where n is the whole number nearest to x / y, an even one halfway | 5.0, 3.0 | -1.
rhypot    | 1 / hypot(x, y)                                                    | 3.0, 4.0 | 0.2000
""",
    "x: float32|float64 T, y: T, z: T -> T": """
fma     | x * y + z, rounded once                                  | 2.0, 3.0, 4.0 | 10.
norm3d  | sqrt(x * x + y * y + z * z), without overflow in between | 1.0, 2.0, 2.0 | 3.
rnorm3d | 1 / norm3d(x, y, z)                                      | 1.0, 2.0, 2.0 | 0.3333
""",
    "x: float32|float64 T, y: T, z: T, w: T -> T": """
norm4d  | sqrt(x * x + y * y + z * z + w * w), without overflow in between | 1.0, 1.0, 1.0, 1.0 | 2.
rnorm4d | 1 / norm4d(x, y, z, w)                                           | 1.0, 1.0, 1.0, 1.0 | 0.5000
""",
    "x: float32|float64 T -> int1": """
isinf   | whether x is inf or -inf                             | 1.0 | 0.
isnan   | whether x is NaN                                     | 1.0 | 0.
signbit | whether the sign of x is negative, that of -0.0, too | -1.0 | 1.
""",
    "x: float32 -> int1": """
finitef | whether x is neither infinite nor NaN | 1.0 | 1.
""",
    "x: float64 -> int1": """
isfinited | whether x is neither infinite nor NaN | 1.0 | 1.
""",
    "x: float32 -> float32": """
rsqrt_rn    | 1 / sqrt(x), rounded to the nearest number                 | 4.0 | 0.5000
saturatef   | x, brought into [0, 1]; 0 of NaN                           | 1.5 | 1.
fast_expf   | e to the power of x, fast on a GPU, less precise           | 1.0 | 2.7183
fast_logf   | the natural logarithm of x, fast on a GPU, less precise    | 2.0 | 0.6931
fast_tanhf  | the hyperbolic tangent of x, fast on a GPU, less precise   | 1.0 | 0.7616
fast_cosf   | the cosine of x, fast on a GPU, less precise               | 1.0 | 0.5403
fast_exp10f | 10 to the power of x, fast on a GPU, less precise          | 2.0 | 100.
fast_log10f | the logarithm of x to base 10, fast on a GPU, less precise | 2.0 | 0.3010
fast_log2f  | the logarithm of x to base 2, fast on a GPU, less precise  | 8.0 | 3.
fast_sinf   | the sine of x, fast on a GPU, less precise                 | 1.0 | 0.8415
fast_tanf   | the tangent of x, fast on a GPU, less precise              | 1.0 | 1.5574
""",
    "x: float32, y: float32 -> float32": """
fast_dividef | x / y, fast on a GPU, less precise                 | 1.0, 4.0 | 0.2500
fast_powf    | 2 to the power of y * log2(x): NaN of a negative x | 2.0, 3.0 | 8.
""",
    "x: float32|float64 T, n: int32 -> T": """
ldexp  | x * 2 to the power of n, rounded once | 1.5, 3 | 12.
scalbn | x * 2 to the power of n, rounded once | 1.5, 3 | 12.
""",
    "x: float32|float64 -> int32": """
ilogb | the exponent of x in base 2; the least int32 of 0 and NaN, the greatest of an infinity | 10.0 | 3
""",
    "x: float32|float64 -> int64": """
llrint  | x, rounded to the nearest integer, to an even one halfway | 2.5 | 2
llround | x, rounded to the nearest integer, away from 0 halfway    | 2.5 | 3
""",
    "x: integer32 -> int32": """
clz  | how many bits above the highest that is set are 0               | 1 | 31
ffs  | the place of the lowest bit that is set, counted from 1; 0 of 0 | 8 | 4
popc | how many bits are set                                           | 7 | 3
""",
    "x: integer32 T -> T": """
brev | x with its bits in reverse order | 1 | -2147483648
""",
    "x: integer32 T, y: T -> T": """
mulhi | the upper half of the bits of x * y | 65536, 65536 | 1
""",
    "x: int32|uint32 T, y: T -> T": """
hadd  | (x + y) / 2 without overflow, rounded down                       | 3, 4 | 3
mul24 | the lower 32 bits of the product of the lower 24 bits of x and y | 3, 4 | 12
rhadd | (x + y) / 2 without overflow, rounded up                         | 3, 4 | 4
""",
    "x: int32|uint32 T, y: T, selector: int32 -> T": """
byte_perm | the bytes of y and x (from 0, the lowest of x) that four digits of the selector name | 1, 2, 13108 | 2
""",
    "x: int32|uint32 T, y: T, z: uint32 -> uint32": """
sad | abs(x - y) + z | 1, 4, 2 | 5
""",
    "x: int32 -> float32": """
int_as_float | the float whose bits x is | 1065353216 | 1.
""",
    "x: uint32 -> float32": """
uint_as_float | the float whose bits x is | 1065353216 | 1.
""",
    "x: float32 -> int32": """
float_as_int | the bits of x | 1.0 | 1065353216
""",
    "x: float32 -> uint32": """
float_as_uint | the bits of x | 1.0 | 1065353216
""",
    "x: int64 -> float64": """
longlong_as_double | the float whose bits x is | 4607182418800017408 | 1.
""",
    "x: float64 -> int64": """
double_as_longlong | the bits of x | 1.0 | 4607182418800017408
""",
    "x: float64 -> int32": """
double2hiint | the upper 32 bits of x | 1.0 | 1072693248
double2loint | the lower 32 bits of x | 1.0 | 0
""",
    "x: int32 -> float64": """
int2double_rn | x as a float | 3 | 3.
""",
    "x: uint32 -> float64": """
uint2double_rn | x as a float | 3 | 3.
""",
    "high: int32, low: int32 -> float64": """
hiloint2double | the float of these upper and lower 32 bits | 1072693248, 0 | 1.
""",
}

# How a result is rounded: what is appended to a name, and what it means.
MODES = {
    "rn": "rounded to the nearest {}, to an even one halfway",
    "rz": "rounded towards 0 to a {}",
    "rd": "rounded down to a {}",
    "ru": "rounded up to a {}",
}
# Lines for each mode: `add_` is `add_rn`, `add_rz` and so on; those that name some have just these.
ROUNDED: dict[str, str] = {
    "x: float32|float64 T, y: T -> T": """
add_         | x + y | 1.0, 2.0 | 3.
div_rz/rd/ru | x / y | 1.0, 4.0 | 0.2500
mul_         | x * y | 3.0, 2.0 | 6.
sub_         | x - y | 3.0, 1.0 | 2.
""",
    "x: float32|float64 T, y: T, z: T -> T": """
fma_ | x * y + z | 2.0, 3.0, 4.0 | 10.
""",
    "x: float32|float64 T -> T": """
rcp_  | 1 / x                | 4.0 | 0.2500
sqrt_ | the square root of x | 4.0 | 2.
""",
}

# Conversions, in each mode: CUDA's names of types, with the language's.
CONVERSIONS = """
double2float double2int double2ll double2uint double2ull float2int float2ll float2uint float2ull int2float ll2double
ll2float uint2float ull2double ull2float
""".split()
TYPES = {
    "double": "float64",
    "float": "float32",
    "int": "int32",
    "ll": "int64",
    "uint": "uint32",
    "ull": "uint64",
}
# fmt: on
