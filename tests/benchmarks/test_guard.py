"""The guard finds a change in a text, a pick, an error and a count, and records the same twice."""

import dataclasses
import gzip
import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch

import ninetoothed
from benchmarks.guard import __main__ as guard, applies, census, corpus, questions, recorder, trees, watch
from benchmarks.guard.compare import compare, show
from ninetoothed import Tensor
from ninetoothed.errors import ApplicationError
from ninetoothed.runtime import executable
from tests.ninetoothed.applications import application_of

ROOT = pathlib.Path(__file__).resolve().parents[2]


def calls(quick):
    """Two calls of one kernel, and one that is refused."""

    def arrangement(x, y):
        return x.tile((64,)), y.tile((64,))

    kernel = ninetoothed.make(arrangement, application_of("y = x + 1"), (Tensor(1), Tensor(1)))
    for size in (100, 128):
        yield corpus.Call(f"calls: {size}", kernel, (torch.ones(size), torch.zeros(size)), group="calls", is_run=True)
    yield corpus.Call("calls: wrong", kernel, (torch.ones(3), torch.zeros(4)))


@pytest.fixture
def record(monkeypatch):
    monkeypatch.setattr(recorder, "PARTS", (calls,))
    return lambda: recorder.Recorder(quick=True).run()


@pytest.fixture
def lowered_otherwise(monkeypatch):
    """Let programs be lowered as a function of what they are lowered to says."""
    lowered = executable.lowered

    def change(function):
        monkeypatch.setattr(executable, "lowered", lambda variant: function(lowered(variant)))

    return change


def told(old, new):
    return "\n".join(show(compare(old, new)))


def test_a_record_is_that_of_another_run(record):
    old, new = record(), record()
    assert compare(old, new).is_same and not old["unasked"]
    assert told(old, new) == "3 programs, 3 identical, 0 differ"
    assert old["variants"] == {"calls": {"A100": 2, "H100": 2, "cpu": 2}}
    assert "SizeError" in old["programs"]["calls: wrong"]["H100"]["error"]


def test_a_planted_change_of_a_text(record, lowered_otherwise):
    def planted(lowered):
        text = lowered.emitted.source.replace(" + 1", " + 2")
        return dataclasses.replace(lowered, emitted=dataclasses.replace(lowered.emitted, source=text))

    old = record()
    lowered_otherwise(planted)
    found = told(old, record())
    assert "1 identical, 2 differ" in found and "text: 2 programs, 1 distinct change" in found
    assert "calls: 100 [A100, H100]; calls: 128 [A100, H100]" in found and "picks" not in found
    assert any(line.strip().startswith("+") and "+ 2" in line for line in found.splitlines())


def test_a_planted_change_of_a_pick(record, lowered_otherwise):
    def planted(lowered):
        return dataclasses.replace(lowered, schedule=dataclasses.replace(lowered.schedule, num_warps=16))

    old = record()
    lowered_otherwise(planted)
    found = told(old, record())
    assert "picks: 2 programs" in found and "+num_warps: 16" in found and "text:" not in found


def test_a_planted_error(record, lowered_otherwise):
    def planted(lowered):
        raise ApplicationError("not any more")

    old = record()
    lowered_otherwise(planted)
    with pytest.MonkeyPatch.context() as patch:  # The probe would take this for an older tree.
        patch.setattr(recorder.Recorder, "probe", lambda self: None)
        found = told(old, record())
    assert "error: 2 programs" in found and "-(none)" in found and "+ApplicationError: not any more" in found
    assert "text:" not in found


def test_a_planted_variant_and_what_one_has_alone(record):
    old, new = record(), record()
    new["variants"]["calls"]["cpu"] = 3
    del new["programs"]["calls: wrong"]
    found = told(old, new)
    assert "variants: 1 programs" in found and "-2" in found and "+3" in found
    assert "only OLD has 1: calls: wrong" in found


