"""How a place of ML Metadata, or of Kubeflow's own API, is written, and shown.

without_password("mysql://user:sesame@host:3306/metadb")     # 'mysql://user@host:3306/metadb'
"""

from urllib.parse import urlsplit

__all__ = ["METADATA_FORMS", "is_kubeflow", "without_password"]

METADATA_FORMS = (
    "a sqlite file, mysql://user:password@host:port/database, grpc://host:port or "
    "kfp+https://host/path of Kubeflow Pipelines' API"
)
_KUBEFLOW = "kfp+"


def is_kubeflow(metadata: str) -> bool:
    """Whether it is the address of Kubeflow Pipelines' own API."""
    return metadata.startswith(_KUBEFLOW)


def without_password(metadata: str) -> str:
    """Where the metadata is, without a password."""
    parts = urlsplit(metadata)
    if "@" not in parts.netloc or not (parts.scheme == "mysql" or is_kubeflow(metadata)):
        return metadata
    user, _, host = parts.netloc.rpartition("@")
    return parts._replace(netloc=f"{user.partition(':')[0]}@{host}").geturl()
