"""`kernel.explain` and `NINETOOTHED_DUMP=passes`: how a call is compiled, as a text."""

import pathlib
import re
from dataclasses import replace

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, block_size, explain, ir
from ninetoothed.dtypes import float32
from ninetoothed.expr import Facts
from ninetoothed.passes import PassReport, report
from ninetoothed.runtime import dispatch
from ninetoothed_ops.kernels import mm, sdpa, softmax
from tests.ninetoothed_ops.kernels import calls

TITLES = ["specialisation", "schedule", "passes", "program", "source"]


def half(*shape):
    return torch.empty(shape, dtype=torch.float16)


def sections(text):
    """The head of an explanation, and its sections by title."""
    head, *parts = re.split(r"\n\n(?=[a-z]+\n)", text)
    return head, {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def test_what_is_explained():
    call = half(1024, 512), half(512, 1024), half(1024, 1024)
    text = mm.make().explain(*call, gpu="h100", passes=True)
    head, found = sections(text)
    assert isinstance(text, str) and repr(text) == text
    assert head.startswith("kernel mm for H100") and list(found) == TITLES
    assert "input: a tensor of float16" in found["specialisation"]
    assert "equal: other_size_0 = input_size_1" in found["specialisation"]
    assert "BLOCK_SIZE_M=" in found["schedule"] and "ninetoothed_" not in text.replace("ninetoothed/", "")
    assert "matrix product, in tiles of" in found["schedule"] and "The formula for the H100" in found["schedule"]
    assert re.search(r"overhang +applied: \d lines? added", found["passes"])
    assert "not applied" not in found["passes"] and "- " in found["passes"]
    assert "dot(input_1, other_1)" in found["program"]
    path = pathlib.Path(re.search(r"source is in (.+)\n", found["source"])[1])
    source = mm.make().source(*call, gpu="h100")
    assert path.read_text() == source.text and source.startswith("# BLOCK_SIZE_M=")


def test_a_change_of_many_lines_is_left_out(monkeypatch):
    monkeypatch.setattr(explain, "_LONGEST_CHANGE", 30)
    text = mm.make().explain(half(4104, 4096), half(4096, 4104), half(4104, 4104), gpu="h200", passes=True)
    assert re.search(
        r"\n    == remainder_subtile: applied.+ ==\n\n    \(\d+ lines; NINETOOTHED_DUMP=passes prints", text
    )
    assert len(text.splitlines()) < 200


def test_the_work_of_other_arrangements():
    _, found = sections(softmax.make(2).explain(torch.empty(100, 300), torch.empty(100, 300), gpu="a100", passes=True))
    assert "element by element, or a row at a time" in found["schedule"] and "only this one" in found["schedule"]
    assert "at most: input_size_1 <= 512" in found["specialisation"]
    q = half(1, 2, 128, 64)
    _, found = sections(sdpa.make().explain(q, q, q, half(1, 2, 128, 128), 0.1, q, 1, True, gpu="h200", passes=True))
    assert "an attention" in found["schedule"]


def test_constants_and_arguments_that_are_never_touched():
    def application(x, unused, flag, y):
        y = x + ntl.sum(unused) if flag else x

    tensors = (Tensor(1), Tensor(1), Tensor(0, constexpr=True), Tensor(1))
    kernel = ninetoothed.make(lambda *given: tuple(t.tile((8,)) if t.ndim else t for t in given), application, tensors)
    text = kernel.explain(torch.empty(8), torch.empty(3, 3), False, torch.empty(8), passes=True)
    assert "unused: never touched" in text and "flag: the constant False" in text


def test_a_schedule_that_was_measured():
    size = block_size()
    kernel = ninetoothed.make(lambda x, y: (x.tile((size,)), y.tile((size,))), copy, (Tensor(1), Tensor(1)))
    launcher, call = dispatch.launcher_of(kernel), (torch.empty(1000), torch.empty(1000))
    selection = launcher.trace(call, {}, ninetoothed.runtime.selection.machine.H200).selection
    selection.choices.settle(selection.schedule)
    assert "Measuring chose it among" in kernel.explain(*call, gpu="h200", passes=True)


def test_a_short_explanation():
    text = mm.make().explain(half(4096, 4096), half(4096, 4096), half(4096, 4096), gpu="h200")
    lines = text.splitlines()
    assert lines[0].startswith("kernel mm for H200") and lines[2].split() == [
        "configuration",
        "estimate",
        "bound",
        "by",
        "loses",
    ]
    assert [line.split()[0] for line in lines[3:6]] == ["chosen", "next", "next"]
    assert "BLOCK_SIZE_M=" in lines[3] and re.search(r"\d us", lines[3]) and " %" in lines[4]
    assert "multiplications" in lines[3] and "why: the formula" in text and "compiled: not yet" in text
    assert len(lines) < 20
    odd = softmax.make(2).explain(torch.empty(100, 300), torch.empty(100, 300), gpu="a100")
    assert "guard of input: " in odd and re.search(r"chosen .* 3.\d+ us  +launch ", odd)
    assert "the only one that fits" in odd and "estimates: " not in odd + text


def test_attention_is_estimated_and_says_who_ranks_it():
    q = torch.empty(4, 48, 1024, 64, dtype=torch.float16)
    mask = torch.empty((), dtype=torch.float16).expand(4, 48, 1024, 1024)
    text = sdpa.make().explain(q, q, q, mask, 0.1, q, sdpa.NO_MASK, False, gpu="h200")
    rows = [line for line in text.splitlines() if line.startswith(("chosen", "next"))]
    assert len(rows) == 3 and all(re.search(r" \d+(\.\d)? us +[a-z]+", row) for row in rows)
    assert rows[0].endswith("-") and all(row.endswith(" %") for row in rows[1:])
    assert "the rules for attention, timed on an H200, rank it first of" in text
    assert "estimates: counted from each program" in text


def copy(x, y):
    y = x


def test_mistakes_are_those_of_a_call():
    kernel = ninetoothed.make(lambda x, y: (x.tile((8,)), y.tile((8,))), copy, (Tensor(1), Tensor(1)))
    with pytest.raises(ninetoothed.ArgumentTypeError, match="takes 2 arguments"):
        kernel.explain(torch.empty(3))
    with pytest.raises(ninetoothed.ArgumentError, match="GPU called 'h20'"):
        kernel.explain(torch.empty(3), torch.empty(3), gpu="h20")


@pytest.mark.parametrize("asked", ("", "passes", "other,passes"))
def test_programs_are_dumped_where_that_is_asked_for(asked, capsys, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_DUMP", asked)
    kernel = ninetoothed.make(lambda x, y: (x.tile((8,)), y.tile((8,))), copy, (Tensor(1), Tensor(1)))
    x, y = torch.arange(10.0), torch.zeros(10)
    for _ in range(2):
        kernel(x, y)
    printed = capsys.readouterr()
    assert torch.equal(x, y) and not printed.out
    assert printed.err.count("# kernel copy: the passes for every backend") == bool(asked)
    assert printed.err.count("program copy(") == bool(asked)
    kernel.source(x, y, gpu="h100")
    printed = capsys.readouterr().err
    assert printed.count("the passes for H100") == bool(asked) and ("collapse_dimensions" in printed) == bool(asked)


def test_a_variant_that_is_remembered_keeps_no_body_of_its_program():
    kernel = ninetoothed.make(lambda x, y: (x.tile((8,)), y.tile((8,))), copy, (Tensor(1), Tensor(1)))
    kernel(torch.empty(10), torch.empty(10))
    (variant,) = dispatch.launcher_of(kernel).variants
    assert variant.program.body == () and variant.reports == ()


def test_values_that_passes_keep_keep_their_names():
    x, w, v = (ir.Value(ir.TileType(float32), name) for name in ("x", None, None))
    load, exp = ir.ScalarArgument(x, "a"), ir.Apply((v,), "exp", (x,))
    before = ir.Program("f", (ir.Parameter("a", "scalar", float32),), (), (), (load, exp), Facts())
    after = replace(before, body=(load, ir.Apply((w,), "neg", (x,)), replace(exp, operands=(w,))))
    first, second = report.texts([PassReport("frontend", True, before), PassReport("negation", True, after)])
    assert first[-2:] == ["    x: f32 = argument a", "    v: f32 = exp(x)"]
    assert second[-3:] == ["    x: f32 = argument a", "    v_1: f32 = neg(x)", "    v: f32 = exp(v_1)"]


def test_a_report_shows_the_shorter_of_difference_and_program():
    values = {name: ir.Value(ir.TileType(float32), name) for name in "abcdefghij"}

    def program(names):
        return ir.Program("f", (), (), (), tuple(ir.ScalarArgument(values[name], name) for name in names), Facts())

    before, small, other = map(program, ("abcdefg", "abcdefh", "ij"))
    reports = (PassReport("traced", True, before), PassReport("small", True, small), PassReport("none", False, small))
    text = report.show((*reports, PassReport("all", True, other), PassReport("same", True, other)))
    assert "small                 applied: 1 line added, 1 removed\nnone                  not applied\n" in text
    assert "-    g: f32 = argument g\n+    h: f32 = argument h\n" in text
    assert "== all: applied: 2 lines added, 7 removed ==\n\nprogram f(" in text and "argument i\n" in text
    assert "== none" not in text and "== same" not in text


# The passes that share out tiles, by what a schedule says of them.
SHARING = {
    "coarsening": ("coarsening",),
    "programs": ("persistent",),
    "split_k": ("split_k",),
    "tiles_per_wave": ("stream_k", "remainder_subtile"),
    "subtile_stages": ("remainder_subtile",),
}


def check_the_schedule_told(source, explanation):
    """A head that said `coarsening=16` stood over passes of which `coarsening` was not applied.

    `test_dead_lines` asks it of all kernels, whose texts it has.
    """
    head, (_, found) = source.partition("\n")[0], sections(explanation)
    assert head.startswith(f"# {found['schedule'].strip().splitlines()[0]} for "), head
    applied = set(re.findall(r"^ +(\w+) +applied", found["passes"], re.MULTILINE))
    for option, passes in SHARING.items():
        assert (f" {option}=" in head) == bool(applied.intersection(passes)), (head, option, applied)


def test_a_schedule_that_is_told_and_not_applied_is_seen():
    kernel, arguments = calls.large("mm")
    source, explanation = kernel.source(*arguments, gpu="h200"), kernel.explain(*arguments, gpu="h200", passes=True)
    check_the_schedule_told(source, explanation)
    for wrong in (explanation.replace("persistent", "perpetual"), explanation.replace("BLOCK_SIZE_M=", "B=")):
        assert wrong != explanation
        with pytest.raises(AssertionError):
            check_the_schedule_told(source, wrong)
