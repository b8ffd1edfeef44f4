"""The Dockerfile's steps without docker: each stage is a layer over a root that debootstrap makes.

image = build_image(REPOSITORY, "pipelines", cache)
image.run(["python", "-m", "pip", "check"], uid=12345)

Understood is what our Dockerfile says: `FROM`, `ARG`, `ENV`, `RUN` with bind mounts, `WORKDIR`,
`COPY`, `USER`, `CMD`. A stage whose steps, files and stages before it are as they were is taken
from the cache. Layers are overlays in name spaces of their own, which end with their process.
What a stage copies of another is a layer of hard links, so that gigabytes lie on the disk once.
"""

import dataclasses
import functools
import hashlib
import itertools
import json
import os
import platform
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_MOUNT = """
set -eu
if [ -n "$UPPER" ]; then writable=",upperdir=$UPPER,workdir=$UPPER.work"; else writable=; fi
mount -t overlay overlay -o "lowerdir=$LOWERS$writable" "$ROOT"
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mount --rbind /sys "$ROOT/sys"
for name in /etc/resolv.conf /etc/ssl/certs/ca-certificates.crt; do
  if [ -e "$name" ] && [ -e "$ROOT$name" ]; then mount --bind "$name" "$ROOT$name"; fi
done
"""
_PASSED_ON = re.compile(
    r"(?i)(https?|no|ftp)_proxy|PIP_(INDEX_URL|EXTRA_INDEX_URL|DEFAULT_TIMEOUT)"
)
_DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def why_not() -> str:
    """What this machine lacks for it; empty: nothing."""
    if os.geteuid():
        return "debootstrap and mounts need the superuser"
    if platform.machine() != "x86_64":
        return f"the locks are for x86_64, and this is {platform.machine()}"
    if missing := [
        name for name in ("debootstrap", "unshare", "setpriv") if not shutil.which(name)
    ]:
        return f"{', '.join(missing)} is not installed"
    if subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        return "this machine does not let a process mount for itself alone"
    return ""


@dataclasses.dataclass(frozen=True)
class Stage:
    """A stage of a Dockerfile: its name, what it is from, and its steps as `(word, rest)`."""

    name: str
    parent: str
    steps: tuple[tuple[str, str], ...]

    @property
    def copies(self) -> list[tuple[str, str]]:
        """The steps that copy of other stages, with which it begins."""
        steps = itertools.takewhile(lambda step: step[1].startswith("--from="), self.steps)
        return [*steps]

    @property
    def sources(self) -> list[str]:
        """The stages that it takes files of."""
        text = "\n".join(rest for _, rest in self.steps)
        return re.findall(r"(?:^--|,)from=([\w-]+)", text, re.MULTILINE)


def read_stages(dockerfile: str) -> dict[str, Stage]:
    """The stages by name, in order."""
    lines = [line for line in dockerfile.splitlines() if not line.startswith("#")]
    text = re.sub(r"\\\n", "", "\n".join(lines))
    stages: dict[str, Stage] = {}
    for line in filter(None, map(str.strip, text.splitlines())):
        word, rest = re.split(r"\s+", line, maxsplit=1)
        if word == "FROM":
            parent, name = re.split(r"\s+AS\s+", rest)
            stages[name] = Stage(name, parent, ())
        elif stages:
            name, stage = stages.popitem()
            stages[name] = dataclasses.replace(stage, steps=(*stage.steps, (word, rest)))
    return stages


@dataclasses.dataclass(frozen=True)
class Image:
    """A stage that was made: layers, the topmost first, and what its containers start with."""

    layers: tuple[Path, ...]
    digest: str
    environment: Mapping[str, str]
    folder: str = "/"
    user: str = "0:0"
    command: tuple[str, ...] = ()

    def run(
        self,
        command: Sequence[str],
        *,
        uid: int,
        gid: int,
        volumes: Mapping[str, Path],
        unset: Sequence[str] = (),
    ) -> "subprocess.CompletedProcess[str]":
        """Runs a command as a pod would that is hardened: read-only, no network, no rights.

        Args:
            command: and its arguments.
            uid, gid: of the process.
            volumes: folders of this machine, by where the image has a folder for them.
            unset: variables of the image that are left out.
        """
        mounts = [f"mount --bind '{folder}' \"$ROOT{path}\"" for path, folder in volumes.items()]
        rights = ["--clear-groups", "--no-new-privs", "--inh-caps=-all", "--bounding-set=-all"]
        given = {k: v for k, v in self.environment.items() if k not in unset}
        script = "\n".join(
            [_MOUNT, *mounts, 'exec chroot "$ROOT" /usr/bin/setpriv "$@"'],
        )
        inside = [f"--reuid={uid}", f"--regid={gid}", *rights, "env", "--ignore-environment"]
        inside += [f"--chdir={self.folder}", *(f"{k}={v}" for k, v in given.items()), *command]
        return _mounted(script, self.layers, None, inside, "--net")


