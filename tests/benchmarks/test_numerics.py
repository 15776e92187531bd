"""The numerics card: operators are as exact as PyTorch's, rows have their bits in any batch; what is not so shows."""

import dataclasses
import json

import pytest

pytest.importorskip("tqdm")

from benchmarks import cards, numerics
from benchmarks.report import RESULTS
from ninetoothed import UnsupportedError

# Of operators that are quick to trace, a half too.
HALVES = ("mm", "rope", "softmax", "add_rms_norm")


@pytest.mark.parametrize(
    "name, dtype", (*((name, "float32") for name in cards.CARDS), *((name, "bfloat16") for name in HALVES))
)
def test_errors_are_within_bounds(name, dtype):
    """Few draws, of which the mean square is farther from that of many."""
    rows = list(numerics.compare(cards.CARDS[name], dtype, "cpu", draws=2))
    assert [row["of"] for row in rows][: len(cards.CARDS[name].outputs)] == list(cards.CARDS[name].outputs)
    for row in rows:
        assert row["ours"] is not None and row["ours"] <= max(1.25 * row["PyTorch"], 0.5), row


@pytest.mark.parametrize("dtype", numerics.TYPES)
@pytest.mark.parametrize("name", ("add", "rms_norm", "rope", "silu", "softmax"))
def test_a_row_has_its_bits_in_any_batch(name, dtype, device):
    assert list(numerics.batches_that_differ(cards.CARDS[name], dtype, device)) == []


def run(monkeypatch, tmp_path, **changes):
    """The exit status and the results for `mm` with other functions."""
    monkeypatch.setitem(cards.CARDS, "mm", dataclasses.replace(cards.CARDS["mm"], **changes))
    output = tmp_path / "numerics.json"
    options = ("--op", "mm", "--dtype", "float32", "--draws", "2", "--device", "cpu", "--output", str(output))
    return numerics.main(options), json.loads(output.read_text())["results"]


def test_what_is_less_exact_fails(monkeypatch, tmp_path, capsys):
    status, found = run(monkeypatch, tmp_path, ours=lambda a, b: (a.bfloat16() @ b.bfloat16()).float())
    assert status == 1 and [row["within"] for row in found["errors"]] == [False] * 3
    assert "out of bounds: mm, result, float32; mm, gradient of input" in capsys.readouterr().out
    status, found = run(monkeypatch, tmp_path, ours=lambda a, b: a @ b * float("nan"))
    assert status == 1 and not any(row["within"] for row in found["errors"])


def test_a_gradient_that_is_missing_fails(monkeypatch, tmp_path, capsys):
    def without_gradient(a, b):
        if a.requires_grad:
            raise UnsupportedError("mm has no backward yet")
        return a @ b

    status, found = run(monkeypatch, tmp_path, ours=without_gradient)
    assert status == 1 and [row["within"] for row in found["errors"]] == [True, False, False]
    assert capsys.readouterr().out.count("no gradient yet") == 2


def test_bits_that_differ_fail(monkeypatch, tmp_path, capsys):
    def by_batch(a, b):
        return a @ b + len(a) * 1e-6

    rows = cards.CARDS["silu"].rows
    status, found = run(
        monkeypatch,
        tmp_path,
        ours=by_batch,
        peer=by_batch,
        rows=lambda r, count, n: {**rows(r, count, n), "b": r(n, n)},
    )
    assert status == 1 and len(found["bits"][0]["differ"]) == 12
    assert "out of bounds: mm, bits" in capsys.readouterr().out


def test_parts_are_merged(monkeypatch, tmp_path, capsys):
    for name in ("silu", "add"):
        options = ("--op", name, "--dtype", "float32", "--draws", "1", "--device", "cpu")
        assert numerics.main((*options, "--output", str(tmp_path / f"{name}.json"))) == 0
    parts = [str(tmp_path / f"{name}.json") for name in ("silu", "add")]
    assert numerics.main(("--merge", *parts, "--output", str(tmp_path / "all.json"))) == 0
    record = json.loads((tmp_path / "all.json").read_text())
    assert list(dict.fromkeys(row["op"] for row in record["results"]["errors"])) == ["add", "silu"]
    numerics.write_card([record], tmp_path / "card.md")
    assert "\n## CPU\n" in (tmp_path / "card.md").read_text()


def test_the_card_is_that_of_the_committed_results(tmp_path):
    records = [json.loads(file.read_text()) for file in sorted(RESULTS.glob("numerics-*.json"))]
    numerics.write_card(records, tmp_path / "card.md")
    assert records and (tmp_path / "card.md").read_text() == numerics.CARD.read_text()
