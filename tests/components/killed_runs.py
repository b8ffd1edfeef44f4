"""Run a script in a separate process, and kill it while it writes shards."""

import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.docs.markdown import REPOSITORY


def begin(script: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start a script with arguments."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """Return the stdout and stderr of a run that must succeed."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def kill_at(process: "subprocess.Popen[str]", uri: Path, *, shards: int) -> dict[str, int]:
    """Kill a run once it has at least `shards` shards; return their inodes by name."""
    while len(shards_at(uri)) < shards and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return inodes_at(uri)


def shards_at(uri: Path) -> dict[str, Path]:
    """Return the shards of a dataset by name."""
    return {str(path.relative_to(uri)): path for path in sorted(uri.glob("Split-*/*"))}


def digests_at(uri: Path) -> dict[str, str]:
    """Return the digest of each shard by name."""
    return {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in shards_at(uri).items()}


def inodes_at(uri: Path) -> dict[str, int]:
    """Return the inode of each shard by name."""
    return {name: path.stat().st_ino for name, path in shards_at(uri).items()}
