"""The sweep of attention with the GPU replaced: what it compares, prints, writes and draws."""

import json

import pytest
import torch

from benchmarks import attention, kernels, measure

pytest.importorskip("matplotlib")
pytest.importorskip("tqdm")
SHAPES = ((1, 2, 2, 19, 16, False), (2, 4, 2, 24, 16, True))


@pytest.fixture
def pretend(monkeypatch):
    """A GPU that is the CPU, on which PyTorch has one of the two, and each takes as many milliseconds as letters."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "Pretend GPU-1")
    monkeypatch.setattr(measure, "device_times", timed)


def timed(calls, **_):
    for call in calls.values():
        call()
        call()
    return {name: float(len(name)) for name in calls}


def test_table_json_and_picture(pretend, tmp_path, capsys):
    assert attention.main(torch.float32, str(tmp_path / "run"), SHAPES, "cpu") == 0
    printed = capsys.readouterr().out
    assert "| sdpa backward | (2, 4/2, 24, 16) causal |" in printed and "2.200" in printed  # 11 letters over 5
    found = json.loads((tmp_path / "run.json").read_text())["results"]["kernels"]
    assert [(each["op"], each["case"]) for each in found][:2] == [
        ("sdpa", "(1, 2/2, 19, 16)"),
        ("sdpa backward", "(1, 2/2, 19, 16)"),
    ]
    for each in found:
        assert each["milliseconds"] == {"ninetoothed": 11.0, "flash": 5.0}
        assert each["errors"]["cudnn"].startswith("RuntimeError: ")
        assert max(each["errors"]["ninetoothed"], each["errors"]["flash"]) < 1e-5
    # Two products of 2 heads forward, five backward.
    assert found[0]["TFLOP/s"] == pytest.approx(2 * 2 * 2 * 19 * 19 * 16 / 11e-3 / 1e12)
    assert found[1]["TFLOP/s"] == pytest.approx(5 * 2 * 2 * 19 * 19 * 16 / 11e-3 / 1e12)


def test_long_ones_are_timed_alone(pretend, monkeypatch):
    monkeypatch.setattr(attention, "LONGEST_COMPARED", 20)
    first, second = (attention.compare(shape, torch.float32, "cpu")[0] for shape in SHAPES)
    assert "ninetoothed" in first["errors"] and "ninetoothed" not in second["errors"]


def test_a_defect_of_ours_is_told(pretend, monkeypatch, tmp_path):
    def broken(*args, **kwargs):
        raise RuntimeError("no such kernel\nlong story")

    found = attention.functions()
    monkeypatch.setattr(attention, "functions", lambda: {**found, "ninetoothed": broken})
    assert attention.main(torch.float32, str(tmp_path / "run"), SHAPES[:1], "cpu") == 1
    (result, _) = json.loads((tmp_path / "run.json").read_text())["results"]["kernels"]
    assert result["errors"]["ninetoothed"] == "RuntimeError: no such kernel"


def test_it_is_an_option_of_kernels(pretend, monkeypatch):
    asked = []
    monkeypatch.setattr(attention, "main", lambda *options: asked.append(options) or 0)
    assert kernels.main(["--attention", "--dtype", "bfloat16", "--output", "run"]) == 0
    assert asked == [(torch.bfloat16, "run")]
