"""Configure object stores: endpoint, region and credentials, found as the stores' own tools do.

Sources are the environment, the profiles of `aws`, and the identity of a pod or machine. Without
credentials, requests are not signed, as public buckets require.
Source: https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html
"""

import contextlib
import os
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from trainer_utils.core.errors import ConfigError
from trainer_utils.storage.paths import OBJECT_SCHEMES

if TYPE_CHECKING:
    from obstore.store import ObjectStore

_PREFIXES = ("AWS_", "AZURE_", "AZURITE_", "MINIO_")
VARIABLES = tuple(prefix.encode() for prefix in _PREFIXES) if os.name == "posix" else _PREFIXES
"""The prefixes of environment variables that configure stores."""
REQUEST_SECONDS = 60
"""The time-out of one request for a few MiB."""
SILENCE_SECONDS = 5
"""After this much silence an answer is requested again, from where it stopped."""
CONNECT_SECONDS = 10
_RETRY_SECONDS = 120
_MAX_RETRIES = 8
_LONGEST_WAIT_SECONDS = 10

_MINIO_IN_KUBEFLOW = "http://minio-service.kubeflow:9000"
_MACHINE = Path("/sys/class/dmi/id/sys_vendor")  # the name of the hypervisor, on Linux
# Variables that let obstore find credentials by itself.
_AWS_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def open_store(scheme: str, bucket: str, *, to_read: bool = False) -> "ObjectStore":
    """Open the store of a bucket.

    Args:
        scheme: a key of `OBJECT_SCHEMES`.
        bucket: the bucket. For Azure it is a container, either as `container@account.…`, or with
            the account in the environment.
        to_read: whether the store is only read from. Then an answer that stops times out; an upload
            is silent until it is complete.

    Raises:
        ImportError: a package is not installed; the message names the extra.
        ConfigError: the environment is incomplete.
    """
    kind = OBJECT_SCHEMES[scheme]
    try:
        from obstore import store
    except ImportError as error:
        said = f"expected the package that reads {scheme}://, found none"
        raise ImportError(f"{said}. Run pip install 'tfx-shards[{kind}]'.") from error
    config = _s3(scheme) if kind == "s3" else {}
    if kind == "azure":
        bucket, _, host = bucket.partition("@")
        config = {"account_name": host.partition(".")[0]} if host else {}
    silence = {"read_timeout": timedelta(seconds=SILENCE_SECONDS)} if to_read else {}
    config["client_options"] = {
        **silence,
        "allow_http": any("http://" in str(value) for value in config.values()),
        "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
        "timeout": timedelta(seconds=REQUEST_SECONDS),
    }
    config["retry_config"] = {  # with growing, random pauses
        "max_retries": _MAX_RETRIES,
        "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
        "backoff": {"max_backoff": timedelta(seconds=_LONGEST_WAIT_SECONDS)},
    }
    return (store.S3Store if kind == "s3" else store.AzureStore)(bucket, **config)


def _s3(scheme: str) -> dict[str, Any]:
    """Return the settings of an S3 store from the environment, or from the profile of AWS."""
    is_minio, said = scheme == "minio", os.environ.get
    is_keyed = is_minio and "MINIO_ACCESS_KEY" in os.environ
    is_in_environment = "AWS_PROFILE" not in os.environ and not os.environ.keys().isdisjoint(
        _AWS_VARIABLES
    )
    config: dict[str, Any] = {} if is_keyed or is_in_environment else _of_profile()
    endpoint = (
        (_minio_endpoint() if is_minio else None)
        or said("AWS_ENDPOINT_URL_S3")
        or said("AWS_ENDPOINT_URL")
        or config.pop("endpoint", None)
        or (_MINIO_IN_KUBEFLOW if is_minio else None)
    )
    region = said("AWS_REGION") or said("AWS_DEFAULT_REGION") or config.get("region")
    config["region"] = region or "us-east-1"
    if endpoint:
        config["endpoint"] = endpoint
    # TLS protects bodies, so AWS's own packages do not sign them either. It saves a SHA-256 on both
    # sides, 0.07 ms here for 100 kB.
    is_plain = str(endpoint).startswith("http://")
    config["unsigned_payload"] = said("AWS_UNSIGNED_PAYLOAD", "false" if is_plain else "true")
    if is_keyed:
        config["access_key_id"] = os.environ["MINIO_ACCESS_KEY"]
        config["secret_access_key"] = said("MINIO_SECRET_KEY", "")
    return config


def _minio_endpoint() -> str | None:
    if endpoint := os.environ.get("MINIO_ENDPOINT"):
        return endpoint if "://" in endpoint else f"http://{endpoint}"
    if host := os.environ.get("MINIO_SERVICE_SERVICE_HOST"):  # in Kubernetes, in the same namespace
        return f"http://{host}:{os.environ.get('MINIO_SERVICE_SERVICE_PORT', '9000')}"
    return None


def _of_profile() -> dict[str, Any]:
    """Return the settings of an AWS profile by boto3, or else of the machine's identity, if any."""
    named = os.environ.get("AWS_PROFILE")
    if named is None and not Path("~/.aws").expanduser().is_dir():
        with contextlib.suppress(OSError):  # Amazon's machines hand out credentials at an address
            if _MACHINE.read_text(errors="replace").startswith("Amazon"):
                return {}
        return {"skip_signature": True}
    try:
        import boto3
        import botocore.session
        from botocore.exceptions import BotoCoreError
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        said = f"AWS profile {named or 'default'!r}: expected boto3, which reads it, found none"
        raise ImportError(f"{said}. Run pip install boto3.") from error
    session = botocore.session.get_session()
    try:
        profile = session.get_scoped_config()
        if session.get_credentials() is None:
            config: dict[str, Any] = {"skip_signature": True}
        else:
            provider = Boto3CredentialProvider(boto3.Session(botocore_session=session))
            config = {"credential_provider": provider}
    except BotoCoreError as error:
        rule = f"a profile of ~/.aws/config or ~/.aws/credentials ({error})"
        raise ConfigError.of("AWS_PROFILE", named, allowed=rule) from error
    named_so = {"endpoint": "endpoint_url", "region": "region"}
    return config | {key: profile[name] for key, name in named_so.items() if name in profile}
