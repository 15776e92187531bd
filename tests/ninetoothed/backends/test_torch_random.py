"""Random numbers are Triton's, bit by bit."""

import json
import subprocess
import sys

import pytest
import torch

from ninetoothed import dtypes, ir
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


def test_numbers_agree_with_triton(tmp_path):
    pytest.importorskip("triton")
    cases = [(seed, "int32", OFFSETS) for seed in SEEDS] + [(seed, "int64", WIDE) for seed in SEEDS]
    script = tmp_path / "script.py"
    script.write_text(TRITON % cases)
    environment = {"TRITON_INTERPRET": "1", "PATH": "/usr/bin:/bin", "HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr[-2000:]
    for (seed, dtype, numbers), (ints, uniform, normal) in zip(cases, json.loads(done.stdout)):
        *integers, ours, gaussian = draw(seed, torch.tensor(numbers, dtype=getattr(torch, dtype)))
        assert [row[0].tolist() for row in integers] == ints
        assert torch.equal(ours[0], torch.tensor(uniform))
        torch.testing.assert_close(gaussian[0], torch.tensor(normal), rtol=1e-5, atol=1e-6)
