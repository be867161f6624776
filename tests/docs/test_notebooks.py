"""The notebooks run from their first cell to their last, and hold what they print; pictures are drawn anew.

Where an output has changed on purpose, the notebooks take the new one over:

    JOBCAST_REPIN=1 .venv/bin/python -m pytest tests/docs -n 0
"""

import os

import nbformat
import pytest
from nbclient import NotebookClient

from docs.generate import notebooks
from tests.support.places import ROOT

PAGES = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))


def told(notebook):
    """Return what the cells print, and how many pictures each draws."""
    found = []
    for cell in (cell for cell in notebook.cells if cell.cell_type == "code"):
        printed = "".join(one.text for one in cell.outputs if one.output_type == "stream")
        found.append((printed, sum("image/png" in one.get("data", {}) for one in cell.outputs)))
    return found


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_notebook_runs_and_holds_what_it_prints(path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    stored = nbformat.read(path, as_version=4)
    now = nbformat.from_dict(stored)
    NotebookClient(now, timeout=300, record_timing=False, resources={"metadata": {"path": str(ROOT)}}).execute()
    if os.environ.get("JOBCAST_REPIN"):
        if told(now) != told(nbformat.read(path, as_version=4)):
            now.metadata["language_info"] = {"name": "python"}
            nbformat.write(now, path)
    else:
        assert told(now) == told(nbformat.read(path, as_version=4))


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_notebook_becomes_a_page_with_its_pictures(path):
    made = notebooks.page(path)
    text = made[f"notebooks/{path.stem}.md"]
    pictures = [name for name in made if name.endswith(".png")]
    assert len(pictures) == sum(n for _, n in told(nbformat.read(path, as_version=4))) >= 2
    assert all(made[name].startswith(b"\x89PNG") and name.removeprefix("notebooks/") in text for name in pictures)
