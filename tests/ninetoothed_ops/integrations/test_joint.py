"""Sibling projections as one product: same numbers, same Parameters, and products apart where they have to be."""

import copy
import pickle
import threading

import pytest
import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ninetoothed_ops.modules import NTGatedMLP, NTLinear, swap_modules
from ninetoothed_ops.ops import joint_linear
from ninetoothed_ops.ops.adjacent import concatenated
from tests.ninetoothed_ops.integrations.calls import DEVICE, TOLERANCE, error, generate, logits

# Of two layers: q, k, v; o; gate, up; down; and the head.
SEPARATE, JOINT = 2 * 7 + 1, 2 * 4 + 1
FAMILIES = {
    "Llama": JOINT,
    "Mistral": JOINT,
    "Qwen2": JOINT,
    "Qwen3": JOINT,
    "Gemma": JOINT,
    # Its attention, which soft-caps its logits, stays its own.
    "Gemma2": 2 * 6 + 1,
}


class Products(TorchDispatchMode):
    """Count the products of NineToothed, and note its operators."""

    def __init__(self):
        super().__init__()
        self.count, self.names = 0, set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.add(func.name())
        if func.name() in ("ninetoothed::linear", "ninetoothed::gated_linear"):
            self.count += 1
        joint = {"joint_linear": args[1:2], "linear_swiglu": (args[1:3],), "linear_rope_into_cache": (args[1:4],)}
        for weights in joint.get(func.name().removeprefix("ninetoothed::"), ()):
            self.count += 1 if concatenated(weights) is not None else len(weights)
        return func(*args, **(kwargs or {}))


def are_separate(count):
    """Tell whether no weights were joined; blocks of a GPU's memory may lie one behind another by chance."""
    return count == SEPARATE if DEVICE == "cpu" else JOINT <= count <= SEPARATE


def products(model, tokens, mask):
    with Products() as counted:
        found = logits(model, tokens, mask)
    return counted.count, found


def joined(make, batch, name="Qwen2", **options):
    model, inputs = make(name, **options), batch(2, 7)
    expected = logits(model, *inputs)
    report = swap_modules(model, join=True)
    return model, inputs, expected, report


@pytest.mark.parametrize("name", FAMILIES)
def test_same_logits_and_tokens_by_fewer_products(make, batch, name):
    model, (tokens, mask) = make(name), batch(3, 11)
    values = {key: value.clone() for key, value in model.state_dict().items()}
    parameters, before = dict(model.named_parameters()), [type(m) for m in model.modules()]
    addresses = {value.untyped_storage().data_ptr() for value in parameters.values()}
    calls = (
        lambda: logits(model, tokens, mask),
        lambda: generate(model, tokens, mask),
        lambda: generate(model, tokens, mask, cache_implementation="static"),
    )
    expected = [call() for call in calls]
    report = swap_modules(model, join=True)
    assert {repr(layer.mlp).partition("(")[0] for layer in model.model.layers} == {"NTGatedMLP"}
    assert all(not each.reason for each in report.joint) and "one product each" in repr(report)
    for call, value in zip(calls, expected):
        assert torch.equal(call(), value) if not value.is_floating_point() else error(call(), value) < 1e-4
    assert products(model, tokens, mask)[0] == FAMILIES[name]

    after = model.state_dict()
    assert list(after) == list(values) and all(torch.equal(after[key], values[key]) for key in values)
    assert all(value is parameters[key] for key, value in model.named_parameters())
    # Each has a storage of its own, which is the parameter and no more.
    storages = [parameter.untyped_storage() for parameter in parameters.values()]
    assert len({storage.data_ptr() for storage in storages}) == len(storages) == len(addresses)
    assert all(s.nbytes() == p.nbytes for s, p in zip(storages, parameters.values()))

    gate, up = (getattr(model.model.layers[0].mlp, f"{each}_proj").weight for each in ("gate", "up"))
    assert concatenated((gate, up)) is not None
    held = {parameter.data_ptr(): parameter.untyped_storage() for parameter in parameters.values()}
    report.undo()
    assert [type(m) for m in model.modules()] == before and not any("_joint" in str(vars(m)) for m in model.modules())
    # A GPU's memory is given out again at once.
    assert DEVICE == "cuda" or held.keys().isdisjoint({gate.data_ptr(), up.data_ptr()})
    assert torch.equal(logits(model, tokens, mask), expected[0])


