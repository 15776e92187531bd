"""Long chains of meta-operations: what they leave of a tensor, and that their sizes do not grow faster than they do."""

import pytest
import torch

import ninetoothed
from benchmarks import long_chains
from benchmarks.trust.chains import Dense
from ninetoothed import Tensor
from ninetoothed.arrangement.value import Arrangement

STEPS = 32


class Real:
    """A tensor of indices, to which PyTorch's operations do what a chain does to a symbolic one."""

    def __init__(self, dense):
        self.dense = dense

    def __getitem__(self, key):
        key = key if isinstance(key, tuple) else (key,)
        return Real(self.dense.index(0, key + (slice(None),) * (self.dense.ranks[0] - len(key))))

    def __getattr__(self, name):
        return lambda *given, **named: Real(getattr(self.dense, name)(0, *arguments(name, *given, **named)))


def arguments(name, *given, strides=(-1,), dilation=(1,), floor_mode=False):
    """The arguments as `Dense` takes them."""
    more = {"tile": (strides, dilation, floor_mode), "flatten": (None, None), "squeeze": ()}
    return ((given,) if name == "squeeze" else given) + more.get(name, ())


@pytest.mark.parametrize("name", [*long_chains.CHAINS, *long_chains.DOUBLING])
def test_of_many_steps(name):
    steps = STEPS if name in long_chains.CHAINS else 8
    real = long_chains.chain(name, steps, Real(Dense.of((long_chains.SIZE,)))).dense.data
    source = Tensor(1)
    chain = long_chains.chain(name, steps, source)
    found = torch.from_numpy(ninetoothed.eval(chain, {source: {"shape": (long_chains.SIZE,)}}))
    assert torch.equal(found, real)
    x = torch.arange(1.0, long_chains.SIZE + 1)
    y = torch.full(real.shape, float("nan"))
    long_chains.make(name, steps)(x, y)
    assert torch.equal(y, torch.where(real < 0, 0, x[real]))


def letters(arrangement: Arrangement) -> int:
    """How long its sizes and arguments are, as written and in canonical form."""
    texts = []
    arrangement.map_sizes(lambda size: texts.append(f"{size} {getattr(size, 'expr', size)}") or size)
    return sum(map(len, texts))


@pytest.mark.parametrize("name", long_chains.CHAINS)
def test_twice_the_steps_are_written_in_four_times_the_letters(name):
    half, whole = (letters(long_chains.chain(name, steps, Tensor(1)).arrangement) for steps in (STEPS // 2, STEPS))
    assert whole < 5 * half  # All sizes of all steps: each is longer than the last by as much.


def test_the_command(capsys):
    long_chains.main(["--steps", "2", "4", "--chain", "pad"])
    assert "pad   " in capsys.readouterr().out
