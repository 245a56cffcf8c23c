"""A web service of a calibrated score that swaps its map without a restart, with FastAPI.

Another process learns. Now and then it exports its map, by `streamcal export run.db --to map.json`,
which gives the file its name when it is complete. At each request this service looks whether there
is another file, and reads it. One that can't be read changes nothing: `GET /health` says so. Start
any number of workers by `uvicorn swapped_map:app` (`pip install fastapi uvicorn`), and try it by
`curl 'localhost:8000/predict?score=0.3'`.
"""

import os
import threading
from pathlib import Path
from typing import NamedTuple

from fastapi import FastAPI, HTTPException

from streamcal import Calibrator
from streamcal.calibration import read_export

MAP = Path(os.environ.get("STREAMCAL_MAP", "map.json"))
app = FastAPI()
lock = threading.Lock()


class Current(NamedTuple):
    calibrator: Calibrator
    stamp: tuple[int, ...] = ()
    problem: str = ""


current = Current(read_export(MAP))  # a service without a map does not start


def refresh() -> Current:
    global current  # requests in other threads see the old one or the new one, never a part
    with lock:
        try:
            status = MAP.stat()
            stamp = status.st_ino, status.st_mtime_ns, status.st_size
            if stamp != current.stamp or current.problem:
                current = Current(read_export(MAP), stamp)
        except (OSError, ValueError) as error:
            current = current._replace(problem=str(error))
        return current


@app.get("/predict")
def predict(score: float) -> float:
    try:
        return refresh().calibrator.predict_one(score)
    except ValueError as error:
        raise HTTPException(422, str(error)) from None


@app.get("/health")
def health() -> dict[str, str]:
    return {"map": repr(refresh().calibrator), "problem": current.problem}
