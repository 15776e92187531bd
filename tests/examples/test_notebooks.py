"""The notebooks, run on a CPU from the first cell to the last, as they are: without outputs."""

import json
import pathlib

import pytest

from tests import forked

ROOT = pathlib.Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.ipynb"))


def test_there_are_three():
    assert len(NOTEBOOKS) == 3


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_cells_run_in_order(path, tmp_path):
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert cells and not any(cell["outputs"] or cell["execution_count"] for cell in cells)
    # A file, since the compiler reads functions from their source.
    program = tmp_path / f"{path.stem}.py"
    program.write_text("\n\n".join("".join(cell["source"]) for cell in cells) + "\n")
    done = forked.run_script(program, CUDA_VISIBLE_DEVICES="", MPLBACKEND="agg")
    assert done.status == "0", done.stderr[-4000:]
