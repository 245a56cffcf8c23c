"""A web service of calibrated probabilities whose labels arrive later, with FastAPI.

`POST /predict` answers a probability and an id; `POST /labels` brings the label of an id. What was
served waits as JSON; a service that restarts would keep it in a database. Start one worker by
`uvicorn service:app`, since each worker learns alone. River models need a lock between threads.
"""

import json
import threading
import uuid
from collections import OrderedDict
from typing import Any

from fastapi import FastAPI, HTTPException, exceptions, responses
from pydantic import BaseModel
from river import linear_model, preprocessing

from streamcal import CalibratedClassifier, Served

MOST_WAITING = 100_000  # predictions, at about 0.5 KB each; the oldest ones get no label any more
app = FastAPI()
app.add_exception_handler(  # FastAPI's own answer can't hold a NaN
    exceptions.RequestValidationError, lambda _, e: responses.PlainTextResponse(str(e), 422)
)
model = CalibratedClassifier(preprocessing.StandardScaler() | linear_model.LogisticRegression())
waiting: OrderedDict[str, str] = OrderedDict()
lock = threading.Lock()


class Sample(BaseModel):
    features: dict[str, float]


class Label(BaseModel):
    id: str
    label: bool


@app.post("/predict")
def predict(sample: Sample) -> dict[str, str | float]:
    if not all(abs(value) <= 1e9 for value in sample.features.values()):  # NaN spoils a model
        raise HTTPException(422, "`features` must be numbers from -1e9 to 1e9")
    name, x = uuid.uuid4().hex, dict[Any, Any](sample.features)
    with lock:
        served = model.serve_one(x)
        waiting[name] = json.dumps({"x": x, "served": served.to_dict()})
        if len(waiting) > MOST_WAITING:
            waiting.popitem(last=False)
    return {"id": name, "probability": served.calibrated.get(True, 0.5)}  # it may be {} at first


@app.post("/labels", status_code=204)
def learn(label: Label) -> None:
    with lock:
        if label.id not in waiting:
            raise HTTPException(404, f"`id` must come from /predict and wait, got {label.id!r}")
        kept = json.loads(waiting[label.id])
        model.learn_one(kept["x"], label.label, served=Served.from_dict(kept["served"]))
        del waiting[label.id]
