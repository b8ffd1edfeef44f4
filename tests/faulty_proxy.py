"""A proxy in front of an object store that delays and drops requests and truncates bodies.

    python -m tests.faulty_proxy 127.0.0.1:7070 --delay 0.02 --drop 0.01 --cut 0.01

It prints its port, forwards HTTP/1.1 unchanged, and counts requests. `GET /-/counts` returns the
counts as JSON, `GET /-/set?drop=0.5` changes a setting, and `GET /-/reset` zeroes the counts. The
failing requests depend on `--seed` and the order of requests.
"""

import argparse
import asyncio
import collections
import json
import random
import socket
from typing import Any
from urllib.parse import parse_qsl, urlsplit

_CHUNK = 256 << 10
_THROTTLED = (
    b"HTTP/1.1 503 Slow Down\r\nContent-Length: 0\r\nConnection: close\r\nRetry-After: 0\r\n\r\n"
)


class Proxy:
    """A proxy with its settings as attributes.

    Args:
        delay: seconds before each response.
        drop: the share of requests closed without a response.
        busy: the share of requests answered with status 503.
        cut: the share of requests closed in the middle of the body.
        stall: seconds to stall in the middle of the body, for the share `cut`, instead of closing.
        posts: whether only POST requests fail, which begin and end an upload.
        most: the maximum number of faults; later requests succeed.
    """

    def __init__(self, host: str, port: int, **settings: float) -> None:
        self.host, self.port = host, port
        self.delay = self.drop = self.busy = self.cut = self.stall = self.seed = self.posts = 0.0
        self.most = float("inf")
        vars(self).update(settings)
        self.random = random.Random(int(self.seed))
        self.counts: collections.Counter[str] = collections.Counter()
        self.under_way = 0  # number of requests waiting for their delay

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None
        _no_delay(writer)
        try:
            while head := await _head(reader):
                method, target, _ = head.split(b" ", 2)
                if target.startswith(b"/-/"):
                    self._answer(writer, target.decode())
                    await writer.drain()
                    continue
                self.counts["requests"] += 1
                self.counts[method.decode()] += 1
                self.counts["LIST"] += b"list-type=" in target
                fate = self._fate(method)
                if upstream is None:
                    upstream = await asyncio.open_connection(self.host, self.port, limit=_CHUNK)
                    _no_delay(upstream[1])
                upstream[1].write(head)
                await _copy_body(head, reader, upstream[1], self.counts, "bytes_up")
                self.under_way += 1
                self.counts["most_at_once"] = max(self.counts["most_at_once"], self.under_way)
                if self.delay:
                    await asyncio.sleep(self.delay)
                self.under_way -= 1
                # Wait for the store before dropping the request: versitygw reports that an upload
                # is complete while the same request, sent earlier, is still in progress.
                answer = await _head(upstream[0])
                if not answer:
                    return
                if fate < self.drop:
                    self.counts["dropped"] += 1
                    return
                if fate < self.drop + self.busy:
                    self.counts["busy"] += 1
                    writer.write(_THROTTLED)
                    await writer.drain()
                    return
                while answer.startswith(b"HTTP/1.1 100"):
                    writer.write(answer)
                    answer = await _head(upstream[0])
                writer.write(answer)
                most = None
                if fate < self.drop + self.busy + self.cut:
                    most = (_length(answer) or 0) // 2
                    if most:
                        self.counts["cut"] += 1
                if method != b"HEAD" and not answer.startswith((b"HTTP/1.1 204", b"HTTP/1.1 304")):
                    await _copy_body(answer, upstream[0], writer, self.counts, "bytes_down", most)
                await writer.drain()
                if most:
                    await asyncio.sleep(self.stall)
                    return
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            for stream in (writer, upstream[1] if upstream else None):
                if stream is not None:
                    stream.transport.abort() if stream is writer else stream.close()

    def _fate(self, method: bytes) -> float:
        """Draw a number from 0 to 1; one below the sum of the shares of faults causes a fault."""
        fate = self.random.random()
        faults = sum(self.counts[name] for name in ("dropped", "busy", "cut"))
        is_hit = faults < self.most and (method == b"POST" or not self.posts)
        return fate if is_hit else 1.0

    def _answer(self, writer: asyncio.StreamWriter, target: str) -> None:
        url = urlsplit(target)
        for name, value in parse_qsl(url.query):
            setattr(self, name, float(value))
        body = json.dumps(self.counts).encode()
        if url.path == "/-/reset":
            self.counts.clear()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))


def _no_delay(writer: asyncio.StreamWriter) -> None:
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)


async def _head(reader: asyncio.StreamReader) -> bytes:
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


def _headers(head: bytes) -> dict[bytes, bytes]:
    lines = head.split(b"\r\n")[1:-2]
    return {name.lower(): value.strip() for name, _, value in (x.partition(b":") for x in lines)}


def _length(head: bytes) -> int | None:
    length = _headers(head).get(b"content-length")
    return None if length is None else int(length)


async def _copy_body(
    head: bytes,
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    counts: "collections.Counter[str]",
    name: str,
    most: int | None = None,
) -> None:
    if b"chunked" in _headers(head).get(b"transfer-encoding", b""):
        while True:
            line = await reader.readuntil(b"\r\n")
            size = int(line.split(b";")[0], 16)
            data = await reader.readexactly(size + 2)
            writer.write(line + data)
            await writer.drain()
            counts[name] += size
            if not size:
                return
    left = _length(head) or 0
    if most:
        left = most
    while left:
        data = await reader.read(min(left, _CHUNK))
        if not data:
            raise ConnectionError
        writer.write(data)
        await writer.drain()
        counts[name] += len(data)
        left -= len(data)


async def _main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("upstream")
    for name in ("delay", "drop", "busy", "cut", "stall", "seed", "posts"):
        parser.add_argument(f"--{name}", type=float, default=0.0)
    parser.add_argument("--most", type=float, default=float("inf"))
    arguments: dict[str, Any] = vars(parser.parse_args())
    host, _, port = arguments.pop("upstream").rpartition(":")
    proxy = Proxy(host, int(port), **arguments)
    server = await asyncio.start_server(proxy.serve, "127.0.0.1", 0, limit=_CHUNK)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(_main())
