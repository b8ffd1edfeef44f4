"""The class of our kfp components, and the decorator that makes one of a function.

@component
def input_fingerprint(fingerprint: dsl.OutputPath(str), input_base: str) -> None: ...

input_fingerprint(input_base="")    # ConfigError: it is checked here, not in the pod
"""

import os
import warnings
from collections.abc import Callable
from typing import Any

from kfp import dsl

from components.kubeflow.arguments import check_constants
from components.runtime.component_settings import RENAMED_SETTINGS
from trainer_utils.core.errors import ConfigError, did_you_mean
from trainer_utils.core.extras import NOT_INSTALLED, installed_version

try:
    from kfp.dsl import pipeline_context
    from kfp.dsl.python_component import PythonComponent
except ImportError:  # for kfp 2.0
    from kfp.components import pipeline_context
    from kfp.components.python_component import PythonComponent

IMAGE_VARIABLE = "TFX_SHARDS_IMAGE"
_VERSION = "input_version"
_READ_BY_NAME = ("exclude", "relabel", "add")  # files and datasets that Kubeflow does not know


def default_image() -> str:
    """Return the image of the variable TFX_SHARDS_IMAGE, or else the one of `make image`."""
    version = installed_version("tfx-shards")
    if version == NOT_INSTALLED:  # run from the source folder
        version = "latest"
    return os.environ.get(IMAGE_VARIABLE) or f"tfx-shards-components:{version}"


class NativeComponent(PythonComponent):
    """A component that checks the constants among its arguments when it is called.

    Kubeflow caches it only if all its inputs are known. Raw inputs are only known by their
    `input_version`.
    """

    def __call__(self, *arguments: Any, **given: Any) -> Any:
        """Add a task to the pipeline, or run it if `kfp.local` is set up.

        Raises:
            ConfigError: a constant among the arguments would fail in the pod.
            TypeError: kfp does not accept the arguments.
        """
        name, inputs = self.python_func.__name__, self.component_spec.inputs
        for old, new in RENAMED_SETTINGS.items():
            if old in given and new in inputs.keys() - given.keys():
                warnings.warn(f"{old}= was renamed to {new}=", FutureWarning, stacklevel=2)
                given[new] = given.pop(old)
        for unknown in given.keys() - inputs.keys():
            hint = did_you_mean(unknown, inputs).removesuffix(".")
            raise TypeError(f"{name}() got an unexpected keyword argument {unknown!r}.{hint}")
        try:
            check_constants(name, given)
        except ConfigError as error:  # the traceback ends where the user calls this component
            raise error.with_traceback(None) from None
        task = super().__call__(*arguments, **given)
        is_known = given.get(_VERSION) if _VERSION in inputs else "input_base" not in inputs
        in_pipeline = pipeline_context.Pipeline.get_default_pipeline() is not None
        if in_pipeline and (not is_known or any(given.get(name) for name in _READ_BY_NAME)):
            task.set_caching_options(False)
        return task


def component(function: Callable[..., Any]) -> NativeComponent:
    """Make a kfp component of a function, for our image."""
    built = dsl.component(function, base_image=default_image(), install_kfp_package=False)
    return NativeComponent(component_spec=built.component_spec, python_func=built.python_func)
