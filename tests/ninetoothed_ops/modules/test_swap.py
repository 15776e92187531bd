import copy
import pickle

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

from ninetoothed.errors import NineToothedError
from ninetoothed_ops.modules import NTLinear, NTRMSNorm, NTSiLU, SwapError, swap_modules
from tests.conftest import DEVICE


class Double(nn.Module):
    def forward(self, weight):
        return 2 * weight


class Wrapper(nn.Module):
    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, input):
        return self.body(input)


class LoraLinear(nn.Linear):
    def forward(self, input):
        return super().forward(input) + 1


def network():
    model = nn.Sequential(nn.Linear(48, 96), nn.SiLU(), nn.RMSNorm(96), nn.Linear(96, 7, bias=False)).to(DEVICE)
    for parameter in model.parameters():
        nn.init.normal_(parameter)
    return model


def network_size():
    return sum(parameter.numel() for parameter in network().parameters())


def types(model):
    return [type(module) for module in model.modules()]


def close(actual, expected):
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-4)


def reasons(report):
    return {row.name: row.reason for row in report.skipped}


def test_only_classes_change_and_undo_gives_them_back():
    model, input = network(), torch.randn(5, 4, 48, device=DEVICE)
    before, modules, expected = types(model), list(model), model(input).detach()
    state = {name: dict(vars(module)) for name, module in model.named_modules()}
    values = {key: value.clone() for key, value in model.state_dict().items()}

    report = swap_modules(model)
    assert types(model)[1:] == [NTLinear, NTSiLU, NTRMSNorm, NTLinear]
    assert all(module is kept for module, kept in zip(model, modules))
    # The same objects under the same names in every attribute of every module: parameters, hooks, flags, sizes.
    for name, module in model.named_modules():
        assert vars(module).keys() == state[name].keys()
        assert all(value is state[name][key] for key, value in vars(module).items())
    assert list(model.state_dict()) == list(values)
    assert all(torch.equal(value, values[key]) for key, value in model.state_dict().items())
    with torch.no_grad():
        close(model(input), expected)

    report.undo()
    assert types(model) == before and torch.equal(model(input), expected)
    report.undo()
    assert types(model) == before


def test_report_names_every_module_its_classes_and_why():
    model = network()
    model.append(LoraLinear(7, 7))
    report = swap_modules(model, lambda module, name: name != "3")
    assert [tuple(row) for row in report] == [
        ("0", nn.Linear, NTLinear, ""),
        ("1", nn.SiLU, NTSiLU, ""),
        ("2", nn.RMSNorm, NTRMSNorm, ""),
        ("3", nn.Linear, None, "filter_fn said no"),
        ("4", LoraLinear, None, "a subclass of torch.nn.Linear, which may compute something else"),
    ]
    assert len(report) == 5 and len(report.swapped) == 3 and len(report.skipped) == 2
    lines = repr(report).splitlines()
    # 48 * 96 + 96 and 96 of 48 * 96 + 96 + 96 + 96 * 7 + 7 * 7 + 7.
    assert lines[0] == "3 swapped, 2 left alone; 86.8% of the weights (embeddings aside) run on NineToothed"
    assert lines[3].split() == ["1", "1", "SiLU", "NTSiLU"]
    assert lines[5].split()[:3] == ["3", "1", "Linear"] and lines[5].endswith("left alone: filter_fn said no")


def test_report_folds_the_layers_of_a_list():
    layers = nn.ModuleList(nn.ModuleDict({"up": nn.Linear(3, 3), "down": nn.Linear(3, 3)}) for _ in range(5))
    lines = repr(swap_modules(layers)).splitlines()
    assert [line.split() for line in lines[2:]] == [
        ["*.up", "5", "Linear", "NTLinear"],
        ["*.down", "5", "Linear", "NTLinear"],
    ]


def test_filter_sees_modules_and_names_and_may_raise():
    model = network()
    seen = []
    swap_modules(model, lambda module, name: seen.append((module, name)))
    assert seen == [(module, str(index)) for index, module in enumerate(model)]
    assert types(model)[1:] == [nn.Linear, nn.SiLU, nn.RMSNorm, nn.Linear]

    def refuse_the_last(module, name):
        return {"0": True, "1": True, "2": True}[name]

    with pytest.raises(KeyError):
        swap_modules(model, refuse_the_last)
    assert types(model)[1:] == [nn.Linear, nn.SiLU, nn.RMSNorm, nn.Linear]


