"""Generate the modules that spell out settings: typed keywords, and Kubeflow's functions.

    scripts/generate_settings.py            # writes the modules
    scripts/generate_settings.py --check    # names the outdated ones; exit status 1

Type checkers read source, so they need each keyword with its type. The settings' dataclasses stay
the only place where a setting is declared.
"""

import argparse
import collections.abc
import os
import pathlib
import subprocess
import sys
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

ROOT = pathlib.Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from components.balancing.settings import BalancerSettings  # noqa: E402
from components.example_gen.settings import (  # noqa: E402
    AudioSettings,
    ImageSettings,
    TextSettings,
)
from components.settings import (  # noqa: E402
    AuditSettings,
    DatasetReportSettings,
    SchemaExportSettings,
)
from scripts.kubeflow_functions import step_functions  # noqa: E402
from trainer_utils.core.settings import Setting, Settings, settings_of  # noqa: E402
from trainer_utils.options import InputOptions  # noqa: E402
from trainer_utils.writing.dataset_writer import WriterSettings  # noqa: E402

_ABSTRACT = collections.abc.__name__
_RUNTIME = "Runtime"
_COMPONENTS = {
    "ImageExampleGen": ImageSettings,
    "TextExampleGen": TextSettings,
    "AudioExampleGen": AudioSettings,
    "ShardBalancer": BalancerSettings,
    "SchemaExport": SchemaExportSettings,
    "DatasetAudit": AuditSettings,
    "DatasetReport": DatasetReportSettings,
}


class _Module:
    """A generated module `keywords`: its imports, and its `TypedDict`s in order.

    Args:
        takers: the functions or classes that take the keywords.
        package: the package of the module.
        example: a `TypedDict` of the module.
    """

    def __init__(self, takers: str, package: str, example: str) -> None:
        self._docstring = (
            f"Typed keywords of {takers}, made by scripts/generate_settings.py.\n\n"
            f"from {package}.keywords import {example}\n"
        )
        self._names: dict[str, set[str]] = {"typing": {"TypedDict"}}
        self._modules: set[str] = set()
        self._classes: dict[str, list[str]] = {}

    def add_import(self, module: str, name: str) -> str:
        """Import a name, and return it."""
        self._names.setdefault(module, set()).add(name)
        return name

    def add_class(self, name: str, docstring: str, fields: Mapping[str, str]) -> str:
        """Add a `TypedDict` without required keys, and return its name."""
        if name not in self._classes:
            lines = [f"    {field}: {kind}" for field, kind in fields.items()]
            head = f"class {name}(TypedDict, total=False):"
            self._classes[name] = [head, f'    """{docstring}"""', "", *lines]
        return name

    def source(self) -> str:
        """Return the source, formatted."""
        imports = [f"import {module}" for module in sorted(self._modules)]
        imports += [
            f"from {module} import {', '.join(sorted(names))}"
            for module, names in sorted(self._names.items())
        ]
        classes = ["\n".join(lines) for lines in self._classes.values()]
        return "\n\n".join([f'"""{self._docstring}"""', "\n".join(imports), *classes]) + "\n"

    def annotation(self, kind: Any) -> str:
        """Return the source of a type, and import its names."""
        origin, arguments = typing.get_origin(kind), typing.get_args(kind)
        if _is_union(kind):
            return " | ".join(dict.fromkeys(map(self.annotation, _none_last(arguments))))
        if kind in (None, type(None)):
            return "None"
        if kind is Any:
            return self.add_import("typing", "Any")
        if origin is Literal:
            self.add_import("typing", "Literal")
            return f"Literal[{', '.join(map(_quoted, arguments))}]"
        if origin is collections.abc.Callable:
            *inputs, output = arguments
            if inputs and isinstance(inputs[0], list):
                inputs = inputs[0]
            shown = "..." if inputs == [...] else f"[{self._joined(inputs)}]"
            return f"{self.add_import(_ABSTRACT, 'Callable')}[{shown}, {self.annotation(output)}]"
        name = self._name(origin or kind)
        if issubclass(origin or kind, Settings):
            return f"{name} | {self.add_settings(f'{name}Dict', kind)}"
        return f"{name}[{self._joined(arguments)}]" if arguments else name

    def _joined(self, kinds: Iterable[Any]) -> str:
        return ", ".join(map(self.annotation, kinds))

    def _name(self, kind: type) -> str:
        if kind.__module__ == "builtins":
            return kind.__name__
        if kind is os.PathLike:
            self._modules.add("os")
            return "os.PathLike"
        return self.add_import(kind.__module__, kind.__name__)

    def keyword(self, one: Setting, *more: str) -> str:
        """Return the annotation of a setting, with more types, as a keyword of a function.

        None also means the default of a list or mapping.
        """
        kinds = [self.annotation(_kind(one)).removesuffix(" | None"), *more]
        return " | ".join(kinds + ["None"] * (one.is_optional or one.is_collection))

    def add_settings(self, name: str, settings: type[Settings]) -> str:
        """Add the settings of a class as a `TypedDict`, and return its name."""
        fields = {one.name: self.annotation(_kind(one)) for one in settings_of(settings).values()}
        return self.add_class(name, f"The settings of `{settings.__name__}`.", fields)


def _quoted(value: object) -> str:
    return f'"{value}"'


def _none_last(kinds: Iterable[Any]) -> list[Any]:
    return sorted(kinds, key=lambda kind: kind is type(None))


