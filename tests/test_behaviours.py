"""docs/behaviours.md, held to what running it gives: all rows of what needs no kernel, every fourth row in whole."""

import dataclasses

import pytest
import torch
from torch.nn import functional

from docs import behaviours
from docs.behaviour_calls import calls

CALLS = {call.name: call for call in calls()}
TEXT = behaviours.FILE.read_text()
WITHOUT_KERNELS = ("meta", "layouts")
# Other releases differ in messages; the page is of one.
of_its_release = pytest.mark.skipif(
    f"with PyTorch {'.'.join(torch.__version__.split('.')[:2])}:" not in TEXT or torch.cuda.is_available(),
    reason="the page is of another PyTorch, and of a CPU",
)


def written(name):
    (cells,) = (line for line in TEXT.partition("## ")[0].splitlines() if line.startswith(f"| `{name}` |"))
    return dict(zip(behaviours.NAMES, (cell.strip() for cell in cells.split("|")[2:-1]), strict=True))


@of_its_release
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", CALLS)
def test_a_row_is_current(name):
    columns = behaviours.NAMES if name in list(CALLS)[::4] else WITHOUT_KERNELS
    found = {column: behaviours.cell(each) for column, each in behaviours.row(CALLS[name], columns).items()}
    assert found == {column: written(name)[column] for column in columns}, "run `python -m docs.behaviours`"


@of_its_release
@pytest.mark.parametrize("name", ("silu", "linear", "sdpa"))
def test_what_modes_see_is_current(name):
    assert behaviours.seen(CALLS[name]) in TEXT, "run `python -m docs.behaviours`"


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    "column, wrong",
    [
        ("defaults", lambda x: functional.silu(x) * 1.1),
        ("meta", lambda x: functional.silu(x).mT.contiguous().mT),
        ("autocast", lambda x: functional.silu(x.float())),
        ("layouts", lambda x: functional.silu(x.to_dense())),
        ("hooks", lambda x: functional.silu(x.detach()) + 0 * x),
        ("modes", lambda x: torch.from_numpy(functional.silu(x).detach().numpy().copy())),
    ],
)
def test_a_difference_that_nothing_explains_is_an_error(column, wrong):
    call = dataclasses.replace(CALLS["silu"], own=wrong, theirs=functional.silu)
    with pytest.raises(behaviours.UnexplainedError, match=f"{column} of silu, "):
        behaviours.row(call, [column])
