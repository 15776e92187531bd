"""A layer of experts, of which each token takes the k that its router scores highest.

y[t] = sum over the chosen e of p[t, e] * (silu(x[t] @ gate[e]) * (x[t] @ up[e])) @ down[e]

With p the softmax of their scores. A kernel routes, one has the first products of rows gathered by expert,
`grouped_product` the second, and one adds up what is a token's; PyTorch sorts between the first two. Source: Jiang and
others, "Mixtral of experts", 2024.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from examples.kernels.grouped.grouped_product import grouped_product
from ninetoothed import Tensor, arrange, block_size

DATA_DEPENDENT = "`hidden`: where the rows of an expert begin and end is loaded"


def route_application(scores, weights, experts):
    values, experts = ntl.topk(scores, weights.shape[0], return_indices=True)
    weights = ntl.softmax(values)


def arrangement(x, tokens, gate, up, offsets, hidden, M=block_size(16), N=block_size(32, 64), K=block_size(32, 64)):
    hidden = hidden.tile(M, N).unsqueeze(0).expand(gate.shape[0], -1, -1)  # (experts, blocks, columns / N), (M, N)
    gate, up = (each.tile(None, K, N, loop=1).expand(-1, hidden.shape[1], -1) for each in (gate, up))
    offsets = arrange.groups(offsets)[:, None, None].expand(-1, *hidden.shape[1:])
    return arrange.whole(x, hidden.shape), arrange.whole(tokens, hidden.shape), gate, up, offsets, hidden


def application(x, tokens, gate, up, offsets, hidden):
    rows = offsets[0] + hidden.offsets(0)
    left, right = ntl.zeros(hidden.shape, dtype=ntl.float32), ntl.zeros(hidden.shape, dtype=ntl.float32)

    for k in range(gate.shape[0] if ntl.min(rows) < offsets[1] else 0):
        own = x.source[tokens.source[rows][:, None], gate[k].offsets(1)[None, :]]
        left += ntl.dot(own, gate[k])
        right += ntl.dot(own, up[k])

    own = ntl.where(rows < offsets[1], rows, -1)  # a store to -1 is none
    hidden.source[own[:, None], hidden.offsets(1)[None, :]] = left * ntl.sigmoid(left) * right


def combine_application(z, weights, rows, y):
    total = ntl.zeros(y.shape, dtype=ntl.float32)

    for j in range(rows.shape[0]):
        total += weights[j] * z.source[rows[j], ntl.arange(0, y.shape[0])]

    y = total


def combine_arrangement(z, weights, rows, y):
    weights, rows, y = arrange.rows(weights, rows, y)
    return arrange.whole(z, y.shape), weights, rows, y


known = (None, {"constexpr": True})
tensors = Tensor(2, shape_options=known), Tensor(2, shape_options=known), Tensor(2)
route = ninetoothed.make(arrange.rows, route_application, tensors, kernel_name="route")
four = Tensor(2), Tensor(2), Tensor(2), Tensor(2)
combine = ninetoothed.make(combine_arrangement, combine_application, four, kernel_name="combine")
tensors = Tensor(2), Tensor(1), Tensor(3), Tensor(3), Tensor(1), Tensor(2, unique_indices=True)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="first_products")


def reference(x, router, gate, up, down, k):
    p, chosen = (x @ router).topk(k)
    p = p.softmax(1)
    y = torch.zeros_like(x)
    for e in range(len(gate)):
        own = F.silu(x @ gate[e]) * (x @ up[e]) @ down[e]
        y = y + own * torch.where(chosen == e, p, 0).sum(1, keepdim=True)
    return y


def mixture_of_experts(x, router, gate, up, down, k):
    scores, experts = x @ router, torch.empty(len(x), k, device=x.device, dtype=torch.int64)
    weights = x.new_empty(len(x), k, dtype=torch.float32)
    route(scores, weights, experts)
    order = experts.flatten().argsort(stable=True)
    counts = (experts.flatten() == torch.arange(len(gate), device=x.device)[:, None]).sum(1)
    offsets = F.pad(counts.cumsum(0), (1, 0))
    hidden = x.new_empty(len(order), gate.shape[2])
    kernel(x, order // k, gate, up, offsets, hidden)
    z = grouped_product(hidden, down, offsets)
    y = torch.empty_like(x)
    combine(z, weights, order.argsort().view(-1, k), y)
    return y


def check(device):
    for tokens, width, inner, experts, k, dtype in (
        (7, 20, 30, 4, 2, torch.float32),
        (40, 70, 33, 3, 3, torch.float32),
        (1, 16, 16, 8, 2, torch.float16),
    ):
        shapes = (tokens, width), (width, experts), *((experts, width, inner),) * 2, (experts, inner, width)
        values = [(torch.randn(*shape, device=device) / shape[-2] ** 0.5).to(dtype) for shape in shapes]
        yield mixture_of_experts(*values, k), reference(*(each.double() for each in values), k)


def timed(device):
    shapes = (4096, 1024), (1024, 8), (8, 1024, 3584), (8, 1024, 3584), (8, 3584, 1024)
    values = [torch.randn(*shape, device=device, dtype=torch.float16) / shape[-2] ** 0.5 for shape in shapes]
    return (*values, 2), mixture_of_experts, reference
