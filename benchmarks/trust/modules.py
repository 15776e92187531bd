"""Swapped models beside their unswapped twins: whatever a user does to both, both compute the same.

A case is one step: something is done to both models (weights are written, replaced, moved or trained, hooks come and
go, models are copied, saved, compiled), and then both are called, in one of the ways that a user calls them.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import inspect
import io
import pickle
import random
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ninetoothed_ops.modules import SwapReport, swap_modules

from .parts import Case

try:
    import transformers
except ImportError:
    transformers = None

STEPS = 8
# Few, so that kernels are compiled for few of them.
WIDTHS = (5, 16)
# Relative errors of a whole result: of a few layers, whose weights are large.
TOLERANCE = {torch.float64: 1e-6, torch.float32: 2e-4, torch.bfloat16: 8e-2, torch.float16: 2e-2}
FAMILIES = ("Llama", "Mistral", "Qwen2", "Qwen3", "Gemma", "Nemotron", "Phi3", "Cohere")
LAYERED = ("Llama", "Mistral", "Qwen2", "Qwen3")


@dataclass
class Side:
    """One of two models, with what was put on it. `step` makes all random choices: both sides make the same."""

    model: nn.Module
    report: SwapReport | None = None
    handles: list[Any] = field(default_factory=list)
    # The names of what modules are given, of the unswapped ones, which are called first.
    words: dict[str, list[str]] = field(default_factory=dict)

    def parameter(self, choice: random.Random) -> tuple[nn.Module, str]:
        """Choose a module and the name of one of its parameters."""
        found = [(each, name) for each in self.model.modules() for name, p in each._parameters.items() if p is not None]
        return choice.choice(found)

    def module(self, choice: random.Random, *classes: type[nn.Module]) -> nn.Module:
        """Choose a module, of some classes if any are given."""
        found = [each for each in self.model.modules() if not classes or isinstance(each, classes)]
        return choice.choice(found)


def network(rng: random.Random) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Make a random model, and what it is called with."""
    kind = rng.choice(("rows", "images", "family", "family") if transformers else ("rows", "images"))
    if kind == "family":
        return family(rng)
    if kind == "images":
        channels, layers = 3, []
        for _ in range(rng.randint(1, 3)):
            size = rng.choice((1, 3))
            layers += [nn.Conv2d(channels, channels, size, padding=size // 2, bias=rng.random() < 0.5)]
            layers += [rng.choice((nn.SiLU, nn.GELU, nn.ReLU))()]
        return nn.Sequential(*layers), (torch.randn(rng.choice((1, 2)), channels, 5, 4),)
    width = rng.choice(WIDTHS)
    made = (
        lambda: nn.Linear(width, width, bias=rng.random() < 0.5),
        lambda: nn.RMSNorm(width, eps=rng.choice((None, 1e-5))),
        lambda: nn.LayerNorm(width, bias=rng.random() < 0.5),
        lambda: nn.SiLU(inplace=rng.random() < 0.5),
        lambda: nn.GELU(rng.choice(("none", "tanh"))),
    )
    layers = [rng.choice(made)() for _ in range(rng.randint(2, 6))]
    return nn.Sequential(nn.Linear(width, width), *layers), (torch.randn(rng.choice((1, 2)), 3, width),)


def family(rng: random.Random) -> tuple[nn.Module, tuple[torch.Tensor, ...]]:
    """Make a small model of transformers."""
    name = rng.choice(FAMILIES)
    options = {"sliding_window": 4} if name in ("Mistral", "Phi3") else {}
    config = getattr(transformers, f"{name}Config")(
        **{"vocab_size": 31, "hidden_size": 16, "intermediate_size": 24, "num_hidden_layers": 2, "head_dim": 8},
        **{"num_attention_heads": 2, "num_key_value_heads": rng.choice((1, 2)), "max_position_embeddings": 32},
        **{"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0, "tie_word_embeddings": rng.random() < 0.3},
        **options,
    )
    config._attn_implementation = rng.choice(("sdpa", "sdpa", "eager"))
    model = getattr(transformers, f"{name}ForCausalLM")(config)
    return model, (torch.randint(1, 31, (rng.choice((1, 2)), rng.choice((1, 6)))),)


# -- what is done to a model --


def write(side: Side, choice: random.Random) -> None:
    """Write to a weight, in one of the ways that there are."""
    module, name = side.parameter(choice)
    weight, factor = module._parameters[name], choice.choice((0.5, 1.5))
    way = choice.choice(("data", "no_grad", "numpy", "dlpack", "replace", "assign", "state", "storage"))
    if way == "no_grad" or (way == "numpy" and weight.dtype is torch.bfloat16):
        with torch.no_grad():
            weight.mul_(factor)
    elif way == "data":
        weight.data.mul_(factor)
    elif way == "numpy":
        weight.detach().numpy()[...] *= factor
    elif way == "dlpack":
        torch.from_dlpack(torch.utils.dlpack.to_dlpack(weight.detach())).mul_(factor)
    elif way == "replace":
        module._parameters[name] = nn.Parameter(weight.detach() * factor, weight.requires_grad)
    elif way == "assign":
        weight.data = weight.data * factor
    elif way == "storage":
        view = torch.empty(0, dtype=weight.dtype).set_(weight.untyped_storage())
        view.mul_(factor) if weight.untyped_storage().nbytes() == weight.nbytes else weight.data.mul_(factor)
    else:
        state = {key: value * factor for key, value in side.model.state_dict().items()}
        side.model.load_state_dict(state, assign=choice.random() < 0.5)


def change_option(side: Side, choice: random.Random) -> None:
    """Change what a norm adds, or whether a model trains."""
    norms = [each for each in side.model.modules() if {"eps", "variance_epsilon"} & vars(each).keys()]
    if norms and choice.random() < 0.6:
        norm = choice.choice(norms)
        setattr(norm, "eps" if "eps" in vars(norm) else "variance_epsilon", choice.choice((1e-3, 0.5)))
    elif choice.random() < 0.5:
        side.model.train(choice.random() < 0.5)
    else:
        side.module(choice).requires_grad_(choice.random() < 0.5)


def convert(side: Side, choice: random.Random) -> None:
    """Move a model to another type, or through the meta device."""
    way = choice.choice(("double", "bfloat16", "float", "float", "meta", "module"))
    if way == "meta":
        state = {key: value.clone() for key, value in side.model.state_dict().items()}
        buffers = {name: value.clone() for name, value in side.model.named_buffers()}
        side.model.to("meta").to_empty(device="cpu")
        side.model.load_state_dict(state)
        for name, value in buffers.items():
            side.model.get_buffer(name).copy_(value)
    elif way == "module":
        side.module(choice, nn.Linear, nn.LayerNorm, nn.Conv2d).to(torch.float32)
    else:
        getattr(side.model, way)()


def duplicate(side: Side, choice: random.Random) -> None:
    """Go on with a copy."""
    way = choice.choice(("deepcopy", "pickle", "save"))
    pair = side.model, side.report
    if way == "deepcopy":
        side.model, side.report = copy.deepcopy(pair)
    elif way == "pickle":
        side.model, side.report = pickle.loads(pickle.dumps(pair))
    else:
        torch.save(pair, memory := io.BytesIO())
        memory.seek(0)
        side.model, side.report = torch.load(memory, weights_only=False)
    side.handles.clear()


def _scaled(factor: float, module: nn.Module, args: tuple, output: Any = None) -> Any:
    given = args if output is None else output
    if isinstance(given, tuple):
        return tuple(_times(each, factor) for each in given)
    return _times(given, factor)


def _times(value: Any, factor: float) -> Any:
    return value * factor if isinstance(value, torch.Tensor) and value.is_floating_point() else value


def _written(factor: float, module: nn.Module, args: tuple, output: Any = None) -> None:
    given = args[0] if output is None and args else output
    given = given[0] if isinstance(given, tuple) else given
    if isinstance(given, torch.Tensor) and given.is_floating_point():
        given.data.mul_(factor)


def hook(side: Side, choice: random.Random) -> None:
    """Put a hook on a module, or take all away."""
    if side.handles and choice.random() < 0.4:
        while side.handles:
            side.handles.pop().remove()
        return
    module, function = side.module(choice), functools.partial(choice.choice((_scaled, _written)), 1.5)
    is_before = choice.random() < 0.5
    register = module.register_forward_pre_hook if is_before else module.register_forward_hook
    side.handles.append(register(function))


def put_between(side: Side, choice: random.Random) -> None:
    """Put a module around another one of a model, or a shallow copy in its place."""
    name, module = choice.choice([each for each in side.model.named_modules() if "." in each[0]])
    parent = side.model.get_submodule(name.rpartition(".")[0])
    if isinstance(module, (nn.ModuleList, nn.Embedding)) or "rotary" in name:
        return
    if choice.random() < 0.5:
        parent._modules[name.rpartition(".")[2]] = copy.copy(module)
    elif isinstance(parent, nn.ModuleList) or "norm" in name:
        parent._modules[name.rpartition(".")[2]] = Between(module)


class Between(nn.Module):
    """Writes to what a module gets, and hands it on."""

    def __init__(self, inner: nn.Module):
        super().__init__()
        self.inner = inner

    def forward(self, states, *args, **kwargs):
        if not (torch.is_grad_enabled() and states.requires_grad):
            states = states.clone() if states.is_inference() else states
            states.data.add_(1)
        return self.inner(states, *args, **kwargs)


def train(side: Side, choice: random.Random, inputs: tuple) -> None:
    """Take a step of an optimiser, or two; with hooks on gradients, the step is in the backward."""
    parameters = [each for each in side.model.parameters() if each.requires_grad]
    kind = choice.choice((torch.optim.SGD, torch.optim.AdamW))
    in_hooks, handles = choice.random() < 0.5, []
    if not parameters:
        return
    if in_hooks:
        for each in parameters:
            optimiser = kind([each], lr=1e-3)

            def step(parameter, optimiser=optimiser):
                optimiser.step()
                optimiser.zero_grad()

            handles.append(each.register_post_accumulate_grad_hook(step))
    optimiser = kind(parameters, lr=1e-3)
    for _ in range(choice.choice((1, 2))):
        optimiser.zero_grad()
        tensor_of(side.model(*inputs)).float().square().mean().backward()
        if not in_hooks:
            optimiser.step()
    side.model.zero_grad()
    for each in handles:
        each.remove()


ACTIONS = (write, write, write, change_option, convert, duplicate, hook, hook, put_between, train)


# -- how a model is called --


def tensor_of(output: Any) -> torch.Tensor:
    """Find the first tensor of what a module gives."""
    while not isinstance(output, torch.Tensor):
        output = next(iter(output.values())) if isinstance(output, dict) else output[0]
    return output


def plainly(side: Side, choice: random.Random, inputs: tuple) -> list[torch.Tensor]:
    contexts = (torch.no_grad, torch.inference_mode, contextlib.nullcontext, _autocast, _frozen_autocast)
    with choice.choice(contexts)():
        return [tensor_of(side.model(*inputs))]


def _autocast() -> Any:
    return torch.autocast("cpu", torch.bfloat16)


@contextlib.contextmanager
def _frozen_autocast() -> Iterator[None]:
    with torch.no_grad(), _autocast():
        yield


def with_gradients(side: Side, choice: random.Random, inputs: tuple) -> list[torch.Tensor]:
    side.model.zero_grad()
    output = tensor_of(side.model(*inputs))
    if output.requires_grad:
        output.float().sin().sum().backward()
    found = [output, *(each.grad for each in side.model.parameters() if each.grad is not None)]
    side.model.zero_grad()
    return [each.detach().clone() for each in found]


def compiled(side: Side, choice: random.Random, inputs: tuple) -> list[torch.Tensor]:
    torch._dynamo.reset()
    with torch.no_grad():
        return [tensor_of(torch.compile(side.model, backend="eager")(*inputs))]


@torch.no_grad()
def by_keyword(side: Side, choice: random.Random, inputs: tuple) -> list[torch.Tensor]:
    """Call a module with what it gets in a call, each argument by its name; or all by place."""
    calls: dict[str, tuple] = {}
    handles = [
        each.register_forward_pre_hook(functools.partial(_noted, calls, name), with_kwargs=True)
        for name, each in side.model.named_modules()
    ]
    result = tensor_of(side.model(*inputs))
    for each in handles:
        each.remove()
    names = sorted(calls)
    module, (args, kwargs) = side.model.get_submodule(name := choice.choice(names)), calls[name]
    signature = inspect.signature(type(module).forward)
    bound = signature.bind(module, *args, **kwargs)
    kinds = [each.kind for each in signature.parameters.values()]
    if inspect.Parameter.VAR_POSITIONAL in kinds:
        return [result]
    given = {key: value for key, value in bound.arguments.items() if key != "self"}
    given |= given.pop("kwargs", {})
    given = dict(zip(side.words.setdefault(f"{name} {list(given)[1:]}", list(given)), given.values()))
    return [result, tensor_of(module(**given))]


def _noted(calls: dict, name: str, module: nn.Module, args: tuple, kwargs: dict) -> None:
    kept = {key: value for key, value in kwargs.items() if key != "past_key_values"}
    calls[name] = (tuple(_kept(each) for each in args), {key: _kept(value) for key, value in kept.items()})


def _kept(value: Any) -> Any:
    return value.clone() if isinstance(value, torch.Tensor) else value


@torch.no_grad()
def by_hand(side: Side, choice: random.Random, inputs: tuple) -> list[torch.Tensor]:
    """Run the layers of a decoder one by one, and write between them to states or weights, seen or unseen."""
    decoder = getattr(side.model, "model", None)
    if type(side.model).__name__.removesuffix("ForCausalLM") not in LAYERED or hasattr(decoder, "inner"):
        return plainly(side, choice, inputs)
    states, positions = decoder.embed_tokens(inputs[0]), torch.arange(inputs[0].shape[1])[None]
    given: dict[str, Any] = dict.fromkeys(("attention_mask", "past_key_values", "use_cache"))
    given |= {"position_ids": positions, "position_embeddings": decoder.rotary_emb(states, positions)}
    for layer in decoder.layers:
        states = layer(states, **given)
        way = choice.randrange(4)
        if way == 1:
            states.data.mul_(2)
        elif way == 2 and states.dtype is not torch.bfloat16:
            states.numpy()[...] += 1
        elif way == 3:
            write(side, choice)
    return [decoder.norm(states)]


CALLS = (plainly, plainly, with_gradients, by_keyword, by_hand, by_hand)


def cases(seed: int, *, compiles: bool = True) -> Iterator[Case]:
    """Do the same to a model and to its swapped twin, step by step, until they differ."""
    warnings.simplefilter("ignore")
    rng = random.Random(seed)
    torch.manual_seed(seed)
    model, inputs = network(rng)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(std=0.3)
    model.eval()
    theirs, ours = Side(model, words=(words := {})), Side(copy.deepcopy(model), words=words)
    join, kept = rng.random() < 0.7, rng.random() < 0.2
    seeds = random.Random(seed + 1)
    ours.report = swap_modules(ours.model, (lambda module, name: seeds.random() < 0.7) if kept else None, join=join)
    history = [f"{model.__class__.__name__}, join={join}, {'part of it' if kept else 'all'} swapped"]
    for index in range(STEPS):
        if index:
            action = rng.choice(ACTIONS)
            done = functools.partial(action, inputs=inputs) if action is train else action
            history.append(action.__name__)
        else:
            done = None
        call = rng.choice((*CALLS, compiled) if compiles and rng.random() < 0.1 else CALLS)
        number = rng.randrange(2**31)
        found = [outcome(side, done, call, number, inputs) for side in (theirs, ours)]
        wrong = difference(*found)
        yield Case(f"{'; '.join(history)}; {call.__name__} (step {index})", wrong)
        if wrong or isinstance(found[0], Exception):
            return


def outcome(side: Side, action: Callable | None, call: Callable, number: int, inputs: tuple) -> Any:
    """Give what a call gives after an action, or the error that one of them raised."""
    choice = random.Random(number)
    dtypes = {each.dtype for each in side.model.parameters()}
    try:
        if action is not None:
            action(side, choice)
            dtypes = {each.dtype for each in side.model.parameters()}
        given = tuple(
            each.clone().to(dtypes.copy().pop()) if each.is_floating_point() else each.clone() for each in inputs
        )
        torch.manual_seed(number)
        return [each.detach().clone() for each in call(side, choice, given)]
    except Exception as error:
        return error


def difference(theirs: Any, ours: Any) -> str:
    """Say how two outcomes differ; "" if they do not."""
    if isinstance(theirs, Exception) or isinstance(ours, Exception):
        if isinstance(theirs, Exception) and isinstance(ours, Exception):
            return ""
        error = ours if isinstance(ours, Exception) else theirs
        whose = "the swapped one" if error is ours else "only the unswapped one"
        return f"{whose} raised {type(error).__name__}: {error}"
    if len(theirs) != len(ours):
        return f"{len(ours)} results, not {len(theirs)}"
    for place, (wanted, found) in enumerate(zip(theirs, ours)):
        if (found.dtype, found.shape) != (wanted.dtype, wanted.shape):
            return f"result {place} is {found.dtype}, {tuple(found.shape)}, not {wanted.dtype}, {tuple(wanted.shape)}"
        wide, reference = found.double(), wanted.double()
        tolerance = max(TOLERANCE[each.dtype] for each in (*theirs, found))
        if not torch.equal(wide.isfinite(), reference.isfinite()):
            return f"result {place} is finite elsewhere"
        wide, reference = (each.nan_to_num(0, 0, 0) for each in (wide, reference))
        error = (wide - reference).norm() / reference.norm().clamp_min(1e-3)
        if error > tolerance:
            return f"result {place} differs by {error:.1e}, of {tolerance:.0e}"
    return ""
