"""Run by `test_triton_interpreter` under TRITON_INTERPRET=1: loops with a user's merge, against float64."""

import math

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor
from ninetoothed.schedule import in_parts
from ninetoothed_ops.kernels import mm, sdpa
from tests.ninetoothed.backends import interpreted


def check(title, kernel, arguments, output, expected, parts, blocks=None, tolerance=1e-3):
    output.fill_(float("nan"))
    emitted = interpreted.interpret(kernel, arguments, blocks=blocks, sharing=in_parts(parts))
    assert bool(emitted.buffers) == (parts > 1), f"{title}: {emitted.buffers}"
    assert not output.isnan().any(), title
    error = ((output.double() - expected).norm() / expected.norm()).item()
    assert error <= tolerance, f"{title} in {parts} parts: relative error {error}"


def blocks_of_rows(x, sums, highest):
    """Whole rows of `x`, block by block, and an element of each output for each."""
    return x.tile((1, 32)).tile((1, -1)), sums.tile((1, 1)), highest.tile((1, 1))


def online(x, sums, highest):
    """log(sum(exp(x))) and max(x) of each row."""

    def merge(total, peak, other_total, other_peak):
        new_peak = ntl.maximum(peak, other_peak)

        return total * ntl.exp(peak - new_peak) + other_total * ntl.exp(other_peak - new_peak), new_peak

    peak = ntl.full((1, 1), -1e30, dtype=ntl.float32)
    total = ntl.zeros((1, 1), dtype=ntl.float32)

    for j in ntl.range(x.shape[1], merge=merge):
        block = x[0, j]
        new_peak = ntl.maximum(peak, ntl.max(block, axis=1)[:, None])
        total = total * ntl.exp(peak - new_peak) + ntl.sum(ntl.exp(block - new_peak), axis=1)[:, None]
        peak = new_peak

    sums = ntl.log(total) + peak
    highest = peak


def rows():
    """Whole blocks and not, more parts than blocks, one part."""
    kernel = ninetoothed.make(blocks_of_rows, online, tuple(Tensor(2) for _ in range(3)))
    for columns in (100, 320):
        for parts in (1, 3, 12):
            x, sums, highest = torch.randn(3, columns) * 4, torch.empty(3, 1), torch.empty(3, 1)
            expected = x.double().logsumexp(1, keepdim=True)
            check(f"logsumexp of {columns}", kernel, (x, sums, highest), sums, expected, parts)
            assert torch.equal(highest, x.amax(1, keepdim=True))


def capped(query, key, value, mask, sinks):
    """Scores between -2 and 2, and one more of each row."""
    query, key, value, sinks = (each.double() for each in (query, key, value, sinks))
    scores = 2.0 * torch.tanh(query @ key.mT * query.shape[-1] ** -0.5 / 2.0)
    if mask is not None:
        scores = scores.masked_fill(~mask, -math.inf) if mask.dtype is torch.bool else scores + mask
    return torch.softmax(torch.cat((scores, sinks), -1), -1)[..., :-1] @ value


