"""Kernels as operators of PyTorch: `register`.

>>> import ninetoothed, torch
>>> from ninetoothed import Tensor, block_size
>>> def arrangement(x, y, size=block_size()):
...     return x.tile((size,)), y.tile((size,))
>>> def application(x, y):
...     y = x + x
>>> kernel = ninetoothed.make(arrangement, application, (Tensor(1), Tensor(1)))
>>> twice = register(
...     "example::twice(Tensor x) -> Tensor",
...     allocate=lambda x: torch.empty_like(x),
...     launch=lambda output, x: kernel(x, output),
... )
>>> torch.ops.example.twice(torch.arange(3))
tensor([0, 2, 4])

Registering a name again replaces the operator, as notebooks need; where the schema is another, what was returned
before must not be called any more. Without `backward` or `recorded`, a result that requires grad raises
`UnsupportedError` with the operator's name in `backward()`. The call itself raises it for tensors with tangents
(`torch.func.jvp`, `jacfwd`, `torch.autograd.forward_ad`): no derivative is ever lost in silence.
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch

from ninetoothed.runtime import private, private_dispatch
from ninetoothed.runtime.launch_plan import ReplayedFunction
from ninetoothed.runtime.private import FunctionSchema, OpOverload

from .autocast import cast_first, cast_where_enabled, uncast
from .autograd import in_reverse, no_backward
from .direct import direct
from .forward_mode import tensors_among
from .nested import itself_on_nested, refusing
from .recording import Gradient
from .schemas import check_parameters, parsed_schema, parted, written

# PyTorch forgets what a Library holds when that is collected: here definitions, with the signatures that they give, and
# kernels. Kernels stay until the operator is registered again, a definition until that happens with another signature:
# without it, an operator that someone kept calls into freed memory.
_DEFINITIONS: dict[str, tuple[str, torch.library.Library]] = {}
_KERNELS: dict[str, torch.library.Library] = {}
# By the name of an operator, the functions that it was registered with.
OPERATORS: dict[str, "Functions"] = {}

# Its kernel is called before autograd records, which records what it calls; for inference PyTorch's class calls it.
_NESTED = "CompositeImplicitAutogradNestedTensor"
_MISSING = "ninetoothed::backward_missing"
# The parameters of `register` that a file of operators may have functions for, by these names.
_FUNCTIONS = ("allocate", "launch", "backward", "setup_context", "recorded", "flatten", "autocast")


def register(
    schema: str,
    allocate: Callable,
    launch: Callable,
    *,
    backward: Callable | None = None,
    setup_context: Callable | None = None,
    replay: bool = False,
    flatten: Callable | None = None,
    autocast: Callable[[str], torch.dtype | None] | None = None,
    recorded: Callable | None = None,
    nested: Callable | None = None,
    tags: tuple[torch.Tag, ...] = (),
) -> OpOverload:
    """Register an operator that allocates its output and launches kernels on it, and return it.

    schema: PyTorch's, with a namespace. The functions below have its defaults.
    allocate: checks the arguments and returns the output, not yet filled; a tuple where there are several. Nothing else
        runs on fake and meta tensors: shapes, strides, types and devices agree under `torch.compile` by construction.
    launch: `launch(output, *args, **kwargs)` fills the output of real tensors, on the CPU or on CUDA.
    backward, setup_context: those of `torch.library.register_autograd`; they work under `torch.func.grad`, `vjp` and
        `jacrev` too. For derivatives of higher orders, `backward` calls operators that have a backward of their own.
    recorded: in the place of `backward`, computes the same by operators that have gradients, and is called where one
        will be needed. One of these operators may return more, for its backward to use. An operator that writes into
        arguments, which its schema marks `Tensor(a!)`, needs it.
    replay: promises that `allocate` and `launch` depend on nothing but types, shapes, strides, devices, alignment to 16
        bytes and the values of arguments other than tensors. Calls on CUDA tensors like earlier ones then skip both,
        and take a few microseconds. If `launch` does more than take views, allocate, copy and launch kernels, it runs.
    flatten: gives the arguments of `allocate` and `launch`, all positional, in the place of the operator's. An operator
        of lists of tensors needs it to be replayed: it gives the tensors one by one.
    autocast: `autocast("cpu" or "cuda")` gives the type to which `torch.autocast` casts floating-point tensors, float64
        aside; None leaves them as they are.
    nested: computes the same of the operator's arguments where some are nested tensors, by operators that have
        gradients. Without it, `allocate`, `launch` and `backward` get the nested tensors themselves, as kernels with
        `jagged_dim` take them; `torch.compile` cannot trace that.
    tags: PyTorch's.

    Raises `ArgumentError` for a schema that PyTorch cannot read, or that has no namespace, no tensor among its
    arguments, an aliased one, one by keyword alone, or a list of optional tensors, and for functions whose parameters
    do not fit the schema.
    """
    # All that can be wrong is found before anything changes: the operator that has the name stays as it is.
    namespace, signature = parted(schema)
    parsed = parsed_schema(schema, may_write=recorded is not None)
    name = f"{namespace}::{signature.partition('(')[0]}"
    functions = Functions(name, allocate, launch, replay, flatten, written(parsed))
    functions.check(parsed)

    operator = _define(name, signature, tags)
    gradient = _missing_backward(name) if backward is None else Gradient(backward, setup_context)
    if recorded is not None:
        gradient = replace(gradient, recorded=uncast(recorded) if functions.written else recorded, is_missing=False)
    _implement(operator, parsed, functions, gradient, autocast)
    if nested is None:
        nested = itself_on_nested(operator, parsed, gradient, functions.on_tensors)
    _KERNELS[name].impl(operator, nested, _NESTED)

    return operator


def of_file(signature: str, names: Mapping[str, Any], suffix: str = "", **options: Any) -> Callable:
    """Register `ninetoothed::` and the signature by the functions of a file: its `allocate`, its `launch` and others.

    Return the function that calls it (`direct`).

    names: the file's, in which they have those of `register`'s parameters. Where a file has several operators, they end
    in a `suffix`, unless both have the same. All are replayed. A gradient that has no `setup_context` finds the tensors
    of a call saved, and all else in `ctx.options`.
    """
    schema = f"ninetoothed::{signature}"
    found = {role: names.get(role + suffix, names.get(role)) for role in _FUNCTIONS}
    given = {role: function for role, function in found.items() if function is not None} | options
    if "backward" in given:
        given.setdefault("setup_context", _keeping(schema))

    given.setdefault("nested", refusing(schema.partition("(")[0]))

    operator = register(schema, replay=True, **given)
    functions = OPERATORS[operator.name()]
    # A function of lists of tensors gets them flat, and one that writes to arguments counts their versions.
    if functions.flatten is not None or functions.written:
        return operator

    return direct(operator, parsed_schema(schema), functions.replayed)


def _keeping(schema: str) -> Callable:
    are_tensors = ["Tensor" in str(each.type) for each in parsed_schema(schema).arguments if not each.kwarg_only]

    def setup_context(ctx, inputs, output, keyword_only_inputs=None):
        ctx.save_for_backward(*itertools.compress(inputs, are_tensors))
        others = (each for each, is_tensor in zip(inputs, are_tensors) if not is_tensor)
        ctx.options = *others, *(keyword_only_inputs or {}).values()

    return setup_context


@dataclass(frozen=True)
class Functions:
    """The functions of an operator: see `register`."""

    name: str
    allocate: Callable
    launch: Callable
    replay: bool
    flatten: Callable | None
    # The places of the arguments that are written.
    written: tuple[int, ...]

    def check(self, schema: FunctionSchema) -> None:
        """Check that what gets the operator's arguments takes them."""
        if self.flatten is None:
            check_parameters(schema, ("allocate", self.allocate), ("launch", self.launch))
        else:
            check_parameters(schema, ("flatten", self.flatten))

    @cached_property
    def replayed(self) -> ReplayedFunction:
        """The function that remembers what its calls on CUDA launch."""
        return ReplayedFunction(self.allocate, self.launch)

    @property
    def fake(self) -> Callable:
        """The function that runs on fake and meta tensors."""
        return self._of_operator(self.allocate)

    def kernels(self) -> dict[str, Callable]:
        """Make the function that runs on real tensors, for each type of device."""
        on_cuda = self._counting(self._of_operator(self.replayed)) if self.replay else self.on_tensors
        return {"CPU": self.on_tensors, "CUDA": on_cuda}

    @cached_property
    def on_tensors(self) -> Callable:
        """The function that allocates and launches, whatever the tensors are."""
        allocate, launch = self.allocate, self.launch

        @private.hidden_from_dynamo
        def forward(*args, **kwargs):
            output = allocate(*args, **kwargs)
            launch(output, *args, **kwargs)
            return output

        return self._counting(self._of_operator(forward))

    def _of_operator(self, function: Callable) -> Callable:
        """Make a function of the operator's arguments of one that gets them flattened."""
        flatten = self.flatten
        if flatten is None:
            return function

        return private.hidden_from_dynamo(lambda *args, **kwargs: function(*flatten(*args, **kwargs)))

    def _counting(self, kernel: Callable) -> Callable:
        """Count the versions of what is written, by which autograd sees that something it has saved has changed."""
        if not self.written:
            return kernel

        @private.hidden_from_dynamo
        def count(*args, **kwargs):
            for value in (args[i] for i in self.written):
                if not value.is_inference():
                    torch.autograd.graph.increment_version(value)
                elif not torch.is_inference_mode_enabled():
                    raise RuntimeError(
                        f"{self.name}: Inplace update to inference tensor outside InferenceMode is not allowed; "
                        "pass a clone of it, or call the operator inside torch.inference_mode()"
                    )
            return kernel(*args, **kwargs)

        return count


