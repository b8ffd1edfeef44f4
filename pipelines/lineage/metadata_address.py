"""How a place of ML Metadata is written, and shown.

without_password("mysql://user:sesame@host:3306/metadb")     # 'mysql://user@host:3306/metadb'
"""

from urllib.parse import urlsplit

__all__ = ["METADATA_FORMS", "without_password"]

METADATA_FORMS = "a sqlite file, mysql://user:password@host:port/database or grpc://host:port"


def without_password(metadata: str) -> str:
    """Where the metadata is, without a password."""
    parts = urlsplit(metadata)
    if "@" not in parts.netloc or parts.scheme != "mysql":
        return metadata
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}@{host}").geturl()
