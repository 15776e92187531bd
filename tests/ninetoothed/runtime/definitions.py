"""Kernel definitions made by hand, for tests of the runtime that need no frontend."""

from ninetoothed.arrangement.symbol import Symbol
from ninetoothed.arrangement.tensor import Tensor
from ninetoothed.definition import KernelDefinition, KernelParameter


def define(*arranged, names="xyzuvw", touched=None, name="kernel", application=None):
    """The definition of a kernel with these arranged tensors as parameters, called x, y, z, ..."""
    parameters = tuple(
        KernelParameter(letter, tensor.arrangement, touched is None or letter in touched)
        for letter, tensor in zip(names, arranged, strict=False)
    )
    symbols = {
        key: symbol
        for parameter in parameters
        for key, symbol in parameter.arrangement.symbols.items()
        if (symbol.constexpr or symbol.meta) and symbol not in parameter.source.sizes
    }
    return KernelDefinition(name, parameters, application or (lambda *tiles: None), symbols)


BLOCK = Symbol("BLOCK", constexpr=True)


def elementwise(count=3, ndim=1, **options):
    """`count` tensors of `ndim` dimensions, cut along the last one into tiles of BLOCK."""
    tensors = (Tensor(ndim, name=name) for name in "abcdef"[:count])
    return define(*(tensor.tile((1,) * (ndim - 1) + (BLOCK,)) for tensor in tensors), **options)