def batch_by(name: str, rule: Callable) -> None:
    """Let a rule `(info, in_dims, *args, **kwargs)` of `torch.library.register_vmap` batch a registered operator."""
    torch.library.register_vmap(_overload(name), rule, lib=_KERNELS[name])


def compose_batches(name: str, compute: Callable) -> None:
    """Let others that are batched compute what an operator does, of the same arguments, under `torch.vmap`."""
    _KERNELS[name].impl(_overload(name), compute, "FuncTorchBatched")


def _implement(
    operator: OpOverload,
    schema: FunctionSchema,
    functions: Functions,
    gradient: Gradient,
    autocast: Callable[[str], torch.dtype | None] | None,
) -> None:
    """Give an operator its kernels, in the place of those that it had."""
    name = operator.name()
    if name in OPERATORS:
        OPERATORS[name].replayed.calls.forget()
    OPERATORS[name] = functions
    if name in _KERNELS:
        private.destroy(_KERNELS.pop(name))
    library = _KERNELS[name] = torch.library.Library(operator.namespace, "FRAGMENT")
    kernels = functions.kernels()
    for device, kernel in kernels.items():
        library.impl(operator, kernel, device)
    if autocast is not None:
        for device_type in ("cpu", "cuda"):
            kernel = cast_first(operator, device_type, autocast)
            library.impl(operator, kernel, f"Autocast{device_type.upper()}")
    torch.library.register_fake(operator, functions.fake, lib=library)
    if gradient.recorded is not None and torch.Tag.nondeterministic_seeded in operator.tags:
        # vmap runs an operator that it does not know on one example after another, each of which would draw numbers of
        # its own. PyTorch's operators, by which the same is computed, draw as vmap's `randomness` says.
        library.impl(operator, cast_where_enabled(gradient.recorded, autocast), "FuncTorchVmapMode")
    autograd = in_reverse(operator, schema, gradient, kernels, functions.fake)
    library.impl(operator, autograd, "Autograd", with_keyset=True)
    private_dispatch.unlist(name, (*kernels, "Autograd"))


