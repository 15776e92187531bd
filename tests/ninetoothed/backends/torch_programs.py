"""Small programs made by hand, for tests of the PyTorch backend that need no frontend."""

import torch

from ninetoothed import dtypes, ir
from ninetoothed.arrangement.guards import Guard
from ninetoothed.backends.torch import run
from ninetoothed.expr import Facts, as_expr, const, var

LOCATION = ir.SourceLocation("kernel.py", 7, 4, "    output = input")


def tile(dtype, *lanes):
    return ir.TileType(dtype, tuple(const(n) for n in lanes), lanes)


def value(dtype, *lanes, hint=None):
    return ir.Value(tile(dtype, *lanes), hint)


def parameter(name, tensor):
    sizes, strides = (tuple(map(const, numbers)) for numbers in (tensor.shape, tensor.stride()))
    return ir.Parameter(name, "tensor", dtypes.from_torch(tensor.dtype), sizes, strides)


def access(name, dtype, lanes, indices, guards=(), other=0, bindings=()):
    """An access whose indices are in `program_0`, ..., `lane_0`, ... and loop counters."""
    ran = tuple(ir.Lane(f"lane_{axis}", axis, count) for axis, count in enumerate(lanes))
    indices = tuple(map(as_expr, indices))
    guards = tuple(Guard(as_expr(index), as_expr(size)) for index, size in guards)
    return ir.Access(name, tile(dtype, *lanes), indices, guards, other, ran, bindings)


def execute(body, tensors, grid, scalars=None, integers=None):
    """Run a body on tensors (by name) for every program of the grid."""
    scalars = scalars or {}
    parameters = tuple(parameter(name, tensor) for name, tensor in tensors.items())
    parameters += tuple(ir.Parameter(name, "scalar", dtype) for name, (dtype, _) in scalars.items())
    axes = tuple(f"program_{d}" for d in range(len(grid)))
    program = ir.Program("kernel", parameters, tuple(map(as_expr, grid)), axes, tuple(body), Facts())
    run(program, {**tensors, **{name: given for name, (_, given) in scalars.items()}}, integers or {})


def apply(function, operands, results, **attributes):
    """Apply a primitive to tensors of shape (programs, lanes...); `results` are (dtype, lanes) of each result."""
    programs = operands[0].shape[0]
    tensors = {f"in_{i}": tensor for i, tensor in enumerate(operands)}
    body, values = [], []
    for name, tensor in tensors.items():
        loaded = value(dtypes.from_torch(tensor.dtype), *tensor.shape[1:])
        body.append(ir.Load(loaded, rows(name, tensor)))
        values.append(loaded)
    outputs = tuple(value(dtype, *lanes) for dtype, lanes in results)
    attributes = tuple(attributes.items())
    body.append(ir.Apply(outputs, function, tuple(values), attributes, location=LOCATION))
    for i, output in enumerate(outputs):
        shape = (programs, *output.type.lanes)
        tensors[f"out_{i}"] = torch.zeros(shape, dtype=getattr(torch, dtypes.to_torch_name(output.type.dtype)))
        body.append(ir.Store(rows(f"out_{i}", tensors[f"out_{i}"]), output))
    execute(body, tensors, (programs,))
    found = [tensors[f"out_{i}"] for i in range(len(outputs))]
    return found[0] if len(found) == 1 else found


def rows(name, tensor):
    """Program p's tile is row p of the tensor."""
    lanes = tuple(tensor.shape[1:])
    indices = (var("program_0"), *(var(f"lane_{axis}") for axis in range(len(lanes))))
    return access(name, dtypes.from_torch(tensor.dtype), lanes, indices)


def close(actual, expected, tolerance=1e-6):
    """Whether tensors agree in shape, type and, relatively, in norm."""
    assert actual.shape == expected.shape and actual.dtype == expected.dtype
    error = (actual.double() - expected.double()).norm() / expected.double().norm().clamp_min(1e-30)
    assert error <= tolerance, error
