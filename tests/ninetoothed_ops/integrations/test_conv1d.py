"""GPT-2's `Conv1D`, alone and in a model, computes on NineToothed what it computes in transformers."""

import copy
import pickle

import pytest
import torch
from torch import nn

from ninetoothed_ops.modules import NTConv1D, NTLinear, swap_modules
from tests.ninetoothed_ops.integrations.calls import DEVICE, TOLERANCE, error, generate, logits, reasons
from tests.ninetoothed_ops.integrations.families import decoder, gradients
from tests.ninetoothed_ops.recorder import Recorder

pytest.importorskip("transformers")
from transformers import pytorch_utils

# What rounding leaves of float32 and of halves.
ROUNDED = {torch.float32: 1e-5, torch.float16: 2e-3, torch.bfloat16: 2e-2}


def layer(dtype=torch.float32):
    made = pytorch_utils.Conv1D(17, 33)
    for parameter in made.parameters():
        nn.init.normal_(parameter)
    return made.to(DEVICE, dtype)


def swapped(module):
    model = nn.ModuleList([module])
    report = swap_modules(model)
    assert (
        isinstance(module, NTConv1D) and isinstance(module, pytorch_utils.Conv1D) and report.share.ours == 33 * 17 + 17
    )
    return report


@pytest.mark.parametrize("dtype", ROUNDED)
@pytest.mark.parametrize("shape", ((5, 4, 33), (1, 33), (33,), (0, 33), (2, 0, 33)))
def test_values_and_gradients_as_in_float64(shape, dtype):
    module = layer(dtype)
    other, weight = copy.deepcopy(module).double(), module.weight
    swapped(module)
    assert module.weight is weight and weight.shape == (33, 17)
    input = torch.randn(shape, device=DEVICE, dtype=dtype, requires_grad=True)
    wide = input.detach().double().requires_grad_()
    output, expected = module(input), other(wide)
    assert output.shape == expected.shape and output.dtype == dtype and output.device == input.device
    grad = torch.randn_like(output)
    output.backward(grad), expected.backward(grad.double())
    pairs = [(output, expected), (input.grad, wide.grad)]
    pairs += [(one.grad, two.grad) for one, two in zip(module.parameters(), other.parameters())]
    for found, wanted in pairs:
        assert found.shape == wanted.shape and not found.isnan().any()
        assert not wanted.norm() or error(found, wanted) < ROUNDED[dtype]
    assert weight.grad.stride() == weight.stride()


def test_one_product_and_no_copy_of_the_weight():
    module, input = layer(), torch.randn(2, 3, 33, device=DEVICE)
    swapped(module)
    with torch.no_grad(), Recorder() as recorder:
        module(input)
    assert [name for name in recorder.names if "view" not in name] == ["ninetoothed::addmm"]


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16))
def test_autocast(dtype):
    module, input = layer(), torch.randn(2, 3, 33, device=DEVICE)
    other = copy.deepcopy(module)
    swapped(module)
    outputs = []
    for each in (module, other):
        with torch.autocast(DEVICE, dtype):
            outputs.append(each(input))
        outputs[-1].square().sum().backward()
    assert outputs[0].dtype == outputs[1].dtype == dtype and module.weight.grad.dtype == torch.float32
    assert error(outputs[0], outputs[1].double()) < ROUNDED[dtype]
    assert error(module.weight.grad, other.weight.grad.double()) < ROUNDED[dtype]


@pytest.mark.parametrize("dynamic", (False, True))
def test_compiled(dynamic):
    module = layer()
    swapped(module)
    torch._dynamo.reset()
    compiled = torch.compile(module, backend="aot_eager", fullgraph=True, dynamic=dynamic)
    for rows in (2, 5):
        input = torch.randn(rows, 3, 33, device=DEVICE)
        output = compiled(input)
        slopes = torch.autograd.grad(output.square().sum(), list(module.parameters()))
        expected = module(input)
        wanted = torch.autograd.grad(expected.square().sum(), list(module.parameters()))
        for one, two in ((output, expected), *zip(slopes, wanted)):
            assert error(one, two.double()) < ROUNDED[torch.float32]