def test_changed_weights_are_seen(make, batch):
    model, inputs, expected, _ = joined(make, batch)
    other = make("Qwen2")
    with torch.no_grad():
        for parameter in other.parameters():
            parameter.mul_(0.9)
    changed = logits(other, *inputs)
    assert error(changed, expected) > 1e-2

    model.load_state_dict(other.state_dict())
    count, found = products(model, *inputs)
    assert count == JOINT and error(found, changed) < 1e-4

    # One Parameter replaced, one whose data are, one transposed in its place.
    mlp, attention = model.model.layers[0].mlp, model.model.layers[1].self_attn
    attention.k_proj.weight.data = attention.k_proj.weight.data * 2
    mlp.up_proj.weight = nn.Parameter(mlp.up_proj.weight.detach() * 2)
    other.model.layers[0].mlp.up_proj.weight.data.mul_(2)
    other.model.layers[1].self_attn.k_proj.weight.data.mul_(2)
    for each in (model, other):
        query = each.model.layers[0].self_attn.q_proj.weight
        query.data = query.data.t()
    count, found = products(model, *inputs)
    assert count == JOINT + 2 + 1 + 2 and error(found, logits(other, *inputs)) < 1e-4

    model.load_state_dict(make("Qwen2").state_dict(), assign=True)
    count, found = products(model, *inputs)
    assert are_separate(count) and error(found, expected) < 1e-4


def test_moved_weights_are_joined_again(make, batch):
    model, inputs, expected, report = joined(make, batch)
    model.to(model.device)
    assert products(model, *inputs)[0] == JOINT
    model.double()
    count, found = products(model, *inputs) if DEVICE == "cpu" else (JOINT, expected)
    assert count == JOINT and error(found, expected) < 1e-4
    model.float()
    assert products(model, *inputs)[0] == JOINT
    report.undo()
    assert torch.equal(logits(model, *inputs), expected)


def test_weights_that_another_model_has_too_stay_where_they_are(make, batch):
    """A conversion that changes nothing leaves them shared, as PyTorch's does."""
    model, *_ = joined(make, batch)
    other = make("Qwen2")
    model.load_state_dict(other.state_dict(), assign=True)
    model.to(model.device).float()

    for parameter, shared in zip(model.parameters(), other.parameters(), strict=True):
        assert parameter.data_ptr() == shared.data_ptr()


@pytest.mark.parametrize("duplicate", (copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))))
def test_copies_share_nothing_and_can_be_joined(make, batch, duplicate):
    model, inputs, expected, report = joined(make, batch)
    size = len(pickle.dumps(model.state_dict()))
    assert len(pickle.dumps(model)) < 1.5 * size
    twin, twins = duplicate((model, report))
    assert repr(twins) == repr(report)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    count, found = products(twin, *inputs)
    assert are_separate(count) and error(found, expected) < 1e-4
    swap_modules(twin, join=True)
    count, found = products(twin, *inputs)
    assert count == JOINT and error(found, expected) < 1e-4
    twins.undo()
    assert torch.equal(logits(twin, *inputs), expected)


