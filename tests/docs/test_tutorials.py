"""The tutorials show what their commands print, each run from its first line to its last in a fresh folder.

Where an output has changed on purpose, the pages take the new one over:

    JOBCAST_REPIN=1 .venv/bin/python -m pytest tests/docs -n 0
"""

import os

import pytest

from tests.docs.sessions import blocks_of, run_page, same
from tests.support.places import ROOT

PAGES = sorted((ROOT / "docs" / "tutorials").glob("*.md"))
PAGES += [ROOT / "docs" / "how-to" / name for name in ("troubleshooting.md", "write-your-own.md", "site.md")]


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_a_tutorial_shows_what_its_commands_print(path, tmp_path):
    page, differences = run_page(path.read_text(encoding="utf-8"), tmp_path / "work")
    if os.environ.get("JOBCAST_REPIN"):
        path.write_text(page, encoding="utf-8")
        differences = [one for one in differences if "\nended with " in one]
    assert not differences, "\n\n".join(differences)


def test_every_tutorial_has_commands():
    assert PAGES
    assert [path.name for path in PAGES if not blocks_of(path.read_text(encoding="utf-8"))] == []


def test_times_are_left_out_of_the_comparison_and_nothing_else():
    table = "predictor   MAE [s]   fit [s]   µs/job\nforest        2,529     {}     44.1\n600 jobs simulated in {} s"
    assert same(table.format("10.74", "0.09"), table.format(" 9.10", "1.2").replace("44.1", "51.3"))
    assert not same(table.format("10.74", "0.09"), table.replace("2,529", "2,530").format("10.74", "0.09"))
    assert not same("mean wait 53 s", "mean wait 54 s")


PAGE = """Text.

```python title="one.py"
print(6 * 7)
```

```console
$ python one.py
41
```

<!-- status 3, 1 lines from "b" -->
```console
$ echo a; echo b;
> (exit 3)
b
```
"""


def test_a_page_that_shows_something_else_is_found_and_mended(tmp_path):
    page, differences = run_page(PAGE, tmp_path / "work")
    assert len(differences) == 1
    assert "--- the page\n41\n--- now\n42\n" in differences[0]
    assert page == PAGE.replace("41", "42")


def test_a_command_that_ends_otherwise_is_found(tmp_path):
    found = run_page(PAGE.replace("status 3, ", ""), tmp_path / "work")[1]
    assert any("ended with 3, not 0" in one for one in found)
