"""Whatever can do a task on a GPU: ours, its twin in Triton, PyTorch eager and compiled, Liger where installed."""

import functools
import importlib.util

import torch

NAMES = ("ninetoothed", "triton", "eager", "inductor", "liger", "upstream")


def functions(task, args):
    """`{peer: function}` of those that can do this task; each function takes the arguments of PyTorch's."""
    import ninetoothed_ops  # noqa: F401  (registers torch.ops.ninetoothed)

    found = {
        "ninetoothed": ours(task),
        "triton": twin(task),
        "eager": task.eager,
        "inductor": torch.compile(lambda *args, **kwargs: task.eager(*args, **kwargs), dynamic=False),
        "liger": liger_function(task, args),
    }
    return {name: function for name, function in found.items() if function is not None}


def ours(task):
    """Our function, or operator; a convolution is laid out as PyTorch lays it out, whatever the filter's layout."""
    import ninetoothed_ops

    if task.name == "conv2d":
        return functools.partial(torch.ops.ninetoothed.conv2d, like_input=True)
    return getattr(ninetoothed_ops, task.name, None) or getattr(torch.ops.ninetoothed, task.name)


def twin(task):
    """The twin's function, or None where there is none."""
    from benchmarks.twins import launch

    return getattr(launch, task.name, None)


def given(task, args, peer):
    """The arguments of a peer; ours and the twin get a filter as a swapped model holds it: repacked before, once."""
    if task.name != "conv2d" or peer not in ("ninetoothed", "triton"):
        return args
    from benchmarks.twins import launch

    return args[0], launch.repacked(args[1]), *args[2:]


def liger_function(task, args):
    """Liger's function for the task, or None where it has none that does the same work, or is not installed."""
    if importlib.util.find_spec("liger_kernel") is None:
        return None
    from liger_kernel.transformers import functional

    if task.name == "softmax" and args[1] in (-1, args[0].ndim - 1):
        return lambda input, dim: functional.liger_softmax(input)
    # Liger's normalisation always multiplies by a weight.
    if task.name == "rms_norm" and len(args) == 3:
        return lambda input, shape, weight, eps: functional.liger_rms_norm(input, weight, eps, in_place=False)
    if task.name == "layer_norm" and len(args) == 4:
        return lambda input, shape, weight, bias, eps: functional.liger_layer_norm(input, weight, bias, eps)
    return None


def calls(task, args, kwargs):
    """`{peer: function of no arguments}` for one set of arguments."""
    # Compiled functions of several tasks share their code: without this they would count as its recompilations.
    torch._dynamo.reset()
    found = functions(task, args).items()
    return {peer: functools.partial(function, *given(task, args, peer), **kwargs) for peer, function in found}
