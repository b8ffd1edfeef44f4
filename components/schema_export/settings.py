"""The settings of SchemaExport, checked where they are made.

SchemaExportSettings(tfds=True)
"""

import dataclasses

from components.common.settings import ComponentSettings
from trainer_utils.format.settings import one_of, setting

__all__ = ["SchemaExportSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaExportSettings(ComponentSettings):
    """What is written beside the schema and Datum's files."""

    tfds: bool = setting(
        False,
        one_of(False, True),
        "write TFDS's two JSON files too, so that `tfds.builder_from_directory` opens the uri of "
        "`datum_dataset`.",
    )
