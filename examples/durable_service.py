"""A web service of calibrated scores that survives `kill -9`: it answers what is on the disk.

`POST /predict` takes an id and a score, `POST /labels` the label of an id, hours later. A thread
learns all requests that wait, commits and answers. A client without an answer sends the request
again: it counts once. An id that is asked for again after its label came gets the probability of
that moment. Start one worker by `uvicorn durable_service:app`; a store has one writer.
"""

import queue
import threading
from concurrent.futures import Future
from math import nan
from typing import Annotated, TypeAlias

from fastapi import Body, FastAPI, exceptions, responses

from streamcal import HedgedCalibrator, KeyedCalibrator
from streamcal.durable import Event, LabelJoin, Store, StoreError, run
from streamcal.report import prometheus_text

Text: TypeAlias = Annotated[str, Body(max_length=200)]
app = FastAPI()
for kind, status in ((exceptions.RequestValidationError, 422), (StoreError, 503)):
    app.exception_handler(kind)(lambda _, e, s=status: responses.PlainTextResponse(ascii(e), s))
store = Store("service.db")
keyed = KeyedCalibrator(HedgedCalibrator(), max_live=1_000, store=store)
join = LabelJoin(horizon=20_000)  # for so many requests a prediction waits for its label
requests: queue.SimpleQueue[tuple[Event, Future[float]]] = queue.SimpleQueue()


def learn_batch() -> None:
    first, n_others = requests.get(), min(requests.qsize(), 999)
    events, answers = zip(first, *(requests.get() for _ in range(n_others)), strict=True)
    values: list[float] = []
    try:
        run(lambda _: events, keyed, lambda _, p: values.extend(p), store, join=join)
    except Exception as error:  # the next run begins at the last commit
        for answer in answers:
            answer.set_exception(error)
        return
    for event, answer, value in zip(events, answers, values, strict=True):
        waits = join.find(event.id)  # if it was asked again, with what was served first
        answer.set_result(waits.served.value if waits and waits.served else value)


def learn() -> None:
    while True:
        learn_batch()


def commit(event: Event) -> float:
    requests.put((event, answer := Future[float]()))
    return answer.result()


@app.post("/predict")
def predict(
    id: Text, score: Annotated[float, Body(ge=0, le=1)], key: Text = ""
) -> dict[str, float]:
    return {"probability": commit(Event(score, key=key, id=id))}


@app.post("/labels", status_code=204)
def add_label(id: Text, label: Annotated[bool, Body()]) -> None:
    commit(Event(nan, label, id=id))


@app.get("/metrics", response_class=responses.PlainTextResponse)
def metrics() -> str:
    return prometheus_text(store)


threading.Thread(target=learn, daemon=True).start()
