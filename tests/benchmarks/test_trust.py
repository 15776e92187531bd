"""The random cases of `benchmarks.trust`: the first seeds of each part hold, and whatever goes wrong is recorded."""

import json
import sys
import types

import numpy as np
import pytest
import torch

pytest.importorskip("tqdm")

from benchmarks.trust import __main__ as trust, cache, misuse, record, semantics, worker
from benchmarks.trust.parts import PARTS, Case, Part
from ninetoothed import ApplicationError, ArrangementError
from tests import forked
from tests.ninetoothed.backends import interpreting

HERE = [part for part in PARTS if part.needs != "cuda" or torch.cuda.is_available()]


@pytest.mark.parametrize("part", HERE, ids=lambda part: part.name)
def test_first_seed(part, tmp_path, monkeypatch):
    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(cache, "FIRST_CROWD", (2, 2, 1))
    monkeypatch.setattr(cache, "DAMAGES", 3)
    monkeypatch.setattr(cache, "STRIDE", 128)
    if "TRITON_INTERPRET" in part.environment:
        printed = interpreting.run_module(tmp_path, "benchmarks.trust.worker", part.name, "0", "0")
        result = json.loads(printed.splitlines()[-1])
    elif part.name == "errors" or (part.name == "cache" and torch.cuda.is_available()):
        # Mistakes are to leave the cache as it is, which a plugin that compiles in passing does not; and the processes
        # of the cache's cases are forked, and could not use a GPU that this one has used.
        done = forked.run_module("benchmarks.trust.worker", part.name, "0", "0", NINETOOTHED_CACHE_DIR=str(tmp_path))
        assert done.status == "0", done.stderr[-4000:]
        result = json.loads(done.stdout)
    else:
        result = worker.check(part.name, 0, set())
    assert result["cases"] > 0 and result["wrong"] == []


def test_what_is_wrong_is_recorded(monkeypatch):
    def cases(seed):
        yield Case("the same")
        yield Case(f"another {seed}", "2, not 3" if seed == 1 else "")
        if seed == 2:
            raise ArithmeticError("broken")

    monkeypatch.setitem(sys.modules, "benchmarks.trust.made_up", types.SimpleNamespace(cases=cases))
    seen = set()
    first, second, third = (worker.check("made_up", seed, seen) for seed in range(3))
    assert (first["cases"], second["cases"], third["cases"]) == (2, 1, 1) and not first["wrong"]
    assert second["wrong"] == [{"description": "another 1", "wrong": "2, not 3"}]
    assert "broken" in third["wrong"][0]["wrong"]


def test_a_run_goes_on_where_the_last_one_ended(tmp_path, capsys):
    output = tmp_path / "trust.json"
    command = ["--part", "arrangements", "--minutes", "0.001", "--output", str(output)]
    assert trust.main(command) == 0
    first = json.loads(output.read_text())
    assert trust.main(command) == 0
    second = json.loads(output.read_text())
    before, after = (each["parts"]["arrangements"] for each in (first, second))
    assert 0 < before["next"] < after["next"] and 0 < before["cases"] < after["cases"] == second["cases"]
    output.write_text(json.dumps({**second, "sources": "of another day"}))
    assert record.Record.load(output).cases == 0


def test_a_process_that_dies_is_recorded(tmp_path):
    made = record.Record(tmp_path / "trust.json", "", {})
    trust.run(Part("no_such_part"), made, 1, types.SimpleNamespace())
    (wrong,) = made.wrong
    assert wrong["seed"] == 0 and "status 1" in wrong["wrong"]
    assert trust.report(made, made.path) == 1


def test_one_seed_alone(capsys):
    assert trust.main(["--part", "arrangements", "--seed", "3"]) == 0
    assert "arrangements, seed 3: " in capsys.readouterr().out


@pytest.mark.parametrize(("size", "past", "is_open"), [(4, 0, False), (4, 3, True), (3, 0, True)])
def test_what_is_asked_of_extremes_of_nan_alone(size, past, is_open):
    values, over = np.full((1, size), np.nan), np.arange(size)[None] >= size - past
    tile = semantics.Tile(values, np.zeros((1, size)), over, (np.zeros(1, bool), over[0]), "float32")
    for function in (semantics.largest, semantics.smallest):
        assert np.isinf(function(tile, 1).error).all() == is_open


def test_canaries():
    from benchmarks.trust import gpu

    guards = gpu.Guards("cpu")
    x = torch.arange(12.0).reshape(3, 4).T[1:]

    def kernel(x, n):
        x += n

    guards.run(kernel, (x, 2))
    assert guards.touched() == "" and torch.equal(x, torch.arange(12.0).reshape(3, 4).T[1:] + 2)
    guards.run(lambda x: x.as_strided((1,), (1,), x.storage_offset() - 1).fill_(0), (x,))
    assert "beside tensor 0" in guards.touched()


@pytest.mark.parametrize(
    "error",
    [
        TypeError("a bare one; mend it"),
        ArrangementError("no line; mend it"),
        ApplicationError("another line; mend it", "elsewhere.py", 1),
        ApplicationError("without a remedy", "here.py", 1),
        ApplicationError("a tile has no attribute 'offset'; did you mean 'offset'?", "here.py", 1),
        ApplicationError("<object object at 0x7f> is no tile; give one", "here.py", 1),
    ],
)
def test_what_misuse_complains_of(error):
    def attempt():
        raise error

    assert misuse.told(attempt, "here.py")
    assert not misuse.told(lambda: None, "here.py")