def attention():
    """Decoding: a few queries of each head; keys that fill their blocks and not; hidden ones, in whole parts too.

    A sink has its part once, however many parts there are.
    """
    for queries, keys, width in ((1, 128, 32), (7, 300, 16), (30, 37, 16)):
        q, k, v = (torch.randn(2, 2, n, width, dtype=torch.float16) for n in (queries, keys, keys))
        output = torch.empty_like(q)
        hidden = torch.rand(2, 2, queries, keys) > 0.5
        hidden[0, :, :, : keys // 2] = False
        hidden[1, 0, 0] = False
        added = torch.randn(2, 2, queries, keys).half().masked_fill(~hidden, -math.inf)
        sinks = torch.tensor([1.0, 4.0], dtype=torch.float16)[:, None, None].expand(2, 2, queries, 1)
        for masking, mask in ((sdpa.NO_MASK, q), (sdpa.BOOLEAN_MASK, hidden), (sdpa.ADDITIVE_MASK, added)):
            given = None if masking == sdpa.NO_MASK else mask if masking == sdpa.BOOLEAN_MASK else mask.double()
            for is_causal in (False, True) if given is None else (False,):
                expected = F.scaled_dot_product_attention(
                    q.double(), k.double(), v.double(), given, is_causal=is_causal
                ).nan_to_num()
                arguments = q, k, v, mask, width**-0.5, output, masking, is_causal
                title = f"attention {queries, keys, width} masking={masking} is_causal={is_causal}"
                check(title, sdpa.make(), arguments, output, expected, parts=3)
                if not is_causal and (keys == 300 or masking == sdpa.BOOLEAN_MASK):
                    kernel, expected = sdpa.make(is_capped=True, has_sinks=True), capped(q, k, v, given, sinks)
                    check(f"{title}, options", kernel, (*arguments, 2.0, sinks), output, expected, parts=3)


def attention_of_lengths():
    """Each batch entry has its own number of keys, with NaN behind them; a part may have none."""
    for keys, width, lengths in ((133, 32, (0, 1, 65)), (128, 16, (128, 64, 37))):
        q, k, v = (torch.randn(3, 2, n, width, dtype=torch.float16) for n in (4, keys, keys))
        output, visible = torch.empty_like(q), torch.rand(3, 2, 4, keys) > 0.3
        held = torch.arange(keys) < torch.tensor(lengths)[:, None, None, None]
        k, v = (torch.where(held.mT, tensor, torch.nan) for tensor in (k, v))
        for masking, mask in ((sdpa.NO_MASK, q), (sdpa.BOOLEAN_MASK, visible)):
            shown = held.expand_as(visible) if masking == sdpa.NO_MASK else held & visible
            expected = F.scaled_dot_product_attention(
                *(tensor.double().nan_to_num() for tensor in (q, k, v)), shown
            ).nan_to_num()
            for dtype, parts in ((torch.int32, 1), (torch.int64, 3)):
                number = torch.tensor(lengths, dtype=dtype)
                arguments = q, k, v, mask, width**-0.5, output, masking, False, number
                title = f"attention of {lengths} of {keys} keys, masking={masking}"
                check(title, sdpa.make(has_lengths=True), arguments, output, expected, parts)


def products_of_few_rows():
    """Computed as their transpose, in one part and in several."""
    for m, n, k in ((1, 64, 96), (5, 130, 300), (31, 64, 33)):
        for parts in (1, 3):
            a, b, c = torch.randn(m, k).half(), torch.randn(n, k).half().mT, torch.empty(m, n).half()
            blocks = (16 if m <= 16 else 32, 64, 32)
            check(f"mm {m, n, k}", mm.make(), (a, b, c), c, a.double() @ b.double(), parts, blocks)


def two_products(input, gate, up, output):
    """silu(input @ gate) * (input @ up): each tile of `input` is loaded once for both."""
    gated, raised = ntl.zeros(output.shape, dtype=ntl.float32), ntl.zeros(output.shape, dtype=ntl.float32)

    for k in range(input.shape[0]):
        tile = input[k]
        gated += ntl.dot(tile, gate[k])
        raised += ntl.dot(tile, up[k])

    output = gated * ntl.sigmoid(gated) * raised


def make_two_products():
    def arrangement(input, gate, up, output):
        input_arranged, gate_arranged, output_arranged = mm.arrangement(input, gate, output)
        return input_arranged, gate_arranged, mm.arrangement(input, up, output)[1], output_arranged

    return ninetoothed.make(arrangement, two_products, tuple(Tensor(2) for _ in range(4)))


def two_products_of_few_rows():
    """Both computed as their transposes."""
    for m, n, k in ((1, 64, 96), (5, 130, 300)):
        a, b, c, d = torch.randn(m, k), torch.randn(n, k).mT, torch.randn(k, n), torch.empty(m, n)
        a, b, c, d = (each.half() for each in (a, b, c, d))
        expected = F.silu(a.double() @ b.double()) * (a.double() @ c.double())
        check(f"two products {m, n, k}", make_two_products(), (a, b, c, d), d, expected, 1, (16, 64, 32), 2e-3)


if __name__ == "__main__":
    torch.manual_seed(0)
    for run in (rows, attention, attention_of_lengths, products_of_few_rows, two_products_of_few_rows):
        run()
        print(run.__name__)
