"""Logs of the Parallel Workloads Archive: names and download.

Feitelson, Tsafrir & Krakov, Experience with Using the Parallel Workloads Archive, JPDC 74(10), 2014,
doi 10.1016/j.jpdc.2014.06.013. Whoever uses a log is asked to acknowledge the archive and the people in its header.
"""

import difflib
import http.client
import logging
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, NamedTuple

from predictors.core.compressed import read_bytes
from predictors.core.errors import JobcastError
from predictors.data.formats.detect import detect

BASE_URL: Final = "https://www.cs.huji.ac.il/labs/parallel/workload"

ARCHIVE: Final[Mapping[str, str]] = MappingProxyType(  # folder of each log in the archive, cleaned versions first
    {
        "ANL-Intrepid-2009-1": "l_anl_int",
        "CEA-Curie-2011-2.1-cln": "l_cea_curie",
        "CIEMAT-Euler-2008-1": "l_ciemat_euler",
        "CTC-SP2-1995-2": "l_ctc_sp2",
        "CTC-SP2-1996-3.1-cln": "l_ctc_sp2",
        "DAS2-fs0-2003-1": "l_das2",
        "DAS2-fs1-2003-1": "l_das2",
        "DAS2-fs2-2003-1": "l_das2",
        "DAS2-fs3-2003-1": "l_das2",
        "DAS2-fs4-2003-1": "l_das2",
        "HPC2N-2002-2.2-cln": "l_hpc2n",
        "Intel-NetbatchA-2012-1": "l_intel_netbatch",
        "Intel-NetbatchB-2012-1": "l_intel_netbatch",
        "Intel-NetbatchC-2012-1": "l_intel_netbatch",
        "Intel-NetbatchD-2012-1": "l_intel_netbatch",
        "KIT-FH2-2016-1": "l_kit_fh2",
        "KTH-SP2-1996-2.1-cln": "l_kth_sp2",
        "LANL-CM5-1994-4.1-cln": "l_lanl_cm5",
        "LANL-O2K-1999-2": "l_lanl_o2k",
        "LCG-2005-1": "l_lcg",
        "LLNL-Atlas-2006-2.1-cln": "l_llnl_atlas",
        "LLNL-T3D-1996-2": "l_llnl_t3d",
        "LLNL-Thunder-2007-1.1-cln": "l_llnl_thunder",
        "LLNL-uBGL-2006-2": "l_llnl_ubgl",
        "LPC-EGEE-2004-1.2-cln": "l_lpc",
        "METACENTRUM-2009-2": "l_metacentrum",
        "METACENTRUM-2013-3": "l_metacentrum2",
        "NASA-iPSC-1993-3.1-cln": "l_nasa_ipsc",
        "OSC-Clust-2000-3.1-cln": "l_osc",
        "PIK-IPLEX-2009-1": "l_pik_iplex",
        "RICC-2010-2": "l_ricc",
        "SDSC-BLUE-2000-4.2-cln": "l_sdsc_blue",
        "SDSC-DS-2004-2.1-cln": "l_sdsc_ds",
        "SDSC-Par-1995-3.1-cln": "l_sdsc_par",
        "SDSC-Par-1996-3.1-cln": "l_sdsc_par",
        "SDSC-SP2-1998-4.2-cln": "l_sdsc_sp2",
        "SHARCNET-2005-2": "l_sharcnet",
        "SHARCNET-Whale-2006-2": "l_sharcnet",
        "Sandia-Ross-2001-1.1-cln": "l_sandia_ross",
        "UniLu-Gaia-2014-2": "l_unilu_gaia",
    }
)


def full_name(name: str) -> str:
    """Return the archive's name of a log from it, or from a beginning, in any case, that one log alone has.

    >>> full_name("kth-sp2")
    'KTH-SP2-1996-2.1-cln'
    """
    wanted = name.lower().removesuffix(".gz").removesuffix(".swf")
    names = [known for known in ARCHIVE if wanted and known.lower().startswith(wanted)]
    exact = [known for known in names if known.lower() == wanted]
    if len(exact or names) == 1:
        return (exact or names)[0]
    if names:
        raise JobcastError(
            f"More than one log in the archive begins with {name!r}: {', '.join(names)}; give more of it."
        )
    beginnings = {known.lower()[: len(wanted)]: known for known in ARCHIVE}
    near = difflib.get_close_matches(wanted, beginnings, n=1) if wanted else []
    hint = f"; did you mean {beginnings[near[0]]!r}?" if near else "."
    raise JobcastError(f"No log {name!r} in the archive{hint} `jobcast log fetch` lists all {len(ARCHIVE)}.")


def log_url(name: str, base_url: str = BASE_URL) -> str:
    """Return the address of a log, `name` being one of `ARCHIVE`."""
    if not base_url.startswith(("http://", "https://")):
        raise JobcastError(f"{base_url}: is no web address; give one that begins with https:// or http://.")
    return f"{base_url.rstrip('/')}/{ARCHIVE[name]}/{name}.swf.gz"


Progress = Callable[[int, int | None], None]
"""Called with the bytes downloaded so far and, if the server gives them, the bytes in all."""

_CHUNK: Final = 1 << 16
_TIMEOUT_S: Final = 30


class Fetched(NamedTuple):
    """A log on this machine."""

    name: str
    url: str
    path: Path
    sha256: str


def log_folder() -> Path:
    """Return the folder of fetched logs: `JOBCAST_HOME/logs` if that is set, else the user's cache folder."""
    import pooch

    home = os.environ.get("JOBCAST_HOME")
    return (Path(home) if home else Path(pooch.os_cache("jobcast"))) / "logs"


def fetch_log(
    name: str,  # the archive's name of the log, or enough of its beginning
    base_url: str = BASE_URL,  # the archive or a mirror of it
    folder: Path | None = None,  # where to keep it; `log_folder()` by default
    progress: Progress | None = None,
) -> Fetched:
    """Return a log of the archive, downloaded if it is not here yet.

    An interrupted download is continued if the server supports it and still has the same file. The SHA-256 of the first
    download is kept next to the log and checked on every later call; a log that no longer agrees is downloaded again.
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
    """Let one process at a time fetch to `path`, and report what the folder does not allow."""
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
            f"{url}: differs from the first download (SHA-256 {known}); if the archive has a new version, "
            f"delete {digest_file} and fetch again."
        ) from error
    return str(pooch.file_hash(str(path), alg="sha256"))


def _require_log(url: str, part: Path) -> None:
    """Remove a download that is no job log, such as a provider's page in place of the file."""
    try:
        detect(read_bytes(part), str(part))
    except JobcastError as error:
        part.unlink()
        raise JobcastError(f"{url}: the download is no job log ({error}) Check the address and fetch again.") from error


def _download(url: str, part: Path, progress: Progress | None) -> None:
    """Complete `part` from `url`, continuing with its bytes if the server still has the same file."""
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
        raise JobcastError(f"{url}: cut short after {here:,} of {whole:,} bytes; fetch again to continue.")
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
        raise JobcastError(f"{url}: the download was interrupted ({error}); fetch again to continue.") from error


def _keep_tag(tag_file: Path, answer: http.client.HTTPResponse) -> None:
    """Store the identity of this version of the file; without it an interrupted download starts again."""
    entity, modified = answer.headers.get("ETag", ""), answer.headers.get("Last-Modified", "")
    tag = entity if entity and not entity.startswith("W/") else modified
    if tag:
        tag_file.write_text(tag, encoding="latin-1", errors="replace")
    else:
        tag_file.unlink(missing_ok=True)
