"""What is shown of where the metadata is."""

import pytest

from pipelines.lineage.metadata_address import without_password


@pytest.mark.parametrize(
    ("metadata", "shown"),
    [
        ("mysql://user:p%40ss:word@host:1/db", "mysql://user@host:1/db"),
        ("mysql://user@host/db", "mysql://user@host/db"),
        ("grpc://host:1", "grpc://host:1"),
        ("runs/a:b@c.sqlite", "runs/a:b@c.sqlite"),
    ],
)
def test_passwords_are_not_shown(metadata, shown):
    assert without_password(metadata) == shown