def test_an_older_tree_is_asked_by_its_public_functions(record, monkeypatch):
    def lacking(*args):
        raise AttributeError("no such function")

    old = record()
    monkeypatch.setattr(questions, "ask", lacking)
    new = record()
    assert "AttributeError" in new["unasked"]["launch, variants"]
    found = told(old, new)
    assert found.startswith("3 programs, 3 identical, 0 differ\nnot compared: launch, variants (AttributeError")
    assert new["programs"]["calls: 100"]["H100"].keys() == {"text", "picks"}


def test_records_do_not_depend_on_hashes_and_order(tmp_path):
    """Two processes with other hashes, the second of which takes the programs in another order."""
    processes = []
    for seed, more in (("1", []), ("2", ["--reverse"])):
        path = tmp_path / seed
        parts = ["--part=races", "--part=fusions", "--part=mistakes", "--quick", *more]
        command = [sys.executable, "-m", "benchmarks.guard.recorder", str(path), *parts]
        processes.append((path, subprocess.Popen(command, cwd=ROOT, env={**os.environ, "PYTHONHASHSEED": seed})))
    first, second = ((process.wait(), json.loads(gzip.decompress(path.read_bytes()))) for path, process in processes)
    assert first[0] == second[0] == 0 and first[1]["programs"] and not first[1]["unasked"]
    assert told(first[1], second[1]).endswith("identical, 0 differ")


def test_what_applies_is_counted(monkeypatch):
    """A shared factor of `exp` becomes one of `exp2`; a parameter of no branch that is left is exempted."""

    def programs(quick):
        x, y = torch.ones(100), torch.ones(100)
        cut = lambda *tensors: tuple(tensor.tile((64,)) if tensor.ndim else tensor for tensor in tensors)  # noqa: E731
        for name, body in (("plain", "y = x"), ("exp", "y = ntl.exp(x - ntl.max(x))")):
            kernel = ninetoothed.make(cut, application_of(body), (Tensor(1), Tensor(1)))
            yield corpus.Call(name, kernel, (x, y), is_run=True)
        application = application_of("if flag:\n    y = x * m\nelse:\n    y = x", "x", "m", "flag", "y")
        kernel = ninetoothed.make(cut, application, (Tensor(1), Tensor(1), Tensor(0, constexpr=True), Tensor(1)))
        yield corpus.Call("absent", kernel, (x, None, False, y))

    monkeypatch.setattr(recorder, "PARTS", (programs,))
    with pytest.MonkeyPatch.context() as patch:
        for each in (*watch.FALLBACKS, *watch.FORMULAS):  # which the census replaces for good
            patch.setattr(*watch.place_of(each), getattr(*watch.place_of(each)))
        record = recorder.Recorder(quick=True, census=census.Census()).run()
    assert not record["unasked"]
    found = applies.count(record)
    assert found["pass: exponentials (GPUs)"] == {"A100": ["exp"], "H100": ["exp"]}
    assert found["fallback: a parameter is exempted that is never touched"] == {"A100": ["absent"], "H100": ["absent"]}
    assert found["pass: split_k (GPUs)"] == {} and "pass: split_k (GPUs): never" in applies.rare(found)
    assert found["pass: overhang (every backend)"]["cpu"]
    assert ("pass: exponentials (GPUs)", 1, 1, 0, 0, 0, 1) in applies.rows(found)


def test_a_record_is_kept_by_what_it_is_made_from(tmp_path, monkeypatch):
    for name in trees.PACKAGES:
        (tmp_path / name).mkdir()
    (tmp_path / "ninetoothed" / "a.py").write_text("1")
    before = trees.fingerprint(tmp_path, ())
    assert before == trees.fingerprint(tmp_path, ()) != trees.fingerprint(tmp_path, ("--quick",))
    (tmp_path / "ninetoothed" / "a.py").write_text("2")
    assert trees.fingerprint(tmp_path, ()) != before


def test_a_commit_that_is_not_there(capsys):
    assert guard.main(["no-such-commit"]) == 2
    assert "git knows no commit" in capsys.readouterr().err
