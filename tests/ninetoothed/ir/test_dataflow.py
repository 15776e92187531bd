"""The dataflow driver follows loops in which variables take over from each other, however many there are."""

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Symbol, Tensor
from tests.conftest import DEVICE

BLOCK_SIZE = Symbol("BLOCK_SIZE", constexpr=True)


def chain(length, kept):
    """An application in which each of so many variables takes over the next one's value, and one of them is stored."""
    names = [f"v{i}" for i in range(length)]
    handed_on = "\n        ".join(f"{a} = {b}" for a, b in zip(names, names[1:]))
    text = f"""def application(x, n, y):
    {"; ".join(f"{name} = x + {i}.0" for i, name in enumerate(names))}
    for _ in range(n):
        new = v0 + {names[-1]}
        {handed_on}
        {names[-1]} = new
    y = v{kept}
"""
    return text


def expected(x, n, length, kept):
    values = [x + i for i in range(length)]
    for _ in range(n):
        values = [*values[1:], values[0] + values[-1]]
    return values[kept]


@pytest.mark.parametrize("length, kept", ((2, 0), (2, 1), (3, 0), (5, 0), (5, 2)))
@pytest.mark.parametrize("rounds", (0, 1, 7))
def test_variables_that_take_over_from_each_other(length, kept, rounds, tmp_path):
    path = tmp_path / "chain.py"
    path.write_text(chain(length, kept))
    namespace = {"ntl": ntl}
    exec(compile(path.read_text(), str(path), "exec"), namespace)

    def arrangement(x, n, y, BLOCK_SIZE=BLOCK_SIZE):
        return x.tile((BLOCK_SIZE,)), n, y.tile((BLOCK_SIZE,))

    kernel = ninetoothed.make(arrangement, namespace["application"], (Tensor(1), Tensor(0), Tensor(1)))
    x, y = torch.randn(19, device=DEVICE), torch.full((19,), float("nan"), device=DEVICE)
    kernel(x, rounds, y, BLOCK_SIZE=8)
    torch.testing.assert_close(y, expected(x, rounds, length, kept))
