"""Accept tokens that a draft model proposes, or draw others, so that all are distributed as the target model says.

Token j is accepted if u[j] * q[j, token] <= p[j, token] and all before it are; in place of the first that is not, one
is drawn from max(p[j] - q[j], 0), and after all of them one from p. What follows is -1.

Source: Leviathan, Kalman and Matias, "Fast inference from transformers via speculative decoding", 2022.
"""

import torch
import torch.nn.functional as F

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(tokens, q, p, u, output):
    """Each program has a sequence: drafts (K,) and K + 1 of what the target gives, rows (vocabulary,) of both."""
    q, p = (each.tile(None, None, -1, loop=1).squeeze(1, 2) for each in (q, p))
    tokens, u, output = arrange.rows(tokens, u, output)
    return tokens, q, p, u, output


def application(tokens, q, p, u, output):
    accepted, is_going = 0, 1

    for j in range(output.shape[0] - 1):
        is_going = ntl.where(u[j] * q[j][tokens[j]] <= p[j][tokens[j]], is_going, 0)
        accepted += is_going

    rest = ntl.maximum(p[accepted] - q[accepted], 0.0)  # q is 0 past the last draft
    drawn = ntl.sum(ntl.cumsum(rest) <= u[output.shape[0] - 1] * ntl.sum(rest))
    place = ntl.arange(0, output.shape[0])
    output = ntl.where(place < accepted, ntl.gather(tokens, place, 0), ntl.where(place == accepted, drawn, -1))


tensors = Tensor(2), Tensor(3), Tensor(3), Tensor(2), Tensor(2)
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="speculative")


def reference(tokens, q, p, u):
    count, own = tokens.shape[1], tokens[:, :, None]
    is_right = u[:, :count] * q.gather(2, own)[:, :, 0] <= p[:, :count].gather(2, own)[:, :, 0]
    accepted = is_right.cumprod(1).sum(1, keepdim=True)
    rest = (p - F.pad(q, (0, 0, 0, 1))).clamp(min=0).take_along_dim(accepted[:, :, None], 1)[:, 0]
    sums = rest.cumsum(1)
    drawn = (sums <= u[:, count:] * sums[:, -1:]).sum(1, keepdim=True)
    place = torch.arange(count + 1, device=u.device)
    return torch.where(place < accepted, F.pad(tokens, (0, 1)), torch.where(place == accepted, drawn, -1))


def speculative(tokens, q, p, u):
    output = torch.empty_like(u, dtype=torch.int64)
    kernel(tokens, q, p, u, output)
    return output


def operands(batch, drafts, vocabulary, device):
    q = torch.randn(batch, drafts, vocabulary, device=device)
    p = (F.pad(q, (0, 0, 0, 1)) + torch.randn(batch, drafts + 1, vocabulary, device=device) / 2).softmax(2)
    tokens = torch.randint(0, vocabulary, (batch, drafts), device=device)
    return tokens, q.softmax(2), p, torch.rand(batch, drafts + 1, device=device)


def check(device):
    for sizes in ((5, 3, 20), (40, 4, 100), (3, 1, 2), (0, 2, 7)):
        tokens, *numbers = operands(*sizes, device)
        yield speculative(tokens, *numbers), reference(tokens, *(each.double() for each in numbers))


def timed(device):
    return operands(64, 5, 32000, device), speculative, reference
