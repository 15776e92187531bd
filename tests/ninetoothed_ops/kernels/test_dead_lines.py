"""No line of an emitted kernel is there for nothing: no second name of a value, nothing unread, no helper twice."""

import ast
from collections import Counter

import pytest
import torch

import ninetoothed
import ninetoothed.language as ntl
from ninetoothed import Tensor, explain
from ninetoothed.runtime import dispatch, executable
from ninetoothed.runtime.selection import machine
from tests.ninetoothed.test_explain import check_the_schedule_told
from tests.ninetoothed_ops.kernels import calls


def names(node, context):
    return [each.id for each in ast.walk(node) if isinstance(each, ast.Name) and isinstance(each.ctx, context)]


def is_copy(node):
    is_plain = isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
    return is_plain and len(node.targets) == 1 and isinstance(node.targets[0], ast.Name)


def blocks(function):
    """The lists of statements of a function, nested ones too."""
    for node in ast.walk(function):
        for field in ("body", "orelse"):
            found = getattr(node, field, None)
            if isinstance(found, list):
                yield found


def is_avoidable(block, position, written):
    """Tell whether a copy could go by computing the value under its second name: the two do not live side by side."""
    target, source = block[position].targets[0].id, block[position].value.id
    if written[target] == 1 and written[source] <= 1:
        return True
    made = [i for i, each in enumerate(block[:position]) if source in names(each, ast.Store)]
    if not made:
        return False  # A loop begins with it, or a branch chooses it.
    between = [name for each in block[made[-1] + 1 : position] for name in names(each, ast.Load | ast.Store)]
    inside = not isinstance(block[made[-1]], ast.Assign) and target in names(block[made[-1]], ast.Load)
    after = [name for each in block[position + 1 :] for name in names(each, ast.Load)]
    return not inside and target not in between and source not in after


def repeated(loop):
    """Yield the lines of a loop that compute the same in each round; loops over products stay as they are."""
    inside, text = set(names(loop, ast.Store)), ast.unparse(loop)
    for statement in loop.body if "dot" not in text and "mma" not in text else ():
        if isinstance(statement, ast.Assign) and not is_copy(statement):
            read = set(names(statement.value, ast.Load)) - {"tl", "libdevice"}
            is_pure = not any(word in ast.unparse(statement.value) for word in ("load(", "atomic", "rand"))
            if read and is_pure and not read & inside:
                yield f"{ast.unparse(statement)}, in each round"


def dead_lines(text):
    """Yield the lines that could go."""
    functions = [node for node in ast.parse(text).body if isinstance(node, ast.FunctionDef)]
    bodies = Counter(ast.dump(node.args) + "".join(map(ast.dump, node.body)) for node in functions)
    yield from ("a helper that is there twice" for count in bodies.values() if count > 1)
    for function in functions:
        written, read = Counter(names(function, ast.Store)), Counter(names(function, ast.Load))
        for loop in (node for node in ast.walk(function) if isinstance(node, ast.For | ast.While)):
            yield from repeated(loop)
        for block in blocks(function):
            for position, statement in enumerate(block):
                is_unread = isinstance(statement, ast.Assign) and not any(read[n] for n in names(statement, ast.Store))
                if is_unread or (is_copy(statement) and is_avoidable(block, position, written)):
                    yield ast.unparse(statement)


@pytest.mark.parametrize("name", calls.NAMES + calls.OPTIONS + calls.GRADIENTS)
def test_the_kernels(name, monkeypatch):
    """And the schedule that is told of each is the one applied."""
    for size, dtype, gpu in (
        (calls.large, torch.float16, "h200"),
        (calls.large, torch.float32, "a100"),
        (calls.small, torch.float16, "b200"),
        (calls.small, torch.float32, "a100"),
    ):
        kernel, arguments = size(name, dtype)
        # A trace serves both: that each asks for one, `test_explain` sees.
        variant = dispatch.launcher_of(kernel).trace(arguments, {}, machine.named(gpu))
        text = executable.lowered(variant)
        with monkeypatch.context() as once:
            once.setattr(dispatch.Launcher, "trace", lambda *given, variant=variant: variant)
            once.setattr(explain, "lowered", lambda given, text=text: text)
            source = kernel.source(*arguments, gpu=gpu)
            check_the_schedule_told(source, kernel.explain(*arguments, gpu=gpu, passes=True))
        assert not [*dead_lines(source.text)], source.text


def left(a, b):
    return a + b


def right(a, b):
    return a + b


def names_again(x, y, z):
    rows = x.offsets(0)
    columns = rows
    total = ntl.reduce(x, 0, left)
    y = ntl.reduce(x * 2, 0, right) + total
    for k in range(3):
        for i in range(2):
            total = total * i + k
        if total > 3:
            total = total + ntl.reduce(x, 0, left)
    z = ntl.where(columns > 3, total, x)


def the_same_in_each_round(x, y, z):
    kept = ntl.zeros((64,), dtype=ntl.float32)
    for i in range(y.source.shape[0]):
        chosen = ntl.where(x > 3, x, 0.5)
        peak = chosen - ntl.max(chosen)
        for j in range(3):
            low = ntl.where(x > i, peak, 0)
            kept += low * low + j
        kept += peak * chosen
    z = kept


@pytest.mark.parametrize("application, functions", ((names_again, 2), (the_same_in_each_round, 1)))
def test_of_ones_own(application, functions):
    kernel = ninetoothed.make(
        lambda x, y, z: (x.tile((64,)), y.tile((1,)), z.tile((64,))), application, tuple(Tensor(1) for _ in range(3))
    )
    text = kernel.source(torch.empty(640), torch.empty(10), torch.empty(640), gpu="h200").text
    assert not [*dead_lines(text)] and text.count("\ndef ") == functions, text


@pytest.mark.parametrize(
    "line",
    (
        "rows = a\n    rows_1 = rows\n    f(rows_1)",
        "b = f(a)",
        "for i in f(a):\n        b = f(a)\n        a = b",
        "for i in f(a):\n        b = f(a)\n        g(b, i)",
    ),
    ids=("second name", "unread", "carried", "repeated"),
)
def test_the_scan_can_fail(line):
    assert [*dead_lines(f"def kernel(a):\n    {line}\n")]
    assert [*dead_lines("def f(a):\n    return a\ndef g(a):\n    return a\n")]
