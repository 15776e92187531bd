"""What products compile to for Hopper, which need not be there: the copy engine, wgmma, and no spills."""

import dataclasses
import re

import pytest
import torch

from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine, ranking
from ninetoothed_ops.kernels import addmm, bmm, mm
from tests.ninetoothed_ops.kernels import calls

pytest.importorskip("triton")

PRODUCTS = ("addmm", "bmm", "mm", "sdpa")


def compiled(kernel, arguments, monkeypatch=None, blocks=(), **changes):
    """As a call on an H200 compiles, but for some fields of its schedule, and `blocks` in the definition's order."""

    def changed(*given):
        best = candidates(*given)[0]
        meta = zip(best.blocks, blocks, strict=True) if blocks else best.meta
        return (dataclasses.replace(best, meta=tuple(meta), **changes),)

    candidates = ranking.candidates
    if monkeypatch is not None:
        monkeypatch.setattr(ranking, "candidates", changed)
    launcher = dispatch.Launcher(kernel.definition)
    return executable.compile_for_gpu(launcher.definition, launcher.trace(arguments, {}, machine.H200))


def bodies(sass):
    """The instructions of each loop, by its backward branch."""
    instructions, labels = [], {}
    for line in map(str.strip, sass.splitlines()):
        label = re.match(r"(\.L_x_\d+):", line)
        if label:
            labels[label.group(1)] = len(instructions)
        elif re.match(r"/\*[0-9a-f]{4,}\*/", line):
            instructions.append(line)
    for end, line in enumerate(instructions):
        target = re.search(r"BRA.*`\((\.L_x_\d+)\)", line)
        start = labels.get(target.group(1)) if target else None
        if start is not None and start <= end:
            yield instructions[start : end + 1]


def loops(sass):
    """How many instructions each loop has, and how many of them multiply matrices."""
    for inside in bodies(sass):
        yield len(inside), sum("HGMMA" in each for each in inside)


def main_loop(sass):
    """The instructions of the first loop that multiplies matrices."""
    return next(count for count, products in loops(sass) if products)


@pytest.mark.parametrize("name", PRODUCTS)
def test_as_configured(name):
    """In bfloat16; `test_loops` asks the same of float16."""
    kernel = compiled(*calls.large(name, torch.bfloat16))
    assert "wgmma" in kernel.asm["ptx"] and "cp.async.bulk.tensor" in kernel.asm["ptx"]
    assert kernel.spills == 0 and kernel.shared <= machine.H200.shared_memory
    assert kernel.emitted.persistent == (name != "sdpa")


@pytest.mark.gpu
@pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.get_device_capability() < (9, 0),
    reason="needs a CUDA device with a copy engine, of Hopper or newer",
)
class TestOnGPU:
    def check(self, kernel, inputs, output, expected, tolerance=2e-3):
        for _ in range(2):  # The second time at other addresses.
            output.fill_(float("nan"))
            kernel(*inputs, output)
            error = (output.double() - expected).norm() / max(expected.norm(), 1)
            assert error <= tolerance, f"relative error {error}"
            inputs = [value.clone() if isinstance(value, torch.Tensor) else value for value in inputs]

    def random(self, *shape, dtype=torch.float16):
        return torch.randn(shape, dtype=dtype, device="cuda")

    @pytest.mark.parametrize(
        "m, n, k",
        (
            *((128, 256, 64), (1000, 1000, 1000), (4104, 4104, 520), (4088, 4088, 72), (8192, 8192, 128), (8, 8, 8)),
            *((33, 48, 64), (2048, 4096, 0), (4096, 4096, 1), (4095, 4095, 63), (1, 4096, 512)),
        ),
    )
    def test_sizes(self, m, n, k):
        a, b = self.random(m, k), self.random(k, n)
        self.check(mm.make(), [a, b], self.random(m, n), a.double() @ b.double())

    @pytest.mark.parametrize("dtype", (torch.float16, torch.bfloat16), ids=("float16", "bfloat16"))
    @pytest.mark.parametrize("turned", range(8))
    def test_turned_operands(self, turned, dtype):
        m, n, k = 2112, 4104, 520
        a = self.random(k, m, dtype=dtype).mT if turned & 1 else self.random(m, k, dtype=dtype)
        b = self.random(n, k, dtype=dtype).mT if turned & 2 else self.random(k, n, dtype=dtype)
        c = self.random(n, m, dtype=dtype).mT if turned & 4 else self.random(m, n, dtype=dtype)
        self.check(mm.make(), [a, b], c, a.double() @ b.double(), 2e-3 if dtype == torch.float16 else 1e-2)

    def test_sums(self):
        a, b = self.random(4096, 520), self.random(520, 4096)
        for x in (self.random(4096, 4096), self.random(4096).expand(4096, 4096), self.random(4096, 4096).mT):
            expected = 0.5 * x.double() + 1.5 * (a.double() @ b.double())
            self.check(addmm.make(), [x, a, b, 0.5, 1.5], self.random(4096, 4096), expected)

    def test_batches(self):
        a, b = self.random(2048, 5, 520).transpose(0, 1), self.random(5, 2056, 520).mT
        self.check(bmm.make(), [a, b], self.random(5, 2048, 2056), a.double() @ b.double())
