"""Random numbers are Triton's, bit by bit."""

import json

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import ApplicationError, Tensor, dtypes, ir
from tests import forked
from tests.ninetoothed.applications import application_of
from tests.ninetoothed.backends import interpreting
from tests.ninetoothed.backends.torch_programs import execute, rows, value

SEEDS = (0, 17, 2**40 + 3)
OFFSETS = (0, 1, 2, 3, 1000, 2**31 - 1, 5, 77)
WIDE = (0, 2**32, 2**40 + 1, 2**33 - 1, 5, 6, 7, 8)

TRITON = """
import json, torch, triton, triton.language as tl

@triton.jit
def kernel(offsets, ints, uniform, normal, seed, n: tl.constexpr):
    lanes = tl.arange(0, n)
    offset = tl.load(offsets + lanes)
    a, b, c, d = tl.randint4x(seed, offset)
    tl.store(ints + lanes, a)
    tl.store(ints + n + lanes, b)
    tl.store(ints + 2 * n + lanes, c)
    tl.store(ints + 3 * n + lanes, d)
    tl.store(uniform + lanes, tl.rand(seed, offset))
    tl.store(normal + lanes, tl.randn(seed, offset))

found = []
for seed, dtype, numbers in %s:
    offsets = torch.tensor(numbers, dtype=getattr(torch, dtype))
    ints = torch.zeros(4, 8, dtype=torch.int32)
    uniform, normal = torch.zeros(8), torch.zeros(8)
    kernel[(1,)](offsets, ints, uniform, normal, seed, 8)
    found.append((ints.tolist(), uniform.tolist(), normal.tolist()))
print(json.dumps(found))
"""


def draw(seed, offsets):
    """What the backend gives: four rows of integers, uniform and normal numbers."""
    outputs = [torch.zeros(1, 8, dtype=torch.int32) for _ in range(4)] + [torch.zeros(1, 8) for _ in range(2)]
    tensors = {"offsets": offsets[None], **{f"out_{i}": output for i, output in enumerate(outputs)}}
    offset, number = value(dtypes.from_torch(offsets.dtype), 8), value(dtypes.int64)
    integers = tuple(value(dtypes.int32, 8) for _ in range(4))
    uniform, normal = value(dtypes.float32, 8), value(dtypes.float32, 8)
    body = [
        ir.Load(offset, rows("offsets", tensors["offsets"])),
        ir.ScalarArgument(number, "seed"),
        ir.Apply(integers, "randint4x", (number, offset), (("n_rounds", 10),)),
        ir.Apply((uniform,), "rand", (number, offset), (("n_rounds", 10),)),
        ir.Apply((normal,), "randn", (number, offset), (("n_rounds", 10),)),
    ]
    values = (*integers, uniform, normal)
    body += [ir.Store(rows(f"out_{i}", tensors[f"out_{i}"]), result) for i, result in enumerate(values)]
    execute(body, tensors, (1,), scalars={"seed": (dtypes.int64, seed)})
    return outputs


def interpreted(script, folder):
    """What a script prints that runs in Triton's interpreter."""
    pytest.importorskip("triton")
    file = folder / "script.py"
    file.write_text(script)
    done = forked.run_script(file, before=interpreting.BEFORE)
    assert done.status == "0", done.stderr[-2000:]
    return json.loads(done.stdout)


def test_numbers_agree_with_triton(tmp_path):
    cases = [(seed, "int32", OFFSETS) for seed in SEEDS] + [(seed, "int64", WIDE) for seed in SEEDS]
    for (seed, dtype, numbers), (ints, uniform, normal) in zip(cases, interpreted(TRITON % cases, tmp_path)):
        *integers, ours, gaussian = draw(seed, torch.tensor(numbers, dtype=getattr(torch, dtype)))
        assert [row[0].tolist() for row in integers] == ints
        assert torch.equal(ours[0], torch.tensor(uniform))
        torch.testing.assert_close(gaussian[0], torch.tensor(normal), rtol=1e-5, atol=1e-6)


