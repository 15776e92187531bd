"""Residual sums with the norm behind them: fewer launches, and whatever happens between the two is seen."""

import copy
import pickle
from collections import Counter

import pytest
import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from ninetoothed_ops.modules import NTDecoderLayer, swap_modules
from ninetoothed_ops.modules.residual import AHEAD, NEXT
from tests.ninetoothed_ops.integrations.calls import DEVICE, NAMES, TOLERANCE, error, generate, logits, reasons


class Operators(TorchDispatchMode):
    """Count NineToothed's operators, and additions."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.counts[func.name().partition(".")[0].removeprefix("ninetoothed::")] += 1
        return func(*args, **(kwargs or {}))


def counted(call):
    with Operators() as operators:
        found = call()
    return found, operators.counts


def joined(make, batch, name="Llama", **options):
    model, inputs = make(name, **options), batch(2, 7)
    expected = logits(model, *inputs)
    return model, inputs, expected, swap_modules(model, join=True)


@pytest.mark.parametrize("name", NAMES)
def test_each_sum_is_normed_where_it_is_added(make, batch, name):
    model, (tokens, mask), expected, report = joined(make, batch, name)
    found, counts = counted(lambda: logits(model, tokens, mask))
    assert error(found, expected) < TOLERANCE[torch.float32]
    # Four sums of two layers. The first norm has none before it; those of Qwen3's heads are norms of their own.
    assert counts["add_rms_norm"] == 4 and counts["rms_norm"] == 1 + 4 * (name == "Qwen3")
    rows = [row for row in report if row.new is not None and issubclass(row.new, NTDecoderLayer)]
    assert [row.name for row in rows] == ["model.layers.0", "model.layers.1"]
    report.undo()
    assert not any(AHEAD in vars(module) or NEXT in vars(module) for module in model.modules())
    assert torch.equal(logits(model, tokens, mask), expected)


def test_residual_gradients_are_added_by_the_norms(make, batch):
    """In an eager step, too: two sums of two layers; the last norm has none beside it, and no sum is added apart."""
    model, (tokens, mask) = make("Llama", num_hidden_layers=2).train(), batch(2, 7)
    plain = copy.deepcopy(model)
    swap_modules(model, join=True)
    addends, gradients = [], []

    class Noted(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            if func.name().partition(".")[0] == "ninetoothed::rms_norm_backward":
                addends.append(len(args) > 6 and args[6] is not None)
            return func(*args, **(kwargs or {}))

    for each in (model, plain):
        states = each.model.embed_tokens(tokens).detach().requires_grad_()
        loss = each(inputs_embeds=states, attention_mask=mask, labels=tokens).loss
        with Noted():
            gradients.append(torch.autograd.grad(loss, (states, *each.parameters()), allow_unused=True))
    assert addends == [False, True, True, True, True]
    for found, expected in zip(*gradients):
        assert expected is found is None or error(found, expected) < 1e-5


def test_hidden_states(make, batch):
    model, inputs, _, _ = joined(make, batch)
    states = [
        each(*inputs, output_hidden_states=True).hidden_states for each in (model.requires_grad_(False), make("Llama"))
    ]
    assert len(states[0]) == 3
    for found, expected in zip(*states):
        assert error(found[inputs[1].bool()], expected[inputs[1].bool()]) < 1e-5


def test_other_layers_are_left_alone_and_told(make, batch):
    model, (tokens, mask) = make("Gemma"), batch(2, 7)
    report = swap_modules(model, join=True)
    assert reasons(report)["model.layers.0"] == "its norms stay their own"
    granite = make("Granite", residual_multiplier=0.5)
    assert "not that of LlamaDecoderLayer" in reasons(swap_modules(granite, join=True))["model.layers.1"]
    llama = make("Llama")
    llama.model.layers[0].forward = llama.model.layers[0].forward
    assert "patched" in reasons(swap_modules(llama, join=True))["model.layers.0"]
    assert isinstance(llama.model.layers[1], NTDecoderLayer)


def shift(module, args, output=None):
    """A hook before a module or behind it, which changes a tensor in its place."""
    (args[0] if output is None else output).add_(1)


def shift_unseen(module, args, output=None):
    """One that changes it past its version."""
    shift(module, [arg.data for arg in args], None if output is None else output.data)


def before(hook):
    return lambda module: module.register_forward_pre_hook(hook)


def behind(hook):
    return lambda module: module.register_forward_hook(hook)


HOOKS = {
    "a layer's output, in its place": ("layers.0", behind(shift)),
    "a layer's output, unseen": ("layers.0", behind(shift_unseen)),
    "a layer's output": ("layers.0", behind(lambda module, args, output: output + 1)),
    "a layer's input": ("layers.1", before(lambda module, args: (args[0] * 2,))),
    "a layer's input, unseen": ("layers.1", before(shift_unseen)),
    "a norm's input, in its place": ("layers.0.post_attention_layernorm", before(shift)),
    "a norm's input, unseen": ("layers.0.post_attention_layernorm", before(shift_unseen)),
    "a norm's output": ("layers.1.input_layernorm", behind(shift)),
    "the last norm's input, unseen": ("norm", before(shift_unseen)),
    "what an MLP gives": ("layers.0.mlp", behind(shift)),
    "every module": ("", lambda module: nn.modules.module.register_module_forward_hook(shift_layers)),
}


def shift_layers(module, args, output):
    if "DecoderLayer" in type(module).__name__:
        output.data.add_(1)


@pytest.mark.parametrize("label", HOOKS)
@pytest.mark.parametrize("context", (torch.no_grad, torch.inference_mode))
def test_hooks_have_their_say(make, batch, label, context):
    model, inputs, before, _ = joined(make, batch)
    plain = make("Llama")
    found, expected = [], []
    for each, results in ((model, found), (plain, expected)):
        name, register = HOOKS[label]
        handle = register(each.model.get_submodule(name))
        with context():
            results.append(each(*inputs).logits[inputs[1].bool()].clone())
        handle.remove()
        results.append(logits(each, *inputs))
    assert error(found[0], expected[0]) < 1e-4 < 1e-2 < error(found[0], before)
    assert error(found[1], before) < 1e-4


def skip(model):
    del model.model.layers[0]


def swap_two(model):
    first, second = model.model.layers
    model.model.layers[0], model.model.layers[1] = second, first


def other_norm(model):
    model.model.layers[1].input_layernorm = nn.Identity()


def other_weight(model):
    with torch.no_grad():
        model.model.layers[1].input_layernorm.weight.mul_(2)
        model.model.norm.weight = nn.Parameter(model.model.norm.weight * 2)


def other_eps(model):
    model.model.layers[1].input_layernorm.variance_epsilon = 10.0


def patched_norm(model):
    norm = model.model.norm
    norm.forward = lambda input: input * norm.weight


@pytest.mark.parametrize("change", (skip, swap_two, other_norm, other_weight, other_eps, patched_norm))
def test_changes_of_the_model_are_seen(make, batch, change):
    model, inputs, before, _ = joined(make, batch)
    plain = make("Llama")
    for each in (model, plain):
        for index, layer in enumerate(each.model.layers):
            layer.self_attn.layer_idx = index
        change(each)
        each.config.num_hidden_layers = len(each.model.layers)
    found, expected = (logits(each, *inputs, use_cache=False) for each in (model, plain))
    assert error(found, expected) < 1e-4 and error(found, before) > 1e-2


def by_data(tensor):
    tensor.data.mul_(3).add_(1)


def by_numpy(tensor):
    tensor.detach().cpu().numpy()[...] = 2 if tensor.ndim > 1 else 7


def by_dlpack(tensor):
    torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(tensor.detach())).mul_(3)


def by_storage(tensor):
    torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage()).mul_(3)


def by_version(tensor):
    with torch.no_grad():
        tensor.mul_(3)


WRITES = (by_data, by_dlpack, by_storage, by_version, *((by_numpy,) if DEVICE == "cpu" else ()))


def by_hand(model, tokens, change, layers):
    """Run a model's layers as a user would, with a change between each two."""
    states, positions = model.embed_tokens(tokens), torch.arange(tokens.shape[1], device=DEVICE)[None]
    given = dict.fromkeys(("attention_mask", "past_key_values", "use_cache"))
    given |= {"position_ids": positions, "position_embeddings": model.rotary_emb(states, positions)}
    for layer in layers:
        states = layer(states, **given)
        change(states)
    return model.norm(states)


