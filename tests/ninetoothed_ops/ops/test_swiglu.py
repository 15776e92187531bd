"""What `swiglu` refuses, beside what it shares with the other operators."""

import pytest
import torch

from ninetoothed_ops import swiglu
from tests.ninetoothed_ops.samples import random as r


@pytest.mark.parametrize(
    "gate, up, error",
    (
        (r(2, 3), r(2, 4), RuntimeError),
        (r(2, 3), r(3), RuntimeError),
        (r(2, 3), r(2, 3).int(), RuntimeError),
        (r(2, 3).int(), r(2, 3).int(), RuntimeError),
        (r(2, 3), "up", TypeError),
        (r(2, 3), 2.0, TypeError),
    ),
    ids=("columns", "broadcast", "types", "integers", "text", "number"),
)
def test_errors(gate, up, error):
    with pytest.raises(error):
        swiglu(gate, up)


def test_halves_of_a_product():
    product = r(3, 66)
    gate, up = product.chunk(2, -1)
    torch.testing.assert_close(swiglu(gate, up), swiglu(gate.contiguous(), up.contiguous()))
    assert swiglu(gate, up).is_contiguous()


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16, torch.float32), ids=str)
def test_it_is_silu_and_a_product_one_after_another(dtype):
    gate, up = r(7, 65, dtype=dtype), r(7, 65, dtype=dtype)
    assert torch.equal(swiglu(gate, up), torch.ops.ninetoothed.silu(gate) * up)
