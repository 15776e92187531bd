"""What operators a piece of code runs."""

from collections import Counter

from torch.utils._python_dispatch import TorchDispatchMode


class Recorder(TorchDispatchMode):
    """List the names of the operators that run, `ninetoothed::linear` or `aten::add.Tensor`; count them as packets."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names.append(function.name())
        return function(*args, **(kwargs or {}))

    @property
    def counts(self) -> Counter[str]:
        """How often each ran, whatever its overload."""
        return Counter(name.partition(".")[0] for name in self.names)
