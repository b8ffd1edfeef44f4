"""The settings of DatasetReport, checked where they are made.

DatasetReportSettings(sample_records=200)
"""

import dataclasses

from components.common.settings import ComponentSettings
from trainer_utils.format.settings import number, setting

__all__ = ["DatasetReportSettings"]


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetReportSettings(ComponentSettings):
    """How much of the dataset is looked at."""

    sample_records: int = setting(
        1000, number(1), "most records of each split that are read; counts are the manifest's."
    )
