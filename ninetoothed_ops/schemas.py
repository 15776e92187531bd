"""Schemas of operators: what PyTorch reads in them, and what they ask of functions."""

import inspect
from collections.abc import Callable

from ninetoothed.errors import ArgumentError
from ninetoothed.runtime import private
from ninetoothed.runtime.private import FunctionSchema


def parted(schema: str) -> tuple[str, str]:
    """Split a schema into its namespace and the rest."""
    namespace, separator, signature = schema.partition("::")
    if not separator:
        raise ArgumentError(f'the schema "{schema}" has no namespace; write "my_library::{schema}"')

    return namespace, signature


def parsed_schema(schema: str, may_write: bool = False) -> FunctionSchema:
    """Parse a schema, of which `register` makes an operator; whether it may write into arguments."""
    try:
        parsed = private.parse_schema(schema)
    except RuntimeError as error:
        raise ArgumentError(f'the schema "{schema}" cannot be read: {str(error).strip()}') from None
    places = [*((each, may_write) for each in parsed.arguments), *((each, False) for each in parsed.returns)]
    for value, may_alias in places:
        if value.alias_info is not None and not may_alias:
            raise ArgumentError(
                f"{value.name or 'the output'} of {parsed} is mutated or aliased, which no operator of `register` is; "
                "allocate the output anew, and copy it to where it belongs"
            )
        if str(value.type) == "List[Optional[Tensor]]":
            raise ArgumentError(
                f"{value.name} of {parsed} is a list of optional tensors, through which PyTorch loses gradients; "
                "take Tensor[], or several arguments of the type Tensor?"
            )
    for argument in parsed.arguments:
        if argument.kwarg_only and "Tensor" in str(argument.type):
            raise ArgumentError(
                f"{argument.name} of {parsed} is a tensor that is taken by keyword alone, and would get no gradient; "
                "put it before the `*`"
            )
    if not any("Tensor" in str(argument.type) for argument in parsed.arguments):
        raise ArgumentError(f"{parsed} has no tensor among its arguments, by whose device PyTorch chooses; take one")

    return parsed


def written(parsed: FunctionSchema) -> tuple[int, ...]:
    """Find the places of the arguments that an operator writes into."""
    return tuple(i for i, each in enumerate(parsed.arguments) if each.alias_info is not None)


def check_parameters(parsed: FunctionSchema, *functions: tuple[str, Callable]) -> None:
    """Check that functions, by role, have the schema's defaults: PyTorch leaves out arguments that equal them."""
    for role, function in functions:
        before = (None,) if role == "launch" else ()
        arguments = parsed.arguments
        positional = [None for a in arguments if not a.kwarg_only and not a.has_default_value()]
        required = {a.name: None for a in arguments if a.kwarg_only and not a.has_default_value()}
        every = {a.name: None for a in arguments if a.kwarg_only}
        try:
            signature = inspect.signature(function)
        except (TypeError, ValueError):
            raise ArgumentError(
                f"{role} of {parsed.name} is {function!r}, of whose parameters Python does not tell; write a function "
                "with those of the schema that calls it"
            ) from None
        try:
            signature.bind(*before, *positional, **required)
            signature.bind(*before, *(None for a in arguments if not a.kwarg_only), **every)
        except TypeError as error:
            raise ArgumentError(
                f"{role} of {parsed.name} takes {signature}, which does not fit the schema {parsed}: {error}; "
                "give it the schema's parameters and defaults" + (", after the output" if before else "")
            ) from None
