"""Packages of AOTInductor carry their kernels, and say which operators are not there."""

import json
import re
import shutil
import subprocess
import sys
import zipfile

import pytest
import torch

import ninetoothed
import ninetoothed_ops
from ninetoothed.errors import ArgumentError, LoadError
from ninetoothed.runtime.loading import loaded
from tests.conftest import DEVICE
from tests.test_readme import ROOT

pytest.importorskip("triton")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(DEVICE != "cpu", reason="stands in for a GPU"),
    pytest.mark.usefixtures("state"),
    pytest.mark.filterwarnings("ignore"),
]


class Model(torch.nn.Module):
    def forward(self, x):
        return ninetoothed_ops.softmax(ninetoothed_ops.silu(x) * 2, -1)


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """A package for sizes of two classes, made where the kernels were called before."""
    if shutil.which("g++") is None:
        pytest.skip("needs a C++ compiler")
    model, x = Model(), torch.randn(8, 512)
    model(x)
    program = torch.export.export(model, (x,), dynamic_shapes=({0: torch.export.Dim("rows", max=64)},))
    path = tmp_path_factory.mktemp("package") / "model.pt2"
    inputs = [(torch.randn(9, 512),)]
    return ninetoothed_ops.aoti_compile_and_package(program, package_path=path, gpus=("h200", "a100"), inputs=inputs)


def test_a_package_carries_its_kernels_and_compiles_none(package, state, record, request, monkeypatch):
    kernels = ninetoothed.load(package).kernels
    assert {"silu", "softmax"} == set(kernels)
    assert {each.architecture for kernel in kernels.values() for each in kernel.variants} == {80, 90}
    counts = request.getfixturevalue("on_gpu")
    monkeypatch.setenv("NT_PARAMETERS", "")
    compiled = ninetoothed_ops.aoti_load_package(package, missing="refuse")
    for number, rows in enumerate((8, 8, 9, 24, 41), 1):
        compiled(torch.randn(rows, 512))
        names = [line.split(" ")[1] for line in record()]
        assert names == ["silu", "softmax"] * number
    state.kernels = {digest: found for digest, found in state.kernels.items() if found[0].name != "softmax"}
    with pytest.raises(RuntimeError, match="LoadError: kernel `softmax` is not compiled here, as was asked for"):
        compiled(torch.randn(11, 512))
    assert counts == {"traced": 0, "compiled": 0}


def test_it_computes_what_the_model_does_where_triton_is_not_installed(package):
    script = """
import sys
sys.modules["triton"] = None
import torch, ninetoothed_ops
compiled, x = ninetoothed_ops.aoti_load_package(sys.argv[1]), torch.randn(13, 512)
expected = torch.softmax(torch.nn.functional.silu(x.double()) * 2, -1)
torch.testing.assert_close(compiled(x).double(), expected, rtol=1e-5, atol=1e-6)
"""
    subprocess.run([sys.executable, "-c", script, package], check=True)


def test_it_says_which_operators_are_missing_and_all_of_them(package, tmp_path):
    path = tmp_path / "model.pt2"
    with zipfile.ZipFile(package) as given, zipfile.ZipFile(path, "w") as made:
        for name in given.namelist():
            content = given.read(name)
            made.writestr(
                name, re.sub(rb"ninetoothed::(s\w+)", rb"another::\1", content) if ".json" in name else content
            )
    with pytest.raises(LoadError, match="calls another::silu, another::softmax, which are not registered here"):
        ninetoothed_ops.aoti_load_package(path)


def test_where_this_is_not_installed_the_page_tells_them(package):
    """And PyTorch the first of them."""
    block = "```sh\n# every operator"
    command = (ROOT / "docs" / "build.md").read_text().partition(block)[2].partition("```")[0].partition("\n")[2]
    for line in command.splitlines():
        shell = line.replace("python", sys.executable, 1).replace("model.pt2", package)
        output = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, check=True).stdout
        assert json.loads(output.replace("'", '"')) == ["ninetoothed::silu", "ninetoothed::softmax"]
    alone = "import sys, torch; torch._inductor.aoti_load_package(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", alone, package], capture_output=True, text=True)
    assert done.returncode and "Could not find schema for ninetoothed::silu" in done.stderr


def test_another_gpu_is_refused_before_anything_is_loaded(package, record, monkeypatch):
    other = type(loaded.device_of(None))(0, "B200", 100, 148, 227 * 1024, None)
    monkeypatch.setattr(loaded, "here", lambda: other)
    with pytest.raises(LoadError, match=r"not built for the GPU here, a B200 \(sm_100\): silu, softmax; build them"):
        ninetoothed_ops.aoti_load_package(package, missing="refuse")
    assert record() == []


def test_what_is_no_package_or_carries_nothing_is_refused_by_name(package, tmp_path):
    path = tmp_path / "model.pt2"
    path.write_bytes(b"none")
    for load in (ninetoothed_ops.aoti_load_package, ninetoothed.load):
        with pytest.raises(LoadError, match="model.pt2 (is no package|cannot be read).*BadZipFile"):
            load(path)
    with zipfile.ZipFile(package) as given, zipfile.ZipFile(path, "w") as made:
        for name in given.namelist():
            if "ninetoothed" not in name:
                made.writestr(name, given.read(name))
    with pytest.raises(LoadError, match="model.pt2/.*/ninetoothed/? holds no manifest.json"):
        ninetoothed_ops.aoti_load_package(path)
    program = torch.export.export(Model(), (torch.randn(8, 512),))
    program.example_inputs = None
    with pytest.raises(ArgumentError, match="no example inputs, and `inputs` is empty"):
        ninetoothed_ops.aoti_compile_and_package(program)
