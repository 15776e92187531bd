"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: products whose sum is shared out, against float64."""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.schedule import SplitK, StreamK
from ninetoothed_ops.kernels import addmm, bmm, conv2d, mm, sdpa, softmax
from tests.ninetoothed.backends import interpreted


def random(*shape, dtype=torch.float16):
    return torch.randn(shape, dtype=dtype)


def empty(*shape, dtype=torch.float16):
    return torch.full(shape, float("nan"), dtype=dtype)


def check(title, kernel, arguments, output, expected, parts, is_split=True, tiles_per_wave=0, stages=0, is_cut=True):
    blocks = (128, 128, 32) if stages else None
    sharing = StreamK(tiles_per_wave, parts, stages) if tiles_per_wave else SplitK(parts)
    emitted = interpreted.interpret(kernel, arguments, blocks=blocks, sharing=sharing)
    assert bool(emitted.buffers) == is_split, f"{title}: {emitted.buffers}"
    assert ("num_stages=6" in emitted.source) == (stages == 6 and is_cut), title
    error = ((output.double() - expected).norm() / expected.norm()).item()
    assert error <= 1e-3, f"{title}: relative error {error}"


def matrices():
    for parts, m, n, k in ((2, 150, 264, 300), (3, 33, 47, 500), (7, 16, 16, 5), (4, 1, 65, 64)):
        a, b, c = random(m, k), random(n, k).mT, empty(m, n)
        check(f"mm {m, n, k} by {parts}", mm.make(), (a, b, c), c, a.double() @ b.double(), parts)
    a, b, c = (
        random(50, 300, dtype=torch.float32),
        random(300, 70, dtype=torch.float32),
        empty(50, 70, dtype=torch.float32),
    )
    check("float32", mm.make(), (a, b, c), c, a.double() @ b.double(), 4)


def tails():
    """Whole waves and none, tiles left over of one part, of some and of the most."""
    for tiles_per_wave, parts, m, n, k in (
        (4, 4, 150, 264, 300),
        (8, 3, 100, 330, 500),
        (7, 2, 33, 47, 130),
        (5, 8, 128, 320, 640),
    ):
        a, b, c = random(m, k), random(k, n), empty(m, n)
        expected = a.double() @ b.double()
        title = f"mm {m, n, k} of {tiles_per_wave}"
        check(title, mm.make(), (a, b, c), c, expected, parts, tiles_per_wave=tiles_per_wave)
    a, b, c = random(3, 50, 300), random(3, 300, 70), empty(3, 50, 70)
    check("bmm", bmm.make(), (a, b, c), c, a.double() @ b.double(), 4, tiles_per_wave=4)
    x, a, b, c = random(70), random(150, 300), random(300, 70), empty(150, 70)
    expected = 0.5 * x.double() + 1.5 * (a.double() @ b.double())
    check("addmm", addmm.make(), (x.expand(150, 70), a, b, 0.5, 1.5, c), c, expected, 3, tiles_per_wave=4)


def quarters():
    """None left over, few with sums in parts, some, so many that quarters take two waves, and more."""
    for tiles_per_wave, parts, m, n, k in (
        (4, 4, 256, 256, 70),
        (4, 8, 130, 500, 300),
        (8, 3, 130, 630, 500),
        (2, 1, 300, 128, 130),
        (3, 4, 128, 630, 100),
    ):
        a, b, c = random(m, k), random(n, k).mT, empty(m, n)
        title = f"mm {m, n, k} in quarters of {tiles_per_wave}"
        expected = a.double() @ b.double()
        check(title, mm.make(), (a, b, c), c, expected, parts, parts > 1, tiles_per_wave, 6)
    a, b, c = random(200, 300), random(300, 130), empty(200, 130)
    for x in (random(200, 130), random(130).expand(200, 130)):
        expected = 0.5 * x.double() + 1.5 * (a.double() @ b.double())
        arguments = (x, a, b, 0.5, 1.5, c.fill_(float("nan")))
        check("addmm in quarters", addmm.make(), arguments, c, expected, 3, True, 3, 6)
    a, b, c = random(3, 130, 100), random(3, 100, 70), empty(3, 130, 70)
    check("bmm in quarters", bmm.make(), (a, b, c), c, a.double() @ b.double(), 4, True, 4, 6)


