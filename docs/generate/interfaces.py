"""What programs read: JSON documents, the service's routes and metrics, measures, the Python interface."""

import json
import re
import tempfile
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import experiments
import jobcast
import predictors
import schedsim
from experiments.compare.measures import MEASURES
from experiments.registry import EXPERIMENTS, MANY
from predictors.data.telemetry import counters
from predictors.service.api.app import Api, document
from predictors.service.pseudonyms import Pseudonymiser
from predictors.service.settings import Settings
from predictors.service.state.service import Service

SHAPES: Final = Path(__file__).parents[2] / "tests" / "data" / "digests" / "documents.json"
"""The shape of each document, which the tests hold equal to what the commands print."""

DOCS: Final = Path(__file__).parents[1]

MADE = "Made from the code at each build of this site.\n\n"


def pages() -> dict[str, str]:
    """Return the pages by their place in the site."""
    with tempfile.TemporaryDirectory() as folder:
        service = Service(Settings(model="last-two", db=f"sqlite:///{folder}/service.db"), key=Pseudonymiser())
        try:
            api = Api(service, service.key)
            openapi, metrics = document(api), metrics_page(api.metrics._registry)
        finally:
            service.store.close()
    return {
        **json_pages(),
        "reference/http.md": http_page(openapi),
        "reference/openapi.json": json.dumps(openapi, indent=1),
        "reference/metrics.md": metrics,
        "reference/measures.md": measures_page(),
        "reference/counters.md": counters_page(),
        "reference/experiments.md": experiments_page(),
        **python_pages(),
    }


# --- JSON documents --------------------------------------------------------------------------------------------------


