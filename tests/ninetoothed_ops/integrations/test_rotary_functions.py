"""Functions that rotate, as families have them, and `ninetoothed.rope` in their place."""

import importlib

import pytest
import torch

from ninetoothed_ops.modules.rotary import Rotary
from ninetoothed_ops.modules.rotary_trial import recognised
from tests.ninetoothed_ops.integrations.calls import DEVICE, error
from tests.ninetoothed_ops.integrations.test_transformers import Recorder

pytest.importorskip("transformers")


def function(family, name="apply_rotary_pos_emb"):
    """A function of a family's file, and what was found to stand for it."""
    file = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    return getattr(file, name), recognised(vars(file), name)


def r(*shape, dtype=torch.float32):
    return torch.randn(shape, device=DEVICE, dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
def test_vision_in_two_dimensions_is_rounded_once(dtype):
    written, found = function("qwen2_vl", "apply_rotary_pos_emb_vision")
    assert found.rotary == Rotary(keeps_type=True)
    states = r(9, 3, 16, dtype=dtype).requires_grad_(), r(9, 3, 16, dtype=dtype)
    tables = r(9, 16), r(9, 16)
    expected = written(*(each.double() for each in states), *tables)
    for ours, theirs, exact in zip(found(*states, *tables), written(*states, *tables), expected):
        assert ours.dtype == theirs.dtype == dtype and ours.shape == theirs.shape and ours.stride() == theirs.stride()
        assert error(ours, exact) <= max(1e-6, error(theirs, exact) * 1.01)


@pytest.mark.parametrize("name", ("apply_rotary_pos_emb", "apply_rotary_pos_emb_interleave"))
def test_gradients_and_types_of_results(name):
    written, found = function("deepseek_v3", name)
    states = r(2, 3, 5, 8).requires_grad_(), r(2, 1, 5, 8).requires_grad_()
    tables = r(2, 5, 8), r(2, 5, 8)
    grads = r(2, 3, 5, 8), r(2, 1, 5, 8)
    pairs = zip(*(torch.autograd.grad(each(*states, *tables), states, grads) for each in (found, written)))
    assert all(error(ours, theirs) < 1e-6 for ours, theirs in pairs)
    halves = [each.detach().bfloat16() for each in states]
    for each in tables, [table.bfloat16() for table in tables]:
        assert [one.dtype for one in found(*halves, *each)] == [one.dtype for one in written(*halves, *each)]


def test_calls_of_another_kind_go_to_the_familys_function(monkeypatch):
    from transformers.models.gpt_neox import modeling_gpt_neox

    written, found = function("gpt_neox")
    states = r(2, 3, 5, 12), r(2, 3, 5, 12)
    calls = (
        ((*states, r(2, 5, 8), r(2, 5, 8)), {"unsqueeze_dim": 1}),
        ((*(each.mT.contiguous().mT for each in states), r(1, 5, 8), r(1, 5, 8)), {}),
        ((*states, r(5, 8), r(5, 8)), {"unsqueeze_dim": 0}),
        ((*(each.transpose(1, 2) for each in states), r(2, 5, 8), r(2, 5, 8)), {"unsqueeze_dim": 2}),
        ((*states, r(2, 1, 8), r(2, 1, 8)), {}),
        ((*states, r(2, 5, 8)), {"sin": r(2, 5, 8)}),
        ((*states, r(2, 5, 8), r(2, 5, 8, dtype=torch.float64)), {}),
        (tuple(each.long() for each in (*states, r(2, 5, 8), r(2, 5, 8))), {}),
    )
    for args, options in calls:
        for ours, theirs in zip(found(*args, **options), written(*args, **options)):
            assert (ours.shape, ours.dtype) == (theirs.shape, theirs.dtype)
            assert error(ours, theirs) < 1e-6 or not theirs.any()
    with pytest.raises(RuntimeError, match="must match the size"):
        found(*states, r(2, 4, 8), r(2, 4, 8))
    with pytest.raises(TypeError, match="multiple values"):
        found(*calls[0][0], sin=r(2, 5, 8))
    monkeypatch.setattr(modeling_gpt_neox, "apply_rotary_pos_emb", lambda *args: "patched")
    assert found(*calls[0][0]) == "patched"


def test_tables_of_complex_numbers_and_for_all_of_a_batch():
    """What is not tried, another length of keys or options of other values, is the family's own."""
    half = r(2, 3, 5, 8, dtype=torch.bfloat16), r(2, 1, 5, 8, dtype=torch.bfloat16)
    angles = torch.polar(torch.ones(2, 5, 4), torch.rand(2, 5, 4) * 6).to(DEVICE)
    flat = r(5, 8), r(5, 8)
    longer = half[0], half[1].repeat(1, 1, 2, 1), *(each[None, None] for each in flat)
    for family, name, args, options in (
        ("deepseek_v2", "apply_rotary_emb", (*half, angles), {}),
        ("llama4", "apply_rotary_emb", (*(each.transpose(1, 2) for each in half), angles), {}),
        ("sam2_video", "apply_rotary_pos_emb_2d", (*half, *flat), {"num_k_exclude_rope": 0, "repeat_freqs_k": False}),
        ("sam2_video", "apply_rotary_pos_emb_2d", longer, {"repeat_freqs_k": True}),
        ("sam3", "apply_rotary_pos_emb_2d", half, {"cos": flat[0], "sin": flat[1]}),
    ):
        written, found = function(family, name)
        cast = [each.double() if each.dtype is torch.bfloat16 else each for each in args]
        with Recorder() as recorder:
            ours = found(*args, **options)
        assert ("ninetoothed::rope_pair" in recorder.names) is (args is not longer), family
        for one, exact in zip(ours, written(*cast, **options)):
            assert one.dtype is torch.bfloat16 and one.shape == exact.shape and error(one, exact) < 4e-3


def test_what_no_form_computes_is_left_alone():
    name = "apply_rotary_pos_emb_2d_cross_attn"  # groups of keys, with tables of their own
    assert function("edgetam_video", name)[1] == f"its {name} rotates in a way of its own"


# Functions that few families have, the shapes of states and of tables, positions, and the form.
FORMS = {
    "angles the other way": ("nanochat", "apply_rotary_pos_emb", [(2, 3, 5, 10), (2, 1, 5, 10)], (1, 5, 10), None),
    "the last columns": ("deepseek_v4", "apply_rotary_pos_emb", [(2, 3, 5, 11)], (2, 5, 3), None),
    "the last tokens": ("dinov3_vit", "apply_rotary_pos_emb", [(2, 3, 7, 10), (2, 3, 7, 10)], (5, 10), None),
    "values, by position": ("clvp", "apply_rotary_pos_emb", [(2, 3, 5, 6)] * 3, (9, 6), (2, 5)),
    "parts by themselves": ("gemma4", "apply_multidimensional_rope", [(2, 5, 3, 12)], (2, 5, 12), (2, 5, 3)),
    "complex, of images": ("llama4", "vision_apply_rotary_emb", [(2, 5, 3, 6), (2, 5, 1, 6)], (5, 1, 3), None),
    "some columns, of images": (
        "minimax_m3_vl",
        "apply_rotary_pos_emb_vision",
        [(2, 5, 3, 11), (2, 5, 3, 11)],
        (5, 6),
        None,
    ),
}


def arguments(label, dtype=torch.float32):
    """States that require grad, and what else the function of a form takes."""
    _, name, states, table, positions = FORMS[label]
    cos, sin = r(*table), r(*table)
    tables = [torch.complex(cos, sin)] if name.startswith("vision") else [cos, sin]
    others = tables if positions is None else [*tables, torch.randint(0, 9, positions, device=DEVICE)]
    return [r(*shape, dtype=dtype).requires_grad_() for shape in states], others


@pytest.mark.parametrize("dtype", (torch.float32, torch.bfloat16))
@pytest.mark.parametrize("label", FORMS)
def test_forms_of_few_families(label, dtype):
    (written, found), (states, others) = function(*FORMS[label][:2]), arguments(label, dtype)
    assert found.rotated((*states, *others), {}) is not None
    ours, theirs, exact = (
        listed(each)
        for each in (found(*states, *others), written(*states, *others), written(*map(wide, states), *others))
    )
    for one, other, right in zip(ours, theirs, exact, strict=True):
        assert one.dtype == other.dtype and one.shape == other.shape
        assert error(one, right) <= max(1e-6, error(other, right) * 1.01)
    grads = [torch.randn_like(each) for each in ours]
    pairs = zip(*(torch.autograd.grad(each, states, grads) for each in (ours, theirs)))
    assert all(error(*pair) < (1e-6 if dtype is torch.float32 else 2e-2) for pair in pairs)


def listed(output):
    return output if isinstance(output, tuple) else (output,)


def wide(tensor):
    return tensor.detach().double()


def test_compiled_without_a_break():
    functions = [function(*FORMS[label][:2])[1] for label in FORMS]
    calls = [arguments(label) for label in FORMS]

    def all_of_them():
        return [found(*states, *others) for found, (states, others) in zip(functions, calls)]

    torch._dynamo.reset()
    found = torch.compile(all_of_them, fullgraph=True, backend="aot_eager")()
    for ours, expected in zip(found, all_of_them(), strict=True):
        assert all(torch.equal(*pair) for pair in zip(listed(ours), listed(expected), strict=True))