def cut_alike():
    """Rounds of which a quarter needs rows, columns or all of what they load."""

    def application(input, other, output):
        total = ntl.zeros(output.shape, dtype=ntl.float32)
        for k in range(input.shape[0]):
            least = ntl.min(other[k], axis=1)[:, None]
            total += ntl.dot(ntl.exp(input[k]), ntl.trans(ntl.trans(other[k] - least) * 2.0))
        output = ntl.maximum(total, 0.0) - ntl.arange(0, 128)[None, :]

    kernel = ninetoothed.make(mm.arrangement, application, (Tensor(2), Tensor(2), Tensor(2)))
    a, b, c = random(130, 96), random(96, 256), empty(130, 256)
    least = torch.cat([half.amin(1, keepdim=True).expand(half.shape) for half in b.split(128, 1)], 1)
    # The sizes are whole blocks of depth: what lies beyond would be a part of the least.
    summed = a.double().exp() @ ((b - least) * 2).double()
    expected = summed.clamp(min=0) - torch.arange(128).repeat(2)
    for parts in (1, 4):
        check("applied", kernel, (a, b, c.fill_(float("nan"))), c, expected, parts, parts > 1, 3, 6)


def arranged(x, input, other, first, second):
    """`x` and both outputs tile by tile."""
    arranged_input, arranged_other, second = mm.arrangement(input, other, second)
    _, _, x = mm.arrangement(input, other, x)
    _, _, first = mm.arrangement(input, other, first)
    return x, arranged_input, arranged_other, first, second


def in_place():
    """What a program stores may be what it loads: all of it is read before."""

    def two_outputs(x, input, other, first, second):
        total = ntl.zeros(second.shape, dtype=ntl.float32)
        for k in range(input.shape[0]):
            total += ntl.dot(input[k], other[k])
        y = x * 2.0
        first = total
        second = total + y

    def whole_tile(x, input, other, first, second):
        total = ntl.zeros(second.shape, dtype=ntl.float32)
        for k in range(input.shape[0]):
            total += ntl.dot(input[k], other[k])
        least = ntl.min(x)
        first = total + least
        second = total * 2.0

    def no_loads_after(x, input, other, first, second):
        total = ntl.zeros(second.shape, dtype=ntl.float32)
        for k in range(input.shape[0]):
            total += ntl.dot(input[k], other[k])
        first = total
        second = total + 1.0

    a, b, x, second = random(256, 96), random(96, 384), random(256, 384), empty(256, 384)
    product, tensors = a.double() @ b.double(), tuple(Tensor(2) for _ in range(5))
    kernel, first = ninetoothed.make(arranged, two_outputs, tensors), x.clone()
    check("two outputs", kernel, (first, a, b, first, second), second, product + 2 * x, 1, False, 4, 6)
    kernel, first = ninetoothed.make(arranged, no_loads_after, tensors), empty(256, 384)
    check("two outputs alone", kernel, (x, a, b, first, second), second, product + 1, 4, True, 4, 6)
    least = x.view(2, 128, 3, 128).amin((1, 3), keepdim=True).expand(2, 128, 3, 128).reshape(256, 384)
    for parts in (1, 4):
        kernel, first = ninetoothed.make(arranged, whole_tile, tensors), x.clone()
        arguments = first, a, b, first, second
        check("whole tile", kernel, arguments, first, product + least, parts, parts > 1, 4, 6, is_cut=False)


def sums():
    a, b = random(50, 300), random(300, 70)
    for x in (random(50, 70), random(70).expand(50, 70)):
        c = empty(50, 70)
        expected = 0.5 * x.double() + 1.5 * (a.double() @ b.double())
        check("addmm", addmm.make(), (x, a, b, 0.5, 1.5, c), c, expected, 3)


def batches():
    a, b, c = random(3, 50, 300), random(3, 300, 70), empty(3, 50, 70)
    check("bmm", bmm.make(), (a, b, c), c, a.double() @ b.double(), 4)


def convolutions():
    x, w, bias, y = random(2, 5, 9, 8), random(7, 5, 3, 3), random(7), empty(2, 7, 7, 6)
    for biased in (True, False):
        expected = F.conv2d(x.double(), w.double(), bias.double() if biased else None)
        check("conv2d", conv2d.make(), (x, w, bias, y, biased), y, expected, 3)


def what_has_no_such_sum():
    x, y = random(8, 32), empty(8, 32)
    check("softmax", softmax.make(2), (x, y), y, x.double().softmax(-1), 4, is_split=False)
    q, o = random(1, 2, 64, 64), empty(1, 2, 64, 64)
    expected = F.scaled_dot_product_attention(*(q.double(),) * 3, scale=0.125)
    check("sdpa", sdpa.make(), (q, q, q, q, 0.125, o, 0, False), o, expected, 4, is_split=False)


if __name__ == "__main__":
    torch.manual_seed(0)
    for run in (matrices, tails, quarters, cut_alike, in_place, sums, batches, convolutions, what_has_no_such_sum):
        run()
        print(run.__name__)