def json_pages() -> dict[str, str]:
    """Return the page of JSON documents, and a JSON Schema for each."""
    shapes = json.loads(SHAPES.read_text(encoding="utf-8"))
    documents = {
        name: shape
        for name, shape in shapes.items()
        if isinstance(shape, dict) and name not in ("columns of what commands write", "first lines")
    }
    lines = [
        "# JSON documents\n",
        "With `--json` a command prints one document. A test holds each shape below equal to what the command prints.",
        "`number` may be `null` where the figure does not exist. `null` stands where the test's sample had no value.",
        "New keys may come; a key that is here stays. `account` says what of the input was dropped or changed.\n",
    ]
    found = {}
    for name, shape in documents.items():
        slug = name.replace(", ", "-").replace("/", "-").replace(" ", "-").lower().replace("get--", "get-")
        found[f"reference/schemas/{slug}.json"] = json.dumps(
            {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": name, **schema(shape)}, indent=1
        )
        title = name if name.split(" ")[0] in ("GET", "POST") else f"jobcast {name}"
        shown = json.dumps(shape, indent=2, ensure_ascii=False)
        lines += [
            f"## {title}\n",
            f"[JSON Schema](schemas/{slug}.json)\n",
            '??? note "Shape"\n',
            "    ```json",
            *(f"    {line}" for line in shown.splitlines()),
            "    ```\n",
        ]
    found["reference/json.md"] = "\n".join(lines)
    return found


def schema(shape: Any) -> dict[str, Any]:
    """Return the JSON Schema of a shape.

    Examples
    --------
    >>> schema({"jobs": "number", "names": ["text"]})["properties"]["names"]
    {'type': 'array', 'items': {'type': 'string'}}
    """
    if isinstance(shape, dict):
        named = {key: schema(value) for key, value in shape.items() if key != "<number>"}
        found: dict[str, Any] = {"type": "object", "properties": named}
        if "<number>" in shape:
            found["patternProperties"] = {"^-?[0-9]+$": schema(shape["<number>"])}
        return found
    if isinstance(shape, list):
        kinds = [schema(one) for one in shape]
        items = {} if not kinds else kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
        return {"type": "array", "items": items}
    plain: dict[str, dict[str, Any]] = {
        "bool": {"type": "boolean"}, "number": {"type": ["number", "null"]}, "text": {"type": "string"},
    }  # fmt: skip
    return plain.get(shape, {})


# --- the service -----------------------------------------------------------------------------------------------------


def http_page(openapi: Mapping[str, Any]) -> str:
    """Return the page of the service's routes and of what they take and give."""
    lines = [
        "# HTTP interface of the service\n",
        MADE + "The rules behind it are on [the page of the service](../service.md). "
        "A running service gives the same at `GET /openapi.json`; here is [a copy](openapi.json).\n",
        "## Routes\n",
    ]
    for path, methods in openapi["paths"].items():
        for method, route in methods.items():
            lines += [f"`{method.upper()} {path}`", f":   {_line(route.get('description', ''))}"]
            body = route.get("requestBody", {}).get("content", {}).get("application/json", {}).get("schema", {})
            if body:
                lines.append(f"    Takes {_kind(body)}.")
            answer = route["responses"]["200"].get("content", {}).get("application/json", {}).get("schema", {})
            if answer.get("$ref"):
                lines.append(f"    Gives {_kind(answer)}.")
            lines.append("")
    for name, model in openapi["components"]["schemas"].items():
        lines += [f"## {name}\n", _line(model.get("description", "")) + "\n"]
        required = model.get("required", [])
        for field, about in model.get("properties", {}).items():
            told = about.get("description", "")
            facts = [_kind(about), *(["required"] if field in required else [])]
            lines += [f"`{field}`", f":   {f'{_line(told)} ' if told else ''}*({', '.join(facts)})*\n"]
    return "\n".join(lines)


def _kind(about: Mapping[str, Any]) -> str:
    if "$ref" in about:
        name = about["$ref"].rsplit("/", 1)[-1]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in about:
        return " or ".join(_kind(one) for one in about["anyOf"])
    if "enum" in about:
        return " or ".join(f"`{one}`" for one in about["enum"])
    if about.get("type") == "array":
        return f"list of {_kind(about.get('items', {}))}"
    word = {"integer": "whole number", "string": "text", "boolean": "true or false"}.get(
        about.get("type", ""), about.get("type", "any")
    )
    low = about.get("minimum", about.get("minLength", about.get("exclusiveMinimum")))
    high = about.get("maximum", about.get("maxLength", about.get("exclusiveMaximum")))
    if low is not None and high is not None:
        below = "below " if "exclusiveMaximum" in about else ""
        return f"{word} of {low:,} to {below}{high:,}" + (" characters" if word == "text" else "")
    return str(word)


def metrics_page(registry: Any) -> str:
    """Return the page of Prometheus metrics, from the registry of a service that has just begun."""
    lines = [
        "# Prometheus metrics\n",
        MADE + "The service gives them at `GET /metrics`. Labels take few values: routes, kinds, roles. "
        "They never name a user, a job or a client.\n",
    ]
    for metric in sorted(registry.collect(), key=lambda one: one.name):
        name = f"{metric.name}_total" if metric.type == "counter" else metric.name
        counted = registry._names_to_collectors.get(name)  # a counter without values yet tells its labels itself
        labels = getattr(metric, "_labelnames", None) or getattr(counted, "_labelnames", ())
        more = f"; labels {', '.join(f'`{label}`' for label in labels)}" if labels else ""
        lines.append(f"`{name}`\n:   {metric.documentation} *({metric.type}{more})*\n")
    return "\n".join(lines)


# --- registries ------------------------------------------------------------------------------------------------------


def measures_page() -> str:
    """Return the page of measures by name."""
    lines = [
        "# Measures\n",
        MADE + "The names are keys of `--json` and columns of tables. "
        "The definitions are in the [glossary](glossary.md).\n",
        "| key | what | unit | better |",
        "|---|---|---|---|",
    ]
    for name, one in MEASURES.items():
        lines.append(f"| `{name}` | {one.title} | {one.unit or '–'} | {'less' if one.lower_is_better else 'more'} |")
    return "\n".join(lines) + "\n"


def counters_page() -> str:
    """Return the page of the counters that jobcast reads, by sampler and unit."""
    return (
        f"# Counters\n\n{MADE}Table I of Nichols et al. (IPDPS 2022) counts 22 + 34 + 34 counters and names few of "
        "them. jobcast takes these, by unit. A counter has 64 bits unless the list says 32. "
        f"How files are read is on [the page of telemetry](../telemetry.md).\n\n{counters.table()}"
    )


def experiments_page() -> str:
    """Return the page of experiments: what each answers, and who says so."""
    lines = [
        "# Experiments\n",
        MADE + "`jobcast experiment NAME [--log LOG]` writes tables (CSV), figures (PNG, SVG and the CSV behind them) "
        "and one page to read into `reports/NAME`. Without `--log` it runs on a synthetic log.\n",
    ]
    for name, home in EXPERIMENTS.items():
        module = import_module(home)
        many = " It takes `--workers N` and goes on after a kill." if name in MANY else ""
        lines += [
            f"## {name}\n",
            f"[`jobcast experiment {name}`](command-line/experiment-{name}.md)\n",
            f"{module.QUESTION}{many}\n",
            f"{_paragraph(module.__doc__)}\n",
        ]
    return "\n".join(lines)


# --- Python ----------------------------------------------------------------------------------------------------------


PACKAGES: Final = (jobcast, predictors, schedsim, experiments)


def python_pages() -> dict[str, str]:
    """Return a page for each package: its public names, told by their docstrings."""
    found = {}
    for package in PACKAGES:
        name, exports = package.__name__, package is jobcast
        lines = [f"# {name}\n", f"{_paragraphs(package.__doc__)}\n"]
        for home, public in exported() if exports else further_names(package):
            place = f"{name}.{public} {{ #{name}.{public} }}" if exports else f"{home}.{public}"
            lines += [f"## {place}\n", f"::: {home}.{_defined(home, public)}\n"]
        found[f"reference/python/{name}.md"] = "\n".join(lines)
    return found


def exported() -> list[tuple[str, str]]:
    """Return the names that `jobcast` exports, each with the module that defines it."""
    return [(home, name) for name, home in jobcast._HOMES.items()]


def further_names(package: ModuleType) -> list[tuple[str, str]]:
    """Return the names that pages import from the package's modules, each with its module: they are public too."""
    line = re.compile(rf"from ({package.__name__}\.[\w.]+) import ([\w, ]+)")
    texts = [path.read_text(encoding="utf-8") for kind in ("md", "ipynb") for path in DOCS.rglob(f"*.{kind}")]
    found = {(home, name.strip()) for text in texts for home, names in line.findall(text) for name in names.split(",")}
    return sorted(found - {*exported()})


def _defined(home: str, public: str) -> str:
    """Return the name, refusing one that the module does not have: the build must fail then."""
    getattr(import_module(home), public)
    return public


def _paragraph(text: str | None) -> str:
    return _paragraphs(text).split("\n\n")[0]


def _paragraphs(text: str | None) -> str:
    return "\n\n".join(_line(paragraph) for paragraph in (text or "").strip().split("\n\n"))


def _line(text: str) -> str:
    return " ".join(text.split()).replace("<", "&lt;")
