"""`rope_pair(Tensor query, Tensor key, Tensor sin, Tensor cos, bool interleaved=True, int? rotary_dim=None,
bool? interleaved_output=None) -> (Tensor, Tensor)`: `rope` of a query and of a key, in one launch.
"""

from ..kernels import rope_pair as kernels
from ..registration import register
from .checks import alike
from .rope import (
    OPTIONS,
    allocate as allocate_one,
    backward_operator,
    gradients_of_tables,
    launch as launch_one,
    tables_by_pairs,
    turning_and_rest,
)

NAME = "rope_pair"


def allocate(query, key, sin, cos, interleaved=True, rotary_dim=None, interleaved_output=None):
    if not alike(query, key) or (query.shape[:2], query.shape[3:]) != (key.shape[:2], key.shape[3:]):
        raise RuntimeError(
            f"ninetoothed::{NAME} expects a query and a key of (batch, sequence, heads, D) that differ in their heads "
            f"alone, but got {list(query.shape)} of {query.dtype} on {query.device} and {list(key.shape)} of "
            f"{key.dtype} on {key.device}"
        )
    options = sin, cos, interleaved, rotary_dim, interleaved_output

    return allocate_one(query, *options), allocate_one(key, *options)


def launch(outputs, query, key, sin, cos, interleaved=True, rotary_dim=None, interleaved_output=None):
    if outputs[0].numel() == 0 or outputs[1].numel() == 0:
        for output, input in zip(outputs, (query, key)):
            launch_one(output, input, sin, cos, interleaved, rotary_dim, interleaved_output)
        return
    width = abs(rotary_dim or query.shape[3])
    sin, cos = tables_by_pairs(sin, cos, query.shape[0], width, interleaved)
    tensors, rests = (query, key, *outputs), ()
    if width < query.shape[3]:
        tensors, rests = zip(*(turning_and_rest(tensor, rotary_dim) for tensor in tensors))
    kernels.make(interleaved, interleaved_output, bool(rests))(*tensors[:2], sin, cos, *tensors[2:], *rests)


def setup_context(ctx, inputs, output):
    *turned, sin, cos, ctx.interleaved, ctx.rotary_dim, ctx.interleaved_output = inputs
    needs_tables = any(ctx.needs_input_grad[2:4])
    ctx.save_for_backward(*(each if needs_tables else None for each in turned), sin, cos)
    ctx.set_materialize_grads(False)


def backward(ctx, *grads):
    *inputs, sin, cos = ctx.saved_tensors
    options = ctx.interleaved, ctx.rotary_dim, ctx.interleaved_output
    input_grads, table_grads = [None, None], [None, None]
    for i, (grad, input) in enumerate(zip(grads, inputs)):
        if grad is None:
            continue
        if ctx.needs_input_grad[i]:
            input_grads[i] = backward_operator(grad, sin, cos, *options)
        to_tables = ctx.needs_input_grad[2:4]
        for j, each in enumerate(gradients_of_tables(to_tables, grad, input, sin, cos, *options)):
            table_grads[j] = each if table_grads[j] is None or each is None else table_grads[j] + each

    return *input_grads, *table_grads, None, None, None


operator = register(
    f"ninetoothed::{NAME}(Tensor query, Tensor key, {OPTIONS}) -> (Tensor, Tensor)",
    allocate,
    launch,
    backward=backward,
    setup_context=setup_context,
    replay=True,
)
