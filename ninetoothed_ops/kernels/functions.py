"""Activation functions of one tile, and their gradients: what kernels apply element by element, by name.

A gradient takes that of the result. Factors are multiplied in an order in which 0 never meets infinity for finite x.
"""

import ninetoothed.language as ntl

from .numeric import exponential, widen

# 1 / sqrt(2), 1 / sqrt(2 pi) and 2 * sqrt(2 / pi).
ROOT_HALF, DENSITY, TWICE = 0.7071067811865476, 0.3989422804014327, 1.5957691216057308
CUBIC = 0.044715


def gelu(x):
    """x times the share of a normal distribution that is below x."""
    return 0.5 * x * (1 + ntl.erf(x * ROOT_HALF))


def gelu_gradient(grad, x):
    return grad * (0.5 * (1 + ntl.erf(x * ROOT_HALF)) + x * (DENSITY * ntl.exp(-0.5 * x * x)))


def gelu_tanh(x):
    """0.5 * x * (1 + tanh(u)), which is x * sigmoid(2 * u), where u = sqrt(2 / pi) * (x + 0.044715 * x^3)."""
    return x * ntl.sigmoid(TWICE * (x + CUBIC * x * x * x))


def gelu_tanh_gradient(grad, x):
    inner = TWICE * (x + CUBIC * x * x * x)
    # Sigmoids of `exponential`: that of `ntl.sigmoid`, a GPU's own, leaves errors of half an ulp of float32.
    gate = 1 / (1 + exponential(-inner, grad.dtype))
    # 1 - gate would be what rounding leaves of a difference.
    rest = gate / (1 + exponential(inner, grad.dtype)) * x
    return grad * (gate + TWICE * (rest + 3 * CUBIC * rest * x * x))


def quick_gelu(x):
    return x * ntl.sigmoid(1.702 * x)


def quick_gelu_gradient(grad, x):
    gate = ntl.sigmoid(1.702 * x)
    return grad * (gate + gate * (1 - gate) * 1.702 * x)


def relu(x):
    return ntl.where(x < 0, 0.0, x)


def relu_gradient(grad, x):
    # A gradient that overflowed is none where x is below 0.
    return ntl.where(x <= 0, 0.0, grad)


def relu_squared(x):
    return relu(x) * relu(x)


def relu_squared_gradient(grad, x):
    return ntl.where(x <= 0, 0.0, grad * (2 * x))


def silu(x):
    return x * ntl.sigmoid(widen(x))


def silu_gradient(grad, x):
    gate = ntl.sigmoid(x)
    return grad * (gate * (1 + x * (1 - gate)))


# By the names that operators take: the function and its gradient.
FUNCTIONS = {
    "gelu": (gelu, gelu_gradient),
    "gelu_tanh": (gelu_tanh, gelu_tanh_gradient),
    "quick_gelu": (quick_gelu, quick_gelu_gradient),
    "relu": (relu, relu_gradient),
    "relu_squared": (relu_squared, relu_squared_gradient),
    "silu": (silu, silu_gradient),
}
# Those that take a tile as it is stored. A product with what they give rounds that first, as they do by themselves.
OF_STORED = ("silu",)
_OF_SILU = {"activation": "silu", "gated": "swiglu"}


def read(tile, name):
    """The tile as a function takes it."""
    return tile if name in OF_STORED else widen(tile)


def kernel_name(kind, name, suffix=""):
    """Name the kernel of a kind that applies a function: that of SiLU has a name of its own."""
    return f"{_OF_SILU[kind]}{suffix}" if name == "silu" else f"{kind}{suffix}_{name}"
