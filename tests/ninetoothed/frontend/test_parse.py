"""Which text stands for a function: lambdas that share a line, and functions behind decorators."""

import ast
import functools
import importlib
import inspect
import linecache
import sys
import zipfile

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import ApplicationError, Tensor
from ninetoothed.frontend.parse import parse

X = torch.arange(8.0)


def run(application, *inputs):
    """Run an application of tiles of 8 elements; its last parameter is the output."""
    output = torch.zeros_like(X)
    kernel = ninetoothed.make(
        lambda *tensors: tuple(tensor.tile((8,)) for tensor in tensors), application, (Tensor(1),) * (len(inputs) + 1)
    )
    kernel(*inputs, output)
    return output


# -- lambdas -----------------------------------------------------------------------------------------------------------


def pair(k):
    return (lambda a: a + k), (lambda a: a * k)


# fmt: off
FUNCTIONS = [lambda a: ntl.exp(a), lambda a: ntl.sin(a)]
TABLE = {"a": lambda a: a * 2, "b": lambda a: a * 2.0}
NESTED = lambda a: lambda a: -a  # noqa: E731
CONSTANT = (lambda a: 0), (lambda a: 1)
OPEN = {"first": (lambda a,
    b: a +
    b), "last": lambda a: a - 1}
# fmt: on


@pytest.mark.parametrize(
    "function, text",
    (
        (pair(3)[0], "a + k"),
        (pair(3)[1], "a * k"),
        (FUNCTIONS[0], "ntl.exp(a)"),
        (FUNCTIONS[1], "ntl.sin(a)"),
        (TABLE["a"], "a * 2"),
        (TABLE["b"], "a * 2.0"),
        (NESTED, "lambda a: -a"),
        (NESTED(1), "-a"),
        (CONSTANT[0], "0"),
        (CONSTANT[1], "1"),
        (OPEN["first"], "a + b"),
        (OPEN["last"], "a - 1"),
    ),
)
def test_lambdas_that_share_a_line(function, text):
    assert ast.unparse(parse(function).tree.body) == text


def test_lambdas_that_share_a_line_compute_what_they_say():
    plus, times = pair(3.0)

    def application(x, y):
        y = plus(x) * times(x)

    assert torch.equal(run(application, X), (X + 3) * (X * 3))


def test_lambdas_point_at_their_own_lines():
    first = OPEN["first"]
    location = parse(first).location(parse(first).tree.body.right)
    assert location.text == '    b), "last": lambda a: a - 1}' and location.column == 4


# -- decorators --------------------------------------------------------------------------------------------------------


def doubled(function):
    @functools.wraps(function)
    def inner(*args, **kwargs):
        return function(*args, **kwargs) * 2

    return inner


@doubled
def shifted(x, *, by=1):
    return x + by


class Doubled:
    def __init__(self, function):
        functools.update_wrapper(self, function)

    def __call__(self, *args):
        return self.__wrapped__(*args) * 2


def test_a_decorated_helper_computes_what_its_decorator_makes_of_it():
    def application(x, y):
        y = shifted(x) + shifted(x, by=3)

    assert torch.equal(run(application, X), 2 * (X + 1) + 2 * (X + 3))


def test_a_decorated_application_has_the_parameters_of_its_decorator():
    def add_one(function):
        @functools.wraps(function)
        def inner(p, q):
            function(p, q)
            q = q + 1

        return inner

    @add_one
    def application(x, y):
        y = x * 3

    assert torch.equal(run(application, X), X * 3 + 1)


def test_decorators_that_change_no_result():
    def application(x, y):
        y = x * 3

    for decorator in (functools.cache, functools.lru_cache(maxsize=2), torch.no_grad(), torch.compiler.disable):
        assert torch.equal(run(decorator(application), X), X * 3)
        assert torch.equal(run(functools.partial(decorator(application)), X), X * 3)


def test_a_decorator_without_a_function():
    helper = Doubled(lambda x: x + 1)

    def application(x, y):
        y = helper(x)

    with pytest.raises(ApplicationError, match="cannot run on tiles; .* write it as a plain Python function"):
        run(application, X)


class Scaled:
    def __init__(self, factor):
        self.factor = factor

    def __call__(self, x, y):
        y = x * self.factor


def test_an_object_that_can_be_called():
    for application in (Scaled(3.0), functools.partial(Scaled(3.0))):
        assert torch.equal(run(application, X), X * 3)


def test_many_variadic_parameters():
    def application(*tiles):
        tiles[-1][ntl.arange(0, 8)] = sum(tiles[:-1])

    assert torch.equal(run(application, *[X] * 70), X * 70)


def test_a_parameter_that_is_called_as_one_of_those_after_it():
    def application(tiles_0, *tiles):
        tiles[-1][ntl.arange(0, 8)] = tiles_0 - 2 * tiles[0]

    assert torch.equal(run(application, X, X + 1), -X - 2)


def test_types_by_names_that_functions_of_triton_use():
    def helper(x, pointer):
        if x.dtype.is_fp32() and not x.dtype.is_fp16() and x.dtype.primitive_bitwidth == 32:
            return (x + 1).to(pointer.dtype.element_ty)
        return x

    def application(x, y):
        y = helper(x, y.source.data_ptr() + y.offsets())

    assert torch.equal(run(application, X), X + 1)


def test_code_that_a_notebook_reloads():
    """`%autoreload` gives functions other code in place."""

    def application(x, y):
        y = x * 2

    def edited(x, y):
        y = x * 5

    assert torch.equal(run(application, X), X * 2)
    application.__code__ = edited.__code__
    application.__name__ = application.__qualname__ = "edited"
    assert torch.equal(run(application, X), X * 5)


MODULE = """
def helper(x):
    return x * 2


def application(x, y):
    y = helper(x) + 1
"""


@pytest.mark.parametrize("old, new", ((" + 1", " - 1"), (" + 1", " + 3"), (" * 2", " * 3"), ("\ndef", "\n\ndef")))
def test_a_file_that_was_edited_after_it_was_imported(old, new, tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.delitem(sys.modules, "edited", raising=False)
    file = tmp_path / "edited.py"
    file.write_text(MODULE)
    module = importlib.import_module("edited")
    file.write_text(MODULE.replace(old, new) + "\n")
    with pytest.raises(ApplicationError, match="was edited after it was imported|no definition of that name"):
        run(module.application, X)
    module = importlib.reload(module)
    assert torch.equal(run(module.application, X), X * (3 if "* 3" in new else 2) + {" - 1": -1, " + 3": 3}.get(new, 1))


def test_modules_are_not_searched_for_a_generated_text(monkeypatch):
    """`inspect` looks through all of them, of which there are thousands, for each function of a notebook's cell."""
    scope = {"__file__": __file__, "__name__": __name__, "__loader__": __loader__}
    for file in ("<a text of ours>", "generated.py"):
        exec(compile(MODULE, file, "exec"), scope)
        with pytest.raises(ApplicationError, match="source code"):  # and not that of this file
            parse(scope["application"])
        entry = (len(MODULE), None, MODULE.splitlines(keepends=True), file)
        monkeypatch.setitem(linecache.cache, file, entry)
        with monkeypatch.context() as searched:
            searched.setattr(inspect, "getmodule", None)
            assert torch.equal(run(scope["application"], X), X * 2 + 1)


def test_a_module_in_an_archive(tmp_path, monkeypatch):
    path = tmp_path / "archive.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("within.py", MODULE)
    monkeypatch.syspath_prepend(path)
    monkeypatch.delitem(sys.modules, "within", raising=False)
    assert torch.equal(run(importlib.import_module("within").application, X), X * 2 + 1)
