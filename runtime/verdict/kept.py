"""Outcomes that are kept: a file for each, named by a hash of all that it depends on.

That is the job and every source file of the toolkit that may change the result.
"""

from __future__ import annotations

import hashlib
import json
from functools import cache
from pathlib import Path

import vdla
from vdla.runtime.verdict.measure import LayerOutcome, MeasureJob, measured
from vdla.support.atomic import write_text
from vdla.support.cache import user_cache

_FOLDERS = ("compiler", "hardware", "runtime", "simulator")


def kept(job: MeasureJob) -> LayerOutcome | None:
    """The outcome of an earlier run; None if there is none or its file is damaged."""
    try:
        return LayerOutcome.from_dict(json.loads(_path(job).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def keep(job: MeasureJob, outcome: LayerOutcome) -> None:
    """Keep an outcome; CacheError or OSError where the cache cannot be written."""
    path = _path(job)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(outcome.to_dict()))


def kept_or_measured(job: MeasureJob) -> LayerOutcome:
    """The outcome of a job, measured in this process and kept if it is new."""
    found = kept(job)
    if found is None:
        found = measured(job)
        keep(job, found)
    return found


def _path(job: MeasureJob) -> Path:
    text = json.dumps([toolkit_digest(), *job.content], sort_keys=True)
    return user_cache("evaluate") / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"


@cache
def toolkit_digest(*more: str) -> str:
    """A hash of the Python files of the compiler, the machine, the simulator and what runs them.

    `more` are other folders of the package.
    """
    digest, root = hashlib.sha256(), Path(vdla.__file__).parent
    for folder in (*_FOLDERS, *more):
        for path in sorted((root / folder).resolve().rglob("*.py")):
            digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()
