"""The tools that read datasets import neither TFX nor TensorFlow, and so work in a bare install."""

import pkgutil

import pipelines.tools
from tests.make import run_python

ABOVE = ("pipelines.cli", "pipelines.lineage", "pipelines.kubeflow")
HEAVY = ("tensorflow", "tfx", "apache_beam", "ml_metadata", "pyarrow")
NEEDS_COMPONENTS = {"conversion", "layouts"}


def test_tools_import_neither_tfx_nor_tensorflow():
    names = {module.name for module in pkgutil.iter_modules(pipelines.tools.__path__)}
    assert names >= {"browse", "diff", "verification"}
    program = "import importlib, sys\n" + "".join(
        f"importlib.import_module('pipelines.tools.{name}')\n"
        for name in sorted(names - NEEDS_COMPONENTS)
    )
    program += "import components.report.doctor\n"
    program += f"print([name for name in {ABOVE + HEAVY!r} if name in sys.modules])"
    done = run_python(program)
    assert done.stdout == "[]\n", done.stderr
