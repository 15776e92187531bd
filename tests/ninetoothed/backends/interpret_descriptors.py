"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: products through descriptors, against float64."""

import torch
import torch.nn.functional as F

from ninetoothed.schedule import Persistent
from ninetoothed_ops.kernels import addmm, bmm, conv2d, mm, sdpa
from tests.ninetoothed.backends import interpreted


def random(*shape, dtype=torch.float16):
    return torch.randn(shape, dtype=dtype)


def empty(*shape, dtype=torch.float16):
    return torch.full(shape, float("nan"), dtype=dtype)


def check(title, kernel, arguments, output, expected, described, tolerance=1e-3):
    emitted = interpreted.interpret(kernel, arguments, sharing=Persistent(132))
    error = ((output.double() - expected).norm() / expected.norm()).item()
    assert error <= tolerance, f"{title}: relative error {error}"
    assert len(emitted.descriptors) == described, f"{title}: {len(emitted.descriptors)} descriptors"
    return emitted


def matrices():
    for turned in range(8):
        lhs, rhs, result = turned & 1, turned & 2, turned & 4
        a = random(72, 304).mT if lhs else random(304, 72)
        b = random(520, 72).mT if rhs else random(72, 520)
        c = empty(520, 304).mT if result else empty(304, 520)
        emitted = check(f"mm {turned}", mm.make(), (a, b, c), c, a.double() @ b.double(), 3)
        assert emitted.persistent


def odd_matrices():
    """Rows that start anywhere, in one operand or in the result."""
    a, b, c = random(150, 75), random(75, 264), empty(150, 264)
    check("odd rows", mm.make(), (a, b, c), c, a.double() @ b.double(), 2)
    a, b, c = random(150, 72), random(72, 261), empty(150, 261)
    check("odd columns", mm.make(), (a, b, c), c, a.double() @ b.double(), 1)
    a, b, c = random(150, 80)[:, 8:], random(80, 304)[:72, 8:272], empty(150, 280)[:, 16:]
    check("slices", mm.make(), (a, b, c), c, a.double() @ b.double(), 3)


def sums():
    a, b = random(150, 72), random(72, 264)
    for x, described in (
        (random(150, 264), 4),
        (random(264).expand(150, 264), 3),
        (random(150, 1).expand(150, 264), 3),
    ):
        c = empty(150, 264)
        expected = 0.5 * x.double() + 1.5 * (a.double() @ b.double())
        check("addmm", addmm.make(), (x, a, b, 0.5, 1.5, c), c, expected, described)


def images_of_one_row():
    """What is padded has stride 0, and is no dimension of a descriptor."""
    image, filters, output = random(2, 64, 1, 64), random(64, 64, 3, 1), empty(2, 64, 1, 64)
    image, filters, output = (each.to(memory_format=torch.channels_last) for each in (image, filters, output))
    arguments = image, filters, filters[:, 0, 0, 0], output, False
    expected = F.conv2d(image.double(), filters.double(), padding=(1, 0))
    emitted = check("one row", conv2d.make((1, 1), (1, 0)), arguments, output, expected, 1)
    assert "input_desc" not in emitted.source


def batches():
    a, b, c = random(3, 150, 72), random(3, 72, 264), empty(3, 150, 264)
    check("bmm", bmm.make(), (a, b, c), c, a.double() @ b.double(), 3)
    a, b, c = random(150, 3, 72).transpose(0, 1), random(1, 72, 264).expand(3, -1, -1), empty(3, 150, 264)
    check("bmm, expanded", bmm.make(), (a, b, c), c, a.double() @ b.double(), 3)


def attention():
    for heads, is_causal, length in ((2, False, 130), (4, True, 130), (1, True, 200)):
        q, o = random(1, 4, 140, 64), empty(1, 4, 140, 64)
        k, v = random(1, length, heads, 64).transpose(1, 2), random(1, heads, length, 64)
        mask = torch.zeros(1, dtype=q.dtype).expand(1, 4, 140, length)
        expected = F.scaled_dot_product_attention(
            q.double(), k.double(), v.double(), is_causal=is_causal, scale=0.125, enable_gqa=True
        )
        check("sdpa", sdpa.make(), (q, k, v, mask, 0.125, o, 0, is_causal), o, expected, 4)


if __name__ == "__main__":
    torch.manual_seed(0)
    for run in (matrices, odd_matrices, sums, images_of_one_row, batches, attention):
        run()
        print(run.__name__)