def build_image(context: Path, target: str, cache: Path, *, base: str) -> Image:
    """Makes a stage and all that it needs.

    Args:
        context: the repository.
        target: the stage.
        cache: a folder for layers, on a file system that overlays may lie on.
        base: the name of the base image, `python:3.13-slim-trixie`.

    Raises:
        RuntimeError: a step failed; the message ends with its output.
    """
    stages = read_stages((context / "Dockerfile").read_text())
    cache.mkdir(parents=True, exist_ok=True)

    @functools.cache
    def make(name: str) -> Image:
        stage = stages[name]
        parent = make(stage.parent) if stage.parent in stages else base_image(cache, base)
        sources = {source: make(source) for source in stage.sources}
        return _make_stage(stage, parent, sources, context, cache)

    return make(target)


def base_image(cache: Path, base: str) -> Image:
    """What stands for `python:3.13-slim-trixie`: Debian's own release of both."""
    found = re.fullmatch(r"python:(3\.\d+)-slim-(\w+)", base)
    assert found, base
    version, release = found.groups()
    root = cache / f"base-{release}"
    if not root.exists():
        new = cache / f"base-{release}.new"
        shutil.rmtree(new, ignore_errors=True)
        include = "ca-certificates,libpython3-dev,python3,python3-venv"
        _check(
            [
                "unshare",
                "--mount",
                "debootstrap",
                "--variant=minbase",
                f"--include={include}",
                release,
                str(new),
            ],
            f"debootstrap {release}",
        )
        for name in ("python", "python3"):
            (new / f"usr/local/bin/{name}").symlink_to("/usr/bin/python3")
        new.rename(root)
    assert (root / f"usr/bin/python{version}").exists(), f"{release} has another Python"
    return Image((root,), f"{base} {root.stat().st_ino}", {"PATH": _DEFAULT_PATH})


def _make_stage(
    stage: Stage, image: Image, sources: Mapping[str, Image], context: Path, cache: Path
) -> Image:
    digest = _digest_of(stage, image, sources, context)
    layer = cache / f"{stage.name}-{digest[:16]}"
    is_made = layer.exists()
    new = layer if is_made else cache / f"{stage.name}-new"
    if not is_made:
        for leftover in (new, Path(f"{new}.work")):
            shutil.rmtree(leftover, ignore_errors=True)
            leftover.mkdir()
    parents = image.layers
    for number, (path, target) in enumerate(_taken_over(stage, sources)):
        linked = cache / f"{layer.name}.{number}"
        if not is_made:
            shutil.rmtree(linked, ignore_errors=True)
            _link(path, linked / target.lstrip("/"))
        parents = (linked, *parents)
    for word, rest in stage.steps:
        if word == "ENV":
            image = _with_environment(image, rest)
        elif word == "WORKDIR":
            image = dataclasses.replace(image, folder=os.path.join(image.folder, rest))
        elif word == "USER":
            image = dataclasses.replace(image, user=rest)
        elif word == "CMD":
            image = dataclasses.replace(image, command=tuple(json.loads(rest)))
        elif not is_made and (word, rest) not in stage.copies:
            {"RUN": _run, "COPY": _copy}[word](rest, image, parents, new, sources, context)
    if not is_made:
        for old in cache.glob(f"{stage.name}-{'[0-9a-f]' * 16}*"):
            if not old.name.startswith(layer.name):
                shutil.rmtree(old)
        shutil.rmtree(f"{new}.work", ignore_errors=True)
        new.rename(layer)
    return dataclasses.replace(image, layers=(layer, *parents), digest=digest)


def _taken_over(stage: Stage, sources: Mapping[str, Image]) -> list[tuple[Path, str]]:
    """What is copied of other stages, the lowest layer first: where it lies, and where it goes."""
    found = []
    for _, rest in stage.copies:
        source, path, target = rest.removeprefix("--from=").split()
        layers = [layer / path.lstrip("/") for layer in sources[source].layers]
        found += [(place, target) for place in reversed(layers) if place.exists()]
    return found


def _link(path: Path, to: Path) -> None:
    to.parent.mkdir(parents=True)
    _check(["cp", "--archive", "--link", str(path), str(to)], f"cp {path}")


