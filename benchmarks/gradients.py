"""Forward with backward: the gradients of what a task takes, by every peer that has gradients."""

import functools

import torch

from benchmarks import peers, tasks

NAMES = ("ninetoothed", "triton", "eager", "inductor", "liger")
# The tasks whose twins have gradients: benchmarks/twins/training.py.
WITH_TWINS = ("sdpa",)
# The positions of arguments that a model computes and does not learn.
CONSTANT = {"rope": (1, 2), "batch_norm": (1, 2)}


def calls(task, args, kwargs):
    """`{peer: function of no arguments}` for one set of arguments; each gives the gradients of a random scalar."""
    torch._dynamo.reset()
    grad = _grad(task, args, kwargs)
    functions = {**peers.functions(task, args), "triton": twin(task)}
    found = {peer: functions[peer] for peer in NAMES if functions.get(peer)}

    leaves = {peer: _leaves(task, peers.given(task, args, peer)) for peer in found}

    return {peer: functools.partial(_step, function, leaves[peer], kwargs, grad) for peer, function in found.items()}


def twin(task):
    """The twin's function, through which gradients flow; None where it has none."""
    if task.name not in WITH_TWINS:
        return None
    from benchmarks.twins import training

    return getattr(training, task.name)


def reference(task, args, kwargs):
    """The gradients in float64, as PyTorch computes them."""
    wide = [value.double() if _is_real(value) else value for value in args]

    return _step(task.eager, _leaves(task, wide), kwargs, _grad(task, args, kwargs).double())


def work(task, args, kwargs, result):
    """Count the forward's work, and a backward that reads the same and the output's gradient and writes the inputs'.

    A product is needed for the output, and one for the gradient of each operand.
    """
    forward = tasks.work(task, args, kwargs, result)
    written = sum(leaf.nbytes for leaf in _leaves(task, args) if isinstance(leaf, torch.Tensor) and leaf.requires_grad)

    return tasks.Work(3 * forward.operations, 2 * forward.bytes + written)


def _step(function, leaves, kwargs, grad):
    wanted = [leaf for leaf in leaves if isinstance(leaf, torch.Tensor) and leaf.requires_grad]

    return torch.autograd.grad(function(*leaves, **kwargs), wanted, grad)


def _leaves(task, args):
    constant = CONSTANT.get(task.name, ())
    is_learnt = [_is_real(value) and i not in constant for i, value in enumerate(args)]

    return [value.detach().requires_grad_() if learnt else value for value, learnt in zip(args, is_learnt)]


def _is_real(value):
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _grad(task, args, kwargs):
    output = task.eager(*args, **kwargs).detach()
    generator = torch.Generator(output.device).manual_seed(1)

    return torch.randn(output.shape, generator=generator, dtype=output.dtype, device=output.device)
