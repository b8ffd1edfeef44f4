"""How an object store is reached: endpoint, region and credentials, as its own tools find them.

    open_store("s3", "bucket")        # an obstore.store.S3Store

Nothing is configured here: what the environment, the profiles of `aws`, a pod's
identity and fsspec's own configuration say holds. Where none of them has credentials, requests are
not signed, as public buckets want it.

Source: https://docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html,
https://filesystem-spec.readthedocs.io/en/latest/features.html#configuration
"""

import configparser
import os
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fsspec.config import conf as fsspec_settings
from fsspec.config import conf_dir, set_conf_env, set_conf_files

from trainer_utils.format import ConfigError

if TYPE_CHECKING:
    from obstore.auth.boto3 import Boto3CredentialProvider
    from obstore.store import ObjectStore

__all__ = ["CONNECT_SECONDS", "REQUEST_SECONDS", "STORES", "are_settings_shared", "open_store"]

STORES = {
    "s3": "s3",
    "s3a": "s3",
    "minio": "s3",
    "az": "azure",
    "abfs": "azure",
    "abfss": "azure",
    "adl": "azure",
}
"""The schemes, and what stands behind each: the extra of this distribution that brings it."""

REQUEST_SECONDS = 60
"""Of one request, which asks for some MiB."""
CONNECT_SECONDS = 10
_RETRY_SECONDS = 120
_MOST_RETRIES = 8
_LONGEST_WAIT_SECONDS = 10

