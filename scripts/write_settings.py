#!/usr/bin/env python3
"""Writes what is made from the declared settings and kept in files: `make settings`.

Tables of the docs stand between `<!-- settings: ImageSettings -->` and `<!-- end of settings -->`.
Type stubs show editors the signatures and docstrings that components get when they are imported.
"""

import inspect
import pathlib
import re
import subprocess
import sys
import textwrap
import typing
from typing import Any

from kfp import dsl
from kfp.dsl import PipelineTask

import components
import components.kubeflow
import trainer_utils
from components.audio_example_gen.settings import AudioSettings
from components.common.reject_codes import REJECT_CODES
from components.dataset_audit.settings import AuditSettings
from components.dataset_report.settings import DatasetReportSettings
from components.image_example_gen.settings import ImageSettings
from components.kubeflow import images
from components.schema_export.settings import SchemaExportSettings
from components.shard_balancer.settings import BalancerSettings
from components.text_example_gen.settings import TextSettings
from trainer_utils.format.settings import Settings, settings_of
from trainer_utils.writing.dataset_writer import WriterSettings

REPOSITORY = pathlib.Path(__file__).resolve().parents[1]
DECLARED = {
    settings.__name__: settings
    for settings in (
        ImageSettings,
        TextSettings,
        AudioSettings,
        BalancerSettings,
        SchemaExportSettings,
        AuditSettings,
        DatasetReportSettings,
        trainer_utils.InputOptions,
        trainer_utils.ImageOptions,
        trainer_utils.LabelOptions,
        trainer_utils.CacheOptions,
        WriterSettings,
    )
}
_TABLE = re.compile(r"(?<=<!-- settings: )(\w+) -->\n.*?(?=<!-- end of settings -->)", re.DOTALL)
_DOTTED = re.compile(r"\b([a-z_]\w*(?:\.[a-z_]\w*)*)\.([A-Za-z]\w*)")
# Docstrings, and defaults that are texts: group 1, so that splitting keeps them.
_TEXT = re.compile(r"""(\"{3}.*?\"{3}|'[^'\n]*'|"[^"\n]*")""", re.DOTALL)
_HEAD = "# Made by `make settings` from the declarations of the settings."


def written_files() -> dict[pathlib.Path, str]:
    """The text of each file as it should be."""
    pages = (REPOSITORY / "docs").rglob("*.md")
    return {
        **{page: with_tables(page.read_text()) for page in pages},
        REPOSITORY / "components/__init__.pyi": classes_stub(),
        REPOSITORY / "components/kubeflow/__init__.pyi": functions_stub(),
    }


def with_tables(page: str) -> str:
    """A page with its tables made anew."""
    return _TABLE.sub(lambda match: f"{match[1]} -->\n{table(match[1])}\n", page)


def table(name: str) -> str:
    """The settings of a class, or the codes of rejects, as a table in Markdown."""
    if name == "RejectCodes":
        rows = [f"| `{code}` | {cause} | {cure} |" for code, (cause, cure) in REJECT_CODES.items()]
        return "\n".join(["| code | cause | cure |", "|---|---|---|", *rows])
    rows = declared_rows(DECLARED[name])
    cells = [
        f"| `{setting}` | {f'`{default}`' if default else ''} | {sentence} |"
        for setting, default, sentence in rows
    ]
    return "\n".join(["| setting | default | what it does |", "|---|---|---|", *cells])


def declared_rows(settings: type[Settings]) -> list[tuple[str, str, str]]:
    """Name, default and sentence of each setting."""
    declared = settings_of(settings).values()
    return [(one.name, one.shown_default, one.sentence) for one in declared]


def classes_stub() -> str:
    """The components as a type checker sees them."""
    parts = []
    for name in components.__all__:
        component = getattr(components, name)
        base = next(c for c in component.__mro__ if c.__module__.startswith("tfx."))
        constructor = _function(
            "__init__", component.__init__, inspect.signature(component.__init__)
        )
        body = textwrap.indent(f'"""{inspect.getdoc(component)}\n"""\n{constructor}', "    ")
        parts.append(f"class {name}({base.__module__}.{base.__name__}):\n{body}")
    return _stub(components.__all__, parts)


def functions_stub() -> str:
    """Kubeflow's components as a type checker sees them; their outputs are no arguments."""
    parts = []
    for name in sorted({*components.kubeflow.__all__} - {*images.__all__}):
        function = getattr(components.kubeflow, name).pipeline_func
        parts.append(_function(name, function, _of_a_task(inspect.signature(function))))
    others = f"from {images.__name__} import default_image, using_image"
    return _stub(components.kubeflow.__all__, parts, others, "from typing import Any")


def _of_a_task(signature: inspect.Signature) -> inspect.Signature:
    parameters = [
        one.replace(
            kind=one.KEYWORD_ONLY,
            annotation=typing.Any if hasattr(one.annotation, "__metadata__") else one.annotation,
        )
        for one in signature.parameters.values()
        if getattr(one.annotation, "__metadata__", None) != dsl.Output[dsl.Artifact].__metadata__
        and not isinstance(one.annotation, dsl.OutputPath)
    ]
    return signature.replace(parameters=parameters, return_annotation=PipelineTask)


def _function(name: str, function: Any, signature: inspect.Signature) -> str:
    doc = textwrap.indent(f'"""{inspect.getdoc(function)}\n"""', "    ")
    return f"def {name}{signature}:\n{doc}\n"


def _stub(names: list[str], parts: list[str], *imports: str) -> str:
    """A stub of these parts, in which names stand without their modules, and the imports do not."""
    modules = {*imports}

    def without_module(match: re.Match[str]) -> str:
        modules.add(f"from {match[1]} import {match[2]}")
        return match[2]

    text = "\n\n".join(
        "".join(
            block if place % 2 else _DOTTED.sub(without_module, block)
            for place, block in enumerate(_TEXT.split(part))
        )
        for part in parts
    )
    lines = "\n".join(sorted(modules))
    return _formatted(f"{_HEAD}\n{lines}\n__all__ = {names}\n{text}")


def _formatted(stub: str) -> str:
    for command in (["check", "--fix", "--quiet", "--select=I,Q"], ["format"]):
        ruff = [sys.executable, "-m", "ruff", *command, "--stdin-filename=components/x.pyi", "-"]
        stub = subprocess.run(ruff, input=stub, text=True, check=True, capture_output=True).stdout
    return stub


if __name__ == "__main__":
    for path, text in written_files().items():
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            print(path.relative_to(REPOSITORY))
