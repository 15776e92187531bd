"""The training of the benchmark, small: both models learn, and their gradients are compared with those of float64."""

import json

import pytest

from benchmarks import training

pytest.importorskip("transformers")


def test_two_variants_train_alike(monkeypatch, tmp_path, capsys):
    monkeypatch.setattr(training, "WARM_UP", 2)
    monkeypatch.setattr(training, "STEPS", 4)
    path = tmp_path / "training.json"
    names = ["eager", "ours, eager"]
    given = ["--size", "tiny", "--device", "cpu", "--batch", "2", "--length", "7", "--output", str(path)]
    assert training.main([*given, "--variant", *names]) == 0
    rows = json.loads(path.read_text())["results"]["rows"]
    assert list(rows) == names and "One step, ours, eager" in capsys.readouterr().out
    assert {"eager": False, "ours, eager": True} == {
        name: any("ninetoothed::linear" in kernel["name"] for kernel in row["kernels"]) for name, row in rows.items()
    }
    for row in rows.values():
        assert row["losses"][1] < row["losses"][0] and row["tokens/s"] > 0 and row["device ms"] > 0
    # Losses that differ are told by the exit status.
    monkeypatch.setattr(training, "LOSS", 0.0)
    assert training.main([*given, "--variant", *names]) == 1
