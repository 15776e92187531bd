"""Selective scan, of Mamba.

state[t, n] = exp(delta[t] * a[n]) * state[t - 1, n] + delta[t] * b[t, n] * x[t], for each channel, from 0
output[t] = sum over n of c[t, n] * state[t, n] + skip * x[t]

Here b and c are shared by all channels. Each program holds the states of a block of channels in registers, and goes
through all steps: none of the states is ever stored. Gu and Dao, "Mamba: Linear-Time Sequence Modeling with Selective
State Spaces", 2023.
"""

import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor


def arrangement(x, delta, a, b, c, skip, output, BLOCK=32):
    x, delta, output = (each.tile(None, None, BLOCK, loop=1).squeeze(1) for each in (x, delta, output))
    a = a.tile(BLOCK, -1).squeeze(1).unsqueeze(0).expand(x.shape)
    b, c = (each.tile(None, None, -1, loop=1).squeeze(1).expand(-1, x.shape[1]) for each in (b, c))
    return x, delta, a, b, c, skip.tile(BLOCK).unsqueeze(0).expand(x.shape), output


def application(x, delta, a, b, c, skip, output):
    state = ntl.zeros(a.shape, dtype=ntl.float32)

    for t in range(x.shape[0]):
        step, value = delta[t].to(ntl.float32), x[t].to(ntl.float32)
        state = ntl.exp(step[:, None] * a) * state + (step * value)[:, None] * b[t][None, :]
        output[t] = ntl.sum(state * c[t][None, :], axis=1) + skip * value


tensors = tuple(Tensor(ndim) for ndim in (3, 3, 2, 3, 3, 1, 3))
kernel = ninetoothed.make(arrangement, application, tensors, kernel_name="selective_scan")


def selective_scan(x, delta, a, b, c, skip):
    """Scan x and delta of (batch, steps, channels) with b and c of (batch, steps, states), a of (channels, states)."""
    output = torch.empty_like(x)
    kernel(x, delta, a, b, c, skip, output)
    return output


def inputs(device, batch, steps, channels, states, dtype=torch.float32):
    x, delta = (
        torch.randn(batch, steps, channels, device=device).to(dtype),
        torch.rand(batch, steps, channels, device=device),
    )
    b, c = torch.randn(2, batch, steps, states, device=device)
    return x, delta.to(dtype), -torch.rand(channels, states, device=device), b, c, torch.randn(channels, device=device)


def one_by_one(x, delta, a, b, c, skip):
    state = x.new_zeros(len(x), *a.shape)
    outputs = []
    for t in range(x.shape[1]):
        step = delta[:, t, :, None]
        state = torch.exp(step * a) * state + step * b[:, t, None] * x[:, t, :, None]
        outputs.append(torch.einsum("bcn,bn->bc", state, c[:, t]) + skip * x[:, t])
    return torch.stack(outputs, 1)


def check(device):
    for batch, steps, channels, states, dtype in ((1, 5, 37, 4, torch.float32), (2, 33, 70, 16, torch.float16)):
        given = inputs(device, batch, steps, channels, states, dtype)
        yield selective_scan(*given), one_by_one(*(each.double() for each in given))


def doubling(x, delta, a, b, c, skip):
    """Hold all states, and join each with that of 1, 2, 4, ... steps before."""
    decay = torch.exp(delta[..., None] * a)
    state = (delta * x)[..., None] * b[:, :, None]
    step = 1
    while step < x.shape[1]:
        state = torch.cat((state[:, :step], state[:, step:] + decay[:, step:] * state[:, :-step]), 1)
        decay = torch.cat((decay[:, :step], decay[:, step:] * decay[:, :-step]), 1)
        step *= 2
    return torch.einsum("btcn,btn->btc", state, c) + skip * x


def timed(device):
    return inputs(device, 4, 1024, 2048, 16), selective_scan, doubling
