"""Object stores on this machine, for tests and benchmarks: real servers, and a faulty proxy.

    with s3_server(folder) as store, faulty(store, delay=0.02, drop=0.01) as proxy:
        os.environ.update(proxy.environment)
        storage.list_files("s3://data/photos")

S3 is versitygw, built by `make stores` if Go is installed, else the server of moto. gs:// is
fake-gcs-server, which has no alternative: without Go its tests are skipped with a message. az:// is
Azurite, if npm has installed it.
"""

import base64
import contextlib
import dataclasses
import hmac
import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

REPOSITORY = Path(__file__).parents[1]
BUCKET = "data"
OTHER_BUCKET = "other"  # the second bucket of the S3 server
_BUILT = Path(os.environ.get("TFX_SHARDS_STORES", REPOSITORY / ".stores"))
_KEY, _SECRET = "tests", "tests-of-stores"
# The default account of Azurite, from its documentation.
_AZURITE_ACCOUNT = "devstoreaccount1"
_AZURITE_KEY = (
    "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
)


@dataclasses.dataclass(frozen=True)
class Store:
    """A running server.

    Args:
        base: the URL of its bucket.
        address: `host:port`.
        variable: the environment variable for the address.
        others: further environment variables to set.
        control: the address for the counts and settings of a proxy.
    """

    base: str
    address: str
    variable: str
    others: Mapping[str, str]
    control: str = ""

    @property
    def environment(self) -> dict[str, str]:
        """The environment variables for clients of the server."""
        return {**self.others, self.variable: f"http://{self.address}"}

    def counts(self, *, reset: bool = False) -> dict[str, int]:
        """Return the counts of the proxy so far."""
        return self.ask("reset" if reset else "counts")

    def ask(self, what: str) -> Any:
        """Send a control request to the proxy, such as `set?drop=0.5`, and return the response."""
        with urllib.request.urlopen(f"http://{self.control}/-/{what}") as answer:
            return json.load(answer)


def free_port() -> int:
    """Return a free port of this machine."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@contextlib.contextmanager
def s3_server(folder: Path) -> Iterator[Store]:
    """Start an S3 server with two empty buckets; objects are stored in `folder`."""
    address = f"127.0.0.1:{free_port()}"
    others = {
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _SECRET,
        "AWS_REGION": "us-east-1",
    }
    store = Store(f"s3://{BUCKET}", address, "AWS_ENDPOINT_URL", others)
    binary = _BUILT / "versitygw"
    if binary.is_file():
        for bucket in (BUCKET, OTHER_BUCKET):
            (folder / "objects" / bucket).mkdir(parents=True)
        (folder / "metadata").mkdir()
        command = [str(binary), "--port", address, "--access", _KEY, "--secret", _SECRET]
        command += ["--quiet", "--keep-alive"]
        command += ["posix", str(folder / "objects"), "--sidecar", str(folder / "metadata")]
        with _running(command, address, folder):
            yield store
        return
    pytest.importorskip("moto", reason="neither Go (make stores) nor moto is here to serve S3")
    host, _, port = address.partition(":")
    with _running([sys.executable, "-m", "moto.server", "-H", host, "-p", port], address, folder):
        for bucket in (BUCKET, OTHER_BUCKET):
            request = urllib.request.Request(f"http://{address}/{bucket}", method="PUT")
            urllib.request.urlopen(request).close()
        yield store


@contextlib.contextmanager
def gcs_server(folder: Path) -> Iterator[Store]:
    """Start a server of Google Cloud Storage with an empty bucket in memory."""
    binary = _BUILT / "fake-gcs-server"
    if not binary.is_file():
        pytest.skip("fake-gcs-server is not built: make stores, which needs Go")
    address = f"127.0.0.1:{free_port()}"
    command = [str(binary), "-scheme", "http", "-host", "127.0.0.1", "-backend", "memory"]
    command += ["-port", address.partition(":")[2], "-log-level", "error", "-public-host", address]
    with _running(command, address, folder):
        body = json.dumps({"name": BUCKET}).encode()
        request = urllib.request.Request(
            f"http://{address}/storage/v1/b", body, {"Content-Type": "application/json"}
        )
        urllib.request.urlopen(request).close()
        yield Store(f"gs://{BUCKET}", address, "STORAGE_EMULATOR_HOST", {})


@contextlib.contextmanager
def azure_server(folder: Path) -> Iterator[Store]:
    """Start Microsoft's emulator of Azure Blob Storage with an empty container in memory."""
    built = _BUILT / "node_modules" / ".bin" / "azurite-blob"
    binary = str(built) if built.exists() else shutil.which("azurite-blob")
    if binary is None:
        pytest.skip("Azurite is not installed: npm install --prefix .stores azurite")
    address = f"127.0.0.1:{free_port()}"
    command = [binary, "--blobHost", "127.0.0.1", "--blobPort", address.partition(":")[2]]
    command += ["--inMemoryPersistence", "--silent", "--skipApiVersionCheck", "--disableTelemetry"]
    with _running(command, address, folder):
        _make_container(address)
        others = {"AZURE_STORAGE_USE_EMULATOR": "true"}
        yield Store(f"az://{BUCKET}", address, "AZURITE_BLOB_STORAGE_URL", others)


def _make_container(address: str) -> None:
    """Create the container.

    Source: https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key.
    """
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": "2021-08-06"}
    named = "".join(f"{name}:{value}\n" for name, value in headers.items())
    place = f"/{_AZURITE_ACCOUNT}/{_AZURITE_ACCOUNT}/{BUCKET}\nrestype:container"
    text = f"PUT{chr(10) * 12}{named}{place}".encode()
    signed = hmac.digest(base64.b64decode(_AZURITE_KEY), text, "sha256")
    headers["Authorization"] = f"SharedKey {_AZURITE_ACCOUNT}:{base64.b64encode(signed).decode()}"
    url = f"http://{address}/{_AZURITE_ACCOUNT}/{BUCKET}?restype=container"
    urllib.request.urlopen(urllib.request.Request(url, headers=headers, method="PUT")).close()


@contextlib.contextmanager
def faulty(store: Store, **settings: float) -> Iterator[Store]:
    """Start a proxy in front of a store, with settings of `tests.faulty_proxy.Proxy`."""
    command = [sys.executable, "-m", "tests.faulty_proxy", store.address]
    command += [f"--{name}={value}" for name, value in settings.items()]
    with subprocess.Popen(command, cwd=REPOSITORY, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = f"127.0.0.1:{int(process.stdout.readline())}"
            yield dataclasses.replace(store, address=address, control=address)
        finally:
            process.kill()


@contextlib.contextmanager
def _running(command: list[str], address: str, folder: Path) -> Iterator[None]:
    host, _, port = address.partition(":")
    log = folder / "server.log"
    folder.mkdir(parents=True, exist_ok=True)
    with log.open("wb") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
    try:
        for _ in range(600):
            with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 1):
                break
            assert process.poll() is None, log.read_text()
            time.sleep(0.1)
        yield
    finally:
        process.kill()
        process.wait()
