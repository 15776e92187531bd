"""A layer of experts on ragged rows: the rows of each expert are an entry of a nested tensor.

y[e, j, :] = (silu(x[e, j, :] @ gate[e]) * (x[e, j, :] @ up[e])) @ down[e]

A token goes to one expert, and its row is among that one's; PyTorch sorts the rows. The second product is `jagged_bmm`.
Source: Fedus and others, "Switch transformers", 2021; Gale and others, "MegaBlocks", 2022.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from examples.kernels.jagged.jagged_bmm import jagged_bmm
from ninetoothed import Tensor, block_size


def arrangement(x, gate, up, hidden, M=block_size(16, 64), N=block_size(16, 64), K=block_size(16, 64)):
    hidden = hidden.tile(None, M, N)
    x = x.tile(None, M, K, loop=2).expand(-1, -1, hidden.shape[2])
    gate, up = (each.tile(None, K, N, loop=1).expand(-1, hidden.shape[1], -1) for each in (gate, up))
    return x, gate, up, hidden


def application(x, gate, up, hidden):
    left, right = ntl.zeros(hidden.shape, dtype=ntl.float32), ntl.zeros(hidden.shape, dtype=ntl.float32)

    for k in range(x.shape[0]):
        left += ntl.dot(x[k], gate[k])
        right += ntl.dot(x[k], up[k])

    hidden = left * ntl.sigmoid(left) * right


tensors = Tensor(3, jagged_dim=1), Tensor(3), Tensor(3), Tensor(3, jagged_dim=1)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="ragged_experts")


def reference(x, expert, gate, up, down, capacity):
    y = torch.zeros_like(x)
    for e in range(len(gate)):
        own = F.silu(x @ gate[e]) * (x @ up[e]) @ down[e]
        y = torch.where((expert == e)[:, None], own, y)
    return y


def ragged_experts(x, expert, gate, up, down, capacity):
    """capacity: as many tokens as an expert may have."""
    order = expert.argsort(stable=True)
    offsets = F.pad((expert == torch.arange(len(gate), device=x.device)[:, None]).sum(1).cumsum(0), (1, 0))
    rows, hidden = x[order], x.new_empty(len(x), gate.shape[2])
    nested = (torch.nested.nested_tensor_from_jagged(each, offsets, max_seqlen=capacity) for each in (rows, hidden))
    rows, by_expert = nested
    kernel(rows, gate, up, by_expert)
    return torch.empty_like(x).index_copy_(0, order, jagged_bmm(hidden, offsets, down, capacity))


def check(device):
    for tokens, width, inner, experts, dtype in (
        (7, 20, 30, 4, torch.float32),
        (90, 70, 33, 3, torch.float32),
        (1, 16, 16, 8, torch.float16),
    ):
        shapes = (tokens, width), *((experts, width, inner),) * 2, (experts, inner, width)
        x, *weights = ((torch.randn(*shape, device=device) / shape[-2] ** 0.5).to(dtype) for shape in shapes)
        expert = torch.randint(0, experts, (tokens,), device=device)
        given = x, expert, *weights
        wide = (each.double() if each.is_floating_point() else each for each in given)
        yield ragged_experts(*given, tokens), reference(*wide, tokens)


def timed(device):
    shapes = (4096, 1024), (8, 1024, 3584), (8, 1024, 3584), (8, 3584, 1024)
    x, *weights = (torch.randn(*shape, device=device, dtype=torch.float16) / shape[-2] ** 0.5 for shape in shapes)
    expert = torch.arange(4096, device=device) * 7 % 8
    return (x, expert, *weights, 1024), ragged_experts, reference
