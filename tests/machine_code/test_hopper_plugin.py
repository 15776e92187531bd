"""The plugin that reads machine code of what other tests run on the CPU: it still finds its places in the runtime."""

import pytest
import torch

from ninetoothed.runtime import dispatch, executable
from ninetoothed_ops.kernels import mm, sdpa
from tests import hopper

pytest.importorskip("triton")


def test_programs_at_risk_are_verified_once_a_kind(monkeypatch, request):
    if request.config.pluginmanager.has_plugin("tests.hopper"):
        pytest.skip("the plugin is at work")
    verified = []
    monkeypatch.setattr(dispatch.Launcher, "_executable", dispatch.Launcher._executable)
    monkeypatch.setattr(executable, "prepare_for_host", executable.prepare_for_host)
    monkeypatch.setattr(hopper, "verify", lambda definition, variant: verified.append(variant))
    hopper.pytest_configure()
    query, mask = torch.randn(1, 2, 8, 16).half(), torch.empty(1, 1, 1, 1, dtype=torch.bool).expand(1, 2, 8, 8)
    for _ in range(2):
        sdpa.make()(query, query, query, mask, 0.25, torch.empty_like(query), sdpa.NO_MASK, True)
    mm.make()(torch.ones(8, 8).half(), torch.ones(8, 8).half(), torch.empty(8, 8).half())
    (variant,) = verified
    assert variant.program.name == "sdpa" and variant.selection.gpu.architecture == 90
