"""The training of the benchmark, small: both models learn, and their gradients are compared with those of float64."""

import json

import pytest
import torch

from benchmarks import memory_curve, training
from benchmarks.end_to_end import llama

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
    assert path.with_suffix(".png").stat().st_size > 10_000
    assert {"eager": False, "ours, eager": True} == {
        name: any("ninetoothed::linear" in kernel["name"] for kernel in row["kernels"]) for name, row in rows.items()
    }
    for row in rows.values():
        assert row["losses"][1] < row["losses"][0] and row["tokens/s"] > 0 and row["device ms"] > 0
        # In the middle of a step more is held than weights, gradients and the optimiser's state, at the end no more.
        (first, start), *_, (last, end) = row["memory"]
        assert (
            first < last and max(size for _, size in row["memory"]) > 1.2 * end and end == pytest.approx(start, rel=0.1)
        )
    # Losses that differ are told by the exit status.
    monkeypatch.setattr(training, "LOSS", 0.0)
    monkeypatch.setattr(training, "LOSS_NEAR_ZERO", 0.0)
    assert training.main([*given, "--variant", *names]) == 1


def test_a_variant_that_raises_is_told_and_the_next_one_begins(monkeypatch, tmp_path, capsys):
    def attempt(name, options, ids):
        from transformers.models.llama import modeling_llama

        assert modeling_llama.LlamaMLP is not None
        modeling_llama.LlamaMLP = None
        if name == "eager":
            raise MemoryError("too large")
        return {"error": "also"}

    monkeypatch.setattr(training, "measured", attempt)
    monkeypatch.setattr(training, "check", lambda *_: {"eager": (0.0, 0.0), "ours, eager": (0.0, 0.0)})
    path = tmp_path / "training.json"
    given = ["--size", "tiny", "--device", "cpu", "--batch", "1", "--length", "4", "--output", str(path), "--variant"]
    assert training.main([*given, "eager", "compiled"]) == 1
    rows = json.loads(path.read_text())["results"]["rows"]
    assert rows == {"eager": {"error": "MemoryError: too large"}, "compiled": {"error": "also"}}
    assert training.main([*given, "eager", "--seconds", "0"]) == 3
    assert json.loads(path.read_text())["results"]["rows"] == rows


def test_a_curve_keeps_the_highest_point_of_each_span():
    seen = [(time, time % 7) for time in range(10_000)]
    points = memory_curve.thinned([(time, size * 2**30) for time, size in seen])
    times = [time for time, _ in points]
    assert len(points) == memory_curve.POINTS and times == sorted(times) and 0 < times[0] < 0.025
    assert {size for _, size in points} == {6.0, float(9_999 % 7)} and times[-1] == 9.999
    assert memory_curve.thinned([]) == []


def test_a_tied_model_has_one_weight_for_embedding_and_head():
    assert llama.SIZES["1b-tied"]["tie_word_embeddings"] and "tie_word_embeddings" not in llama.SIZES["1b"]
    for is_tied in (False, True):
        model = llama.build("tiny", torch.device("cpu"), torch.bfloat16, tie_word_embeddings=is_tied)
        assert (model.lm_head.weight is model.model.embed_tokens.weight) == is_tied
        assert model.lm_head.weight.float().std().item() == pytest.approx(0.02, rel=0.1)
