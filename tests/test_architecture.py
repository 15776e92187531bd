"""The rooms of the project: imports go one way, and Triton stays in one of them."""

import ast
import fnmatch
import functools
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

# The rooms of ARCHITECTURE: a module may import from its own, a row of that table, and from rows above. The most
# specific path that fits is a module's; a new module needs a place there. The parts of the runtime import each other.
TABLE = (ROOT / "ARCHITECTURE.md").read_text().partition("| room | holds |")[2].partition("\n\n")[0]
ROOMS = [
    [
        re.sub(r"/$|(/__init__)?\.py$", "", path).replace("/", ".")
        for path in re.findall(r"`([^`]+)`", row.split(" | ")[0])
    ]
    for row in TABLE.splitlines()
    if not row.startswith("| `ninetoothed/runtime/") or row.startswith("| `ninetoothed/runtime/`")
]
# Imports from below: (of a module, from a room).
EXCEPTIONS = {
    ("ninetoothed.frontend", "ninetoothed.passes.dead_code"),
    ("ninetoothed_ops.modules.swap", "ninetoothed_ops.integrations"),
}
# A package whose parts stand in rooms of their own.
FACADES = ("ninetoothed.backends",)


def modules():
    """`{name: path}` of every module of both packages."""
    found = {}
    for package in ("ninetoothed", "ninetoothed_ops"):
        for path in sorted((ROOT / package).rglob("*.py")):
            parts = path.relative_to(ROOT).with_suffix("").parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


MODULES = modules()


@functools.cache
def tree_of(path):
    return ast.parse(path.read_text())