def test_root_itself_and_other_models():
    layer, other = nn.Linear(3, 4).to(DEVICE), nn.Linear(3, 4).to(DEVICE)
    forward = nn.Linear.forward
    report = swap_modules(layer)
    assert type(layer) is NTLinear and report.rows[0].name == "" and "the model itself" in repr(report)
    assert type(other) is nn.Linear and nn.Linear.forward is forward and type(nn.Linear(3, 4)) is nn.Linear
    report.undo()
    assert type(layer) is nn.Linear


def test_swapping_twice():
    model = network()
    first = swap_modules(model)
    second = swap_modules(model)
    # What is ours already is no row, and counts.
    assert not list(second) and second.share == first.share == (network_size(), network_size())
    assert str(second).startswith("0 swapped, 0 left alone; 100% of the weights")
    second.undo()
    assert type(model[0]) is NTLinear
    first.undo()
    assert type(model[0]) is nn.Linear


def test_a_module_with_two_parents_and_tied_weights():
    shared = nn.Linear(8, 8)
    model = nn.ModuleDict({"a": nn.Sequential(shared), "b": nn.Sequential(shared, nn.Linear(8, 8))}).to(DEVICE)
    model["b"][1].weight = shared.weight
    report = swap_modules(model)
    assert model["a"][0] is model["b"][0] is shared and type(shared) is NTLinear
    assert model["b"][1].weight is shared.weight and [row.name for row in report] == ["a.0", "b.1"]
    report.undo()
    assert type(shared) is nn.Linear and model["b"][1].weight is shared.weight


