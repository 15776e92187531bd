import textwrap

import pytest

pytest.importorskip("radon")

from benchmarks import code, tasks

# Listing 3 of the paper, whose row of Table 2 it must reproduce.
ADD = """
import ninetoothed
from ninetoothed import Symbol, Tensor

BLOCK_SIZE = Symbol("BLOCK_SIZE", constexpr=True)


def arrangement(input, other, output, BLOCK_SIZE=BLOCK_SIZE):
    input_arranged = input.tile((BLOCK_SIZE,))
    other_arranged = other.tile((BLOCK_SIZE,))
    output_arranged = output.tile((BLOCK_SIZE,))

    return input_arranged, other_arranged, output_arranged


def application(input, other, output):
    output = input + other


tensors = tuple(Tensor(1) for _ in range(3))

kernel = ninetoothed.make(arrangement, application, tensors)
"""


def test_metrics_of_the_papers_listing_are_those_of_its_table():
    ours, paper = code.measure(ADD.lstrip()), code.PAPER["add"][1]
    assert (ours.lloc, ours.complexity, ours.vocabulary, ours.length) == (12, 2, 3, 3)
    assert ours.volume == pytest.approx(paper.volume, abs=0.01)
    assert ours.difficulty == paper.difficulty


def test_volume_agrees_with_every_printed_one():
    for pair in code.PAPER.values():
        for metrics in pair:
            assert code.volume(metrics) == pytest.approx(metrics.volume, abs=0.01)


def test_comments_and_docstrings_do_not_count_as_volume():
    source = "def f(a, b):\n    return a + b\n"
    documented = textwrap.dedent('''
        """A module."""


        def f(a, b):
            """A function, a + b."""
            return a + b  # a + b
    ''')
    assert code.measure(source).volume == code.measure(documented).volume > 0


def test_every_kernel_is_at_or_below_the_papers_ratio(capsys):
    assert code.main(["--check"]) == 0, capsys.readouterr().out
    printed = capsys.readouterr().out
    assert all(printed.count(f"| {name} ") == 4 for name in tasks.NAMES)


def test_check_fails_where_a_ratio_is_above(monkeypatch, capsys):
    triton, ours = code.PAPER["add"]
    monkeypatch.setattr(code, "PAPER", {**code.PAPER, "add": (triton, code.Metrics(*(0,) * 9))})
    assert code.main(["--op", "add", "--check"]) == 1
    assert "above: add" in capsys.readouterr().out
