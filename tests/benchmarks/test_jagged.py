"""The benchmark of sequences of unequal length with the GPU replaced: what it compares, prints and writes."""

import json

import pytest
import torch

from benchmarks import jagged, measure

LENGTHS = {"equal": (7, 7), "uneven": (9, 1, 20)}


@pytest.fixture
def pretend(monkeypatch):
    """A GPU that is the CPU, on which each peer takes as many milliseconds as it has letters."""
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Pretend GPU-1")
    for clock in ("device_times", "host_times"):
        monkeypatch.setattr(measure, clock, timed)


def timed(calls, *_, **__):
    for call in calls.values():
        call()
        call()
    return {name: float(len(name)) for name in calls}


def test_table_and_json(pretend, tmp_path, capsys):
    given = ["--dtype", "float32", "--depth", "16", "--output", str(tmp_path / "run.json")]
    assert jagged.main(given, LENGTHS, "cpu") == 0
    printed = capsys.readouterr().out
    assert "| sdpa backward | uneven causal, depth 16 |" in printed
    found = json.loads((tmp_path / "run.json").read_text())["results"]["kernels"]
    assert [each["op"] for each in found] == ["sdpa", "sdpa backward"] * 2
    for each, dense in zip(found, (True, True, False, False)):
        times, errors = each["milliseconds"], each["errors"]
        assert times["ninetoothed"] == 11.0 and ("ninetoothed, dense" in times) == dense
        assert each["host microseconds"].keys() == times.keys()
        assert "varlen_attn" in errors and "varlen_attn" not in times  # There is none of the CPU.
        assert max(errors[peer] for peer in times) < 1e-5
    assert jagged.row(found[0])[7] == "0.611"  # 11 letters over 18
    operations = 4 * 16 * 16 * (9 * 10 // 2 + 1 + 20 * 21 // 2)
    assert found[2]["TFLOP/s"] == pytest.approx(operations / 11e-3 / 1e12)
    assert found[3]["TFLOP/s"] == pytest.approx(2.5 * found[2]["TFLOP/s"])


def test_a_defect_of_ours_is_told(pretend, monkeypatch, tmp_path):
    def broken():
        raise RuntimeError("no such kernel\nlong story")

    functions = jagged.functions
    monkeypatch.setattr(jagged, "functions", lambda given: {**functions(given), "ninetoothed": broken})
    given = ["--dtype", "float32", "--depth", "16", "--output", str(tmp_path / "run.json")]
    assert jagged.main(given, {"equal": (7, 7)}, "cpu") == 1
