"""Decides whether an ExampleGen may use its cache: any changed file makes a new fingerprint.

class TextExampleGenDriver(FileTreeDriver):
    unit, settings_class = "texts", TextSettings
    def is_source_file(self, path): return path.endswith(".csv")
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

from tfx.components.example_gen import driver, input_processor
from tfx.orchestration import data_types
from tfx.proto import example_gen_pb2, range_config_pb2

from components.common.settings import ExecProperties
from components.example_gen.inputs import LocatedInputs, fingerprint, locate, patterns_of
from components.example_gen.settings import ExampleGenSettings

__all__ = ["FileTreeDriver"]


class FileTreeDriver(driver.FileBasedDriver):
    """TFX's file-based driver, with a fingerprint of every nested file.

    TFX's own looks at what the pattern matches, which for folders of folders is just the top
    ones, and at whole seconds of the modification time.
    """

    unit: ClassVar[str]  # what the inputs are called, such as `images`
    settings_class: ClassVar[type[ExampleGenSettings]]

    _properties: Mapping[str, Any] = {}

    def is_source_file(self, path: str) -> bool:
        """Whether a path is by itself what examples are made of, as a list is."""
        raise NotImplementedError

    def sees_siblings(self, settings: Any) -> bool:
        """Whether such a file may name others, which then count as inputs."""
        return True

    def resolve_exec_properties(  # noqa: D102
        self,
        exec_properties: ExecProperties,
        pipeline_info: data_types.PipelineInfo,
        component_info: data_types.ComponentInfo,
    ) -> ExecProperties:
        self._properties = exec_properties
        return super().resolve_exec_properties(exec_properties, pipeline_info, component_info)

    def get_input_processor(  # noqa: D102
        self,
        splits: Iterable[example_gen_pb2.Input.Split],
        range_config: range_config_pb2.RangeConfig | None = None,
        input_base_uri: str | None = None,
    ) -> input_processor.FileBasedInputProcessor:
        assert input_base_uri is not None  # of a file-based ExampleGen
        settings = self.settings_class.from_properties(self._properties)
        located = locate(
            input_base_uri,
            patterns_of(example_gen_pb2.Input(splits=splits)),
            range_config,
            image_roots=settings.image_roots,
            is_source_file=self.is_source_file,
            sees_siblings=self.sees_siblings(settings),
            unit=self.unit,
        )
        return _NestedInputProcessor(located, splits, range_config)


class _NestedInputProcessor(input_processor.FileBasedInputProcessor):
    """Resolves spans and patterns as TFX does; its fingerprint is ours."""

    def __init__(
        self,
        located: LocatedInputs,
        splits: Iterable[example_gen_pb2.Input.Split],
        range_config: range_config_pb2.RangeConfig | None,
    ) -> None:
        self._located = located
        super().__init__(self._located.base, splits, range_config)

    def resolve_span_and_version(self) -> tuple[int, int | None]:
        return self._located.span, self._located.version

    def get_input_fingerprint(self, span: int, version: int | None) -> str:
        return fingerprint(self._located)
