"""Draw an index of each row, with the probabilities of a softmax, by one argmax.

output[i] = argmax over j of (x[i, j] / temperature - log(-log(u[i, j]))),  u uniform in [0, 1)

The random numbers are made where they are used, of a seed and their place. Source: Gumbel, "Statistical theory of
extreme values and some practical applications", 1954; Maddison, Tarlow and Minka, "A* sampling", 2014.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(x, temperature, seed, output):
    return *arrange.rows(x), temperature, seed, output.tile(None)


def application(x, temperature, seed, output):
    u = ntl.rand(seed, x.offsets(0) * x.shape[0] + x.offsets(1))
    output = ntl.argmax(x / temperature - ntl.log(-ntl.log(u)), axis=0)


tensors = Tensor(2), Tensor(0), Tensor(0), Tensor(1)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="gumbel")


def gumbel(x, temperature, seed):
    output = torch.empty(len(x), device=x.device, dtype=torch.int64)
    kernel(x, temperature, seed, output)
    return output


def check(device):
    x = torch.randn(3, 90, device=device)[:, ::2]
    yield gumbel(x, 1e-6, 1), x.argmax(1)
    row = torch.tensor([0.5, -1.0, 2.0, 0.0, 1.0], device=device)
    drawn = gumbel(row.expand(20000, 5), 2.0, 7)
    shares = drawn.bincount(minlength=5) / 20000
    yield (shares - (row.double() / 2).softmax(0)).abs() < 0.015, torch.ones(5, dtype=torch.bool, device=device)
    again = gumbel(row.expand(20000, 5), 2.0, 8)
    yield (again != drawn).any(), torch.tensor(True, device=device)


def timed(device):
    eager = lambda x, temperature, seed: (x / temperature).softmax(1).multinomial(1)[:, 0]  # noqa: E731
    return (torch.randn(512, 32000, device=device), 0.7, 1), gumbel, eager