PHILOX = """
import json, torch, triton, triton.language as tl

@triton.jit
def kernel(counters, out, seed, n: tl.constexpr, rounds: tl.constexpr):
    lanes = tl.arange(0, n)
    c0 = tl.load(counters + lanes)
    a, b, c, d = tl.philox(seed, c0, c0 + 1, c0 + 2, c0 * 3, rounds)
    two = tl.arange(0, 2)
    places = lanes[:, None, None] * 4 + two[None, :, None] + two[None, None, :] * 2
    tl.store(out + places, tl.join(tl.join(a, b), tl.join(c, d)))

found = []
for seed, dtype, rounds, numbers in %s:
    counters = torch.tensor(numbers, dtype=getattr(torch, dtype))
    out = torch.zeros(8, 4, dtype=counters.dtype)
    kernel[(1,)](counters, out, seed, 8, rounds)
    found.append(out.tolist())
print(json.dumps(found))
"""


def mixes(seed, counters, a, b, c, d, rounds):
    a, b, c, d = ntl.philox(seed, counters, counters + 1, counters + 2, counters * 3, rounds)


def mixed(seed, counters, rounds):
    """The four integers that our kernel gives for each counter, in signed integers."""
    outputs = [torch.zeros_like(counters) for _ in range(4)]
    tensors = (Tensor(0), *(Tensor(1) for _ in range(5)), Tensor(0, constexpr=True))
    kernel = ninetoothed.make(
        lambda seed, *others: (seed, *(each.tile((4,)) for each in others[:-1]), others[-1]), mixes, tensors
    )
    kernel(seed, counters, *outputs, rounds)
    return torch.stack(outputs, 1)


def test_philox_agrees_with_triton(tmp_path):
    cases = [(seed, dtype, rounds, WIDE if dtype == "int64" else OFFSETS) for seed in SEEDS
             for dtype, rounds in (("int32", 10), ("int64", 10), ("int32", 7), ("int64", 6))]  # fmt: skip
    for (seed, dtype, rounds, numbers), expected in zip(cases, interpreted(PHILOX % cases, tmp_path), strict=True):
        assert mixed(seed, torch.tensor(numbers, dtype=getattr(torch, dtype)), rounds).tolist() == expected


# The known answers of Random123 (Salmon et al., 2011), with ten rounds: counters and keys, and the results.
KNOWN = (
    ("uint32", 6 * (0,), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
    ("uint32", 6 * (2**32 - 1,), (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
    ("uint64", 6 * (0,), (0x16554D9ECA36314C, 0xDB20FE9D672D0FDC, 0xD7E772CEE186176B, 0x7E68B68AEC7BA23B)),
    ("uint64", 6 * (2**64 - 1,), (0x87B092C3013FE90B, 0x438C3C67BE8D0224, 0x9CC7D7C69CD777B6, 0xA09CAEBF594F0BA0)),
)


@pytest.mark.parametrize("name, numbers, expected", KNOWN)
def test_philox_is_that_of_the_paper(name, numbers, expected):
    dtype = dtypes.BY_NAME[name]

    def application(out):
        c0, c1, c2, c3, k0, k1 = (ntl.full((1,), number, dtype) for number in numbers)
        a, b, c, d = ntl.philox_impl(c0, c1, c2, c3, numbers[4], numbers[5])
        out = ntl.reshape(ntl.join(ntl.join(a, c), ntl.join(b, d)), (4,))

    out = torch.zeros(4, dtype=getattr(torch, name))
    ninetoothed.make(lambda out: (out.tile((4,)),), application, (Tensor(1),))(out)
    assert tuple(out.tolist()) == expected


@pytest.mark.parametrize(
    "call, dtype, said",
    (
        ("ntl.philox(1, x, 0, 0, 0)", torch.float32, "`philox` takes counters of 32 or 64 bits, not float32"),
        ("ntl.philox(1, x, 0, 0, 0)", torch.int16, "`philox` takes counters of 32 or 64 bits, not int16"),
        ("ntl.philox(x, x, 0, 0, 0)", torch.int32, "`philox` takes a whole number as a seed or key, not a tile"),
        ("ntl.philox(1.5, x, 0, 0, 0)", torch.int32, "`philox` takes a whole number as a seed or key, not"),
        ("ntl.philox_impl(x, x, x, x, 1, 2)", torch.int32, "`philox_impl` takes uint32 or uint64, not int32"),
    ),
)
def test_mistakes_are_told(call, dtype, said):
    kernel = ninetoothed.make(
        lambda x, y: (x.tile((4,)), y.tile((4,))), application_of(f"y, *_ = {call}"), (Tensor(1), Tensor(1))
    )
    with pytest.raises(ApplicationError, match=said):
        kernel(torch.zeros(4, dtype=dtype), torch.zeros(4, dtype=dtype))
