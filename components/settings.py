"""The settings of the components that describe a dataset, checked where they are made."""

import dataclasses
from collections.abc import Sequence

from components.auditing import check_kinds
from components.common.settings import ComponentSettings, is_text
from trainer_utils.format.settings import number, one_of, setting, where


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaExportSettings(ComponentSettings):
    """What is written beside the schema and Datum's files.

    Args:
        tfds: write TFDS's two JSON files too, so that `tfds.builder_from_directory` opens the uri
            of `datum_dataset`.
    """

    tfds: bool = setting(False, one_of(False, True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditSettings(ComponentSettings):
    """What ends the run, and what is looked at.

    Args:
        fail_on: kinds of findings that fail the run: `leakage`, `label_conflict`, `duplicates`,
            `near_duplicates`, `missing_class`, `label_shift`, `size_shift`, `brightness_shift`,
            `length_shift`, `vocabulary_shift`, `blank`, `dark`, `blurred`, `odd_aspect`,
            `odd_size`.
        label: the feature that has the class of a record.
        most: findings of each kind that are listed; all of them are counted. At least 0.
    """

    fail_on: Sequence[str] = setting((), check_kinds)
    label: str = setting("label", where(is_text, "a feature's name"))
    most: int = setting(100, number(0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetReportSettings(ComponentSettings):
    """How much of the dataset is looked at.

    Args:
        sample_records: most records of each split that are read; counts are the manifest's. At
            least 1.
    """

    sample_records: int = setting(1000, number(1))
