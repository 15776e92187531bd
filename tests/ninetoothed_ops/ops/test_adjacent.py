"""Tensors that lie one behind another in memory, told by their addresses and read as one."""

import pytest
import torch

from ninetoothed_ops.ops.adjacent import concatenated
from tests.conftest import DEVICE


def parts(dtype=torch.float32, sizes=(5, 1, 4)):
    """Views of one memory, in storages of their own."""
    storage, width = torch.randn(sum(sizes), 3, device=DEVICE).to(dtype).untyped_storage(), 3 * dtype.itemsize
    found, start = [], 0
    for size in sizes:
        part = storage[start * width : (start + size) * width]
        found.append(torch.empty(0, dtype=dtype, device=DEVICE).set_(part, 0, (size, 3)))
        start += size
    return found


@pytest.mark.parametrize("dtype", (torch.float32, torch.float16, torch.bfloat16))
def test_one_behind_another(dtype):
    tensors = parts(dtype)
    whole = concatenated(tensors)
    assert torch.equal(whole, torch.cat(tensors)) and whole.data_ptr() == tensors[0].data_ptr()
    tensors[1].fill_(7)
    assert torch.equal(whole, torch.cat(tensors))
    # Views of one storage as well, and one tensor by itself.
    assert torch.equal(concatenated(whole.split([2, 8])), whole) and torch.equal(concatenated(tensors[:1]), tensors[0])


def test_elsewhere_or_not_alike():
    a, b, c = parts()
    apart = ([b, a], [a, c], [a, a], [a, b.clone()], [a, b.view(torch.int32)], [a, b.flatten()], [a[:, :2], b[:, :2]])
    for tensors in (*apart, [a.to("meta"), b.to("meta")], [a[::2], c]):
        assert concatenated(tensors) is None
    b.data = b.clone()
    assert concatenated([a, b, c]) is None