@torch.no_grad()
@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("changed", ("states", "weights", "nothing"))
def test_layers_run_by_hand(make, batch, write, changed):
    """What is written between a sum and its norm is seen, whatever tells of it."""
    model, (tokens, _), _, _ = joined(make, batch)
    plain = make("Llama")
    found = []
    for each in (model.model, plain.model):

        def change(states, each=each):
            if changed == "weights":
                write(each.layers[1].input_layernorm.weight)
                write(each.norm.weight)
            elif changed == "states":
                write(states)

        found.append(by_hand(each, tokens, change, each.layers))
    assert error(*found) < 1e-4


class Between(nn.Module):
    """Stands for a layer, whose input it changes before."""

    def __init__(self, layer):
        super().__init__()
        self.layer = layer

    def forward(self, states, **given):
        states.data.add_(1)
        return self.layer(states, **given)


def wrapped_layer(model):
    model.layers[1] = Between(model.layers[1])


def wrapped_norm(model):
    model.norm = Between(model.norm)


def norm_with_another_eps(model):
    norm = model.layers[1].input_layernorm = copy.copy(model.layers[1].input_layernorm)
    norm.variance_epsilon = 10.0


@pytest.mark.parametrize("change", (wrapped_layer, wrapped_norm, norm_with_another_eps))
def test_what_is_put_between_two_layers_of_a_model_that_runs(make, batch, change):
    model, inputs, before, _ = joined(make, batch)
    plain = make("Llama")
    for each in (model, plain):
        change(each.model)
    found, expected = (logits(each, *inputs, use_cache=False) for each in (model, plain))
    assert error(found, expected) < 1e-4 and error(found, before) > 1e-2


