"""What MkDocs calls while it builds the site: pages made from the code, notebooks as pages, links out of the folder.

`make docs` builds the site into `build/site`. The pages below are made at each build and are never stored.
"""

import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from docs.generate import command_line, interfaces, names, notebooks
from predictors.history import features
from schedsim.policies import traits

ROOT = Path(__file__).parents[2]
AT_THE_TOP = {"CHANGES.md": "changes.md", "CONTRIBUTING.md": "contributing.md", "LICENSE": "license.md"}
"""Files of the project's top folder that are pages of the site too."""
FROM_ELSEWHERE = re.compile(r"""(?:\ssrc=|<link [^>]*rel="?stylesheet"? [^>]*href=)["']?(https?://[^"' >]+)""")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Put a page for each command into the navigation, where the overview of the commands stands."""
    overview = "reference/command-line/index.md"
    for section in config.nav or []:
        for entry in next(iter(section.values())):
            if isinstance(entry, dict) and next(iter(entry.values())) == [overview]:
                next(iter(entry.values())).extend(sorted(set(command_line.pages()) - {overview}))
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add what is made from the code, from the notebooks and from the top folder."""
    made: dict[str, str | bytes] = {**command_line.pages(), **interfaces.pages()}
    made |= {"reference/composition.md": traits.page(), "names.md": names.page(), "features.md": features.page()}
    for path in sorted((ROOT / "docs" / "notebooks").glob("*.ipynb")):
        made |= notebooks.page(path)
    for name, page in AT_THE_TOP.items():
        text = (ROOT / name).read_text(encoding="utf-8")
        made[page] = f"# License\n\n```text\n{text}```\n" if name == "LICENSE" else from_the_top(text)
    for uri, content in made.items():
        files.append(File.generated(config, uri, content=content))
    return files


def on_page_markdown(markdown: str, *, page: Page, **_: Any) -> str:
    """Turn links to the top folder into links to their pages; let messages wrap."""
    for name, target in AT_THE_TOP.items():
        markdown = markdown.replace(f"](../../{name}", f"](../{target}").replace(f"](../{name}", f"]({target}")
    return CONSOLE.sub(_wrapped, markdown)


CONSOLE = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TABLE = re.compile(r"[│┃━─]|\S {3,}\S")


def _wrapped(block: re.Match[str]) -> str:
    """Let long lines of a command and its messages wrap, but never those of a table."""
    return block[0] if TABLE.search(block[1]) else block[0].replace("```console", "``` { .console .wrap }", 1)


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """Refuse a page that a browser could not show without network: scripts, styles and pictures are the site's own.

    Examples
    --------
    >>> on_post_page('<img src="https://example.org/x.png">', page=None)
    Traceback (most recent call last):
        ...
    mkdocs.exceptions.PluginError: a page loads https://example.org/x.png from elsewhere.
    """
    found = FROM_ELSEWHERE.search(output)
    if found:
        raise PluginError(f"{page.file.src_uri if page else 'a page'} loads {found[1]} from elsewhere.")
    return output


def from_the_top(markdown: str) -> str:
    """Return a page of the top folder with links that hold within the site.

    Examples
    --------
    >>> from_the_top("[names](docs/names.md), [changes](CHANGES.md)")
    '[names](names.md), [changes](changes.md)'
    """
    markdown = re.sub(r"\]\(docs/", "](", markdown)
    for name, target in AT_THE_TOP.items():
        markdown = markdown.replace(f"]({name}", f"]({target}")
    return markdown
