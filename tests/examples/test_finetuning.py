import re

import pytest

from examples import finetuning

pytest.importorskip("transformers")


def test_losses_are_told_and_compared(capsys, monkeypatch):
    assert finetuning.main(["--steps", "3"]) == 0
    losses = [float(value) for value in re.findall(r"loss (\S+),", capsys.readouterr().out)]
    assert len(losses) == 3 and losses[2] < losses[0]
    # A model that learns otherwise is told by the exit status.
    told = iter(([1.0], [1.01]))
    monkeypatch.setattr(finetuning, "losses", lambda *_: next(told))
    assert finetuning.main([]) == 1
