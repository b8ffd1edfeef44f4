"""Decides whether ImageExampleGen may use its cache: any changed file makes a new fingerprint."""

from collections.abc import Sequence
from typing import Any

from tfx.components.example_gen import driver, input_processor
from tfx.proto import example_gen_pb2

from components.image_example_gen.inputs import LocatedInputs, fingerprint, locate
from components.image_example_gen.settings import ImageSettings

__all__ = ["ImageExampleGenDriver"]


class ImageExampleGenDriver(driver.FileBasedDriver):
    """TFX's file-based driver, with a fingerprint of every nested file.

    TFX's own looks at what the pattern matches, which for folders of folders is just the top
    ones, and at whole seconds of the modification time.
    """

    _image_roots: Sequence[str] = ()

    def resolve_exec_properties(  # noqa: D102
        self, exec_properties, pipeline_info, component_info
    ) -> dict[str, Any]:
        self._image_roots = ImageSettings.from_properties(exec_properties).image_roots
        return super().resolve_exec_properties(exec_properties, pipeline_info, component_info)

    def get_input_processor(  # noqa: D102
        self, splits, range_config=None, input_base_uri=None
    ) -> input_processor.FileBasedInputProcessor:
        config = example_gen_pb2.Input(splits=splits)
        located = locate(input_base_uri, config, range_config, image_roots=self._image_roots)
        return _NestedInputProcessor(located, splits, range_config)


class _NestedInputProcessor(input_processor.FileBasedInputProcessor):
    """Resolves spans and patterns as TFX does; its fingerprint is ours."""

    def __init__(self, located: LocatedInputs, splits, range_config=None) -> None:  # type: ignore[no-untyped-def]
        self._located = located
        super().__init__(self._located.base, splits, range_config)

    def resolve_span_and_version(self) -> tuple[int, int | None]:
        return self._located.span, self._located.version

    def get_input_fingerprint(self, span: int, version: int | None) -> str:
        return fingerprint(self._located)
