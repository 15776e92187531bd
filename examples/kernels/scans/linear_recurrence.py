"""Linear recurrence along long rows.

state[i, j] = decay[i, j] * state[i, j - 1] + input[i, j], from a state of 0

Steps are joined as (a, b) then (c, d) = (a c, b c + d), which is associative: a block is scanned in parallel, and its
last state is carried on. Blelloch, "Prefix Sums and Their Applications", 1990.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, arrange


def arrangement(decay, input, state):
    return arrange.row_blocks(decay, input, state, BLOCK_SIZE=1024)


def joined(decay, state, next_decay, next_state):
    return decay * next_decay, state * next_decay + next_state


def application(decay, input, state):
    carry = 0.0

    for i in range(input.shape[0]):
        decays, states = ntl.associative_scan((decay[i].to(ntl.float32), input[i].to(ntl.float32)), 0, joined)
        states += decays * carry
        state[i] = states
        carry = states[-1]


kernel = ninetoothed.make(arrangement, application, (Tensor(2), Tensor(2), Tensor(2)), kernel_name="linear_recurrence")


def linear_recurrence(decay, input):
    state = torch.empty_like(input)
    kernel(decay, input, state)
    return state


def check(device):
    for rows, columns, dtype in ((3, 1100, torch.float32), (5, 2500, torch.float16), (2, 0, torch.float32)):
        decay = (0.5 + torch.rand(rows, columns, device=device) / 2).to(dtype)
        input = torch.randn(columns, rows, device=device).to(dtype).T
        yield linear_recurrence(decay, input), one_by_one(decay.double(), input.double())


def one_by_one(decay, input):
    states, state = torch.empty_like(input), torch.zeros_like(input[:, 0]) if input.shape[1] else None
    for j in range(input.shape[1]):
        state = states[:, j] = decay[:, j] * state + input[:, j]
    return states


def doubling(decay, input):
    """Join each state with that of 1, 2, 4, ... steps before: what PyTorch can do without a loop over all steps."""
    step = 1
    while step < input.shape[1]:
        earlier, factors = (torch.roll(each, step, 1) for each in (input, decay))
        has_one = torch.arange(input.shape[1], device=input.device) >= step
        input = torch.where(has_one, input + decay * earlier, input)
        decay = torch.where(has_one, decay * factors, decay)
        step *= 2
    return input


def timed(device):
    return torch.rand(2, 4096, 8192, device=device).unbind(), linear_recurrence, doubling
