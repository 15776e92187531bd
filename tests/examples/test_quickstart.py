import re

import pytest
import torch

from examples import quickstart


def test_quickstart(capsys):
    quickstart.main([])
    printed = capsys.readouterr().out
    errors = [float(value) for value in re.findall(r"relative error (\S+)", printed)]
    assert len(errors) == 3 and all(value < 1e-5 for value in errors), printed
    assert "@triton.jit" in printed and "tl.load" in printed


def test_its_operator_checks_shapes():
    with pytest.raises(ValueError, match="differ"):
        quickstart.allocate(torch.empty(3), torch.empty(4))