def _define(name: str, signature: str, tags: tuple[torch.Tag, ...]) -> OpOverload:
    """Define the operator of this name anew: compiled code knows by the object that it was registered again."""
    namespace = name.partition("::")[0]
    if name in _DEFINITIONS and _DEFINITIONS[name][0] != signature:
        private.destroy(_DEFINITIONS.pop(name)[1])
    if name not in _DEFINITIONS:
        library = torch.library.Library(namespace, "FRAGMENT")
        library.define(signature, tags=(torch.Tag.pt2_compliant_tag, *tags))
        _DEFINITIONS[name] = signature, library

    private.forget_operator(namespace, name.partition("::")[2].partition(".")[0])
    return _overload(name)


def _overload(name: str) -> OpOverload:
    namespace, _, operator = name.partition("::")
    packet, _, overload = operator.partition(".")

    return getattr(getattr(getattr(torch.ops, namespace), packet), overload or "default")


def _missing_backward(name: str) -> Gradient:
    """Make a backward that can be traced into a graph, and raises only when it runs.

    It keeps what the gradients would look like, and no tensors: those may be overwritten before it runs.
    """

    def setup_context(ctx, inputs, output, keyword_only_inputs=None):
        ctx.inputs = [_like(value) for value in inputs]

    def backward(ctx, *grads):
        # With the gradients among its arguments, no compiler can move it into the forward pass.
        given = tensors_among(grads)
        return tuple(_missing(given, *each, name) for each in zip(ctx.inputs, ctx.needs_input_grad))

    return Gradient(backward, setup_context, is_missing=True)


def _like(value) -> tuple | list | None:
    """Describe a tensor, or each of a list, so that one like it can be allocated."""
    if isinstance(value, list | tuple):
        return [_like(item) for item in value]

    return (value.shape, value.dtype, value.device) if isinstance(value, torch.Tensor) else None


def _missing(grads, like, is_needed, name):
    """Make the gradient that is missing for an input, or the list of them for a list."""
    if isinstance(is_needed, list):
        return [_missing(grads, *each, name) for each in zip(like, is_needed)]

    return _overload(_MISSING)(grads, *like, name) if is_needed else None


def _allocate_missing(grads, size, dtype, device, operator):
    return torch.empty(size, dtype=dtype, device=device)


def _raise_missing(output, grads, size, dtype, device, operator):
    raise no_backward(operator)


def _register_missing() -> None:
    arguments = "Tensor[] grads, SymInt[] size, ScalarType dtype, Device device, str operator"
    operator = register(f"{_MISSING}({arguments}) -> Tensor", _allocate_missing, _raise_missing)
    # Gradients come in batches where `backward` is under vmap, old or new, and neither takes an operator of lists.
    for key in ("Batched", "FuncTorchBatched"):
        _KERNELS[_MISSING].impl(operator, lambda *args: _raise_missing(None, *args), key)


_register_missing()
