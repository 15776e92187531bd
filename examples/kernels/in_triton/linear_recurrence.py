"""`scans/linear_recurrence.py` in Triton, by hand."""

import torch
import triton
import triton.language as tl


@triton.jit
def joined(decay, state, next_decay, next_state):
    return decay * next_decay, state * next_decay + next_state


@triton.jit
def kernel(
    decay_ptr,
    input_ptr,
    state_ptr,
    columns,
    decay_row_stride,
    decay_column_stride,
    input_row_stride,
    input_column_stride,
    state_row_stride,
    state_column_stride,
    BLOCK: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    decay_ptr += row * decay_row_stride
    input_ptr += row * input_row_stride
    state_ptr += row * state_row_stride
    lane = tl.arange(0, BLOCK)
    carry = 0.0

    for start in range(0, columns, BLOCK):
        column = start + lane
        mask = column < columns
        decay = tl.load(decay_ptr + column * decay_column_stride, mask=mask, other=1.0).to(tl.float32)
        input = tl.load(input_ptr + column * input_column_stride, mask=mask, other=0.0).to(tl.float32)
        decays, states = tl.associative_scan((decay, input), 0, joined)
        states += decays * carry
        tl.store(state_ptr + column * state_column_stride, states, mask=mask)
        carry = tl.sum(tl.where(lane == BLOCK - 1, states, 0.0))


def linear_recurrence(decay, input):
    state = torch.empty_like(input)
    strides = (stride for tensor in (decay, input, state) for stride in tensor.stride())
    if input.numel():
        kernel[(input.shape[0],)](decay, input, state, input.shape[1], *strides, BLOCK=1024)
    return state
