"""Convert raw inputs while they are read: the registered converter of `convert_to`.

CONVERTER.convert("photos/", {"splits": {"train": 9, "eval": 1}}, "out/")   # the dataset's uri
"""

from collections.abc import Mapping
from typing import Any

from components.raw_inputs.requests import check_places

_ONE_PROCESS = ("--direct_num_workers=1",)


class RawConversions:
    """The `RawConverter` of tfx-shards: `convert` in one process."""

    def check(self, place: str, conversion: Mapping[str, Any], out: str) -> None:
        """Raise ConfigError if a dataset cannot be written to `out`.

        Args:
            place: the raw inputs.
            conversion: the settings of the conversion, which were checked when it was opened.
            out: the folder for the artifacts.
        """
        check_places(place, out, None)

    def convert(self, place: str, conversion: Mapping[str, Any], out: str) -> str:
        """Convert raw inputs as `convert` does, in this process only, and return the uri.

        Args:
            place: the raw inputs.
            conversion: settings of `convert`.
            out: the folder for the artifacts.
        """
        from pipelines.tools.conversion.convert import convert  # not needed to check

        return str(convert(place, out, beam_pipeline_args=_ONE_PROCESS, **conversion))


CONVERTER = RawConversions()
