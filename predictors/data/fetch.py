"""Job logs of the Parallel Workloads Archive, downloaded once, gone on with where cut, checked ever after."""

import http.client
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

from predictors.data.archive import BASE_URL, full_name, log_url
from predictors.data.detect import detect
from predictors.data.errors import JobcastError
from predictors.data.sources import read_bytes

Progress = Callable[[int, int | None], None]
"""Told the bytes that are here and, where the server says it, the bytes in all."""

_CHUNK: Final = 1 << 16
_TIMEOUT_S: Final = 30


class Fetched(NamedTuple):
    """A log on this machine."""

    name: str
    url: str
    path: Path
    sha256: str


def log_folder() -> Path:
    """Return where fetched logs lie: `JOBCAST_HOME/logs` where that is set, else the user's cache folder."""
    import pooch

    home = os.environ.get("JOBCAST_HOME")
    return (Path(home) if home else Path(pooch.os_cache("jobcast"))) / "logs"


def fetch_log(
    name: str, base_url: str = BASE_URL, folder: Path | None = None, progress: Progress | None = None
) -> Fetched:
    """Return a log of the archive, downloaded if it is not here yet.

    A download that was cut goes on where it stopped, if the server can and still has the same file. The SHA-256 of the
    first download is kept beside the log; it is checked on every later call, and a log that no longer agrees is
    downloaded again.

    Parameters
    ----------
    name : str
        The archive's name of the log, or enough of its beginning.
    base_url : str
        The archive or a mirror of it.
    folder : Path, optional
        Where to keep it; `log_folder()` by default.
    progress : callable, optional
        Told how far the download is.

    Raises
    ------
    JobcastError
        If the name or address is not known, the server cannot be reached or does not have the log, the download is
        cut short, is no job log or differs from the first one, or the folder cannot be written.
    """
    name = full_name(name)
    url = log_url(name, base_url)
    folder = log_folder() if folder is None else folder
    path = folder / f"{name}.swf.gz"
    with _alone(path):
        digest_file = path.with_name(f"{path.name}.sha256")
        known = _first_digest(digest_file)
        sha256 = _retrieve(url, path, known, digest_file, progress)
        if known is None:
            digest_file.write_text(f"{sha256}  {path.name}\n", encoding="ascii")
    return Fetched(name, url, path, sha256)


@contextmanager
def _alone(path: Path) -> Iterator[None]:
    """Let one process at a time fetch to `path`, and tell what the folder does not allow."""
    import filelock

    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with filelock.FileLock(path.with_name(f"{path.name}.lock")):
            yield
    except OSError as error:
        raise JobcastError(
            f"{path.parent}: cannot be written ({error.strerror or error}); set JOBCAST_HOME to a folder that can."
        ) from error


def _first_digest(digest_file: Path) -> str | None:
    """Return the kept SHA-256, or None if there is none that can be one."""
    if not digest_file.exists():
        return None
    words = digest_file.read_text(encoding="ascii", errors="replace").split()
    return words[0] if words and len(words[0]) == 64 else None


def _retrieve(url: str, path: Path, known: str | None, digest_file: Path, progress: Progress | None) -> str:
    import pooch

    def download(address: str, output_file: str, _: object) -> None:
        part = path.with_name(f"{path.name}.part")
        _download(address, part, progress)
        _require_log(address, part)
        part.replace(output_file)

    pooch.get_logger().setLevel(logging.ERROR)
    try:
        pooch.retrieve(
            url, f"sha256:{known}" if known else None, fname=path.name, path=path.parent, downloader=download
        )
    except JobcastError:
        raise
    except ValueError as error:
        raise JobcastError(
            f"{url}: differs from what was first fetched (SHA-256 {known}); if the archive has a new version, "
            f"delete {digest_file} and fetch again."
        ) from error
    return str(pooch.file_hash(str(path), alg="sha256"))


def _require_log(url: str, part: Path) -> None:
    """Throw away what is no job log, such as a provider's own page in place of the file."""
    try:
        detect(read_bytes(part), str(part))
    except JobcastError as error:
        part.unlink()
        raise JobcastError(f"{url}: what came is no job log ({error}) Check the address, then fetch again.") from error


def _download(url: str, part: Path, progress: Progress | None) -> None:
    """Bring `part` to the length of the file at `url`, keeping what it holds if the server still has that file."""
    tag_file = part.with_name(f"{part.name}.tag")
    here = part.stat().st_size if part.exists() and tag_file.exists() else 0
    headers = {"User-Agent": "jobcast", "Accept-Encoding": "identity"}
    if here:
        headers |= {"Range": f"bytes={here}-", "If-Range": tag_file.read_text(encoding="latin-1").strip()}
    with _answer(url, headers) as answer:
        if answer is None:  # the server has nothing beyond what is here
            part.unlink(missing_ok=True)
            return _download(url, part, progress)
        if not (here and answer.status == http.HTTPStatus.PARTIAL_CONTENT):
            here = 0
            _keep_tag(tag_file, answer)
        length = answer.headers.get("Content-Length")
        whole = here + int(length) if length and length.isdigit() else None
        with part.open("ab" if here else "wb") as out:
            while chunk := _read(url, answer):
                out.write(chunk)
                here += len(chunk)
                if progress:
                    progress(here, whole)
    if whole is not None and here < whole:
        raise JobcastError(f"{url}: cut short after {here:,} of {whole:,} bytes; fetch again to go on from there.")
    tag_file.unlink(missing_ok=True)
    return None


@contextmanager
def _answer(url: str, headers: dict[str, str]) -> Iterator[Any]:
    """Open an address; None stands for "no such range"."""
    try:
        answer = urllib.request.urlopen(urllib.request.Request(url, headers=headers), timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE and "Range" in headers:
            yield None
            return
        missing = error.code == http.HTTPStatus.NOT_FOUND
        what = "the server does not have it" if missing else "the server refused"
        raise JobcastError(f"{url}: {what} (HTTP {error.code}); try another --base-url, or later.") from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        raise JobcastError(
            f"{url}: cannot be reached ({reason}); check the network or give a mirror with --base-url."
        ) from error
    with answer:
        yield answer


def _read(url: str, answer: http.client.HTTPResponse) -> bytes:
    try:
        return answer.read(_CHUNK)
    except (OSError, http.client.HTTPException) as error:
        raise JobcastError(f"{url}: the download broke off ({error}); fetch again to go on from there.") from error


def _keep_tag(tag_file: Path, answer: http.client.HTTPResponse) -> None:
    """Keep what tells this version of the file from another; without one a cut download starts anew."""
    entity, modified = answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", "")
    tag = entity if entity and not entity.startswith("W/") else modified
    if tag:
        tag_file.write_text(tag, encoding="latin-1", errors="replace")
    else:
        tag_file.unlink(missing_ok=True)
