"""Configurations: those that each class of calls may get, and of these the best for which the sizes of a call fit.

A class is told by sizes that are rounded, and which blocks are legal by the sizes themselves: so a configuration is
chosen for each call whose sizes are new, and one class may get several.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain

from ninetoothed import ir
from ninetoothed.errors import ArgumentError, SizeError
from ninetoothed.runtime import checks, requirements
from ninetoothed.runtime.selection.problem import Configuration
from ninetoothed.runtime.selection.ranking import varied
from ninetoothed.runtime.specialisation_plan import SpecialisationPlan


@dataclass(frozen=True)
class Fit:
    """A configuration whose blocks fit the sizes of a call, and the outermost shapes and the grid that they make."""

    configuration: Configuration
    shapes: Mapping[str, tuple[int, ...]]
    grid: tuple[int, ...]


@dataclass
class Choices:
    """The configurations that a class of calls may get, the best first.

    rejected: those that the GPU has not enough of something for, or that spill. learned: what tracing found that blocks
    must fulfil. is_settled: whether measuring has chosen the first.
    """

    configurations: tuple[Configuration, ...]
    rejected: set[Configuration] = field(default_factory=set)
    learned: tuple[ir.Requirement, ...] = ()
    is_settled: bool = False

    def choose(self, plan: SpecialisationPlan, values: Mapping[str, int]) -> Fit:
        """The best for a call; `SizeError` where its sizes do not fit together, or for no block that there is."""
        best = next(chain(self.fitting(plan, values), self._legal(plan, values)), None)
        return best or self.fit(plan, self.configurations[0], values)

    def fitting(self, plan: SpecialisationPlan, values: Mapping[str, int]) -> Iterator[Fit]:
        """All for a call that were not rejected."""
        return (fit for fit in self._legal(plan, values) if fit.configuration not in self.rejected)

    def _legal(self, plan: SpecialisationPlan, values: Mapping[str, int]) -> Iterator[Fit]:
        """Yield the configurations whose blocks fit the sizes of a call; where none does, others with such blocks."""
        is_any = False
        for fit in self._fits(plan, self.configurations, values):
            is_any = True
            yield fit
        if not is_any:
            names = plan.decisive.union(*map(_names, self.learned))
            yield from self._fits(plan, varied(plan.definition, self.configurations[0], names), values)

    def _fits(self, plan: SpecialisationPlan, configurations, values: Mapping[str, int]) -> Iterator[Fit]:
        for configuration in configurations:
            try:
                fit = self.fit(plan, configuration, values)
            except ArgumentError:
                continue
            yield fit

    def fit(self, plan: SpecialisationPlan, configuration: Configuration, values: Mapping[str, int]) -> Fit:
        """A configuration for a call; `SizeError` where its sizes do not fit together, or not for these blocks."""
        values = {**values, **configuration.blocks}
        checks.check_conditions(plan.definition, plan.conditions, values)
        checks.check_agreement(plan, values)
        requirements.check(plan.definition, self.learned, values)
        shapes = checks.outermost_shapes(plan, values)
        return Fit(configuration, shapes, checks.grid_of(plan, shapes))

    def learn(self, plan: SpecialisationPlan, error: SizeError) -> None:
        """Choose other blocks for calls whose sizes tracing found not to fit with these; raise where none can help."""
        found = error.requirement
        if found is None or found in self.learned or not _names(found) & plan.definition.meta_symbols.keys():
            raise error
        self.learned = (*self.learned, found)

    def reject(self, plan: SpecialisationPlan, configuration: Configuration, values: Mapping[str, int]) -> bool:
        """Choose the next best for calls like this one; whether there is one."""
        self.rejected.add(configuration)
        if next(self.fitting(plan, values), None) is None:
            self.rejected.discard(configuration)
            return False
        return True

    def settle(self, configuration: Configuration) -> None:
        """Let calls get a configuration from now on."""
        self.configurations = (configuration, *(each for each in self.configurations if each != configuration))
        self.rejected.discard(configuration)
        self.is_settled = True


def _names(requirement: ir.Requirement) -> frozenset[str]:
    return requirement.left.variables | requirement.right.variables
