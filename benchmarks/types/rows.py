"""The kernels of one function each: what they do, and the same in NumPy on Python's numbers."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from ninetoothed.language.functions import LIBDEVICE
from ninetoothed.language.functions.libdevice import LibdeviceFunction

# A name, what the kernel does, and the same in NumPy.
#
# x, y, z: 64 elements; y is positive and small, z small. v: 50 elements. a, b, c: matrices. p: 32 pairs. s: one number,
# passed as such. i: indices, int32. o: what it holds before, and after. T: the type. Results go to `out`.

_OPERATORS = """
+ :: out = x + y :: x + y
- :: out = x - y :: x - y
* :: out = x * y :: x * y
/ :: out = x / y :: f(x) / f(y)
// :: out = x // y :: x // y
% :: out = x % y :: x % y
** :: out = y ** z :: y ** z
** of a number :: out = z ** 2 :: z ** 2
** a float :: out = y ** 0.5 :: f(y) ** 0.5
& :: out = x & y :: x & y
| :: out = x | y :: x | y
^ :: out = x ^ y :: x ^ y
<< :: out = x << y :: x << y
>> :: out = x >> y :: x >> y
== :: out = x == y :: x == y
!= :: out = x != y :: x != y
< :: out = x < y :: x < y
<= :: out = x <= y :: x <= y
> :: out = x > y :: x > y
>= :: out = x >= y :: x >= y
unary - :: out = -x :: -x
unary + :: out = +x :: x
~ :: out = ~x :: ~x
not :: out = not z :: z == 0
and :: out = z and y :: (z != 0) & (y != 0)
if else :: out = x if y > 1 else z :: np.where(y > 1, x, z)
+ a number :: out = x + 1 :: x + 1
- a number :: out = 1 - x :: 1 - x
* a float :: out = z * 0.5 :: z * 0.5
// a number :: out = x // 3 :: x // 3
% a number :: out = x % 3 :: x % 3
// a power of two :: out = x // 4 :: x // 4
== a number :: out = z == 1 :: z == 1
< a number :: out = z < 1 :: z < 1
+ an argument :: out = z + s :: z + s
* an argument :: out = z * s :: z * s
@ :: out = a @ b :: a @ b
min() :: out = min(x, y) :: np.minimum(x, y)
max() :: out = max(x, y) :: np.maximum(x, y)
abs() :: out = abs(z) :: abs(z)
round() :: out = round(z) :: f(torch.round, z)
int() :: out = int(z) :: np.trunc(f(z))
float() :: out = float(z) :: f(z)
bool() :: out = bool(z) :: z != 0
divmod() :: out = divmod(x, y)[1] :: x % y
"""

_FUNCTIONS = r"""
abs :: out = ntl.abs(x) :: abs(x)
pow :: out = ntl.pow(y, z) :: y ** z
fdiv :: out = ntl.fdiv(x, y) :: f(x) / f(y)
div_rn :: out = ntl.div_rn(x, y) :: f(x) / f(y)
fma :: out = ntl.fma(z, y, y) :: z * y + y
cdiv :: out = ntl.cdiv(x, y) :: -(-x // y)
umulhi :: out = ntl.umulhi(x, y) :: (x % 2**bits) * y // 2**bits
where :: out = ntl.where(y > 2, x, z) :: np.where(y > 2, x, z)
where of a number :: out = ntl.where(y > 2, x, 3) :: np.where(y > 2, x, 3)
where (condition) :: out = ntl.where(z, x, y) :: np.where(z != 0, x, y)
maximum :: out = ntl.maximum(x, y) :: np.maximum(x, y)
maximum with NaN :: out = ntl.maximum(x, y, ntl.PropagateNan.ALL) :: np.maximum(x, y)
maximum and a number :: out = ntl.maximum(x, 1) :: np.maximum(x, 1)
minimum :: out = ntl.minimum(x, y) :: np.minimum(x, y)
clamp :: out = ntl.clamp(x, z, y) :: np.minimum(np.maximum(x, z), y)
clamp to numbers :: out = ntl.clamp(x, 1, 3) :: np.clip(x, 1, 3)
add :: out = ntl.add(x, y) :: x + y
sub :: out = ntl.sub(x, y) :: x - y
mul :: out = ntl.mul(x, y) :: x * y
swizzle2d :: out = ntl.swizzle2d(y, y, 8, 8, 2)[0] :: None if is_float and bits == 8 else swizzle(y)
softmax :: out = ntl.softmax(z) :: softmax(z)
to_tensor :: out = ntl.to_tensor(x) :: x
full :: out = ntl.full((64,), 3, T) :: np.full(64, 3)
full of an argument :: out = ntl.full((64,), s, T) :: np.full(64, s)
zeros :: out = ntl.zeros((64,), T) :: np.zeros(64)
zeros_like :: out = ntl.zeros_like(x) :: x * 0
broadcast :: out = ntl.broadcast(x[:, None], y[None, :])[0] :: np.broadcast_to(x[:, None], (64, 64))
broadcast_to :: out = ntl.broadcast_to(x[:, None], (64, 2)) :: np.broadcast_to(x[:, None], (64, 2))
expand_dims :: out = ntl.expand_dims(x, 1) :: x[:, None]
unsqueeze :: out = ntl.unsqueeze(x, 0) :: x[None, :]
squeeze :: out = ntl.squeeze(x[:, None], 1) :: x
reshape :: out = ntl.reshape(x, (8, 8)) :: x.reshape(8, 8)
view :: out = ntl.view(x, 8, 8) :: x.reshape(8, 8)
ravel :: out = ntl.ravel(a) :: a.reshape(1024)
permute :: out = ntl.permute(a, 1, 0) :: a.T
trans :: out = ntl.trans(a) :: a.T
.T :: out = a.T :: a.T
flip :: out = ntl.flip(x) :: x[::-1]
gather :: out = ntl.gather(x, i, 0) :: x[np.int64(i)]
gather by :: out = ntl.gather(x, y, 0) :: x[np.int64(y)]
join :: out = ntl.join(x, y) :: np.stack([x, y], -1)
split :: out = ntl.split(p)[1] :: p[:, 1]
interleave :: out = ntl.interleave(x, y) :: np.stack([x, y], -1).reshape(128)
cat :: out = ntl.cat(x, y) :: np.concatenate([x, y])
arange + :: out = x + ntl.arange(0, 64) :: x + np.arange(64)
sum :: out = ntl.sum(z) :: z.sum()
sum, a method :: out = a.sum(0) :: a.sum(0)
sum of 50 :: out = ntl.sum(v) :: v.sum()
sum along an axis :: out = ntl.sum(a, 1) :: a.sum(1)
mean :: out = ntl.mean(z) :: f(z).mean()
mean of 50 :: out = ntl.mean(v) :: f(v).mean()
var :: out = ntl.var(z) :: f(z).var(ddof=1)
var of 50 :: out = ntl.var(v, correction=0) :: f(v).var()
xor_sum :: out = ntl.xor_sum(x) :: functools.reduce(lambda p, q: p ^ q, x)
xor_sum of 50 :: out = ntl.xor_sum(v) :: functools.reduce(lambda p, q: p ^ q, v)
reduce_or :: out = ntl.reduce_or(x) :: functools.reduce(lambda p, q: p | q, x)
reduce_or of 50 :: out = ntl.reduce_or(v) :: functools.reduce(lambda p, q: p | q, v)
max :: out = ntl.max(x) :: x.max()
max of 50 :: out = ntl.max(v) :: v.max()
max along an axis :: out = ntl.max(a, 0) :: a.max(0)
max with its place :: out = ntl.max(v, 0, return_indices=True)[1] :: v.argmax()
min :: out = ntl.min(x) :: x.min()
min of 50 :: out = ntl.min(v) :: v.min()
argmax :: out = ntl.argmax(x, 0) :: x.argmax()
argmax of 50 :: out = ntl.argmax(v, 0) :: v.argmax()
argmin :: out = ntl.argmin(x, 0) :: x.argmin()
argmin along an axis :: out = ntl.argmin(a, 1) :: a.argmin(1)
reduce :: out = ntl.reduce(x, 0, larger) :: x.max()
reduce of 50 :: out = ntl.reduce(v, 0, larger) :: v.max()
reduce by + :: out = ntl.reduce(z, 0, plus) :: z.sum()
associative_scan :: out = ntl.associative_scan(x, 0, larger) :: np.maximum.accumulate(x)
associative_scan of 50 :: out = ntl.associative_scan(v, 0, larger) :: np.maximum.accumulate(v)
cumsum :: out = ntl.cumsum(z, 0) :: z.cumsum()
cumsum, a method :: out = a.cumsum(0) :: a.cumsum(0)
cumsum of 50 :: out = ntl.cumsum(v, 0) :: v.cumsum()
cumsum in reverse :: out = ntl.cumsum(z, 0, reverse=True) :: z[::-1].cumsum()[::-1]
cumprod :: out = ntl.cumprod(u, 0) :: u.cumprod()
sort :: out = ntl.sort(x) :: np.sort(x)
sort of 50 :: out = ntl.sort(v) :: np.sort(v)
sort, descending :: out = ntl.sort(x, descending=True) :: np.sort(x)[::-1]
sort, places :: out = ntl.sort(v, return_indices=True)[1] :: np.argsort(v, kind="stable")
bitonic_merge :: out = ntl.bitonic_merge(x) :: np.sort(x)
topk :: out = ntl.topk(x, 4) :: np.sort(x)[::-1][:4]
topk of 50 :: out = ntl.topk(v, 5) :: np.sort(v)[::-1][:5]
topk, places :: out = ntl.topk(v, 5, return_indices=True)[0] :: np.sort(v)[::-1][:5]
histogram :: out = ntl.histogram(y, 16) :: np.bincount(np.int64(y), minlength=16)
histogram of 50 :: out = ntl.histogram(w, 16) :: np.bincount(np.int64(w), minlength=16)
dot :: out = ntl.dot(a, b) :: a @ b
dot into an accumulator :: out = ntl.dot(a, b, c) :: a @ b + c
dot into float32 :: out = ntl.dot(a, b, ntl.zeros((32, 32), ntl.float32)) :: a @ b
dot by a short accumulator :: out = ntl.dot(a, b, ntl.zeros((32, 32), ntl.float16), out_dtype=ntl.float16) :: a @ b
dot into float64 :: out = ntl.dot(a, b, ntl.zeros((32, 32), ntl.float64)) :: a @ b
dot of 3 dimensions :: out = ntl.dot(a[None], b[None]) :: (a @ b)[None]
dot, short :: out = ntl.dot(p, ntl.trans(p)) :: p @ p.T
dot, odd :: out = ntl.dot(d, ntl.trans(d)) :: d @ d.T
dot in ieee :: out = ntl.dot(a, b, input_precision="ieee") :: a @ b
dot in a loop :: t = 0 * (a @ b)\nfor k in range(2):\n    t += ntl.dot(a, b)\nout = t :: 2 * (a @ b)
load :: out = ntl.load(x.source.data_ptr() + i) :: x[np.int64(i)]
load, masked :: out = ntl.load(x.source.data_ptr() + i, i < 9, 1) :: np.where(i < 9, x[np.int64(i)], 1)
store :: ntl.store(o.source.data_ptr() + ntl.arange(0, 64), x) :: x
gather from memory :: out = x.source[i] :: x[np.int64(i)]
gather from memory by :: out = x.source[y] :: x[np.int64(y)]
scatter to memory :: o.source[ntl.arange(0, 64)] = x :: x
assignment :: out = x :: x
assignment to an element :: o[1] = x[0] :: np.where(np.arange(64) == 1, x[0], o)
an element :: out = x[3] :: x[3]
an element by :: out = x[s] :: x[int(s)]
atomic_add :: ntl.atomic_add(o, y) :: o + y
atomic_add, result :: out = ntl.atomic_add(o, y) :: o
atomic_max :: ntl.atomic_max(o, x) :: np.maximum(o, x)
atomic_min :: ntl.atomic_min(o, x) :: np.minimum(o, x)
atomic_and :: ntl.atomic_and(o, y) :: o & y
atomic_or :: ntl.atomic_or(o, y) :: o | y
atomic_xor :: ntl.atomic_xor(o, y) :: o ^ y
atomic_xchg :: ntl.atomic_xchg(o, x) :: x
atomic_cas :: ntl.atomic_cas(o.source.data_ptr() + ntl.arange(0, 64), o, x) :: x
rand by :: out = ntl.rand(s, y) :: None
rand of :: out = ntl.rand(3, y) :: None
randn of :: out = ntl.randn(3, y) :: None
randint of :: out = ntl.randint(3, y) :: None
randint4x of :: out = ntl.randint4x(3, y)[2] :: None
rand4x of :: out = ntl.rand4x(3, y)[2] :: None
randn4x of :: out = ntl.randn4x(3, y)[2] :: None
philox of :: out = ntl.philox(3, y, 0, 0, 0)[2] :: None
philox_impl of :: out = ntl.philox_impl(y, 0, 0, 0, 3, 4)[2] :: None
uint_to_uniform_float :: out = ntl.uint_to_uniform_float(x) :: None
pair_uniform_to_normal :: out = ntl.pair_uniform_to_normal(u, u)[0] :: None
if :: out = x\nif s > 1:\n    out = y :: np.where(s > 1, y, x)
a condition :: out = x\nif s:\n    out = y :: y
while :: n = s + 2\nk = x + 0\nwhile n > 0:\n    n = n - 1\n    k = k + 1\nout = k :: x + 2 + s
for to :: k = x\nfor j in range(s):\n    k += 1\nout = k :: x + s
+= in a loop :: t = ntl.zeros((64,), T)\nfor j in range(3):\n    t += z\nout = t :: 3 * z
range of a number :: t = s\nfor j in range(3):\n    t = t + s\nout = x * 0 + t :: np.full(64, 4 * s)
device_print :: ntl.device_print("", z)\nout = x :: x
device_assert :: ntl.device_assert(y)\nout = x :: x
to of infinities :: out = (x / 0).to(T) if T.is_floating else x :: f(x) / 0 if is_float else x
to of NaN :: out = (x / 0 - x / 0).to(T) if T.is_floating else x :: f(x) * np.nan if is_float else x
to of 1e6 :: out = (y.to(ntl.float32) * -1e6).to(T) if T.is_floating else x :: f(y) * -1e6 if is_float else x
full of infinity :: out = ntl.full((64,), 1e999, T) if T.is_floating else x :: f(x) * 0 + np.inf if is_float else x
map_elementwise :: out = ntl.map_elementwise(larger, x, y) :: np.maximum(x, y)
multiple_of :: out = ntl.multiple_of(x, 2) :: x
"""

_CONVERSIONS = """
to :: out = x.to(U) :: x != 0 if to_bool else x
a number to :: out = ntl.full((64,), s.to(U), U) :: np.full(64, s != 0 if to_bool else s)
cast :: out = ntl.cast(z, U) :: z != 0 if to_bool else z
to, bit by bit :: out = x.to(U, bitcast=True).to(T, bitcast=True) :: x
+ of two types :: out = z + r :: z + r
"""

_UNARY = "exp exp2 log log2 sqrt sqrt_rn rsqrt sin cos tanh erf sigmoid floor ceil"
_NAMES = {"fast_expf": "exp", "fast_logf": "log", "fast_tanhf": "tanh", "nearbyint": "round", "rint": "round",
          "j0": "special.bessel_j0", "j1": "special.bessel_j1", "sqrt_rn": "sqrt"}  # fmt: skip
_PREDICATES = ("isinf", "isnan", "signbit")
_OTHERS = {
    "remainder": "None",
    "round": "np.sign(f(z)) * np.floor(abs(f(z)) + 0.5)",
    "tgamma": "np.vectorize(math.gamma)(f(y))",
    "fma": "f(z) * f(y) + f(y)",
    "div_rn": "f(z) / f(y)",
    "fast_dividef": "f(z) / f(y)",
    "hypot": "np.hypot(f(z), f(y))",
}


@dataclass(frozen=True)
class Row:
    """A kernel: what it does, and the same in NumPy on Python's numbers (None: anything).

    has_other: whether it has a second type, U.
    """

    name: str
    body: str
    reference: str
    has_other: bool = False


def rows() -> tuple[Row, ...]:
    """List the rows: operators, functions, those of libdevice, and conversions."""
    return (*_read(_OPERATORS), *_read(_FUNCTIONS), *_mathematics(), *_read(_CONVERSIONS, True))


def _read(table: str, has_other: bool = False) -> Iterator[Row]:
    for line in table.strip().splitlines():
        name, body, reference = line.split(" :: ")
        yield Row(name, body.replace("\\n", "\n"), reference, has_other)


def _mathematics() -> Iterator[Row]:
    for name in _UNARY.split():
        yield Row(name, f"out = ntl.{name}(z)", _of_torch(name, "z"))
    for name, function in LIBDEVICE.items():
        yield _of_libdevice(name, function)


def _of_libdevice(name: str, function: LibdeviceFunction) -> Row:
    """Make the row of a function of libdevice: what PyTorch has none of, or rounds otherwise, is tested elsewhere."""
    others = {"int32": "i", "uint32": "y.to(ntl.uint32)"}
    given = [others.get("".join(place.type.classes)) or "y" for place in function.primitive.operands[1:]]
    operands = ", ".join(["y" if name == "tgamma" else "z", *given])
    is_known = name in _OTHERS or hasattr(torch, name) or name in _NAMES
    reference = _of_torch(name, operands) if is_known and function.is_of_floats or name in _PREDICATES else "None"
    return Row(f"libdevice.{name}", f"out = ntl.libdevice.{name}({operands})", reference)


def _of_torch(name: str, operands: str) -> str:
    return _OTHERS.get(name) or f"f(torch.{_NAMES.get(name, name)}, {operands})"
