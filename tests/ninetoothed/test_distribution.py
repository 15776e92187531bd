"""The distribution: a wheel that works where nothing else of ours is, and what is said beside the original's."""

import pathlib
import re
import subprocess
import sys
import sysconfig
import zipfile

import pytest

from ninetoothed import distribution

ROOT = pathlib.Path(__file__).resolve().parents[2]
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
    places = [*map(str, path), sysconfig.get_path("purelib"), sysconfig.get_path("platlib")]
    script = cwd / "script.py"
    script.write_text(f"import sys; sys.path[:0] = {places}\n{code}")
    return subprocess.run([sys.executable, "-I", "-S", str(script)], cwd=cwd, capture_output=True, text=True)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    """Build the wheel of this clone without asking the registry, and unpack it as an installer does."""
    pytest.importorskip("hatchling")
    folder = tmp_path_factory.mktemp("wheel")
    built = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)], cwd=ROOT, capture_output=True
    )
    assert built.returncode == 0, built.stderr
    (file,) = folder.glob("*.whl")
    assert file.name.startswith("ninetoothed_torch-")
    with zipfile.ZipFile(file) as packed:
        packed.extractall(folder / "site")
    return folder / "site"


@pytest.mark.slow
def test_the_wheel_has_all_that_kernels_and_operators_need(wheel, tmp_path):
    done = run(wheel, code=KERNEL, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    file, version = done.stdout.split()
    declared = re.search(r'^version = "(.+)"$', (ROOT / "pyproject.toml").read_text(), re.M).group(1)
    assert pathlib.Path(file).is_relative_to(wheel) and version == declared
    assert (wheel / "ninetoothed" / "py.typed").exists() and (wheel / "ninetoothed/language/__init__.pyi").exists()


@pytest.mark.slow
def test_its_commands_run(wheel, tmp_path):
    code = "import runpy; sys.argv = ['ninetoothed', 'info']; runpy.run_module('ninetoothed', run_name='__main__')"
    done = run(wheel, code=code, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "fast paths:" in done.stdout and str(pathlib.Path.home()) not in done.stderr


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
    assert done.stderr.splitlines()[-1].startswith("ImportError: the package ninetoothed that is imported here is not")


def test_alone_nothing_is_said(tmp_path):
    done = run(ROOT, code="import ninetoothed, ninetoothed_ops", cwd=tmp_path)
    assert done.returncode == 0 and "original" not in done.stderr, done.stderr
