"""The parts of `python -m benchmarks.trust`, and what a case of them is."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Case:
    """One random input that was checked; `wrong` says what was found wrong, and is empty where nothing was."""

    description: str
    wrong: str = ""


@dataclass(frozen=True)
class Part:
    """A module of this folder that offers `cases(seed)`.

    share: how much of the time it gets, beside the others. limit: seconds after which a seed hangs. environment: what
    its process has from the start. needs: "cuda" where it is left out without a GPU.
    """

    name: str
    share: float = 1.0
    limit: int = 120
    environment: dict[str, str] = field(default_factory=dict)
    needs: str = ""


PARTS = (
    Part("arrangements", 3),
    Part("applications", 3),
    Part("races", 2),
    Part("interpreter", 2, environment={"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}),
    Part("fusions", 1),
    Part("agreement", 2, environment={"TRITON_INTERPRET": "1", "CUDA_VISIBLE_DEVICES": ""}),
    Part("operators", 3),
    Part("modules", 2, limit=300),
    Part("errors", 0.5),
    Part("misuse", 0.5),
    Part("cache", 0.5),
    Part("gpu", 3, needs="cuda"),
)
