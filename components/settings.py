"""The settings of the components that describe a dataset, validated on creation."""

import dataclasses
from collections.abc import Sequence

from components.auditing.findings import check_kinds
from components.runtime.component_settings import ComponentSettings, is_text
from trainer_utils.core.settings import NumberRule, Predicate, one_of, setting


@dataclasses.dataclass(frozen=True, kw_only=True)
class SchemaExportSettings(ComponentSettings):
    """The additional files of SchemaExport.

    Args:
        tfds: also write TFDS's two JSON files, so that `tfds.builder_from_directory` opens the uri
            of `datum_dataset`.
    """

    tfds: bool = setting(False, one_of(False, True))


@dataclasses.dataclass(frozen=True, kw_only=True)
class AuditSettings(ComponentSettings):
    """The settings of DatasetAudit.

    Args:
        fail_on: kinds of findings that fail the run: `leakage`, `label_conflict`, `duplicates`,
            `near_duplicates`, `missing_class`, `label_shift`, `size_shift`, `brightness_shift`,
            `length_shift`, `vocabulary_shift`, `blank`, `dark`, `blurred`, `odd_aspect`,
            `odd_size`.
        label: the feature with the class of a record.
        most: number of findings of each kind to list; all findings are counted. At least 0.
    """

    fail_on: Sequence[str] = setting((), check_kinds)
    label: str = setting("label", Predicate(is_text, "a feature's name"))
    most: int = setting(100, NumberRule(0))


@dataclasses.dataclass(frozen=True, kw_only=True)
class DatasetReportSettings(ComponentSettings):
    """The settings of DatasetReport.

    Args:
        sample_records: maximum number of records to read of each split; counts come from the
            manifest. At least 1.
    """

    sample_records: int = setting(1000, NumberRule(1))
