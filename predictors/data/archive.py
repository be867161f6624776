"""The logs of the Parallel Workloads Archive by name, and where each lies.

Feitelson, Tsafrir & Krakov, Experience with Using the Parallel Workloads Archive, JPDC 74(10), 2014,
doi 10.1016/j.jpdc.2014.06.013. Whoever uses a log is asked to acknowledge the archive and the people in its header.
"""

import difflib
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from predictors.data.errors import JobcastError

BASE_URL: Final = "https://www.cs.huji.ac.il/labs/parallel/workload"

ARCHIVE: Final[Mapping[str, str]] = MappingProxyType(
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
"""Folder of each log in the archive; cleaned versions where the archive has one."""


def full_name(name: str) -> str:
    """Return the archive's name of a log from it, or from enough of its beginning, in any case.

    Raises
    ------
    JobcastError
        If no log, or more than one, begins so.

    Examples
    --------
    >>> full_name("kth-sp2")
    'KTH-SP2-1996-2.1-cln'
    """
    wanted = name.lower().removesuffix(".gz").removesuffix(".swf")
    found = [known for known in ARCHIVE if wanted and known.lower().startswith(wanted)]
    exact = [known for known in found if known.lower() == wanted]
    if len(exact or found) == 1:
        return (exact or found)[0]
    if found:
        raise JobcastError(
            f"More than one log in the archive begins with {name!r}: {', '.join(found)}; give more of it."
        )
    beginnings = {known.lower()[: len(wanted)]: known for known in ARCHIVE}
    near = difflib.get_close_matches(wanted, beginnings, n=1) if wanted else []
    hint = f"; did you mean {beginnings[near[0]]!r}?" if near else "."
    raise JobcastError(f"No log {name!r} in the archive{hint} `jobcast log fetch` lists all {len(ARCHIVE)}.")


def log_url(name: str, base_url: str = BASE_URL) -> str:
    """Return where a log lies, `name` being one of `ARCHIVE`.

    Raises
    ------
    JobcastError
        If `base_url` is not an address for http or https.
    """
    if not base_url.startswith(("http://", "https://")):
        raise JobcastError(f"{base_url}: is no web address; give one that begins with https:// or http://.")
    return f"{base_url.rstrip('/')}/{ARCHIVE[name]}/{name}.swf.gz"
