"""Private names of `torch.distributed.tensor`: how an operator is given the ways to share out its calls.

PyTorch's public `register_sharding` remembers a call by its tensors and the arguments from its first integer on: a list
before it, such as the shape that a norm is over, would be forgotten. Importing this imports `torch.distributed.tensor`.
"""

from collections.abc import Callable, Sequence
from typing import Any

from .private import OpOverload

try:
    from torch.distributed.tensor import DTensor
    from torch.distributed.tensor._op_schema import OpStrategy, RuntimeSchemaInfo
    from torch.distributed.tensor._ops.utils import expand_to_full_mesh_op_strategy as _expand

    _PROPAGATOR: Any = DTensor._op_dispatcher.sharding_propagator
    _register: Callable[..., None] = _PROPAGATOR.register_op_strategy
    _SIZES: dict[Any, Any] = _PROPAGATOR.op_to_shape_and_stride_idx
    IS_THERE = True
except (ImportError, AttributeError):
    IS_THERE = False

# Placements of outputs, then those of tensors among the arguments, on one dimension of a mesh.
Way = list[Any]
# Tells of the placements of tensors, on all dimensions of a mesh, whether they fit together.
Fits = Callable[[Sequence[Sequence[Any]], Any], bool]


def share_out(
    operator: OpOverload, ways: Callable[..., tuple[list[Way], Fits]], size_of_output: int | None = None
) -> None:
    """Register the ways to share out an operator's calls over one dimension of a mesh, which hold for each dimension.

    ways: gets the arguments of a call, a tensor as what has its `shape`; remembered by all other arguments, too.
    size_of_output: the place of the argument that is the shape of the output; each process gets that of its part.

    An argument that is written stays where it is: what was written to a copy of it, placed otherwise, would be lost.
    """
    written = [i for i, each in enumerate(operator._schema.arguments) if each.alias_info is not None]

    def strategy(schema: Any) -> Any:
        found, fits = ways(*schema.args_schema, **schema.kwargs_schema)
        mesh = schema.get_mesh_from_args()
        expanded = _expand(mesh, schema, found, input_index=len(schema.op._schema.returns))
        kept = [each for each in expanded.strategies if fits(_placements(each), mesh)]
        for i in written:
            given = schema.args_schema[i].strategies[0].output_spec.placements
            kept = [each for each in kept if _placements(each)[i] == given]
        if not kept:
            names = ", ".join(operator._schema.arguments[i].name for i in written)
            raise NotImplementedError(
                f"{operator.name()} writes to {names}, and does not where they lie on the mesh; redistribute them first"
            )
        return OpStrategy(kept)

    by_keyword = [each.name for each in operator._schema.arguments if each.kwarg_only]
    _register(operator, strategy, RuntimeSchemaInfo(0, by_keyword or None))
    if size_of_output is not None:
        _SIZES[operator] = size_of_output


def _placements(way: Any) -> list[Sequence[Any]]:
    return [spec.placements for spec in way.input_specs]


def tensors_of(operator: OpOverload, args: Sequence[Any]) -> list[Any]:
    """Return the tensors among the arguments of an operator, None for one that is not given."""
    places = [i for i, each in enumerate(operator._schema.arguments) if "Tensor" in str(each.type)]
    return [args[i] if i < len(args) else None for i in places]