def imports(name, path, but=()):
    """The names of what a module imports, wherever in it, as (name, line, whether inside a function).

    but: ids of nodes of its tree that are left out.
    """
    tree = tree_of(path)
    inside = {
        id(node)
        for function in ast.walk(tree)
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef))
        for node in ast.walk(function)
    }
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(tree):
        if id(node) in but:
            continue
        if isinstance(node, ast.Import):
            yield from ((alias.name, node.lineno, id(node) in inside) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            for alias in node.names:
                inner = f"{source}.{alias.name}"
                yield inner if inner in MODULES else source, node.lineno, id(node) in inside


@functools.cache
def room(name):
    """The place in ROOMS of a module."""
    places = {each: place for place, names in enumerate(ROOMS) for each in names}
    chosen = max((each for each in places if name == each or name.startswith(f"{each}.")), key=len)
    # The last room of a package is for its own __init__ alone.
    assert chosen not in ("ninetoothed", "ninetoothed_ops") or name == chosen, (
        f"{name} has no room: add it to the table in ARCHITECTURE"
    )
    return places[chosen]


@functools.cache
def all_imports():
    """(module, imported, place, whether inside a function) of every import of both packages."""
    return [
        (name, imported, f"{path}:{line}", inside)
        for name, path in MODULES.items()
        for imported, line, inside in imports(name, path)
    ]


def test_every_module_has_a_room():
    for name in MODULES:
        assert name in FACADES or room(name) >= 0


def test_imports_go_one_way():
    for name, imported, place, _ in all_imports():
        if imported in MODULES and name not in FACADES:
            is_above = room(imported) <= room(name)
            known = any(name.startswith(own) and imported.startswith(other) for own, other in EXCEPTIONS)
            assert is_above or known, f"{place}: {name} may not import {imported}"


def circles():
    """The sets of two and more modules that import each other, in a circle; imports for type checkers alone apart."""
    graph = {name: set() for name in MODULES}
    for name, path in MODULES.items():
        typed = {
            id(node)
            for test in ast.walk(tree_of(path))
            if isinstance(test, ast.If) and ast.unparse(test.test) == "TYPE_CHECKING"
            for node in ast.walk(test)
        }
        graph[name] = {imported for imported, _, _ in imports(name, path, typed) if imported in MODULES}
    reached = {name: _reached(name, graph) for name in graph}
    return {frozenset(other for other in reached[name] if name in reached[other]) for name in graph} - {frozenset()}


def _reached(name, graph):
    seen, left = set(), [name]
    while left:
        for other in graph[left.pop()] - seen:
            seen.add(other)
            left.append(other)
    return seen


def test_at_most_one_circle_of_imports():
    """Sums call the rules of division, whose results are sums."""
    assert circles() == {frozenset({"ninetoothed.expr.algebra", "ninetoothed.expr.division"})}


def test_backends_know_nothing_of_each_other():
    """Gluon's alone is written on top of another: what it does not spell otherwise is printed as Triton."""
    for name, imported, place, _ in all_imports():
        if name.startswith("ninetoothed.backends.") and imported.startswith("ninetoothed.backends."):
            backend, other = (each.split(".")[2] for each in (name, imported))
            assert backend == other or (backend, other) == ("gluon", "triton"), f"{place} imports {imported}"


def test_triton_is_imported_by_functions_of_the_runtime_alone():
    for name, imported, place, inside in all_imports():
        if imported.partition(".")[0] == "triton":
            assert name.startswith("ninetoothed.runtime.") and inside, f"{place} imports {imported}"


def test_devices_are_known_to_the_runtime_alone():
    for name, path in MODULES.items():
        if name.startswith("ninetoothed.") and not name.startswith("ninetoothed.runtime"):
            attributes = (node for node in ast.walk(tree_of(path)) if isinstance(node, ast.Attribute))
            uses = [each.lineno for each in attributes if each.attr == "cuda" and ast.unparse(each) == "torch.cuda"]
            assert not uses, f"{path}:{uses} uses torch.cuda"


# Of Python, of transformers, of every subclass of `nn.Module`, and where AOTInductor stands: private by spelling.
SPELT_PRIVATE = {
    "_asdict",
    "_getframe",
    "_lru_cache_wrapper",
    "_attn_implementation",
    "_active_collector",
    "_parameters",
    "_modules",
    "_apply",
    "_inductor",
}


def names_used(tree):
    """(name, line) of attributes, of names imported, and of those that `getattr` is given."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute):
            yield node.attr, node.lineno
        elif isinstance(node, ast.Import | ast.ImportFrom):
            paths = [getattr(node, "module", None) or "", *(alias.name for alias in node.names)]
            yield from ((part, node.lineno) for path in paths for part in path.split("."))
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("getattr", "hasattr", "setattr"):
            yield from ((each.value, node.lineno) for each in node.args[1:2] if isinstance(each, ast.Constant))


def names_given(tree):
    """The names of functions, classes, variables and fields in a file."""
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Store):
            yield node.id if isinstance(node, ast.Name) else node.attr


def test_private_names_of_pytorch_and_triton_stand_in_five_files():
    trees = {name: tree_of(path) for name, path in MODULES.items()}
    for name in ("private", "private_dispatch", "private_functorch", "private_dtensor", "private_triton"):
        del trees[f"ninetoothed.runtime.{name}"]
    own = {each for tree in trees.values() for each in names_given(tree)} | SPELT_PRIVATE
    own |= {part for name in MODULES for part in name.split(".")}
    used = [(each, f"{MODULES[name]}:{line}") for name, tree in trees.items() for each, line in names_used(tree)]
    found = [each for each in used if re.match("_[^_]", each[0]) and each[0] not in own]
    found += [each for each in used if each[0] == "triton.runtime"]
    assert len(used) > 1000 and not found, f"{found}: `runtime/private.py` or a file beside it is the place for that"


def run(program):
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.split()


def test_importing_brings_in_neither_triton_nor_transformers_nor_a_device():
    """Not by `ninetoothed` either, which `ninetoothed_ops` imports; nor what counts FLOPs, which learns of operators
    all the same, before their import or after it. Nor does a swap import transformers."""
    program = """
import sys, ninetoothed_ops, torch
others = {"triton", "transformers", "torch.utils.flop_counter"}
print(*sorted(others.intersection(sys.modules)))
assert not torch.cuda.is_initialized()
assert ninetoothed_ops.register_attention and ninetoothed_ops.swap_modules(
    torch.nn.Sequential(torch.nn.Linear(3, 3))
).swapped
print(*sorted(others.intersection(sys.modules) - {"triton"}))
import torch.utils.flop_counter as counter
assert torch.ops.ninetoothed.mm in counter.flop_registry
"""
    assert run(program) == []


def test_importing_needs_no_triton_at_all():
    run("import sys; sys.modules['triton'] = None; import ninetoothed, ninetoothed_ops")


def definitions(path):
    """(name, line, the first word of the docstring) of a module and of all classes and functions in it."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node):
            name, line = getattr(node, "name", "the module"), getattr(node, "lineno", 1)
            yield name, line, ast.get_docstring(node).split(maxsplit=1)[0].strip(",:")


RIDDLES = {"As", "From", "How", "Into", "Of", "That", "Those", "What", "Whatever", "Where", "Whether", "Which"}


def test_docstrings_begin_with_a_verb_or_with_the_thing_itself():
    for path in MODULES.values():
        riddles = [(who, line, word) for who, line, word in definitions(path) if word in RIDDLES]
        assert riddles == [], f"{path}: say what it does: `Tell whether`, `Return`, `The`"


def test_one_class_a_name():
    """The stub of `ninetoothed.language` declares classes of the modules once more, and no others of theirs."""
    places = {}
    for name, path in MODULES.items():
        for node in ast.walk(tree_of(path)):
            if isinstance(node, ast.ClassDef):
                places.setdefault(node.name, []).append(f"{name}:{node.lineno}")
    assert {name: found for name, found in places.items() if len(found) > 1} == {}


def test_every_folder_of_tests_is_collected(pytestconfig):
    """By default pytest passes over folders of some names, as `build`."""
    folders = {path.name for path in (ROOT / "tests").rglob("*") if path.is_dir()}
    skipped = pytestconfig.getini("norecursedirs")
    assert [name for name in folders if any(fnmatch.fnmatch(name, pattern) for pattern in skipped)] == []