def _kind(one: Setting) -> Any:
    """Return the type of a setting's values; the choices themselves if they are strings."""
    choices = [choice for choice in one.choices if choice is not None]
    kind = one.kind
    if choices and all(isinstance(choice, str) for choice in choices):
        kind = Literal[tuple(choices)]  # type: ignore[valid-type]
        kind = typing.Optional[kind] if one.is_optional else kind  # noqa: UP045
    return _with_paths(kind) if one.is_path else kind


def _with_paths(kind: Any) -> Any:
    """Return a type whose strings may also be `os.PathLike`, on their own or in a list."""
    members = typing.get_args(kind) if _is_union(kind) else (kind,)
    wider = []
    for member in members:
        wider += [member, os.PathLike[str]] if member is str else [member]
    wider = [
        collections.abc.Sequence[str | os.PathLike[str]]  # type: ignore[misc]
        if member == collections.abc.Sequence[str]
        else member
        for member in wider
    ]
    return typing.Union[tuple(wider)]  # noqa: UP007


def _is_union(kind: Any) -> bool:
    return typing.get_origin(kind) in (typing.Union, types.UnionType)


def input_keywords() -> str:
    """Return the module with the keywords of `input_fn` and its siblings."""
    module = _Module("`input_fn` and its siblings", "trainer_utils.options", "InputSettings")
    module.add_settings("InputSettings", InputOptions)
    return module.source()


def writer_keywords() -> str:
    """Return the module with the keywords of `DatasetWriter`."""
    module = _Module("`DatasetWriter`", "trainer_utils.writing", "WriterKeywords")
    module.add_settings("WriterKeywords", WriterSettings)
    return module.source()


def component_keywords() -> str:
    """Return the module with the keywords of the TFX components' constructors."""
    module = _Module("the components", "components.tfx", "ShardBalancerKeywords")
    runtime = module.add_import("components.tfx.component", _RUNTIME)
    configs = {
        "input_config": ("tfx.proto.example_gen_pb2", "Input"),
        "output_config": ("tfx.proto.example_gen_pb2", "Output"),
        "range_config": ("tfx.proto.range_config_pb2", "RangeConfig"),
    }
    for component, settings in _COMPONENTS.items():
        fields = {}
        if component.endswith("ExampleGen"):
            for name, (place, kind) in configs.items():
                fields[name] = f"{module.add_import(place, kind)} | {runtime} | None"
            fields["splits"] = f"{module.add_import(_ABSTRACT, 'Mapping')}[str, float] | None"
        for one in settings_of(settings).values():
            fields[one.name] = module.keyword(one, runtime)
        name = f"{component}Keywords"
        module.add_class(name, f"The settings of the component {component}.", fields)
    return module.source()


def conversion_keywords() -> str:
    """Return the module with the keywords of `convert` and `balance`."""
    module = _Module("`convert` and `balance`", "pipelines.tools.conversion", "BalanceKeywords")
    kinds: dict[str, list[str]] = {}
    for settings in (ImageSettings, TextSettings, AudioSettings, BalancerSettings):
        for one in settings_of(settings).values():
            kinds.setdefault(one.name, []).append(module.keyword(one))
    fields = {name: _union(members) for name, members in kinds.items()}
    module.add_class(
        "ConvertKeywords", "The settings of the ExampleGens and of ShardBalancer.", fields
    )
    balancer = {one.name: module.keyword(one) for one in settings_of(BalancerSettings).values()}
    module.add_class("BalanceKeywords", "The settings of ShardBalancer.", balancer)
    return module.source()


def _union(kinds: Iterable[str]) -> str:
    """Return the union of some annotations, with None last."""
    distinct = dict.fromkeys(kind.removesuffix(" | None") for kind in kinds)
    ending = " | None" if any(kind.endswith(" | None") for kind in kinds) else ""
    return " | ".join(distinct) + ending


MODULES: Mapping[str, Callable[[], str]] = {
    "trainer_utils/options/keywords.py": input_keywords,
    "trainer_utils/writing/keywords.py": writer_keywords,
    "components/kubeflow/step_functions.py": step_functions,
    "components/tfx/keywords.py": component_keywords,
    "pipelines/tools/conversion/keywords.py": conversion_keywords,
}


def formatted(source: str, path: str) -> str:
    """Return source as `make format` would leave it."""
    for command in (["check", "--fix-only", "--quiet", "--select=I"], ["format", "--quiet"]):
        ruff = [sys.executable, "-m", "ruff", *command, f"--stdin-filename={path}", "-"]
        done = subprocess.run(ruff, input=source, text=True, cwd=ROOT, capture_output=True)
        if done.returncode:
            raise SystemExit(f"ruff cannot format {path}: {done.stderr or done.stdout}")
        source = done.stdout
    return source


def main() -> None:
    """Write the modules, or name the outdated ones."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="only compare")
    is_check = parser.parse_args().check
    outdated = []
    for path, make in MODULES.items():
        source, file = formatted(make(), path), ROOT / path
        if file.exists() and file.read_text(encoding="utf-8") == source:
            continue
        outdated.append(path)
        if not is_check:
            file.write_text(source, encoding="utf-8")
            print(f"{path} written")
    if is_check and outdated:
        raise SystemExit(f"out of date: {', '.join(outdated)}. Run scripts/generate_settings.py")


if __name__ == "__main__":
    main()
