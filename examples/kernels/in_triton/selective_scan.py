"""`scans/selective_scan.py` in Triton, by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def kernel(
    x_ptr,
    delta_ptr,
    a_ptr,
    b_ptr,
    c_ptr,
    skip_ptr,
    output_ptr,
    steps,
    channels,
    states,
    x_batch_stride,
    x_step_stride,
    x_channel_stride,
    delta_batch_stride,
    delta_step_stride,
    delta_channel_stride,
    a_channel_stride,
    a_state_stride,
    b_batch_stride,
    b_step_stride,
    b_state_stride,
    c_batch_stride,
    c_step_stride,
    c_state_stride,
    skip_stride,
    output_batch_stride,
    output_step_stride,
    output_channel_stride,
    CHANNELS: tl.constexpr,
    STATES: tl.constexpr,
):
    batch = tl.program_id(0).to(tl.int64)
    channel = tl.program_id(1) * CHANNELS + tl.arange(0, CHANNELS)
    n = tl.arange(0, STATES)
    is_channel, is_state = channel < channels, n < states

    x_ptrs = x_ptr + batch * x_batch_stride + channel * x_channel_stride
    delta_ptrs = delta_ptr + batch * delta_batch_stride + channel * delta_channel_stride
    output_ptrs = output_ptr + batch * output_batch_stride + channel * output_channel_stride
    b_ptrs = b_ptr + batch * b_batch_stride + n * b_state_stride
    c_ptrs = c_ptr + batch * c_batch_stride + n * c_state_stride
    a_ptrs = a_ptr + channel[:, None] * a_channel_stride + n[None, :] * a_state_stride
    a = tl.load(a_ptrs, mask=is_channel[:, None] & is_state[None, :], other=0.0)
    skip = tl.load(skip_ptr + channel * skip_stride, mask=is_channel, other=0.0)
    state = tl.zeros((CHANNELS, STATES), dtype=tl.float32)

    for _ in range(steps):
        step = tl.load(delta_ptrs, mask=is_channel, other=0.0).to(tl.float32)
        value = tl.load(x_ptrs, mask=is_channel, other=0.0).to(tl.float32)
        b = tl.load(b_ptrs, mask=is_state, other=0.0)
        c = tl.load(c_ptrs, mask=is_state, other=0.0)
        state = tl.exp(step[:, None] * a) * state + (step * value)[:, None] * b[None, :]
        output = tl.sum(state * c[None, :], axis=1) + skip * value
        tl.store(output_ptrs, output, mask=is_channel)
        x_ptrs += x_step_stride
        delta_ptrs += delta_step_stride
        output_ptrs += output_step_stride
        b_ptrs += b_step_stride
        c_ptrs += c_step_stride


def selective_scan(x, delta, a, b, c, skip):
    batch, steps, channels = x.shape
    states = a.shape[1]
    output = torch.empty_like(x)
    tensors = (x, delta, a, b, c, skip, output)
    strides = (stride for tensor in tensors for stride in tensor.stride())
    grid = (batch, triton.cdiv(channels, 32))
    kernel[grid](*tensors, steps, channels, states, *strides, CHANNELS=32, STATES=triton.next_power_of_2(states))
    return output
