"""Loops whose parts a function of the user's merges: how that reads, what is refused, and that it is right."""

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import ApplicationError, Tensor
from ninetoothed.passes.reduction_match import match
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from ninetoothed.schedule import DataParallel, in_parts
from ninetoothed_ops.kernels import sdpa
from tests.ninetoothed.passes import interpret_merge


def attention(queries, keys, is_causal=False, batch=2):
    """The variant of a call on an H200."""
    q, k = (torch.empty(batch, 8, n, 128, dtype=torch.float16) for n in (queries, keys))
    arguments = q, k, k, q, 0.1, q, sdpa.NO_MASK, is_causal
    return dispatch.launcher_of(sdpa.make()).trace(arguments, {}, machine.H200)


@pytest.mark.parametrize("queries, keys, parts", ((1, 40, 1), (4, 160, 1), (4, 1024, 8), (17, 4096, 8), (32, 32768, 8)))
def test_keys_of_few_queries_are_shared_out(queries, keys, parts):
    variant = attention(queries, keys)
    assert match(variant.program).merge.name == "merge"
    assert variant.selection.schedule.sharing == in_parts(parts)


def test_keys_of_a_computed_number_are_shared_out():
    q, k = (torch.empty(2, 8, n, 128, dtype=torch.float16) for n in (4, 2080))
    mask = torch.empty(2, 1, 1, 2080, dtype=torch.bool).expand(2, 8, 4, 2080)
    lengths = torch.empty(2, dtype=torch.int64)
    arguments = q, k, k, mask, 0.1, q, sdpa.BOOLEAN_MASK, False, lengths
    source = sdpa.make(has_lengths=True).source(*arguments, gpu=machine.H200)
    # In eight parts the loop ends where the keys do, and what is hidden there is not hidden once more.
    assert "tl.cdiv(tl.minimum(key_size_2, maximum), 128) * part // 8" in source.text
    assert source.text.count("tl.where(index[None, :] < tl.minimum(key_size_2, maximum), scores, ") == 1
    assert "tl.where(index[None, :] < key_size_2, scores" not in source.text


@pytest.mark.parametrize("queries, keys, batch", ((33, 4096, 1), (1024, 1024, 1), (4, 4096, 16)))
def test_keys_of_many_programs_are_not(queries, keys, batch):
    variant = attention(queries, keys, batch=batch)
    assert variant.selection.schedule.sharing == DataParallel()
    assert queries <= sdpa.FEW_ROWS or match(variant.program) is None


def test_compiled_without_spills():
    pytest.importorskip("triton")
    compiled = executable.compile_for_gpu(sdpa.make().definition, attention(4, 2080))
    assert compiled.spills == 0 and "loop_unroll_factor=7" in compiled.emitted.source


def test_right_on_the_cpu():
    kernel = ninetoothed.make(
        interpret_merge.blocks_of_rows, interpret_merge.online, tuple(Tensor(2) for _ in range(3))
    )
    x, sums, highest = torch.randn(3, 100), torch.full((3, 1), torch.nan), torch.full((3, 1), torch.nan)
    kernel(x, sums, highest)
    assert torch.allclose(sums, x.logsumexp(1, keepdim=True))
    assert torch.equal(highest, x.amax(1, keepdim=True))


class TestRefused:
    def refused(self, merge, message):
        def application(x, sums, highest):
            total = ntl.zeros((1, 1), dtype=ntl.float32)
            for j in ntl.range(x.shape[1], merge=merge):
                total += ntl.sum(x[0, j], axis=1)[:, None]
            sums = total
            highest = total

        kernel = ninetoothed.make(interpret_merge.blocks_of_rows, application, tuple(Tensor(2) for _ in range(3)))
        with pytest.raises(ApplicationError, match=message):
            kernel(torch.randn(3, 100), torch.empty(3, 1), torch.empty(3, 1))

    def test_other_variables(self):
        def merge(sum, other):
            return sum + other

        self.refused(merge, r"`merge` takes \(sum, other\), and this loop carries `total`: let it take these, by their")

    def test_too_few(self):
        def merge(total):
            return total

        self.refused(merge, r"`merge` takes \(total\), and this loop carries `total`")

    def test_too_many_results(self):
        def merge(total, other_total):
            return total, other_total

        self.refused(merge, "`merge` returns 2 values; return `total`, which it merges")

    def test_more_than_lane_by_lane(self):
        def merge(total, other_total):
            return total + ntl.sum(other_total)

        self.refused(merge, "`merge` may only compute element by element")

    def test_no_function(self):
        self.refused(3, "`merge` is a function of what two parts have left, not 3")
