"""Signatures: which dimensions the tensors of a call share, and so along which it can be shared out over a mesh.

    "linear": "... k, n k, +n -> ... n"

The tensors among the arguments stand in their order, with their dimensions from the last one on: a tensor may lack the
first ones, or have 1 in the place of a size, and is then the same in each process. A dimension whose name begins with a
capital is computed along, and never sharded. Another may be, in all tensors that have it; an output that lacks it is
then a partial sum, and so is an addend, marked `+`, where all outputs are. `@2` is an output like the third tensor, its
gradient. Where the arguments decide, a function of them gives the signature.

Two operators have none. `dropout` draws numbers, of which each process has its own: `ninetoothed_ops.dropout` is
PyTorch's of DTensors, which draws as of the whole. `joint_linear` is for weights that lie one behind another in memory,
as parts do not: of DTensors, swapped modules call `linear` of each.
"""

from collections.abc import Callable
from typing import Any

Signature = str | Callable[..., str]


def _names(first: str, count: int) -> str:
    return " ".join(f"{first}{number}" for number in range(count))


def _along(rank: int, dim: int) -> str:
    """Spell a tensor that is computed along one dimension."""
    return " ".join(f"{'A' if number == dim % max(rank, 1) else 'r'}{number}" for number in range(rank))


def _softmax(self: Any, dim: int, *_: Any, **__: Any) -> str:
    return "{0} -> {0}".format(_along(len(self.shape), dim))


def _softmax_backward(grad: Any, output: Any, dim: int, *_: Any) -> str:
    return "{0}, {0} -> {0}".format(_along(len(grad.shape), dim))


def _rows(tensor: Any, shape: Any) -> tuple[str, str]:
    """Spell a tensor that is normalised over its last dimensions, and these."""
    last = _names("W", len(shape))
    return f"{_names('r', len(tensor.shape) - len(shape))} {last}", last


def _rms_norm(input: Any, shape: Any, *_: Any) -> str:
    return "{0}, {1} -> {0}".format(*_rows(input, shape))


def _rms_norm_backward(grad: Any, input: Any, shape: Any, *_: Any) -> str:
    return "{0}, {0}, {1}, {0} -> @1, @2".format(*_rows(input, shape))


def _layer_norm(input: Any, shape: Any, *_: Any) -> str:
    return "{0}, {1}, {1} -> {0}".format(*_rows(input, shape))


def _layer_norm_backward(grad: Any, input: Any, shape: Any, *_: Any) -> str:
    return "{0}, {0}, {1}, {1} -> @1, @2, @3".format(*_rows(input, shape))


def _image(tensor: Any, first: str, space: str = "S") -> str:
    """Spell (batch, channels, ...)."""
    return f"{first} {_names(space, len(tensor.shape) - 2)}"


def _group_norm(input: Any, *_: Any) -> str:
    return "{0}, C, C -> {0}".format(_image(input, "n C"))


def _group_norm_with_statistics(input: Any, *_: Any) -> str:
    return "{0}, C, C -> {0}, n G, n G".format(_image(input, "n C"))


def _group_norm_backward(grad: Any, input: Any, *_: Any) -> str:
    return "{0}, {0}, C, C, n G, n G -> @1, @2, @3".format(_image(input, "n C"))


def _batch_norm(input: Any, *_: Any) -> str:
    return "{0}, c, c, c, c -> {0}".format(_image(input, "n c", "s"))


def _batch_norm_training(input: Any, *_: Any) -> str:
    return "{0}, c, c -> {0}, c, c".format(_image(input, "N c"))


def _batch_norm_backward(grad: Any, input: Any, *others: Any) -> str:
    *_, is_training, _ = others
    return "{0}, {0}, c, c, c, c -> @1, @2, @3".format(_image(input, "N c" if is_training else "n c"))


def _is_grouped(*options: Any) -> bool:
    """Tell whether filters see some of the channels: options begin with stride, padding and dilation."""
    return len(options) > 3 and options[3] != 1


def _conv2d(input: Any, weight: Any, bias: Any = None, *options: Any) -> str:
    n = "n" if len(input.shape) == 4 else ""
    if _is_grouped(*options):
        return f"{n} C H W, O I R S, O -> {n} O H W"
    return f"{n} c H W, o c R S, +o -> {n} o H W"


def _conv2d_backward_input(grad: Any, weight: Any, size: Any, *options: Any) -> str:
    return "n O H W, O I R S -> n C H W" if _is_grouped(*options) else "n o H W, o c R S -> n c H W"


def _conv2d_backward_weight(grad: Any, input: Any, size: Any, *options: Any) -> str:
    return "n O H W, n C H W -> O I R S" if _is_grouped(*options) else "n o H W, n c H W -> o c R S"