@pytest.mark.parametrize("duplicate", (copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))))
def test_copies_saved_and_loaded(duplicate):
    module, input = layer(), torch.randn(2, 33, device=DEVICE)
    expected, keys = module(input).detach(), list(module.state_dict())
    report = swapped(module)
    twin, other = duplicate(module), layer()
    assert list(module.state_dict()) == keys and "NTConv1D(nf=17, nx=33)" in repr(twin)
    other.load_state_dict(module.state_dict())
    report.undo()
    assert type(module) is pytorch_utils.Conv1D and isinstance(twin, NTConv1D)
    assert torch.equal(module(input), expected) and torch.equal(other(input), expected)
    assert error(twin(input), expected.double()) < ROUNDED[torch.float32]


def test_what_is_left_alone(monkeypatch):
    class Louder(pytorch_utils.Conv1D):
        def forward(self, x):
            return 2 * super().forward(x)

    patched, sparse = layer(), layer()
    patched.forward = patched.forward
    sparse.weight = nn.Parameter(sparse.weight.detach().to_sparse())
    why = reasons(swap_modules(nn.ModuleList([Louder(3, 3), patched, sparse])))
    assert [each.split(",")[0] for each in why.values()] == [
        "a subclass of something",
        "its forward was patched on this instance",
        "its weight is sparse or of another layout",
    ]
    module = layer()
    report = swapped(module)
    monkeypatch.setattr(pytorch_utils.Conv1D, "forward", lambda self, x: x + 1)
    # A patch after the swap is asked; one before it keeps the class.
    assert module(torch.ones(1, device=DEVICE)) == 2
    report.undo()
    reason = "its forward is not that of transformers' Conv1D"
    assert reasons(swap_modules(nn.ModuleList([module]))) == {"0": reason}


def test_a_release_without_it(monkeypatch):
    model = decoder("gpt2")
    monkeypatch.delattr(pytorch_utils, "Conv1D")
    assert "NineToothed has no module for it" in reasons(swap_modules(model)).values()


@pytest.mark.parametrize("implementation", ("sdpa", "ninetoothed"))
def test_gpt2(batch, tmp_path, implementation):
    from ninetoothed_ops import register_attention

    register_attention()
    model, (tokens, mask) = decoder("gpt2"), batch(3, 11)
    before = [type(module) for module in model.modules()]
    written = generate(model, tokens, mask)
    expected, slopes = logits(model, tokens, mask), gradients(model, tokens)
    model.set_attn_implementation(implementation)
    report = swap_modules(model)
    counts = {new: sum(row.new.__name__ == new for row in report.swapped) for new in ("NTConv1D", "NTLinear")}
    assert counts == {"NTConv1D": 8, "NTLinear": 1}
    # Attention alone has no class of ours, and no weights.
    assert {row.old.__name__ for row in report.skipped} == {"GPT2Attention"} and "; 100% of the weights" in str(report)
    assert type(model.lm_head) is NTLinear
    assert error(logits(model, tokens, mask), expected) < TOLERANCE[torch.float32]
    assert torch.equal(generate(model, tokens, mask), written)
    assert error(gradients(model, tokens), slopes) < TOLERANCE[torch.float32]

    model.save_pretrained(tmp_path)
    loaded = type(model).from_pretrained(tmp_path).to(DEVICE)
    assert error(logits(loaded, tokens, mask), expected) < 1e-6

    report.undo()
    model.set_attn_implementation("sdpa")
    assert [type(module) for module in model.modules()] == before
    assert torch.equal(logits(model, tokens, mask), expected)


def test_gpt2_after_a_training_step(batch):
    model, (tokens, _) = decoder("gpt2"), batch(2, 9)
    other = copy.deepcopy(model)
    swap_modules(model)
    for each in (model, other):
        optimizer = torch.optim.AdamW(each.parameters(), lr=1e-3)
        each(input_ids=tokens, labels=tokens).loss.backward()
        optimizer.step()
    assert error(logits(model, tokens), logits(other, tokens)) < TOLERANCE[torch.float32]
