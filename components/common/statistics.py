"""TFX's ExampleStatistics, which TFDV makes, read.

    for split, statistics in read_statistics(uri).items():
        [feature_name(entry) for entry in statistics.features]

Source: `tensorflow_metadata/proto/v0/statistics.proto`; TFX keeps a split's statistics as
`Split-<name>/FeatureStats.pb`.
"""

from google.protobuf import message
from tensorflow_metadata.proto.v0 import statistics_pb2

from trainer_utils.format import DatasetError
from trainer_utils.format.naming import SPLIT_PREFIX
from trainer_utils.storage import join, list_files, read_bytes

__all__ = ["feature_name", "read_statistics"]

_FILE = "FeatureStats.pb"


def read_statistics(uri: str) -> dict[str, statistics_pb2.DatasetFeatureStatistics]:
    """An ExampleStatistics artifact's numbers, by split.

    Raises:
        DatasetError: a file is no such message; the message names it.
    """
    statistics = {}
    for file in list_files(uri):
        folder, _, name = file.path.partition("/")
        if folder.startswith(SPLIT_PREFIX) and name == _FILE:
            found = statistics_pb2.DatasetFeatureStatisticsList()
            try:
                found.ParseFromString(read_bytes(join(uri, file.path)))
            except message.DecodeError as error:
                raise DatasetError(
                    f"{file.path!r}: expected statistics: {error}", path=file.path
                ) from error
            for dataset in found.datasets[:1]:
                statistics[folder.removeprefix(SPLIT_PREFIX)] = dataset
    return statistics


def feature_name(entry: statistics_pb2.FeatureNameStatistics) -> str:
    """What the examples call a feature, which TFDV names by a path where it is nested."""
    return entry.name or ".".join(entry.path.step)
