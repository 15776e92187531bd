"""Call operators past PyTorch's dispatcher, where all that it would do is to find their kernel.

    operator(x, -1)  ->  dispatcher  ->  ReplayedFunction  ->  fast path        1 to 2 microseconds more than
    direct(x, -1)    ->  fast path

That is so while no gradient is recorded and nothing else wants to know of the call: no tangents, transform, mode,
autocast, trace, profiler, nor another kernel that a user registered for the operator. The state of this thread is asked
for some of these in each call; of all others the guards of a fast path tell, which compare the dispatch keys that a
tensor has in this thread. What was not called this way goes to the dispatcher first, so that errors are PyTorch's.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from ninetoothed.runtime import private, private_dispatch
from ninetoothed.runtime.call_cache import PATIENCE
from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.private import FunctionSchema, OpOverload

# Marks the arguments of a caller, in the order of its call: the dispatcher hands them on without defaults.
_DIRECT = ("direct",)
# How many calls in a row may ask for a fast path; after them each one of PATIENCE does.
_FIRST = 64


def direct(operator: OpOverload, schema: FunctionSchema, replayed: ReplayedFunction) -> Callable:
    """Return a function that calls an operator, or a fast path of the function that the dispatcher would find."""
    calls, misses = replayed.calls, itertools.count()
    name = ".".join(filter(None, (schema.name, schema.overload_name)))
    is_ours = private_dispatch.has_ours_alone(name, private_dispatch.PLAIN)
    is_traced, is_recorded = torch.compiler.is_dynamo_compiling, torch.is_grad_enabled
    tracing_state = private_dispatch.tracing_state
    count_modes, is_profiled, may_have_tangents = (
        private.count_function_modes,
        private.is_profiled,
        private.may_have_tangents,
    )

    def call(*args, **kwargs):
        # Dynamo takes the first for True, and traces no more than the operator.
        if is_traced() or is_recorded() or count_modes() or is_profiled() or may_have_tangents() or not is_ours():
            return operator(*args, **kwargs)
        flat, names = ((*args, *kwargs.values()), (*_DIRECT, *kwargs)) if kwargs else (args, _DIRECT)
        for fast_path in calls.recent:
            output = fast_path(flat, names)
            if output is not None:
                return output
        output = calls.again(flat, names) if tracing_state() is None else None
        if output is not None:
            return output
        output = operator(*args, **kwargs)
        count = next(misses)
        if count < _FIRST or count % PATIENCE == 0:
            _learn(flat, names)
        return output

    def _learn(flat, names):
        """Make a fast path of a call that the dispatcher handed on to `replayed`, and that has a plan there."""
        tensors = [value for value in flat if isinstance(value, torch.Tensor)]
        given = _handed_on(schema, flat, names[1:]) if all(map(private.is_plain, tensors)) else None
        if given is not None:
            replayed.add_fast_path(flat, names, *given)

    return call


def _handed_on(schema: FunctionSchema, flat: tuple, names: Sequence[str]) -> tuple[tuple, tuple[str, ...]] | None:
    """Return the arguments of a call as the dispatcher hands them on, flat, and the names of the last.

    None where these do not begin as those that were given.
    """
    count = len(flat) - len(names)
    arguments = {each.name: each for each in schema.arguments}
    given = tuple(list(value) if type(value) is tuple else value for value in flat)
    positional = given[:count]
    while positional and _is_default(positional[-1], schema.arguments[len(positional) - 1]):
        positional = positional[:-1]
    named = {name: value for name, value in zip(names, given[count:]) if not _is_default(value, arguments[name])}
    if named and len(positional) < count:
        return None
    return (*positional, *named.values()), tuple(named)


def _is_default(value: Any, argument: Any) -> bool:
    """Tell whether a value is the default of its argument, which the dispatcher leaves out."""
    default = argument.default_value if argument.has_default_value() else ...
    return type(value) is type(default) and not isinstance(value, torch.Tensor) and repr(value) == repr(default)