def test_saved_and_loaded(make, batch, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    model, inputs, expected, _ = joined(make, batch)
    model.save_pretrained(tmp_path / "model")
    loaded = type(model).from_pretrained(tmp_path / "model").eval().to(DEVICE)
    assert torch.equal(logits(loaded, *inputs), logits(make("Qwen2"), *inputs))
    # What comes from files can be joined as well.
    swap_modules(loaded, join=True)
    assert products(loaded, *inputs)[0] == JOINT

    torch.save(model.state_dict(), tmp_path / "state.pt")
    safetensors.save_model(model, tmp_path / "state.safetensors")
    for state in (torch.load(tmp_path / "state.pt"), safetensors.load_file(tmp_path / "state.safetensors")):
        fresh = make("Qwen2")
        nn.init.zeros_(fresh.model.layers[0].self_attn.k_proj.weight)
        fresh.load_state_dict(state)
        assert error(logits(fresh, *inputs), expected) < 1e-4


def test_hooks_and_patches_are_called(make, batch):
    model, inputs, expected, _ = joined(make, batch)
    layer, seen = model.model.layers[0], []
    hooks = (
        layer.self_attn.k_proj.register_forward_hook(lambda *_: seen.append("hook")),
        layer.mlp.up_proj.register_forward_pre_hook(lambda *_: seen.append("pre")),
    )
    count, found = products(model, *inputs)
    assert seen == ["hook", "pre"] and count == JOINT + 3 and error(found, expected) < 1e-4
    for hook in hooks:
        hook.remove()
    with nn.modules.module.register_module_forward_hook(lambda module, *_: seen.append(type(module))):
        logits(model, *inputs)
    assert seen.count(NTLinear) == SEPARATE
    assert products(model, *inputs)[0] == JOINT

    layer.mlp.gate_proj.forward = lambda input: NTLinear.forward(layer.mlp.gate_proj, input) * 2
    assert error(logits(model, *inputs), expected) > 1e-2
    del layer.mlp.gate_proj.forward

    parametrize.register_parametrization(layer.mlp.up_proj, "weight", nn.Tanh())
    found = logits(model, *inputs)
    parametrize.remove_parametrizations(layer.mlp.up_proj, "weight", leave_parametrized=True)
    assert error(found, expected) > 1e-2 and error(logits(model, *inputs), found) < 1e-4


class Adapter(nn.Module):
    def __init__(self, base):
        super().__init__()
        self.base = base

    def forward(self, input):
        return self.base(input) + 1


def test_adapters_modes_and_autocast(make, batch):
    model, inputs, expected, report = joined(make, batch)
    plain = make("Qwen2")
    for each in (model, plain):
        each.model.layers[0].self_attn.v_proj = Adapter(each.model.layers[0].self_attn.v_proj)
    assert error(logits(model, *inputs), logits(plain, *inputs)) < 1e-4

    class Counter(TorchFunctionMode):
        count = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.count += func is nn.functional.linear
            return func(*args, **(kwargs or {}))

    with Counter() as counter:
        logits(model, *inputs)
    assert counter.count == SEPARATE
    with torch.autocast(DEVICE, dtype=torch.bfloat16):
        count, found = products(model, *inputs)
        assert are_separate(count) and error(found, logits(plain, *inputs)) < TOLERANCE[torch.bfloat16]
    addresses = model.model.layers[0].self_attn.v_proj.base.weight.data_ptr()
    report.undo()
    # The weight has left the joint memory below the adapter, too.
    assert model.model.layers[0].self_attn.v_proj.base.weight.data_ptr() != addresses


def test_weights_that_have_to_stay(make, batch):
    model, inputs = make("Mistral"), batch(2, 7)
    first, second = model.model.layers
    first.mlp.up_proj.weight.data = first.mlp.gate_proj.weight.data
    second.mlp.up_proj.weight.data = torch.empty(200, 64, device=DEVICE)[100:196].normal_()
    first.self_attn.k_proj = second.self_attn.k_proj
    second.self_attn.q_proj.bias = nn.Parameter(torch.zeros(64, device=DEVICE))
    expected = logits(model, *inputs)
    report = swap_modules(model, lambda module, name: "layers.0.self_attn.v_proj" not in name, join=True)
    reasons = {each.name.removeprefix("model.layers."): each.reason for each in report.joint}
    assert "NTLinear" in reasons["0.self_attn"] and "differ" in reasons["1.self_attn"]
    assert "shares" in reasons["0.mlp"] and "shares" in reasons["1.mlp"]
    with torch.no_grad():
        first.mlp.gate_proj.weight.data.mul_(1)
    assert first.mlp.up_proj.weight.data_ptr() == first.mlp.gate_proj.weight.data_ptr()
    assert error(logits(model, *inputs), expected) < 1e-4


def test_gradients_are_those_of_separate_layers(make, batch):
    """Optimisers train the joined weights."""
    model, inputs, expected, report = joined(make, batch)
    with Products() as counted:
        model(*inputs)
    assert counted.count == SEPARATE
    plain = make("Qwen2")
    for each in (model, plain):
        each(*inputs).logits.square().mean().backward()
    assert all(error(a.grad, b.grad) < 1e-3 for a, b in zip(model.parameters(), plain.parameters()))
    # Equal steps from gradients that are equal, bit by bit: AdamW divides by them.
    for parameter, other in zip(model.parameters(), plain.parameters()):
        parameter.grad.copy_(other.grad)
    for each in (model, plain):
        torch.optim.AdamW(each.parameters(), lr=1e-2).step()
    count, found = products(model, *inputs)
    assert count == JOINT and error(found, expected) > 1e-2 and error(found, logits(plain, *inputs)) < 1e-4
    report.undo()
    losses = [each(*inputs).logits.square().mean() for each in (model, plain)]
    for loss, each in zip(losses, (model, plain)):
        each.zero_grad()
        loss.backward()
    assert all(torch.equal(a.grad, b.grad) for a, b in zip(model.parameters(), plain.parameters()))


def test_two_threads(make, batch):
    model, inputs, expected, report = joined(make, batch)
    errors, done = [], threading.Event()

    def work():
        while not done.is_set():
            errors.append(error(logits(model, *inputs), expected))

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(3):
            model.to(torch.float32)
            report.undo()
            report = swap_modules(model, join=True)
    finally:
        done.set()
        for thread in threads:
            thread.join()
    assert errors and max(errors) < 1e-4


@pytest.mark.skipif(DEVICE == "cuda", reason="counts calls, and a GPU's are replayed without")
@torch.no_grad()
def test_compiled_code_sees_where_weights_lie(make, batch, monkeypatch):
    """One graph, whatever becomes of the weights, in which those that lie apart are multiplied apart."""
    model, inputs, expected, report = joined(make, batch)
    plain, widths = make("Qwen2"), []

    def compute(output, input, weight, bias=None, original=joint_linear.compute):
        widths.append(weight.shape[0])
        original(output, input, weight, bias)

    monkeypatch.setattr(joint_linear, "compute", compute)
    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    compiled = torch.compile(model, fullgraph=True, backend=counter)

    def products():
        widths.clear()
        found = logits(compiled, *inputs)
        plain.load_state_dict(model.state_dict())
        assert error(found, logits(plain, *inputs)) < 1e-4
        return len(widths)

    assert products() == 4 and error(logits(compiled, *inputs), expected) < 1e-4
    targets = [str(node.target) for graph in counter.graphs for node in graph.graph.nodes]
    wanted = {"joint_linear": 2, "linear_swiglu": 2, "linear": 5}
    assert {name: targets.count(f"ninetoothed.{name}.default") for name in wanted} == wanted
    attention, mlp = model.model.layers[0].self_attn, model.model.layers[1].mlp
    attention.k_proj.weight.data = attention.k_proj.weight.data * 2
    mlp.up_proj.weight.data = mlp.up_proj.weight.data * 2
    assert products() == 7 and counter.frame_count == 1
    mlp.gate_proj.weight.mul_(2)
    assert products() == 7 and counter.frame_count == 1
    swap_modules(model, join=True)
    assert products() == 4
    mlp.up_proj.weight = nn.Parameter(mlp.up_proj.weight * 2)
    assert products() == 5
    report.undo()
    assert products() == 0


@torch.no_grad()
def test_compiled_code_sees_a_patch(make, batch):
    model, plain = joined(make, batch)[0].model.layers[0].mlp, make("Qwen2").model.layers[0].mlp
    torch._dynamo.reset()
    compiled, states = torch.compile(model, backend="eager", fullgraph=True), torch.randn(2, 5, 64, device=DEVICE)
    for name in ("gate_proj", "act_fn"):
        torch.testing.assert_close(compiled(states), plain(states), rtol=1e-4, atol=1e-4)
        for each in (model, plain):
            layer = getattr(each, name)
            layer.forward = lambda input, layer=layer: 2 * type(layer).forward(layer, input)
        torch.testing.assert_close(compiled(states), plain(states), rtol=1e-4, atol=1e-4)


def test_gate_and_up_are_multiplied_in_one_launch_unless_their_activation_is_more(make, batch):
    model, inputs, expected, _ = joined(make, batch)
    with Products() as noted:
        logits(model, *inputs)
    assert "ninetoothed::linear_swiglu" in noted.names and "ninetoothed::silu" not in noted.names
    model.model.layers[1].mlp.act_fn.register_forward_hook(lambda module, args, output: output * 2)
    plain = make("Qwen2")
    plain.model.layers[1].mlp.act_fn.register_forward_hook(lambda module, args, output: output * 2)
    assert error(logits(model, *inputs), logits(plain, *inputs)) < 1e-4
    model.model.layers[0].mlp.act_fn = plain.model.layers[0].mlp.act_fn = nn.Tanh()
    assert error(logits(model, *inputs), logits(plain, *inputs)) < 1e-4


def test_an_activation_in_place_is_trained(make, batch):
    model, plain = (make("Qwen2").model.layers[0].mlp.train() for _ in range(2))
    states = torch.randn(2, 5, 64, device=DEVICE)
    for each in (model, plain):
        each.act_fn = nn.ReLU(inplace=each is model)
    swap_modules(nn.ModuleList([model]), join=True)
    for each in (model, plain):
        each(states).square().sum().backward()
    for parameter, expected in zip(model.parameters(), plain.parameters()):
        assert error(parameter.grad, expected.grad) < 1e-4
    with torch.no_grad():
        assert error(model(states), plain(states)) < 1e-4


def test_a_trained_activation_in_place_of_frozen_layers(make, batch):
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.factor = nn.Parameter(torch.full((), 1.5, device=DEVICE))

        def forward(self, x):
            return x.mul_(self.factor)

    model, plain = (make("Qwen2").model.layers[0].mlp.requires_grad_(False) for _ in range(2))
    states = torch.randn(2, 5, 64, device=DEVICE)
    model.act_fn, plain.act_fn = Scaled(), Scaled()
    swap_modules(nn.ModuleList([model]), join=True)
    for each in (model, plain):
        each(states).square().sum().backward()
    assert error(model.act_fn.factor.grad, plain.act_fn.factor.grad) < 1e-4


def test_nothing_is_joined_unless_asked_for(make, batch):
    model, inputs = make("Llama"), batch(2, 7)
    pointers = [parameter.data_ptr() for parameter in model.parameters()]
    report = swap_modules(model)
    assert not report.joint and not any(isinstance(module, NTGatedMLP) for module in model.modules())
    assert [parameter.data_ptr() for parameter in model.parameters()] == pointers
    assert products(model, *inputs)[0] == SEPARATE
