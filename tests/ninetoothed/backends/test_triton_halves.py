"""What follows a product's loop in two halves: that it takes half the shared memory. See `test_triton_descriptors`."""

import pytest
import torch

from ninetoothed.backends.triton import halves
from ninetoothed_ops.kernels import mm


def test_compiled(tmp_path, monkeypatch):
    pytest.importorskip("triton")
    from tests.ninetoothed_ops.kernels.test_hopper import compiled

    monkeypatch.setenv("NINETOOTHED_CACHE_DIR", str(tmp_path))
    square = torch.empty(4096, 4096, dtype=torch.float16)
    inhalves = compiled(mm.make(), (square, square, square))
    monkeypatch.setattr(halves, "halved", lambda program, loop: program)
    whole = compiled(mm.make(), (square, square, square))
    assert inhalves.emitted.persistent and whole.emitted.persistent
    assert inhalves.emitted.source.count("output_desc.store") == 2 * whole.emitted.source.count("output_desc.store")
    assert whole.shared - inhalves.shared == 128 * 256 * 2 // 2