@torch.no_grad()
def test_a_sum_that_a_run_left_behind(make, batch):
    """Its norm may wait for it, and another run of the same code, or none, gets the sum."""
    model, (tokens, mask), _, _ = joined(make, batch)
    last, norm = model.model.layers[1], model.model.norm
    ahead = vars(last)[NEXT]
    model.model.norm = nn.Identity()
    states = model.model(tokens, mask).last_hidden_state
    assert ahead.normed is not None and ahead.normed.total() is states
    model.model.norm = norm
    states.data.add_(1)
    model.model.layers = nn.ModuleList()
    expected = nn.functional.rms_norm(states, (64,), norm.weight, norm.variance_epsilon)
    found = model.model(inputs_embeds=states, attention_mask=mask).last_hidden_state
    assert error(found, expected) < 1e-5 and ahead.normed is None
    # What waits for a sum that is gone is gone with it.
    model.model.layers, model.model.norm = nn.ModuleList((last,)), nn.Identity()
    last.self_attn.layer_idx = 0
    model.model(tokens, mask)
    assert ahead.normed is None


def test_training_autocast_and_modes_compute_apart(make, batch):
    model, inputs, expected, _ = joined(make, batch)
    plain = make("Llama")
    # What is added in the middle of a layer is normed there, with a gradient. Of the weights, here.
    for each in (model, model.train()):
        _, counts = counted(lambda each=each: each(*inputs))
        assert counts["add_rms_norm"] == 2
    model.eval()

    class Additions(TorchFunctionMode):
        count = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.count += func is torch.Tensor.add
            return func(*args, **(kwargs or {}))

    with Additions() as additions:
        assert error(logits(model, *inputs), expected) < 1e-4
    assert additions.count >= 4
    with torch.no_grad(), torch.autocast(DEVICE, dtype=torch.bfloat16):
        found, wanted = (each(*inputs).logits[inputs[1].bool()] for each in (model, plain))
    assert error(found, wanted) < TOLERANCE[torch.bfloat16]


def test_frozen_weights_need_no_context(make, batch):
    model, inputs, expected, _ = joined(make, batch)
    model.requires_grad_(False)
    found, counts = counted(lambda: model(*inputs).logits[inputs[1].bool()])
    assert counts["add_rms_norm"] == 4 and error(found, expected) < 1e-4


