"""The clock of the gallery on a CPU, pretended: a kernel that fails is recorded, and the rest goes on."""

import time
from types import SimpleNamespace

import torch

from benchmarks.gallery import __main__ as gallery


def example(name, ours, eager, theme="elementwise"):
    module = SimpleNamespace(timed=lambda device: ((torch.ones(3, device=device), 2), ours, eager))
    return SimpleNamespace(name=name, theme=theme, module=module, in_triton=None)


def broken(*_):
    raise ValueError("no such kernel\nand more")


def changed(x, number):
    return x.mul_(number)


def pretended(calls, **_):
    """A clock that calls each peer once."""
    assert all(isinstance(call(), torch.Tensor) for call in calls.values())
    return {peer: 1.0 + number for number, peer in enumerate(calls)}


CHOSEN = [
    example("wrong", broken, torch.mul),
    example("lonely", torch.mul, broken),
    example("off", lambda x, number: x * number * 1.5, torch.mul),
    example("drawn", lambda x, number: x * torch.rand(3), torch.mul, "random"),
    example("in_place", changed, changed),
]


def results(until=None):
    until = time.monotonic() + 60 if until is None else until
    return {each["name"]: each for each in gallery.run(CHOSEN, "cpu", False, until, pretended)}


def test_what_fails_is_recorded_and_the_rest_is_timed():
    found = results()
    assert found["wrong"]["errors"] == {"ninetoothed": "ValueError: no such kernel"}
    assert found["wrong"]["milliseconds"] == {"eager": 1.0}
    assert found["lonely"]["errors"].keys() == {"eager"} and found["lonely"]["milliseconds"] == {"ninetoothed": 1.0}
    assert found["off"]["difference"] == 0.5 and found["drawn"]["difference"] is None
    assert found["in_place"]["difference"] == 0 and found["in_place"]["arguments"] == ["float32 (3,)", "2"]
    text = gallery.printed(list(found.values()))
    assert "wrong, ninetoothed: ValueError: no such kernel" in text and text.count("\n| ") == len(CHOSEN) + 1


def test_what_hangs_is_given_up(monkeypatch):
    monkeypatch.setattr(gallery, "PATIENCE", 0.05)
    (found,) = gallery.run([example("slow", lambda *_: time.sleep(5), torch.mul)], "cpu", False, 1e12, pretended)
    assert "given up after 0.05 s" in found["errors"]["ninetoothed"]


def test_what_the_budget_does_not_reach_is_named():
    assert {each["errors"]["ninetoothed"] for each in results(until=0).values()} == {"not reached within the budget"}


def test_differences_are_of_all_that_is_finite():
    ours = torch.tensor([3.0 + 4.0j, torch.inf, 0.0])
    assert gallery.apart(ours, ours) == 0 and gallery.apart(ours, ours.real + 0j) > 1
    assert gallery.apart((torch.tensor([torch.nan, 1.0]),), (torch.tensor([1.0, 1.0]),)) == float("inf")
