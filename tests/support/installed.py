"""Packages that add names to jobcast, as an installer leaves them behind; without an installer, which takes seconds."""

from predictors.entry_points import GROUPS, declared
from predictors.registry import PREDICTORS
from schedsim.policies.orders import ORDERS
from schedsim.policies.policy import POLICIES


def install(folder, package, source="", version="1.0", **names):
    """Write a package of one module; `names` are its entry points by kind: {name: object in the module}."""
    module = package.replace("-", "_")
    (folder / f"{module}.py").write_text(source)
    about = folder / f"{module}-{version}.dist-info"
    about.mkdir(exist_ok=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    lines = []
    for kind, entries in names.items():
        lines += [f"[{GROUPS[kind]}]", *(f"{name} = {module}:{thing}" for name, thing in entries.items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n")


def look_again():
    """Forget which packages are installed."""
    declared.cache_clear()
    for registry in (PREDICTORS, POLICIES, ORDERS):
        vars(registry).pop("added", None)
        registry._loaded.clear()