def test_compiled(make, batch):
    """In one graph, in which the sum in the middle of each layer is normed where it is added."""
    model, inputs, expected, _ = joined(make, batch)
    logits(model, *inputs)
    torch._dynamo.reset()
    counts = []

    def counting(graph, _):
        counts.append(Counter(str(node.target) for node in graph.graph.nodes))
        return graph

    compiled = torch.compile(model, backend=counting, fullgraph=True)
    assert error(logits(compiled, *inputs), expected) < 1e-4
    assert [each["ninetoothed.add_rms_norm.default"] for each in counts] == [2]
    # A hook sees what the norm is given.
    model.model.layers[0].post_attention_layernorm.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    torch._dynamo.reset()
    assert error(logits(compiled, *inputs), logits(model, *inputs)) < 1e-4
    assert counts[-1]["ninetoothed.add_rms_norm.default"] == 1


@pytest.mark.parametrize("duplicate", (copy.deepcopy, lambda both: pickle.loads(pickle.dumps(both))))
def test_copies_know_no_next_layer_until_they_are_joined(make, batch, duplicate):
    model, inputs, expected, report = joined(make, batch)
    twin, twins = duplicate((model, report))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.zero_()
    found, counts = counted(lambda: logits(twin, *inputs))
    assert counts["add_rms_norm"] == 2 and error(found, expected) < 1e-4
    again = swap_modules(twin, join=True)
    found, counts = counted(lambda: logits(twin, *inputs))
    assert counts["add_rms_norm"] == 4 and error(found, expected) < 1e-4
    again.undo()
    twins.undo()
    assert torch.equal(logits(twin, *inputs), expected)


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16), ids=str)
def test_halves_are_those_of_the_modules_apart(make, batch, dtype):
    """A fused launch rounds where the two launches do: a half's sum is normed as it is stored."""
    apart, model, inputs = make("Llama", dtype=dtype), make("Llama", dtype=dtype), batch(2, 7)
    swap_modules(apart)
    swap_modules(model, join=True)
    found, expected = logits(model, *inputs), logits(apart, *inputs)
    # On a GPU the joined product may be summed in another order.
    assert torch.equal(found, expected) if DEVICE == "cpu" else error(found, expected) < TOLERANCE[dtype]


def test_halves_give_the_tokens_that_they_gave(make, batch):
    """In bfloat16 each token that is chosen is among the best, up to rounding."""
    model, (tokens, mask) = make("Llama", dtype=torch.bfloat16), batch(2, 7)
    swap_modules(model, join=True)
    # On a GPU, steps would be replayed otherwise, which calls no operators.
    options = {"cache_implementation": "static", "disable_compile": True}
    made, counts = counted(lambda: generate(model, tokens, mask, **options))
    assert counts["add_rms_norm"] == 4 * 8
    whole, kept = torch.cat((tokens, made), 1), torch.cat((mask, torch.ones_like(made)), 1)
    reference = make("Llama")
    with torch.no_grad():
        scores = reference(input_ids=whole, attention_mask=kept).logits[:, tokens.shape[1] - 1 : -1].double()
    chosen = scores.gather(-1, made[..., None])[..., 0]
    assert (scores.amax(-1) - chosen).max() < TOLERANCE[torch.bfloat16] * scores.abs().max()


@pytest.mark.parametrize("patched_later", (False, True))
def test_writes_between_layers_that_no_version_tells(make, batch, monkeypatch, patched_later):
    """Only transformers' own code between two layers is known to write nothing past the versions of tensors."""
    model, (tokens, _) = make("Llama"), batch(2, 7)

    def forward(self, input_ids):
        states, positions = self.embed_tokens(input_ids), torch.arange(7, device=DEVICE)[None]
        given = dict.fromkeys(("attention_mask", "past_key_values", "use_cache"))
        given |= {"position_ids": positions, "position_embeddings": self.rotary_emb(states, positions)}
        for layer in self.layers:
            states = layer(states, **given)
            states.data.add_(1)
        return self.norm(states)

    if patched_later:
        swap_modules(model, join=True)
    monkeypatch.setattr(type(model.model), "forward", forward)
    if not patched_later:
        swap_modules(model, join=True)
    with torch.no_grad():
        assert error(model.model(tokens), make("Llama").model(tokens)) < 1e-4