_MINIO_IN_KUBEFLOW = "http://minio-service.kubeflow:9000"
_MACHINE = Path("/sys/class/dmi/id")  # what the hypervisor says of itself, on Linux
# What object_store, below obstore, takes credentials from by itself.
_AWS_VARIABLES = (
    "AWS_ACCESS_KEY_ID",
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


def open_store(scheme: str, bucket: str) -> "ObjectStore":
    """The store of a bucket.

    Args:
        scheme: one of `STORES`.
        bucket: its name; of Azure a container, `container@account.…` or with the account in the
            environment.

    Raises:
        ImportError: obstore is not installed; the message says which extra brings it.
        ConfigError: what the environment says is incomplete.
    """
    try:
        from obstore import store
    except ImportError as error:
        raise ImportError(
            f"expected the package that reads {scheme}://, found none. "
            f"Run pip install 'tfx-shards[{STORES[scheme]}]'."
        ) from error
    if STORES[scheme] == "s3":
        config, provider = _s3(scheme)
        return store.S3Store(bucket, credential_provider=provider, **_common(config), **config)
    container, _, host = bucket.partition("@")
    config = {"account_name": host.partition(".")[0]} if host else {}
    return store.AzureStore(container, **_common(config), **config)


def are_settings_shared() -> bool:
    """Whether other processes of this machine and environment reach stores as this one does.

    Not so where this process has configured fsspec by itself, beside its files and variables.
    """
    found: dict[str, dict[str, Any]] = {}
    set_conf_files(conf_dir, found)
    set_conf_env(found)
    return bool(found == fsspec_settings)


def _common(config: Mapping[str, object]) -> dict[str, Any]:
    """What is the same for all stores: time-outs, and attempts with growing, random pauses."""
    is_plain = any(str(value).startswith("http://") for value in config.values())
    return {
        "client_options": {
            "allow_http": is_plain,
            "connect_timeout": timedelta(seconds=CONNECT_SECONDS),
            "timeout": timedelta(seconds=REQUEST_SECONDS),
        },
        "retry_config": {
            "max_retries": _MOST_RETRIES,
            "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
            "backoff": {"max_backoff": timedelta(seconds=_LONGEST_WAIT_SECONDS)},
        },
    }


def _s3(scheme: str) -> "tuple[dict[str, Any], Boto3CredentialProvider | None]":
    """The settings of S3, and what gives credentials where that is more than keys."""
    of_fsspec = {**fsspec_settings.get("s3", {}), **fsspec_settings.get(scheme, {})}
    client = of_fsspec.get("client_kwargs") or {}
    profile = _profile()
    endpoint = (
        (_minio_endpoint() if scheme == "minio" else None)
        or os.environ.get("AWS_ENDPOINT_URL_S3")
        or os.environ.get("AWS_ENDPOINT_URL")
        or of_fsspec.get("endpoint_url")
        or client.get("endpoint_url")
        or profile.get("endpoint_url")
        or (_MINIO_IN_KUBEFLOW if scheme == "minio" else None)
    )
    region = (
        os.environ.get("AWS_REGION")
        or os.environ.get("AWS_DEFAULT_REGION")
        or client.get("region_name")
        or profile.get("region")
    )
    config: dict[str, Any] = {"region": region or "us-east-1"}
    if endpoint:
        config["endpoint"] = endpoint
    # TLS keeps bodies as they were sent, so that AWS's own packages sign none of them either: a
    # SHA-256 less on both sides, 0.07 ms of ours for 100 kB.
    is_plain = str(endpoint).startswith("http://")
    unsigned = os.environ.get("AWS_UNSIGNED_PAYLOAD", "false" if is_plain else "true")
    config["unsigned_payload"] = unsigned
    if scheme == "minio" and "MINIO_ACCESS_KEY" in os.environ:
        config["access_key_id"] = os.environ["MINIO_ACCESS_KEY"]
        config["secret_access_key"] = os.environ.get("MINIO_SECRET_KEY", "")
    elif of_fsspec.get("key"):
        config["access_key_id"] = of_fsspec["key"]
        config["secret_access_key"] = of_fsspec.get("secret", "")
        config.update({"session_token": of_fsspec["token"]} if of_fsspec.get("token") else {})
    elif of_fsspec.get("anon"):
        config["skip_signature"] = True
    elif "AWS_PROFILE" in os.environ or not any(name in os.environ for name in _AWS_VARIABLES):
        return _with_profile(config, profile)
    return config, None


def _minio_endpoint() -> str | None:
    if endpoint := os.environ.get("MINIO_ENDPOINT"):
        return endpoint if "://" in endpoint else f"http://{endpoint}"
    if host := os.environ.get("MINIO_SERVICE_SERVICE_HOST"):  # Kubernetes, in the same namespace
        return f"http://{host}:{os.environ.get('MINIO_SERVICE_SERVICE_PORT', '9000')}"
    return None


def _with_profile(
    config: dict[str, Any], profile: Mapping[str, str]
) -> "tuple[dict[str, Any], Boto3CredentialProvider | None]":
    """Adds the credentials of a profile of `aws configure`, or of the machine, or none."""
    if "aws_access_key_id" in profile:
        config["access_key_id"] = profile["aws_access_key_id"]
        config["secret_access_key"] = profile.get("aws_secret_access_key", "")
        if token := profile.get("aws_session_token"):
            config["session_token"] = token
        return config, None
    if any(name.startswith(("sso_", "role_", "credential_")) for name in profile):
        return config, _boto3_credentials()
    if not _is_machine_of("sys_vendor", "Amazon"):
        config["skip_signature"] = True
    return config, None


def _boto3_credentials() -> "Boto3CredentialProvider":
    """Of a profile with a role or single sign-on, which boto3 knows how to get."""
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise ConfigError(
            f"AWS profile {os.environ.get('AWS_PROFILE', 'default')!r}: expected boto3, which gets "
            "the credentials of roles and of single sign-on, found none. Run pip install boto3."
        ) from error
    return Boto3CredentialProvider(boto3.Session())


def _profile() -> dict[str, str]:
    """The profile of `aws configure` that is in force; empty where there is none."""
    name = os.environ.get("AWS_PROFILE") or "default"
    home = Path.home() / ".aws"
    found: dict[str, str] = {}
    for file, section in (
        (os.environ.get("AWS_CONFIG_FILE", home / "config"), f"profile {name}"),
        (os.environ.get("AWS_SHARED_CREDENTIALS_FILE", home / "credentials"), name),
    ):
        parser = configparser.RawConfigParser(strict=False)
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{str(file)!r}: expected what `aws configure` writes: {error}"
            ) from error
        for title in (section, name) if name == "default" else (section,):
            if parser.has_section(title):
                found.update(parser.items(title))
                break
    if not found and "AWS_PROFILE" in os.environ:
        raise ConfigError(
            f"AWS_PROFILE: expected a profile of ~/.aws/config or ~/.aws/credentials, got {name!r}",
            setting="AWS_PROFILE",
            value=name,
        )
    return found


def _is_machine_of(file: str, name: str) -> bool:
    """Whether this is a virtual machine of a cloud, whose own address hands out credentials."""
    try:
        return (_MACHINE / file).read_text(errors="replace").startswith(name)
    except OSError:
        return False
