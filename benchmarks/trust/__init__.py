"""Random cases without end: `python -m benchmarks.trust [--minutes N] [--part PART ...] [--seed N]`.

Without `--seed` every part goes on where `benchmarks/results/trust.json` ends, for its share of the minutes, and adds
what it has checked there. `--seed N --part PART` checks the cases of one seed alone, as a report names them.

A part is a module of this folder and a line in `parts.PARTS`. It offers one function:

    def cases(seed: int) -> Iterator[Case]:
        '''Check the random cases of a seed, one after another, and yield each.'''

- The seed, and nothing else, decides which cases these are. They take well below a second together where they can, at
  most a minute: a run ends between two seeds.
- `Case(description)` says that what was described held; `Case(description, wrong)` says what was wrong, with numbers.
  An exception is something wrong, too, and so are the end of the process and more than `Part.limit` seconds.
- Cases are told apart by their descriptions: one that came before in the same process is checked, but not counted.
- Each part runs in a process of its own, which has `Part.environment` from its start, an empty `NINETOOTHED_CACHE_DIR`
  that is removed afterwards, and one thread. It may start processes, and ends those that it started.
- Whatever needs a machine that is not there is left out by `Part.needs` ("cuda"), and said so.

A bounded part runs in the tests: `tests/benchmarks/test_trust.py` checks the first seeds of each part.
"""
