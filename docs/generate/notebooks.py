"""Notebooks as pages of the site: text, code, and the output that is stored with them, pictures included."""

import base64
import json
import re
from pathlib import Path
from typing import Any

PICTURES = {"image/png": "png", "image/svg+xml": "svg"}


def page(path: Path) -> dict[str, str | bytes]:
    """Return a notebook's page and its pictures, by their place in the site, and the notebook itself for download."""
    text = path.read_text(encoding="utf-8")
    found: dict[str, str | bytes] = {}
    lines: list[str] = []
    for number, cell in enumerate(json.loads(text)["cells"]):
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            lines.append(re.sub(r"\]\(([\w./-]*)\.ipynb\)", r"](\1.md)", source))
        elif cell["cell_type"] == "code" and source:
            lines.append(f"```python\n{source}\n```")
            for place, output in enumerate(cell["outputs"]):
                shown, pictures = _output(output, f"{path.stem}_{number}_{place}")
                lines += shown
                found |= {f"notebooks/{name}": content for name, content in pictures.items()}
    lines.insert(1, f"*[Download this notebook]({path.name}){{ download }}. A test runs it.*")
    found[f"notebooks/{path.stem}.md"] = "\n\n".join(lines) + "\n"
    return found


def _output(output: dict[str, Any], name: str) -> tuple[list[str], dict[str, bytes]]:
    if output["output_type"] == "stream":
        return [f"```text\n{''.join(output['text']).rstrip()}\n```"], {}
    data = output.get("data", {})
    for kind, suffix in PICTURES.items():
        if kind in data:
            raw = "".join(data[kind])
            content = base64.b64decode(raw) if suffix == "png" else raw.encode()
            told = "".join(data.get("text/plain", "A picture"))
            return [f"![{told}]({name}.{suffix})"], {f"{name}.{suffix}": content}
    return ([f"```text\n{''.join(data['text/plain']).rstrip()}\n```"] if "text/plain" in data else []), {}