def test_weights_that_training_has_moved():
    model, input = network(), torch.randn(5, 48, device=DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    report = swap_modules(model)
    for parameter in model.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimizer.step()
    with torch.no_grad():
        moved = model(input)
    report.undo()
    twin = network()
    twin.load_state_dict(model.state_dict())
    assert torch.equal(model(input), twin(input))
    close(moved, twin(input).detach())


def test_float16_with_scaled_losses():
    """A scale under which gradients overflow is halved, and the step left out, as with PyTorch's modules."""
    model, input, found = network(), torch.randn(16, 48, device=DEVICE), []
    for swap in (False, True):
        trained = copy.deepcopy(model)
        if swap:
            swap_modules(trained)
        optimizer, scaler = torch.optim.SGD(trained.parameters(), lr=1e-3), torch.amp.GradScaler(DEVICE, 2.0**15)
        scales = []
        for _ in range(6):
            optimizer.zero_grad()
            with torch.autocast(DEVICE, torch.float16):
                output = trained(input)
            scaler.scale(output.float().square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
        moved = [(after - before).detach() for after, before in zip(trained.parameters(), model.parameters())]
        found.append((scales, moved))
    (expected, wanted), (scales, moved) = found
    assert scales == expected and scales[-2] == scales[-1] < 2.0**15
    for actual, other in zip(moved, wanted):
        assert (actual - other).norm() < 1e-2 * other.norm()


def test_hooks_flags_types_and_devices_stay():
    model, input, calls = network().eval(), torch.randn(2, 48, device=DEVICE), []
    model[0].register_forward_hook(lambda module, args, output: calls.append("forward") or output + 1)
    model[1].register_forward_pre_hook(lambda module, args: calls.append("pre"))
    model[3].register_state_dict_post_hook(lambda module, state, prefix, local: calls.append("state"))
    expected = model(input).detach()
    calls.clear()
    report = swap_modules(model)
    with torch.no_grad():
        close(model(input), expected)
    model.state_dict()
    assert calls == ["forward", "pre", "state"]
    assert not any(module.training for module in model.modules())
    model[0].register_forward_hook(lambda module, args, output: output * 0)
    report.undo()
    assert model[0](input).abs().max() == 0


def test_parameters_frozen_or_on_meta():
    model = network().requires_grad_(False)
    swap_modules(model)
    assert not any(parameter.requires_grad for parameter in model.parameters())
    assert not model(torch.randn(2, 48, device=DEVICE)).requires_grad
    meta = nn.Linear(3, 4, device="meta")
    swap_modules(meta)
    assert type(meta) is NTLinear and meta(torch.empty(2, 3, device="meta")).shape == (2, 4)


@pytest.mark.parametrize("duplicate", (copy.deepcopy, lambda model: pickle.loads(pickle.dumps(model))))
def test_copies_of_a_swapped_model(duplicate):
    model, input = network(), torch.randn(5, 48, device=DEVICE)
    report = swap_modules(model)
    twin = duplicate(model)
    report.undo()
    assert types(twin)[1:] == [NTLinear, NTSiLU, NTRMSNorm, NTLinear] and type(model[0]) is nn.Linear
    assert not {id(p) for p in twin.parameters()} & {id(p) for p in model.parameters()}
    with torch.no_grad():
        close(twin(input), model(input))


def test_to_another_type():
    model, input = network(), torch.randn(5, 48, device=DEVICE)
    report = swap_modules(model)
    model.to(torch.bfloat16)
    with torch.no_grad():
        output = model(input.bfloat16())
        report.undo()
        expected = model(input.bfloat16())
    assert output.dtype == torch.bfloat16
    assert (output.double() - expected.double()).norm() / expected.double().norm() < 3e-2


def test_undo_refuses_a_module_that_is_a_third_class_now_and_changes_nothing():
    model = network()
    report = swap_modules(model)
    parametrize.register_parametrization(model[3], "weight", Double())
    with pytest.raises(SwapError, match="undo: 3 was Linear, was made NTLinear, and something has made it") as caught:
        report.undo()
    assert isinstance(caught.value, NineToothedError) and type(model[0]) is NTLinear
    parametrize.remove_parametrizations(model[3], "weight")
    report.undo()
    assert types(model)[1:] == [nn.Linear, nn.SiLU, nn.RMSNorm, nn.Linear]


def test_undo_refuses_a_forward_that_was_patched_since_and_changes_nothing():
    model = network()
    report = swap_modules(model)
    forward = model[3].forward
    model[3].forward = lambda input: forward(input) + 1
    with pytest.raises(SwapError, match="undo: the forward of 3 was patched on this instance since"):
        report.undo()
    assert type(model[0]) is NTLinear
    # As libraries take back what they patched: the class's own method stays behind as an attribute.
    model[3].forward = forward
    report.undo()
    assert types(model)[1:] == [nn.Linear, nn.SiLU, nn.RMSNorm, nn.Linear]
    assert model[3].forward.__func__ is nn.Linear.forward


def test_parametrising_what_was_left_alone_does_not_stop_undo():
    model = network()
    report = swap_modules(model, lambda module, name: name != "0")
    parametrize.register_parametrization(model[0], "weight", Double())
    report.undo()
    assert type(model[3]) is nn.Linear and parametrize.is_parametrized(model[0])


def test_only_modules():
    with pytest.raises(NineToothedError, match="swap_modules: model must be a torch.nn.Module, and is a list"):
        swap_modules([nn.Linear(3, 3)])


@pytest.mark.parametrize("compile", (torch.compile, lambda model, backend: model.compile(backend=backend) or model))
def test_compiled_code_follows_the_swap(compile, monkeypatch):
    """It is made anew, whether or not this PyTorch would notice."""
    model, input = Wrapper(network()), torch.randn(5, 48, device=DEVICE)
    graphs, resets, reset = [], [], torch.compiler.reset
    monkeypatch.setattr(torch.compiler, "reset", lambda: resets.append(len(graphs)) or reset())

    def backend(graph, _):
        graphs.append({str(node.target) for node in graph.graph.nodes})
        return graph

    torch._dynamo.reset()
    compiled = compile(model, backend=backend)
    with torch.no_grad():
        expected = compiled(input)
        report = swap_modules(compiled)
        close(compiled(input), expected)
        report.undo()
        assert torch.equal(compiled(input), expected)
    ours = [any("ninetoothed" in target for target in graph) for graph in graphs]
    assert len(report.swapped) == 4 and ours == [False, True, False] and resets == [1, 2]


def test_whatever_else_has_weights_is_reported():
    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(3))
            self.others = nn.ParameterList([nn.Parameter(torch.ones(3))])

    model = nn.Sequential(
        nn.Embedding(5, 3), nn.GroupNorm(1, 3), Scaled(), nn.GELU(), nn.Conv1d(3, 3, 1), nn.Linear(3, 3)
    )
    model.append(nn.GroupNorm(1, 3, affine=False))
    report = swap_modules(model)
    nothing, asked = "NineToothed has no module for it", "swapped where `also` names it"
    assert {row.name: row.reason for row in report.skipped} == {"1": asked, "2": nothing, "4": nothing}
    # Of 3 and 3 of the norm, 3 and 3 of Scaled, 9 and 3 each of the others, 12 are ours: not the table's.
    assert report.share == (12, 36)
    assert str(report).startswith("1 swapped, 3 left alone; 33.3% of the weights (embeddings aside) run on NineToothed")


def test_containers_are_no_rows_whatever_their_names():
    class Linear(nn.Sequential):
        """A container by its forward."""

    class LinearAttention(nn.ModuleList):
        """A container that has none."""

    class OwnAttention(nn.Module):
        def __init__(self):
            super().__init__()
            self.own = nn.Linear(3, 3)

        def forward(self, input):
            return self.own(input)

    class CrossAttention(OwnAttention):
        """Attention in parts, which tell."""

        def __init__(self):
            super().__init__()
            self.inner = OwnAttention()

    class Head(OwnAttention):
        """A head whose weight is that of its part, as BERT's bias is."""

        def __init__(self):
            super().__init__()
            self.bias = self.own.bias

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8))
            self.parts = LinearAttention([Linear(nn.Linear(3, 3)), nn.ModuleDict({"cross": CrossAttention()})])
            self.list = nn.ParameterList([torch.ones(3)])
            self.head = Head()

        def forward(self, input):
            return self.scale * input

    report = swap_modules(Model())
    assert reasons(report) == {"parts.1.cross.inner": "it has no q_proj, k_proj, v_proj, o_proj"}
    # The weights that a model has itself count.
    assert len(report.swapped) == 4 and report.share == (48, 48 + 8 + 3)
    # A layer that is the model has a row.
    assert reasons(swap_modules(nn.Conv1d(3, 3, 1))) == {"": "NineToothed has no module for it"}
    # A forward that is not the container's computes anything.
    Linear.forward = lambda self, input: self[0](input)
    assert reasons(swap_modules(nn.ModuleList([Linear(nn.SiLU())]))) == {"0": "not a torch.nn.Linear"}


