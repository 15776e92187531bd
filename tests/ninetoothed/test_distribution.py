"""The distribution: a wheel that works where nothing else of ours is, and what is said beside the original's."""

import pathlib
import re
import subprocess
import sys
import sysconfig
import venv

import pytest

from ninetoothed import distribution

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Where this environment has the packages of others.
OTHERS = [sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
KERNEL = """
import torch, ninetoothed
from ninetoothed import Tensor

def arrangement(x, y):
    return x.tile((64,)), y.tile((64,))

def double(x, y):
    y = 2 * x

kernel = ninetoothed.make(arrangement, double, (Tensor(1), Tensor(1)))
x, y = torch.randn(100), torch.empty(100)
kernel(x, y)
assert torch.equal(y, 2 * x)

import ninetoothed_ops
assert torch.equal(torch.ops.ninetoothed.add(x, y), x + y)
print(ninetoothed.__file__, ninetoothed.__version__)
"""


def run(*path, code, cwd):
    """Run code that finds packages on a path, and then those of this environment that are not ours."""
    # Without site's files of paths, an installation of this clone in place is not seen.
    places = [*map(str, path), *OTHERS]
    script = cwd / "script.py"
    script.write_text(f"import sys; sys.path[:0] = {places}\n{code}")
    return subprocess.run([sys.executable, "-I", "-S", str(script)], cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel of this clone, without asking the registry."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, capture_output=True
    )
    assert built.returncode == 0, built.stderr
    (file,) = folder.glob("*.whl")
    assert file.name.startswith("ninetoothed_torch-")
    return file


class Environment:
    """A virtual environment with nothing in it; what ours depend on is found where these tests find it."""

    def __init__(self, folder):
        pytest.importorskip("pip")
        venv.create(folder, symlinks=True)
        self.python = folder / "bin" / "python"
        self.site = pathlib.Path(sysconfig.get_path("purelib", vars={"base": str(folder)}))
        # A path in such a file is searched last, and files of paths in it are not read.
        (self.site / "others.pth").write_text("\n".join(OTHERS))

    def install(self, wheel):
        command = [sys.executable, "-m", "pip", "--python", str(self.python), "install", "--no-deps", "--no-index"]
        done = subprocess.run([*command, str(wheel)], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return self

    def run(self, *arguments, cwd):
        command = [str(self.python), "-I", *map(str, arguments)]
        return subprocess.run(command, cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def installed(wheel, tmp_path_factory):
    """Make an environment that has the wheel alone."""
    return Environment(tmp_path_factory.mktemp("installed")).install(wheel)


@pytest.mark.slow
def test_the_wheel_has_all_that_kernels_and_operators_need(installed, tmp_path):
    (tmp_path / "script.py").write_text(KERNEL)
    done = installed.run("script.py", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    file, version = done.stdout.split()
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M).group(1)
    assert pathlib.Path(file).is_relative_to(installed.site) and version == declared
    package = installed.site / "ninetoothed"
    assert (package / "py.typed").exists() and (package / "language/__init__.pyi").exists()


@pytest.mark.slow
def test_its_commands_run(installed, tmp_path):
    done = installed.run("-m", "ninetoothed", "info", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fast paths:" in done.stdout and f"{distribution.NAME}  0." in done.stdout and not done.stderr


def original(folder):
    """Lay a distribution of the original's name, with a package of its own, into a folder."""
    (folder / "ninetoothed").mkdir(parents=True)
    (folder / "ninetoothed" / "__init__.py").write_text("def make(*args): ...\n")
    described = folder / "ninetoothed-0.26.0.dist-info"
    described.mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: ninetoothed\nVersion: 0.26.0\n")
    return folder


def test_beside_the_original_either_package_says_so(tmp_path):
    other = original(tmp_path / "other")
    # Ours comes first on the path: a warning, and all works.
    done = run(ROOT, other, code="import ninetoothed; print(ninetoothed.Tensor(1))", cwd=tmp_path)
    assert done.returncode == 0 and done.stderr.count(distribution.BESIDE) == 1, done.stderr
    # The original's comes first: the operators cannot run on it.
    done = run(other, ROOT, code="import ninetoothed_ops", cwd=tmp_path)
    assert done.returncode != 0
    assert done.stderr.splitlines()[-1].startswith("ImportError: ninetoothed_ops is of the distribution `ninetoothed-t")


@pytest.mark.slow
def test_where_the_original_was_installed_last_either_package_says_so(wheel, tmp_path):
    environment = Environment(tmp_path / "environment").install(wheel)
    # Its `language` is a file, which our folder of that name hides.
    (environment.site / "ninetoothed" / "language.py").write_text("def call(*args): ...\n")
    (environment.site / "ninetoothed" / "__init__.py").write_text("from ninetoothed.language import call\n")
    for package in ("ninetoothed", "ninetoothed_ops", "ninetoothed.language"):
        done = environment.run("-c", f"import {package}", cwd=tmp_path)
        assert done.stderr.splitlines()[-1] == f"ImportError: {distribution.BESIDE}", package


def test_alone_nothing_is_said(tmp_path):
    done = run(ROOT, code="import ninetoothed, ninetoothed_ops", cwd=tmp_path)
    assert done.returncode == 0 and "original" not in done.stderr, done.stderr
