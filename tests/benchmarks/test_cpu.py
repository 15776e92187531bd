import json

import pytest
import torch

pytest.importorskip("tqdm")

from benchmarks import cpu, measure


def test_table_and_json(tmp_path, capsys):
    output = tmp_path / "cpu.json"
    assert cpu.main(["--op", "silu", "--op", "rope", "--rounds", "1", "--output", str(output)]) == 0
    printed = capsys.readouterr().out
    assert "| silu " in printed and "| 1x256x8x64 by 256x32 by 256x32 " in printed
    saved = json.loads(output.read_text())
    assert [result["op"] for result in saved["results"]] == ["silu", "rope"]
    assert all(result["error"] < 1e-6 for result in saved["results"])


@pytest.mark.parametrize("ours, status", ((10.0, 0), (10.1, 1), (float("nan"), 1)))
def test_check_holds_us_to_ten_times(ours, status, monkeypatch, capsys):
    monkeypatch.setattr(measure, "cpu_times", lambda calls, rounds: {"torch": [1.0], "ours": [ours]})
    assert cpu.main(["--op", "silu", "--check"]) == status
    assert f"{1 - status} of 1" in capsys.readouterr().out


def test_calls_take_turns():
    order = []
    samples = measure.cpu_times({"a": lambda: order.append("a"), "b": lambda: order.append("b")}, rounds=3, warmup=1)
    assert order == ["a", "b"] * 4 and set(samples) == {"a", "b"}
    assert all(len(times) == 3 and min(times) >= 0 for times in samples.values())


def test_ceilings_are_a_floor():
    from benchmarks import tasks

    ceilings = measure.Ceilings(bytes=100.0, operations=1000.0)
    assert tasks.Work(operations=0, bytes=50).floor(ceilings) == 0.5
    assert tasks.Work(operations=2000, bytes=50).floor(ceilings) == 2.0


def test_relative_error_sees_what_was_never_written():
    from benchmarks import tasks

    assert tasks.relative_error(torch.tensor([1.0, 2.0]), torch.tensor([1.0, 2.0], dtype=torch.double)) == 0
    assert not tasks.relative_error(torch.tensor([1.0, float("nan")]), torch.ones(2, dtype=torch.double)) < 1