def _rank_of_batch(*tensors: Any) -> int:
    return max(max(len(each.shape) for each in tensors) - 3, 0)


def _sdpa(query: Any, key: Any, value: Any, mask: Any = None, dropout_p: float = 0.0, is_causal: bool = False, *_: Any,
          **__: Any) -> str:  # fmt: skip
    if dropout_p > 0:
        return "B H M D, B H N D, B H N E, B H M N, B, H -> B H M E"
    batch, rows = _names("b", _rank_of_batch(query, key, value)), "M" if is_causal else "m"
    heads = f"{batch} h" if max(len(each.shape) for each in (query, key, value)) > 2 else ""
    return f"{heads} {rows} D, {heads} N D, {heads} N E, {heads} {rows} N, {batch}, h -> {heads} {rows} E"


def _attention(seed: Any, is_causal: bool) -> str:
    """Spell what attention takes that is computed by rows; what is dropped depends on the place in the whole."""
    if seed is not None:
        return "B H M D, B H N D, B H N E, B H M N, B, B H, "
    rows = "M" if is_causal else "m"
    return f"b h {rows} D, b h N D, b h N E, b h {rows} N, b, b h, "


def _rope_pair(query: Any, key: Any, *_: Any) -> str:
    # Each head gives one: where one alone has no part in a shard, its result is the whole in each process, and no sum.
    heads = "h" if query.shape[2] == key.shape[2] or min(query.shape[2], key.shape[2]) > 1 else "H"
    return f"b s {heads} D, b s {heads} D, b s W, b s W -> @0, @1"


def _sdpa_with_lse(query: Any, key: Any, value: Any, mask: Any, lengths: Any, sinks: Any, seed: Any, dropout_p: float,
                   is_causal: bool, *_: Any) -> str:  # fmt: skip
    taken = _attention(seed, is_causal)
    first = taken.partition(" D")[0]
    return f"{taken} -> {first} E, P {first} L"


def _sdpa_backward(*args: Any) -> str:
    *_, is_causal, _, _, _ = args
    taken = _attention(args[6], is_causal)
    first = taken.partition(" D")[0]
    return f"{taken}, {first} E, {first} E, P {first} L -> @0, @1, @2, @3, @5"


def _softmax_jagged(self: Any, offsets: Any, lengths: Any, longest: Any, dim: int, *_: Any) -> str:
    return "{0}, O, O -> {0}".format(_along(len(self.shape), dim))


def _softmax_jagged_backward(grad: Any, output: Any, offsets: Any, lengths: Any, longest: Any, dim: int,
                             *_: Any) -> str:  # fmt: skip
    return "{0}, {0}, O, O -> {0}".format(_along(len(grad.shape), dim))


def _dropout_of_seed(input: Any, *_: Any) -> str:
    # What is drawn depends on the place in the whole.
    return "{0}, -> {0}".format(_names("A", len(input.shape)))


def _of_classes(self: Any, target: Any) -> tuple[str, str, str]:
    """Spell inputs, targets and rows of a cross-entropy: the classes are dimension 1, or 0 of a vector."""
    if len(self.shape) < 2:
        return "C", "C" if len(target.shape) == 1 else "", ""
    others = _names("d", len(self.shape) - 2)
    whole, rows = f"n C {others}", f"n {others}"
    return whole, whole if len(target.shape) == len(self.shape) else rows, rows


def _reduced(inputs: str, rows: str, reduction: int) -> str:
    """Spell a loss of rows that is reduced; a mean is not that of the rows which a process has."""
    none, mean = 0, 1
    signature = f"{inputs} -> {rows if reduction == none else ''}"
    return signature.upper() if reduction == mean else signature


def _cross_entropy(self: Any, target: Any, weight: Any = None, reduction: int = 1, *_: Any) -> str:
    whole, named, rows = _of_classes(self, target)
    return _reduced(f"{whole}, {named}, C", rows, reduction)


def _cross_entropy_of_rows(self: Any, target: Any, *_: Any) -> str:
    return "{0}, {1}, C -> {2}, {2}, {2}".format(*_of_classes(self, target))


def _cross_entropy_backward(grad: Any, self: Any, target: Any, *_: Any) -> str:
    whole, named, rows = _of_classes(self, target)
    return f"{rows}, {whole}, {named}, C, {rows}, {rows} -> {whole}"


def _linear_cross_entropy(input: Any, weight: Any, target: Any, bias: Any = None, classes: Any = None,
                          reduction: int = 1, *_: Any) -> str:  # fmt: skip
    rows = _names("r", len(target.shape))
    return _reduced(f"{rows} K, V K, {rows}, V, V", rows, reduction)


