"""Note which fallbacks and formulas of the compiler a program takes: functions that are called, or give something."""

from __future__ import annotations

import contextlib
import functools
import importlib
import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Watched:
    """A function, as `module:name` in `ninetoothed`; counts: of which results it is taken.

    An iterator counts where it gives something, and an error does always.
    """

    words: str
    place: str
    counts: Callable[[Any], bool] = lambda result: True


FALLBACKS = (
    Watched("sizes are fixed or widened, and traced again", "runtime.requirements:narrowed"),
    Watched("other blocks, as sizes do not fit these", "runtime.selection.choices:Choices.learn"),
    Watched("the next schedule, as one is rejected", "runtime.selection.choices:Choices.reject", bool),
    Watched("a parameter is exempted that is never touched", "runtime.specialise_plan:SpecialisationPlan.without"),
    Watched("products do not overlap as asked", "runtime.executable:why_no_form", bool),
    Watched("no form in Gluon, so Triton", "backends.gluon:print_kernel", lambda text: isinstance(text, str)),
    Watched("traced once more, with sizes that are equal", "frontend.context:TraceContext.assume_equal"),
    Watched("blocks of all kinds, as none preferred fits", "runtime.selection.ranking:varied"),
    Watched("the plan of a product that nothing fits", "runtime.selection.products:_fallback"),
)
FORMULAS = (
    Watched("product: streams of few rows", "runtime.selection.products:_streams"),
    Watched("product: general plans", "runtime.selection.products:_general_plans"),
    Watched("product: all plans", "runtime.selection.products:_all_plans"),
    Watched("attention: few rows", "runtime.selection.attention:_few_rows"),
    Watched("attention: overlapped", "runtime.selection.attention:_overlapped"),
    Watched("attention: fine shapes", "runtime.selection.attention:_fine_shapes"),
    Watched("attention: gradients", "runtime.selection.attention:_gradients"),
    Watched("attention: fine gradients", "runtime.selection.attention:_fine_gradients"),
    Watched("attention: exact", "runtime.selection.attention:_exact_attentions"),
    Watched("rows: loops", "runtime.selection.rows:_loops"),
    Watched("rows: products", "runtime.selection.rows:_products"),
)


def place_of(watched: Watched) -> tuple[Any, str]:
    """The module or class of a function, and its name there."""
    module, _, path = watched.place.partition(":")
    owner: Any = importlib.import_module(f"ninetoothed.{module}")
    *outer, name = path.split(".")
    for inner in outer:
        owner = getattr(owner, inner)
    return owner, name


class Watch:
    """Watch functions. missing: those that this tree does not have, and why. watched: the others."""

    def __init__(self) -> None:
        self.missing: dict[str, str] = {}
        self.watched: list[str] = []
        self._noted: set[str] = set()
        for kind, listed in (("fallback", FALLBACKS), ("formula", FORMULAS)):
            for each in listed:
                try:
                    self._replace(each, f"{kind}: {each.words}")
                    self.watched.append(f"{kind}: {each.words}")
                except (ImportError, AttributeError) as error:
                    self.missing[f"{kind}: {each.words}"] = f"{type(error).__name__}: {error}"

    @contextlib.contextmanager
    def noting(self) -> Iterator[set[str]]:
        """Collect what is taken meanwhile."""
        self._noted = set()
        yield self._noted

    def _replace(self, each: Watched, words: str) -> None:
        owner, name = place_of(each)
        setattr(owner, name, self._noting(getattr(owner, name), each, words))

    def _noting(self, function: Callable[..., Any], each: Watched, words: str) -> Callable[..., Any]:
        def items(found: Iterator[Any]) -> Iterator[Any]:
            for item in found:
                self._noted.add(words)
                yield item

        @functools.wraps(function)
        def noting(*args: Any, **kwargs: Any) -> Any:
            try:
                result = function(*args, **kwargs)
            except Exception:
                self._noted.add(words)
                raise
            if inspect.isgenerator(result):
                return items(result)
            if each.counts(result):
                self._noted.add(words)
            return result

        return noting
