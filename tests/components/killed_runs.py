"""Runs of a script in a process of its own, which is killed while it writes shards."""

import hashlib
import signal
import subprocess
import sys
import time
from pathlib import Path

from tests.docs.markdown import REPOSITORY


def begin(script: str, *arguments: object) -> "subprocess.Popen[str]":
    """Starts a script, with texts as its arguments."""
    return subprocess.Popen(
        [sys.executable, "-c", script, *map(str, arguments)],
        cwd=REPOSITORY,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def finish(process: "subprocess.Popen[str]") -> tuple[str, str]:
    """What a run that is good prints: on stdout, and on stderr."""
    out, err = process.communicate(timeout=300)
    assert process.returncode == 0, err
    return out, err


def kill_at(process: "subprocess.Popen[str]", uri: Path, *, shards: int) -> dict[str, int]:
    """Kills a run as soon as it has so many shards; the inodes of those that are there."""
    while len(shards_at(uri)) < shards and process.poll() is None:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    return inodes_at(uri)


def shards_at(uri: Path) -> dict[str, Path]:
    """The shards of a dataset by name."""
    return {str(path.relative_to(uri)): path for path in sorted(uri.glob("Split-*/*"))}


def digests_at(uri: Path) -> dict[str, str]:
    """What is in them."""
    return {n: hashlib.sha256(p.read_bytes()).hexdigest() for n, p in shards_at(uri).items()}


def inodes_at(uri: Path) -> dict[str, int]:
    """Which files they are."""
    return {name: path.stat().st_ino for name, path in shards_at(uri).items()}
