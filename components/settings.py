"""The settings of the components that describe a dataset, checked where they are made.

What each does stands in the docstring of the component's constructor.
"""

import dataclasses
from collections.abc import Sequence

from components.auditing import check_kinds
from components.common.settings import ComponentSettings, is_text
from trainer_utils.format.settings import number, one_of, setting, where


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaExportSettings(ComponentSettings):
    """What is written beside the schema and Datum's files."""

    tfds: bool = setting(False, one_of(False, True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditSettings(ComponentSettings):
    """What ends the run, and what is looked at."""

    fail_on: Sequence[str] = setting((), check_kinds)
    label: str = setting("label", where(is_text, "a feature's name"))
    most: int = setting(100, number(0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetReportSettings(ComponentSettings):
    """How much of the dataset is looked at."""

    sample_records: int = setting(1000, number(1))
