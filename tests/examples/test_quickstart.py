import re

import pytest
import torch

from examples import quickstart


def test_quickstart(capsys):
    assert quickstart.main([]) == 0
    printed = capsys.readouterr().out
    errors = [float(value) for value in re.findall(r"relative error (\S+)", printed)]
    assert len(errors) == 3 and all(value < 1e-5 for value in errors), printed
    assert "@triton.jit" in printed and "tl.load" in printed


@pytest.mark.parametrize("device", ("nonsense", "meta", *(() if torch.cuda.is_available() else ("cuda",))))
def test_devices_that_are_not_there(capsys, device):
    assert quickstart.main(["--device", device]) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"--device {device}: ") and told.err.count("\n") == 1 and not told.out


def test_its_operator_checks_shapes():
    with pytest.raises(ValueError, match="differ"):
        quickstart.allocate(torch.empty(3), torch.empty(4))
