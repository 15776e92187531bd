"""Builds: what is written, what is chosen, what is refused, and what damage does."""

import hashlib
import json
import shutil
import struct

import pytest
import torch

import ninetoothed
from ninetoothed import Tensor
from ninetoothed.ahead_of_time import builder
from ninetoothed.built import folder
from ninetoothed.built.formula import condition, evaluate, in_c, read, shown
from ninetoothed.errors import ArgumentError, LoadError, UnsupportedError
from ninetoothed.runtime.selection import machine
from tests.conftest import DEVICE
from tests.ninetoothed.ahead_of_time.conftest import halves, matrices, scaled, scaled_call, vectors

pytest.importorskip("triton")


def symbols(code):
    """The names of the symbols in a file of ELF."""
    (offset,) = struct.unpack_from("<Q", code, 40)
    size, count, names = struct.unpack_from("<HHH", code, 58)
    sections = [struct.unpack_from("<IIQQQQIIQQ", code, offset + i * size) for i in range(count)]
    assert names < count
    for _, kind, _, _, start, length, link, _, _, each in sections:
        if kind == 2:
            text = sections[link][4]
            for place in range(start, start + length, each):
                (name,) = struct.unpack_from("<I", code, place)
                yield code[text + name : code.index(b"\0", text + name)].decode()


def test_the_folder_says_what_it_was_built_for_and_with(scaled_folder):
    manifest = json.loads((scaled_folder / "manifest.json").read_text())
    assert set(manifest["versions"]) >= {"ninetoothed", "torch", "triton", "python", "assembler"}
    assert {each["architecture"] for each in manifest["variants"]} == {80, 90, 100}
    assert {each["parameters"]["dtype"] for each in manifest["variants"]} == {"float16", "float32"}
    files = {path.name: path.read_bytes() for path in scaled_folder.iterdir() if path.name != "manifest.json"}
    assert manifest["files"] == {name: hashlib.sha256(content).hexdigest() for name, content in files.items()}
    for each in manifest["variants"]:
        code = files[each["cubin"]]
        assert code.startswith(b"\x7fELF") and each["function"] in symbols(code)
    assert {"scaled.h", "scaled.c"} < files.keys()


def test_of_configurations_that_differ_in_speed_alone_the_cost_model_chooses(tmp_path, monkeypatch):
    monkeypatch.setattr(builder, "_measured", lambda *args: None)
    built = ninetoothed.build(
        scaled,
        [((torch.float16,), {"BLOCK": size}, {}) for size in (32, 1024)],
        meta_parameters=("BLOCK",),
        kernel_name="scaled",
        output_dir=tmp_path,
        gpus=("h100",),
        calls=lambda dtype, BLOCK: [scaled_call(1 << 24, dtype)],
    )
    (variant,) = built.variants
    assert variant.parameters == {"dtype": "float16"}
    assert evaluate(variant.grid[0], {"size_0_0": 1 << 24}) in (2**14, 2**13)  # of 1024, perhaps of two at once


def test_where_the_gpu_is_there_it_is_measured(tmp_path, monkeypatch):
    seen = []

    def measured(launchers, arguments, gpu):
        seen.append((len(launchers), arguments[0].shape, gpu.name))
        return [2.0, 1.0]

    monkeypatch.setattr(builder, "_measured", measured)
    built = ninetoothed.build(
        scaled,
        [((torch.float16,), {"BLOCK": size}, {}) for size in (1024, 32)],
        meta_parameters=("BLOCK",),
        kernel_name="scaled",
        output_dir=tmp_path,
        gpus=("h100",),
        calls=lambda dtype, BLOCK: [scaled_call(4096, dtype)],
    )
    (variant,) = built.variants
    assert seen == [(2, (4096,), "H100")] and evaluate(variant.grid[0], {"size_0_0": 4096}) in (128, 64, 32)


def test_without_calls_there_are_classes_of_sizes_and_strides(tmp_path):
    built = ninetoothed.build(
        scaled, [((torch.float16,), {}, {})], kernel_name="scaled", output_dir=tmp_path, gpus=("a100",)
    )
    assert [(each.sample["size_0_0"], each.arguments[0].aligned) for each in built.variants] == [
        (1 << 20, True),
        ((1 << 20) - 1, True),
        ((1 << 20) - 1, False),
    ]
    with pytest.raises(ArgumentError, match="`input` does not tell what it is; make it `Tensor.2, dtype="):
        ninetoothed.build(matrices, [((), {}, {})], kernel_name="mm", output_dir=tmp_path, gpus=("a100",))


def test_make_builds_too(tmp_path, monkeypatch):
    monkeypatch.setattr(builder, "machines", lambda gpus: (machine.A100,))
    kernel = ninetoothed.make(
        *scaled(torch.float32), caller="cuda", kernel_name="scaled", output_dir=tmp_path, num_warps=2
    )
    assert [each.threads for each in ninetoothed.load(tmp_path).scaled.variants] == [64] * 3
    if DEVICE == "cpu":
        x, y, z = torch.ones(9), torch.ones(9), torch.full((9,), torch.nan)
        kernel(x, 2.0, y, z)
        assert z.eq(3).all()
    for options in ({"caller": "cuda"}, {"output_dir": tmp_path}, {"caller": "c", "output_dir": tmp_path}):
        with pytest.raises(UnsupportedError, match="by caller='cuda' with the folder to build into"):
            ninetoothed.make(*scaled(torch.float32), **options)


