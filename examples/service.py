"""A web service of calibrated probabilities whose labels arrive later, with FastAPI.

`POST /predict` answers a probability and an id; `POST /labels` brings the label of an id. What was
served waits as JSON, here in a dict; a service that restarts would keep it in a database. A river
model is not made for several threads, so a lock is held while it predicts or learns. It needs
`pip install fastapi uvicorn`. Start it with `uvicorn service:app` in this folder.
"""

import json
import threading
import uuid
from typing import Any

from fastapi import FastAPI, HTTPException
from pydantic import BaseModel
from river import linear_model, preprocessing

from streamcal import CalibratedClassifier, Served

app = FastAPI()
pipeline: Any = preprocessing.StandardScaler() | linear_model.LogisticRegression()
model = CalibratedClassifier(pipeline)
waiting: dict[str, str] = {}
lock = threading.Lock()


class Sample(BaseModel):
    """The features of a sample."""

    features: dict[str, float]


class Label(BaseModel):
    """A label, and the id that came with the prediction."""

    id: str
    label: bool


@app.post("/predict")
def predict(sample: Sample) -> dict[str, str | float]:
    if not all(abs(value) <= 1e9 for value in sample.features.values()):  # NaN spoils a model
        raise HTTPException(422, "`features` must be numbers from -1e9 to 1e9")
    name = uuid.uuid4().hex
    x: dict[Any, Any] = {**sample.features}
    with lock:
        served = model.serve_one(x)
        waiting[name] = json.dumps({"x": x, "served": served.to_dict()})
    return {"id": name, "probability": served.calibrated.get(True, 0.5)}


@app.post("/labels", status_code=204)
def learn(label: Label) -> None:
    with lock:
        if label.id not in waiting:
            raise HTTPException(404, f"`id` must come from /predict, got {label.id!r}")
        kept = json.loads(waiting[label.id])
        model.learn_one(kept["x"], label.label, served=Served.from_dict(kept["served"]))
        del waiting[label.id]
