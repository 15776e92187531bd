"""Activation functions of one tile, and their derivatives: what kernels apply element by element, by name."""

import ninetoothed.language as ntl

# 1 / sqrt(2), 1 / sqrt(2 pi) and 2 * sqrt(2 / pi).
ROOT_HALF, DENSITY, TWICE = 0.7071067811865476, 0.3989422804014327, 1.5957691216057308
CUBIC = 0.044715


def gelu(x):
    """x times the share of a normal distribution that is below x."""
    return 0.5 * x * (1 + ntl.erf(x * ROOT_HALF))


def gelu_slope(x):
    return 0.5 * (1 + ntl.erf(x * ROOT_HALF)) + x * (DENSITY * ntl.exp(-0.5 * x * x))


def gelu_tanh(x):
    """0.5 * x * (1 + tanh(u)), which is x * sigmoid(2 * u), where u = sqrt(2 / pi) * (x + 0.044715 * x^3)."""
    return x * ntl.sigmoid(TWICE * (x + CUBIC * x * x * x))


def gelu_tanh_slope(x):
    inner = TWICE * (x + CUBIC * x * x * x)
    gate = ntl.sigmoid(inner)
    # 1 - gate would be what rounding leaves of a difference.
    return gate + gate * ntl.sigmoid(-inner) * (TWICE * (x + 3 * CUBIC * x * x * x))


def quick_gelu(x):
    return x * ntl.sigmoid(1.702 * x)


def quick_gelu_slope(x):
    gate = ntl.sigmoid(1.702 * x)
    return gate * (1 + 1.702 * x * (1 - gate))


def relu(x):
    return ntl.where(x < 0, 0.0, x)


def relu_slope(x):
    return ntl.where(x <= 0, 0.0, 1.0)


def relu_squared(x):
    return relu(x) * relu(x)


def relu_squared_slope(x):
    return 2 * relu(x)


# By the names that operators take: the function and its derivative.
FUNCTIONS = {
    "gelu": (gelu, gelu_slope),
    "gelu_tanh": (gelu_tanh, gelu_tanh_slope),
    "quick_gelu": (quick_gelu, quick_gelu_slope),
    "relu": (relu, relu_slope),
    "relu_squared": (relu_squared, relu_squared_slope),
}