def test_a_lazy_build_is_made_once(tmp_path, monkeypatch):
    def build(options, **more):
        configs = [((torch.float16,), {}, options)]
        calls = [scaled_call(64, torch.float16)]
        return ninetoothed.build(
            scaled, configs, kernel_name="scaled", output_dir=tmp_path, gpus=("a100",), calls=calls, **more
        )

    build({"num_warps": 2})
    made = []
    monkeypatch.setattr(builder, "_made", lambda request: made.append(request) or ())
    build({"num_warps": 2}, lazy=True)
    assert made == [] and len(ninetoothed.load(tmp_path).scaled.variants) == 1
    build({"num_warps": 4}, lazy=True)
    assert len(made) == 1
    build({"num_warps": 4})
    assert len(made) == 2


def test_what_cannot_be_carried_is_refused_by_name(tmp_path):
    def build(premake, *call, gpu="h100"):
        ninetoothed.build(
            premake, [((), {}, {})], kernel_name="k", output_dir=tmp_path, gpus=(gpu,), calls=[call] if call else None
        )

    def jagged():
        def arrangement(x, y):
            return x.tile((1, 16)), y.tile((1, 16))

        def application(x, y):
            y = x

        return arrangement, application, (Tensor(2, jagged_dim=1), Tensor(2, jagged_dim=1))

    def by_text():
        def arrangement(x, y, kind):
            return x.tile((16,)), y.tile((16,)), kind

        def application(x, y, kind):
            y = x + 1 if kind == "one" else x

        return arrangement, application, (Tensor(1), Tensor(1), Tensor(0, constexpr=True))

    with pytest.raises(UnsupportedError, match="`k` takes jagged tensors, and cannot be built ahead of time"):
        build(jagged, halves(4, 4), halves(4, 4))
    with pytest.raises(UnsupportedError, match="`k` cannot be built ahead of time: `kind` is 'one', which"):
        build(by_text, halves(16), halves(16), "one")
    with pytest.raises(ArgumentError, match="no configuration"):
        ninetoothed.build(scaled, [], kernel_name="k", output_dir=tmp_path)
    with pytest.raises(ArgumentError, match="a configuration is `.args, kwargs, options.`"):
        ninetoothed.build(scaled, [((1, 2, 3), {}, {})], kernel_name="k", output_dir=tmp_path)
    with pytest.raises(ArgumentError, match="`premake` has no parameter SPEED; it has BLOCK, dtype"):
        configs = [((torch.float16,), {}, {})]
        ninetoothed.build(scaled, configs, meta_parameters=("SPEED",), kernel_name="k", output_dir=tmp_path)
    with pytest.raises(ArgumentError, match="no row for a GPU called 'h1000'"):
        build(by_text, gpu="h1000")


def damaged(manifest, **changes):
    return lambda path: (path / "manifest.json").write_text(json.dumps({**manifest, **changes}))


def test_damage_is_named_before_anything_is_launched(scaled_folder, tmp_path):
    manifest = json.loads((scaled_folder / "manifest.json").read_text())
    variants = [{**each, "threads": 32} for each in manifest["variants"]]
    cases = {
        "holds no manifest.json": lambda path: (path / "manifest.json").unlink(),
        "manifest.json cannot be read": lambda path: (path / "manifest.json").write_text("{"),
        "manifest.json cannot be read: KeyError": lambda path: (path / "manifest.json").write_text("{}"),
        "has format 99, and this version reads 1": damaged(manifest, format=99),
        "is not what was built: its digest is another": damaged(manifest, variants=variants),
    }
    for number, (told, damage) in enumerate(cases.items()):
        path = shutil.copytree(scaled_folder, tmp_path / str(number))
        damage(path)
        with pytest.raises(LoadError, match=told):
            ninetoothed.load(path)
    path = shutil.copytree(scaled_folder, tmp_path / "code")
    built = folder.load(path)
    code = path / built.variants[0].cubin
    code.write_bytes(code.read_bytes()[:-1] + b"?")
    with pytest.raises(LoadError, match="is not what was built: its SHA-256 is another"):
        built.code(built.variants[0])
    code.unlink()
    with pytest.raises(LoadError, match="of kernel `scaled`, cannot be read"):
        built.code(built.variants[0])


def test_names_that_a_folder_lacks(scaled_folder):
    loaded = ninetoothed.load(scaled_folder)
    assert repr(loaded.scaled) == "<built kernel scaled(x, alpha, y, z) for sm_80, sm_90, sm_100>"
    with pytest.raises(AttributeError, match="has no kernel 'add'; it has scaled"):
        loaded.add


def test_formulas_are_data():
    formula = read(["or", ["==", ["%", ["+", "size_0_1", -1], 16], 0], ["<=", ["max", "step_1_0", 3], 7]])
    assert shown(formula, ("x", "y")) == "(x.shape[1] + -1) % 16 == 0 or max(y.stride(0), 3) <= 7"
    assert in_c(formula).count("nt_remainder((size_0_1 + (-INT64_C(1))), INT64_C(16))") == 1
    assert evaluate(formula, {"size_0_1": 17, "step_1_0": 8}) and not evaluate(formula, {"size_0_1": 9, "step_1_0": 8})
    holds = condition((formula, read(["==", ["//", "size_0_1", 0], 0])))
    values = [{"size_0_1": size, "step_1_0": 8} for size in range(40)]
    assert [holds(each) for each in values] == [bool(evaluate(formula, each)) for each in values]
    for wrong in ("x", "__import__('os')", ["exec", 1], ["+"], 1.5, None, {"a": 1}, ["+", "size_0_1", "y"]):
        with pytest.raises(ValueError, match="is no formula"):
            read(wrong)


def test_calls_are_not_written_to(tmp_path):
    x, y, z = vectors(64, torch.float32)
    z.fill_(7.0)
    configs = [((torch.float32,), {}, {})]
    ninetoothed.build(
        scaled, configs, kernel_name="scaled", output_dir=tmp_path, gpus=("a100",), calls=[(x, 1.0, y, z)]
    )
    assert z.eq(7).all()
