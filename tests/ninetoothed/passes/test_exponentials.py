"""`exp` as a power of two: how that reads, when it is done, that it is right, and how many instructions it takes."""

import collections
import importlib.util
import re

import expecttest
import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, passes
from ninetoothed.runtime.selection import machine
from tests.ninetoothed.backends import interpreting
from tests.ninetoothed.passes import interpret_exponentials

LOG2_E = "1.4426950408889634"
LOWEST = interpret_exponentials.LOWEST


def arguments():
    return torch.empty(1024, 4096), 0.125, torch.empty(1024), torch.empty(1024)


def powers(name):
    """What the text of a kernel has to do with powers, and where its loop begins."""
    kernel = interpret_exponentials.make(getattr(interpret_exponentials, name))
    lines = kernel.source(*arguments(), gpu=machine.H200).text.splitlines(keepends=True)
    return "".join(line for line in lines if re.search(r"^    for |peak|exp|log2e", line))


class GoldenTest(expecttest.TestCase):
    maxDiff = None

    def test_online(self):
        self.assertExpectedInline(
            powers("online"),
            """\
    scale_log2e = scale * 1.4426950408889634
    peak = tl.full((16,), float("-inf"), tl.float32)
    for j in range(tl.cdiv(input_size_1, 256)):
        new_peak = tl.maximum(peak, tl.max(input, axis=1))
        decay = tl.exp2((peak - new_peak) * scale_log2e)
        weights = tl.exp2(input * scale_log2e - (new_peak * scale_log2e)[:, None])
        peak = new_peak
    output = peak * scale + tl.log(total)
""",
        )

    def test_scaled_at_once(self):
        self.assertExpectedInline(
            powers("scaled_at_once"),
            """\
    scale_log2e = scale * 1.4426950408889634
    peak = tl.full((16,), float("-inf"), tl.float32)
    for j in range(tl.cdiv(input_size_1, 256)):
        scores_log2e = scale_log2e * input
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        new_peak_log2e = new_peak * 1.4426950408889634
            total * tl.exp2((peak - new_peak) * 1.4426950408889634)
            + tl.sum(tl.exp2(scores_log2e - new_peak_log2e[:, None]), axis=1)
        peak = new_peak
    output = peak + tl.log(total)
""",
        )

    def test_known_before_the_loop(self):
        self.assertExpectedInline(
            powers("known"),
            """\
    scale_log2e = scale * 1.4426950408889634
    other_log2e = other * 1.4426950408889634
    for j in range(tl.cdiv(input_size_1, 256)):
        total = total + tl.sum(tl.exp2(input * scale_log2e - other_log2e[:, None]), axis=1)
""",
        )

    def test_carried_by_the_loop(self):
        self.assertExpectedInline(
            powers("carried"),
            """\
    scale_log2e = scale * 1.4426950408889634
    for j in range(tl.cdiv(input_size_1, 256)):
        peak_log2e = other * 1.4426950408889634
        total = total + tl.sum(tl.exp2(input * scale_log2e - peak_log2e[:, None]), axis=1)
""",
        )


def written(application, dtype=torch.float32):
    """What an application of a tile, a number, a tile and a row of it makes of its exponential."""

    def arrangement(x, c, y, row, output):
        return x.tile((16, 64)), c, y.tile((16, 64)), row.tile((16,)).unsqueeze(1), output.tile((16, 64))

    kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(0), Tensor(2), Tensor(1), Tensor(2)))
    x, row = torch.empty(64, 64, dtype=dtype), torch.empty(64, dtype=dtype)
    text = kernel.source(x, 0.5, x, row, x, gpu=machine.H200).text
    (found,) = re.findall(r"(tl\.exp.*?)(?:\.to\(tl\.\w+\)\)|, mask.*)?$", text, re.MULTILINE)
    return found


def by_a_number(x, c, y, row, output):
    output = ntl.exp(x * c)


def by_a_number_before(x, c, y, row, output):
    output = ntl.exp(c * x)


def by_a_constant(x, c, y, row, output):
    output = ntl.exp(-x * 0.5)


def less_a_row(x, c, y, row, output):
    output = ntl.exp(c * x - row[:, None])


def less_a_number(x, c, y, row, output):
    output = ntl.exp(x * 0.5 - c)


def less_a_scaled_row(x, c, y, row, output):
    output = ntl.exp(x * c - (row * c)[:, None])


def less_a_tile(x, c, y, row, output):
    output = ntl.exp(x * c - y)


def of_one_factor(x, c, y, row, output):
    output = ntl.exp(x * c - y * c)


def of_two_factors(x, c, y, row, output):
    output = ntl.exp(x * c - y * 0.5)


def after_a_mask(x, c, y, row, output):
    output = ntl.exp(x * c + y - row[:, None])


def after_where(x, c, y, row, output):
    output = ntl.exp(ntl.where(y > 0.0, x, LOWEST) * c - row[:, None])