def _digest_of(stage: Stage, image: Image, sources: Mapping[str, Image], context: Path) -> str:
    sha = hashlib.sha256(repr((stage, image.digest)).encode())
    for source in sources.values():
        sha.update(source.digest.encode())
    for word, rest in stage.steps:
        if word == "COPY" and not rest.startswith("--from"):
            for name in rest.split()[:-1]:
                for path in sorted(_files(context / name)):
                    sha.update(str(path.relative_to(context)).encode() + path.read_bytes())
    return sha.hexdigest()


def _files(path: Path) -> list[Path]:
    if path.is_file():
        return [path]
    return [p for p in path.rglob("*") if p.is_file() and "__pycache__" not in p.parts]


def _with_environment(image: Image, rest: str) -> Image:
    given = dict(image.environment)
    for name, value in re.findall(r"(\w+)=(\S+)", rest):
        given[name] = re.sub(r"\$(\w+)", lambda m: image.environment.get(m[1], ""), value)
    return dataclasses.replace(image, environment=given)


_Sources = Mapping[str, Image]


def _run(
    rest: str, image: Image, parents: Sequence[Path], upper: Path, sources: _Sources, _: Path
) -> None:
    """A command as the stage's user, here root; what it mounts of another stage is copied first."""
    assert image.user == "0:0"
    mounts = []
    while found := re.match(r"--mount=type=bind,from=([\w-]+),source=(\S+),target=(\S+)\s+", rest):
        name, source, target = found.groups()
        lent = upper.with_name(f"{upper.name}-lent")
        shutil.rmtree(lent, ignore_errors=True)
        _take(sources[name], source, lent)
        mounts.append(f'mkdir -p "$ROOT{target}"; mount --bind \'{lent}\' "$ROOT{target}"')
        rest = rest[found.end() :]
    given = {k: v for k, v in os.environ.items() if _PASSED_ON.fullmatch(k)} | image.environment
    script = "\n".join([_MOUNT, *mounts, 'exec chroot "$ROOT" "$@"'])
    inside = ["env", "--ignore-environment", f"--chdir={image.folder}"]
    inside += [*(f"{k}={v}" for k, v in given.items()), "/bin/sh", "-c", rest]
    done = _mounted(script, parents, upper, inside)
    shutil.rmtree(upper.with_name(f"{upper.name}-lent"), ignore_errors=True)
    if done.returncode:
        raise RuntimeError(f"RUN {rest}\n{done.stdout[-4000:]}")


def _copy(
    rest: str, image: Image, parents: Sequence[Path], upper: Path, sources: _Sources, context: Path
) -> None:
    *names, target = rest.split()
    assert not names[0].startswith("--from="), "a stage begins with what it copies of others"
    place = os.path.join(image.folder, target)
    for name in names:
        to_folder = target.endswith("/") or len(names) > 1
        destination = upper / place.lstrip("/") / (name if to_folder else "")
        for path in _files(context / name):
            copied = destination / os.path.relpath(path, context / name)
            copied = Path(os.path.normpath(copied))
            copied.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, copied)


def _take(image: Image, path: str, to: Path) -> None:
    """Copies a folder out of an image."""
    to.parent.mkdir(parents=True, exist_ok=True)
    script = f'{_MOUNT}\nexec cp -a "$ROOT{path}" "$1"'
    done = _mounted(script, image.layers, None, [str(to)])
    if done.returncode:
        raise RuntimeError(f"{path}: {done.stdout[-2000:]}")


def _mounted(
    script: str, layers: Sequence[Path], upper: Path | None, arguments: Sequence[str], *more: str
) -> "subprocess.CompletedProcess[str]":
    """Runs a script with the layers mounted at `$ROOT`, writable where there is an upper one."""
    lowers = [*layers]
    if len(lowers) == 1:
        lowers *= 1 if upper else 2  # an overlay that is read-only takes two
    top = layers[0].with_name("root")
    top.mkdir(exist_ok=True)
    environment = {
        "PATH": os.environ["PATH"],
        "ROOT": str(top),
        "UPPER": str(upper or ""),
        "LOWERS": ":".join(map(str, lowers)),
    }
    space = ["unshare", "--mount", "--pid", "--fork", "--kill-child", *more]
    return subprocess.run(
        [*space, "sh", "-c", script, "sh", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        check=False,
    )


def _check(command: Sequence[str], name: str) -> None:
    done = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{name}: {done.stdout[-2000:]}")