def _linear_cross_entropy_with_gradients(*args: Any) -> str:
    _, _, target, _, _, reduction, *_ = args
    rows = _names("r" if reduction == 2 else "R", len(target.shape))
    return f"{rows} K, V K, {rows}, V, V -> , @0, @1, @3"


def _kl_div(self: Any, target: Any, reduction: int = 1, **_: Any) -> str:
    every = _names("r", len(self.shape))
    return _reduced(f"{every}, {every}", every, reduction)


def _kl_div_backward(grad: Any, self: Any, target: Any, reduction: int, *_: Any) -> str:
    every = _names("R" if reduction == 1 else "r", len(self.shape))
    return f"{every if reduction == 0 else ''}, {every}, {every} -> @1, @2"


def _embedding_backward(grad: Any, indices: Any, rows: int, padding: int, is_mean: bool) -> str:
    every = _names("R" if is_mean else "r", len(indices.shape))
    return f"{every} c, {every} -> V c"


# By the name of an operator.
SIGNATURES: dict[str, Signature] = {
    "activation": "... -> ...",
    "activation_backward": "..., ... -> ...",
    "add": "+..., +... -> ...",
    "add_rms_norm": "... W, ... W, W -> ... W, ... W",
    "addmm": "+m n, m k, k n -> m n",
    "batch_norm": _batch_norm,
    "batch_norm_backward": _batch_norm_backward,
    "batch_norm_training": _batch_norm_training,
    "bmm": "b m k, b k n -> b m n",
    "conv2d": _conv2d,
    "conv2d_backward_input": _conv2d_backward_input,
    "conv2d_backward_weight": _conv2d_backward_weight,
    "cross_entropy": _cross_entropy,
    "cross_entropy_backward": _cross_entropy_backward,
    "cross_entropy_of_rows": _cross_entropy_of_rows,
    "dropout_of_seed": _dropout_of_seed,
    "embedding": "V c, ... -> ... c",
    "embedding_backward": _embedding_backward,
    "gated": "..., ... -> ...",
    "gated_backward": "..., ..., ... -> ..., ...",
    "gated_backward_with_output": "..., ..., ... -> ..., ..., ...",
    "gated_linear": "... k, ... k, n k -> ... n",
    "gelu": "... -> ...",
    "group_norm": _group_norm,
    "group_norm_backward": _group_norm_backward,
    "group_norm_with_statistics": _group_norm_with_statistics,
    "jsd": "... c, ... c, ... -> ...",
    "jsd_backward": "..., ... c, ... c, ... -> @1, @2",
    "kl_div": _kl_div,
    "kl_div_backward": _kl_div_backward,
    "layer_norm": _layer_norm,
    "layer_norm_backward": _layer_norm_backward,
    "linear": "... k, n k, +n -> ... n",
    "linear_cross_entropy": _linear_cross_entropy,
    "linear_cross_entropy_backward": "..., ... K, V K, ..., V, V, ..., ... -> @1, @2, @4",
    "linear_cross_entropy_of_rows": "... K, V K, ..., V, V -> ..., ..., ...",
    "linear_cross_entropy_with_gradients": _linear_cross_entropy_with_gradients,
    # Heads of queries, keys and values lie one behind another in what it gives.
    "linear_rope_into_cache": "b S K, Q K, P K, P K, b S W, b S W, b S, b H L D, b H L D -> b S R D",
    "linear_swiglu": "... K, n K, n K -> ... n",
    "mm": "m k, k n -> m n",
    "rms_norm": _rms_norm,
    "rms_norm_backward": _rms_norm_backward,
    "rope": "b s h D, b s W, b s W -> b s h D",
    "rope_backward": "b s h D, b s W, b s W -> b s h D",
    "rope_into_cache": "b S h D, b S h D, b S h D, b S W, b S W, b S, b h L D, b h L D -> @0",
    "rope_pair": _rope_pair,
    "sdpa": _sdpa,
    "sdpa_backward": _sdpa_backward,
    "sdpa_dropout": " -> B H M N",
    "sdpa_jagged": "h T D, h N D, h N E, O, O, O, O -> h T E, h T L",
    "sdpa_jagged_backward": "h T D, h N D, h N E, O, O, O, O, h T E, h T E, h T L -> @0, @1, @2",
    "sdpa_with_lse": _sdpa_with_lse,
    "silu": "... -> ...",
    "silu_backward": "..., ... -> ...",
    "softmax": _softmax,
    "softmax_backward": _softmax_backward,
    "softmax_jagged": _softmax_jagged,
    "softmax_jagged_backward": _softmax_jagged_backward,
    "swiglu": "..., ... -> ...",
    "swiglu_backward": "..., ..., ... -> ..., ...",
}
# The place of the argument that is the output's shape.
SIZES = {"conv2d_backward_input": 2, "conv2d_backward_weight": 2}
