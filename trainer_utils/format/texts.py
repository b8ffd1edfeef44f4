"""The text of a file of a dataset, all of which are UTF-8.

text_of(b"caf\\xe9", path="vocab/label.txt")     # DatasetError: … (byte 3)
"""

from trainer_utils.format.errors import DatasetError

__all__ = ["text_of"]


def text_of(data: bytes, *, path: str) -> str:
    """A file's text.

    Raises:
        DatasetError: it is not UTF-8; the message names `path` and the first byte that is not.
    """
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DatasetError.at(
            path,
            expected="UTF-8",
            got=repr(data[error.start : error.end]),
            offset=error.start,
            advice="The file is damaged: write the dataset again.",
        ) from error