def after_where_with_infinity(x, c, y, row, output):
    output = ntl.exp(ntl.where(y > 0.0, x, float("-inf")) * c - row[:, None])


def multiplied_by_one(x, c, y, row, output):
    output = ntl.exp(x * 1.0)


def multiplied_by_the_lowest(x, c, y, row, output):
    output = ntl.exp((1.0 - x) * LOWEST)


def multiplied_by_a_tile(x, c, y, row, output):
    output = ntl.exp(x * y)


def multiplied_by_a_row(x, c, y, row, output):
    output = ntl.exp(x * row[:, None])


def added(x, c, y, row, output):
    output = ntl.exp(x * c + y)


def bare(x, c, y, row, output):
    output = ntl.exp(x)


def by_the_user(x, c, y, row, output):
    output = ntl.exp2(x * c)


def of_numbers(x, c, y, row, output):
    output = x + ntl.exp(c * 0.5)


class TestWhichExponents:
    def test_products(self):
        assert written(by_a_number) == "tl.exp2(x * c_log2e)"
        assert written(by_a_number_before) == "tl.exp2(c_log2e * x)"
        assert written(by_a_constant) == "tl.exp2(-x * 0.7213475204444817)"

    def test_products_less_what_is_smaller(self):
        assert written(less_a_row) == "tl.exp2(c_log2e * x - row_log2e[:, None])"
        assert written(less_a_number) == "tl.exp2(x * 0.7213475204444817 - c_log2e)"
        assert written(less_a_scaled_row) == "tl.exp2(x * c_log2e - (row * c_log2e)[:, None])"

    def test_products_less_what_is_as_large(self):
        assert written(less_a_tile) == f"tl.exp2((x * c - y) * {LOG2_E})"
        assert written(of_two_factors) == f"tl.exp2((x * c - y * 0.5) * {LOG2_E})"
        assert written(of_one_factor) == "tl.exp2((x - y) * c_log2e)"

    def test_masks_of_the_lowest_number_which_has_no_multiple(self):
        assert written(after_a_mask) == f"tl.exp2((x * c + y - row[:, None]) * {LOG2_E})"
        assert written(after_where).endswith(f" * c - row[:, None]) * {LOG2_E})")
        assert written(after_where_with_infinity).endswith(" * c_log2e - row_log2e[:, None])")

    @pytest.mark.parametrize(
        "application",
        (
            multiplied_by_one,
            multiplied_by_the_lowest,
            multiplied_by_a_tile,
            multiplied_by_a_row,
            added,
            bare,
            of_numbers,
        ),
    )
    def test_no_others(self, application):
        assert "tl.exp(" in written(application)

    def test_not_the_users_own(self):
        assert written(by_the_user) == "tl.exp2(x * c)"

    def test_not_of_float64(self):
        assert written(less_a_scaled_row, torch.float64) == "tl.exp(x * c - (row * c)[:, None])"


class TestCompiled:
    """Instructions of a round, for an H200 that need not be there."""

    @pytest.fixture
    def instructions(self, tmp_path, monkeypatch):
        pytest.importorskip("triton")
        from tests.ninetoothed_ops.kernels.test_hopper import bodies, compiled

        monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))

        def counted(name):
            kernel = interpret_exponentials.make(getattr(interpret_exponentials, name))
            compiled_kernel = compiled(kernel, arguments(), monkeypatch, num_warps=4)
            (round, *_) = bodies(compiled_kernel.sass())
            return collections.Counter(re.findall(r"\s(FFMA|FMUL|MUFU\.EX2|FSETP)\b", "\n".join(round)))

        return counted

    # Four warps share the tile's rows, each of which may be spread over a warp, but not over several.
    ELEMENTS = interpret_exponentials.ROWS * interpret_exponentials.COLUMNS // 128
    PER_ROW = interpret_exponentials.ROWS

    @pytest.mark.parametrize("name", ("online", "known"))
    def test_one_fma_and_one_power_for_each_element(self, name, instructions):
        counts = instructions(name)
        assert self.ELEMENTS <= counts["FFMA"] <= self.ELEMENTS + self.PER_ROW
        assert self.ELEMENTS <= counts["MUFU.EX2"] <= self.ELEMENTS + self.PER_ROW
        assert counts["FMUL"] <= 2 * self.PER_ROW and not counts["FSETP"]

    def test_what_it_spares(self, instructions, monkeypatch):
        others = tuple(each for each in passes.GPU if each.name != "exponentials")
        monkeypatch.setattr(passes, "GPU", others)
        counts = instructions("online")
        assert min(counts["FMUL"], counts["FSETP"]) >= self.ELEMENTS


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="needs Triton")
def test_interpreted(tmp_path):
    interpreting.run_module(tmp_path, "tests.ninetoothed.passes.interpret_exponentials")