def test_share_of_weights_that_are_shared_quantised_or_not_there_yet():
    first, second = nn.Linear(4, 4, bias=False), nn.Linear(4, 4, bias=False)
    table = nn.Embedding(4, 4)
    second.weight = table.weight
    other = LoraLinear(4, 4, bias=False)
    other.weight = first.weight

    class Linear8bit(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Buffer(torch.zeros(4, 4, dtype=torch.int8))
            self.mask = nn.Buffer(torch.zeros(9, 9), persistent=False)

    # The weight of two modules is one; it runs on ours if it does in both. A table that is multiplied by is a weight.
    assert swap_modules(nn.ModuleList([first, second, table])).share == (32, 32)
    model = nn.ModuleList([other, nn.Linear(4, 4), Linear8bit(), nn.LazyLinear(3), nn.LayerNorm(4)])
    model.append(first)
    report = swap_modules(model, lambda module, name: name != "4")
    assert report.share == (20, 16 + 20 + 16 + 8)
    assert swap_modules(nn.SiLU()).share.total == 0 and "%" not in str(swap_modules(nn.SiLU()))


def test_nearly_all_is_not_all():
    report = swap_modules(nn.ModuleList([nn.Linear(100, 100), nn.GroupNorm(1, 1)]))
    assert "; 99.9% of the weights" in str(report)


@pytest.mark.parametrize("bias", (True, False))
def test_parametrised_weights_are_reported_with_their_module(bias):
    layers = nn.Linear(3, 3, bias=bias), nn.Conv1d(3, 3, 1, bias=bias), nn.Embedding(5, 3)
    report = swap_modules(nn.Sequential(*map(nn.utils.parametrizations.weight_norm, layers)))
    reasons = {"0": "parametrised: weight", "1": "NineToothed has no module for it"}
    assert {row.name: row.reason for row in report.skipped} == reasons and not report.swapped
