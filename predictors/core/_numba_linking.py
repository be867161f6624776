"""How numba puts compiled functions together: the steps of a kernel are optimised once, with it, not each by itself.

numba turns every function into machine code of its own, with copies of all that it calls: what is called from many
places, or deep down, is compiled many times over, and none of these copies can be fitted to its callers. Here a step
stays what numba makes of it before that; the kernel that begins it all takes in all steps that it reaches, as
functions that are not visible elsewhere, and only then is optimised. Compilation and the compiled code are faster.

Python counts negative indices from the end of an array. numba asks of each index whether it is negative; our kernels
never count from the end but by a literal, and go without that question, which makes them a fifth faster.

This needs parts of numba that are not public. With versions that it was not tried with, `compiled` does without:
kernels then take longer to compile, run slower, and compute the same.
"""

import sys
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final

import numba
from numba.core import types
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.compiler_machinery import register_pass
from numba.core.typed_passes import NativeLowering
from numba.np import arrayobj, linalg

TRIED: Final = ("0.68.",)  # versions of numba, by their first two numbers
OURS: Final = ("_ZN10predictors", "_ZN8schedsim")  # how the names of our compiled functions begin
if not numba.__version__.startswith(TRIED):
    raise ImportError(f"numba {numba.__version__} was not tried")


def _defer_scipy() -> None:
    """Import numba's array functions without SciPy's linear algebra, a tenth of the time of a short command.

    numba imports that at once, only to see that it is there; and again where it compiles a function that needs it.
    """
    if find_spec("scipy") is None or "numba.np.arraymath" in sys.modules:
        return
    real, linalg.ensure_blas = linalg.ensure_blas, lambda: None
    try:
        arraymath: Any = import_module("numba.np.arraymath")
        arraymath.ensure_blas = real
    finally:
        linalg.ensure_blas = real


_defer_scipy()


def _take_indices_as_they_are() -> None:
    """Let numba not ask whether an index of our code is negative, unless it is a negative literal."""
    from_either_end = arrayobj.fix_integer_index

    def fix_integer_index(context: Any, builder: Any, idxty: Any, idx: Any, size: Any) -> Any:
        literal = getattr(idx, "constant", 0)
        if not builder.function.name.startswith(OURS) or not isinstance(literal, int) or literal < 0:
            return from_either_end(context, builder, idxty, idx, size)
        return context.cast(builder, idx, idxty, types.intp)

    arrayobj.fix_integer_index = fix_integer_index


_take_indices_as_they_are()


class StepLibrary(JITCodeLibrary):  # type: ignore[misc]  # numba is not typed
    """The code of a step: never machine code by itself."""

    def finalize(self) -> None:
        """Leave the code as it is."""
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        """Return 0: there is no machine code."""
        return 0

    @property
    def codegen(self) -> "StepLibrary":
        """Do not record where the function's environment lies: only functions that raise need one."""
        return self

    def set_env(self, name: str, env: object) -> None:
        """Forget an environment."""


class RareLibrary(StepLibrary):
    """The code of a step that stays a function of its own."""

    def finalize(self) -> None:
        """Forbid to put the function into those that call it."""
        for function in self._final_module.functions:
            if not function.is_declaration and function.name.startswith(OURS):
                function.add_function_attribute("noinline")
        super().finalize()


class KernelLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that Python calls, and of all steps that it reaches."""

    def finalize(self) -> None:
        """Take in the steps, and make machine code of it all."""
        self._linking_libraries = _reached(self)
        super().finalize()

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if function.linkage.name == "linkonce_odr" and function.name.startswith("_ZN"):  # of numba's making
                function.linkage = "internal"
        super()._optimize_final_module()


def _reached(kernel: KernelLibrary) -> list[Any]:
    """Return the libraries that a kernel needs, callers before those that they call."""
    seen, done = set[int](), list[Any]()

    def visit(library: Any) -> None:
        if id(library) not in seen:
            seen.add(id(library))
            if library is kernel or isinstance(library, StepLibrary):
                for other in library._linking_libraries:
                    visit(other)
            done.append(library)

    visit(kernel)
    return done[-2::-1]


@register_pass(mutates_CFG=True, analysis_only=False)
class _StepLowering(NativeLowering):  # type: ignore[misc]
    _name = "step_lowering"
    library: type[JITCodeLibrary] = StepLibrary

    def run_pass(self, state: Any) -> bool:
        state.library = self.library(state.targetctx.codegen(), state.func_id.func_qualname)
        state.library.enable_object_caching()
        return bool(super().run_pass(state))


@register_pass(mutates_CFG=True, analysis_only=False)
class _RareLowering(_StepLowering):
    _name = "rare_lowering"
    library = RareLibrary


@register_pass(mutates_CFG=True, analysis_only=False)
class _KernelLowering(_StepLowering):
    _name = "kernel_lowering"
    library = KernelLibrary


def _compiler(lowering: type) -> type:
    class Compiler(CompilerBase):  # type: ignore[misc]
        def define_pipelines(self) -> list[Any]:
            passes = DefaultPassBuilder.define_nopython_pipeline(self.state)
            passes.passes = [(lowering if one is NativeLowering else one, why) for one, why in passes.passes]
            passes.finalize()
            return [passes]

    return Compiler


StepCompiler = _compiler(_StepLowering)
RareCompiler = _compiler(_RareLowering)
KernelCompiler = _compiler(_KernelLowering)
