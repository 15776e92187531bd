"""`exp` as a power of two: how that reads, when it is done, that it is right, and how many instructions it takes."""

import collections
import re

import expecttest
import pytest
import torch

import ninetoothed
from ninetoothed import Tensor, passes
from ninetoothed.runtime.selection import machine
from tests.machine_code.sass import disassembled
from tests.ninetoothed.applications import application_of
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
        weights = tl.exp2(tl.fma(input, scale_log2e, -(new_peak * scale_log2e)[:, None]))
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
        new_peak = tl.maximum(peak, tl.max(scores, axis=1))
        new_peak_log2e = new_peak * 1.4426950408889634
            total * tl.exp2((peak - new_peak) * 1.4426950408889634)
            + tl.sum(tl.exp2(tl.fma(scale_log2e, input, -new_peak_log2e[:, None])), axis=1)
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
        total = total + tl.sum(tl.exp2(tl.fma(input, scale_log2e, -other_log2e[:, None])), axis=1)
""",
        )

    def test_carried_by_the_loop(self):
        self.assertExpectedInline(
            powers("carried"),
            """\
    scale_log2e = scale * 1.4426950408889634
    for j in range(tl.cdiv(input_size_1, 256)):
        peak_log2e = other * 1.4426950408889634
        total = total + tl.sum(tl.exp2(tl.fma(input, scale_log2e, -peak_log2e[:, None])), axis=1)
""",
        )


def written(exponent, dtype=torch.float32, function="exp"):
    """What an exponential becomes, of a tile x, a number c, a tile y and a row of it."""

    def arrangement(x, c, y, row, output):
        return x.tile((16, 64)), c, y.tile((16, 64)), row.tile((16,)).unsqueeze(1), output.tile((16, 64))

    application = application_of(f"output = ntl.{function}({exponent})", "x", "c", "y", "row", "output")
    kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(0), Tensor(2), Tensor(1), Tensor(2)))
    x, row = torch.empty(64, 64, dtype=dtype), torch.empty(64, dtype=dtype)
    text = kernel.source(x, 0.5, x, row, x, gpu=machine.H200).text
    (found,) = re.findall(r"(tl\.exp.*?)(?:\.to\(tl\.\w+\)\)|, mask.*)?$", text, re.MULTILINE)
    return found


@pytest.mark.parametrize(
    "exponent, expected",
    (
        # Products.
        ("x * c", "tl.exp2(x * c_log2e)"),
        ("c * x", "tl.exp2(c_log2e * x)"),
        ("-x * 0.5", "tl.exp2(-x * 0.7213475204444817)"),
        # Products less what is smaller.
        ("c * x - row[:, None]", "tl.exp2(tl.fma(c_log2e, x, -row_log2e[:, None]))"),
        ("x * 0.5 - c", "tl.exp2(tl.fma(x, tl.full((), 0.7213475204444817, tl.float32), -c_log2e))"),
        ("x * c - (row * c)[:, None]", "tl.exp2(tl.fma(x, c_log2e, -(row * c_log2e)[:, None]))"),
        # Products less what is as large.
        ("x * c - y", f"tl.exp2((x * c - y) * {LOG2_E})"),
        ("x * c - y * 0.5", f"tl.exp2(tl.fma(x, c, -(y * 0.5)) * {LOG2_E})"),
        ("x * c - y * c", "tl.exp2((x - y) * c_log2e)"),
        # Masks of the lowest number, which has no multiple.
        ("x * c + y - row[:, None]", f"tl.exp2((x * c + y - row[:, None]) * {LOG2_E})"),
        (f"ntl.where(y > 0.0, x, {LOWEST}) * c - row[:, None]", f" * c - row[:, None]) * {LOG2_E})"),
        ("ntl.where(y > 0.0, x, float('-inf')) * c - row[:, None]", ", c_log2e, -row_log2e[:, None]))"),
        # No others.
        *((each, f"tl.exp({each})") for each in ("x * 1.0", "x * y", "x * row[:, None]", "x * c + y", "x", "c * 0.5")),
    ),
)
def test_which_exponents(exponent, expected):
    assert written(exponent).endswith(expected)


def test_not_what_is_infinite_nor_the_users_own_nor_of_float64():
    assert written(f"(1.0 - x) * {LOWEST}").startswith("tl.exp(")
    assert written("x * c", function="exp2") == "tl.exp2(x * c)"
    assert written("x * c - (row * c)[:, None]", torch.float64) == "tl.exp(tl.fma(x, c, -(row * c)[:, None]))"


class TestCompiled:
    """Instructions of a round, for an H200 that need not be there."""

    @pytest.fixture
    def instructions(self, monkeypatch):
        pytest.importorskip("triton")
        from tests.ninetoothed_ops.kernels.test_hopper import bodies, compiled

        def counted(name):
            kernel = interpret_exponentials.make(getattr(interpret_exponentials, name))
            compiled_kernel = compiled(kernel, arguments(), monkeypatch, num_warps=4)
            (round, *_) = bodies(disassembled(compiled_kernel))
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
