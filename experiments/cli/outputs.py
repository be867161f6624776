"""No command writes over what it reads, or drops an output: both are checked before anything is computed."""

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, get_args

from typer.core import TyperCommand

from predictors.core.errors import JobcastError
from predictors.core.files import kept, refuse_input, refuse_unwritable, resolved

MODEL: Final = "MLmodel"  # the file that makes a folder a model
DATABASE: Final = "sqlite:///"  # how a text that names a database in a file begins


class CheckedCommand(TyperCommand):
    """A command with outputs that are none of its inputs, can be written, and differ.

    A parameter is an output if it is declared `writable`, and a folder if it is declared `file_okay=False`. Inputs are
    all other paths, and texts that name a file or its database. A model's folder is never written into.
    """

    def invoke(self, ctx: Any) -> Any:
        """Take what `--site` gives, check the outputs, and run; within the run no file of the inputs is replaced."""
        if "site" in ctx.params:
            from experiments.cli.reading import with_site

            ctx.params = with_site(ctx.params, lambda name: ctx.get_parameter_source(name).name == "COMMANDLINE")
        inputs = list(self._inputs(ctx.params))
        outputs = list(self._outputs(ctx.params))
        for number, (out, is_folder) in enumerate(outputs):
            refuse_input(out, [*inputs, *(place for place in resolved(out).parents if (place / MODEL).is_file())])
            if any(resolved(out) == resolved(other) for other, _ in outputs[:number]):
                raise JobcastError(f"{out}: is named as an output twice; give each output a name of its own.")
            refuse_unwritable(out, is_folder)
        with kept(inputs):
            return super().invoke(ctx)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Refuse what is given twice where one value counts, since the first would be dropped, and an empty path."""
        values, _, given = self.make_parser(ctx).parse_args(args=list(args))
        for parameter in () if ctx.resilient_parsing else given:
            name = parameter.opts[0] if parameter.param_type_name == "option" else str(parameter.name).upper()
            if _about(parameter).writable and given.count(parameter) > 1:
                raise JobcastError(f"{name} names one output, and is given more than one; leave one out.")
            if _has_one_value(parameter) and (times := given.count(parameter)) > 1:
                raise JobcastError(f"{name} takes one value, and is given {times}; leave the others out.")
            value = values.get(parameter.name)
            if "" in (value if isinstance(value, list | tuple) else (value,)) and _is_path(parameter):
                raise JobcastError(f"{name} is empty; name a file or a folder (`.` is the current one).")
        return super().parse_args(ctx, args)

    def _outputs(self, given: dict[str, Any]) -> Iterator[tuple[Path, bool]]:
        for parameter in self.params:
            about, value = _about(parameter), given.get(parameter.name or "")
            if about.writable and value is not None:
                yield Path(value), not about.file_okay

    def _inputs(self, given: dict[str, Any]) -> Iterator[Path]:
        for parameter in self.params:
            value = given.get(parameter.name or "")
            for one in value if isinstance(value, list | tuple) else (value,):
                if _about(parameter).writable:
                    continue
                if isinstance(one, Path):
                    yield one
                elif isinstance(one, str) and one.startswith(DATABASE):
                    yield Path(one.removeprefix(DATABASE))
                elif isinstance(one, str) and "slurm:" in one:
                    from schedsim.sites.slurm.files import is_slurm, names_of_policies, read_from

                    for policy in filter(is_slurm, names_of_policies(one)):
                        yield from read_from(policy)
                elif isinstance(one, str) and os.path.isfile(name := one.removeprefix("agent:")):  # noqa: PTH113
                    yield Path(name)  # a text may be too long for Path.is_file


def _has_one_value(parameter: Any) -> bool:
    is_option = parameter.param_type_name == "option"
    return is_option and not (parameter.multiple or parameter.count or parameter.is_flag) and parameter.nargs == 1


def _about(parameter: Any) -> Any:
    return parameter.type_descriptor.parameter_info


def _is_path(parameter: Any) -> bool:
    kind = parameter.type_descriptor.annotation
    return kind is Path or Path in get_args(kind)
