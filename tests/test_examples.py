"""The examples run as a reader would run them, are short, and print what they promise."""

import http.client
import json
import math
import random
import re
import runpy
import select
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from river import linear_model, naive_bayes

from streamcal import CalibratedClassifier, HedgedCalibrator, IsotonicCalibrator, KeyedCalibrator
from streamcal.durable import Event, LabelJoin, Store, run
from tests import WITHOUT_BYTE_CODE

EXAMPLES = sorted((Path(__file__).resolve().parents[1] / "examples").glob("*.py"))
NUMBER = re.compile(r"\d+\.\d+")


def printed_numbers(name: str, capsys: pytest.CaptureFixture[str]) -> list[float]:
    path = next(path for path in EXAMPLES if path.stem == name)
    runpy.run_path(str(path), run_name="__main__")
    return [float(number) for number in NUMBER.findall(capsys.readouterr().out)]


def test_every_example_has_a_test_and_is_short() -> None:
    assert [path.stem for path in EXAMPLES] == [
        "conversions",
        "custom_loss",
        "cusum_network",
        "decide_on_a_stream",
        "delayed_labels",
        "durable_service",
        "durable_stream",
        "language_model_judge",
        "ordinal_labels",
        "quantiles",
        "quickstart",
        "service",
        "swapped_map",
    ]
    for path in EXAMPLES:
        # A service that answers after the commit has a thread that learns, beside its requests. The
        # judges have a log that is made, and two other rules to compare with.
        limit = {"durable_service": 75, "language_model_judge": 115}.get(path.stem, 60)
        assert len(path.read_text(encoding="utf-8").splitlines()) < limit


def test_quickstart(capsys: pytest.CaptureFixture[str]) -> None:
    raw, calibrated = printed_numbers("quickstart", capsys)
    assert calibrated < raw - 0.1


def test_conversions(capsys: pytest.CaptureFixture[str]) -> None:
    waiting, transformed, as_they_come = printed_numbers("conversions", capsys)
    assert transformed < waiting - 0.005
    assert transformed < as_they_come - 0.005


def test_custom_loss(capsys: pytest.CaptureFixture[str]) -> None:
    raw, squared, own = printed_numbers("custom_loss", capsys)
    assert own < squared < raw


def test_cusum_network(capsys: pytest.CaptureFixture[str]) -> None:
    frozen, online = printed_numbers("cusum_network", capsys)
    assert online < 0.5 * frozen


def test_delayed_labels(capsys: pytest.CaptureFixture[str]) -> None:
    raw, asked_again, served = printed_numbers("delayed_labels", capsys)
    assert served < asked_again - 0.05
    assert served < raw - 0.05


def test_durable_stream(capsys: pytest.CaptureFixture[str]) -> None:
    path = next(path for path in EXAMPLES if path.stem == "durable_stream")
    runpy.run_path(str(path), run_name="__main__")
    out = capsys.readouterr().out
    assert "stopped after 2500 events, continued to 5800" in out
    assert "without a stop: True" in out
    _, north, south = map(float, NUMBER.findall(out))
    assert north == pytest.approx(0.25, abs=0.1)
    assert south == pytest.approx(0.71, abs=0.1)


def test_quantiles(capsys: pytest.CaptureFixture[str]) -> None:
    share, width = printed_numbers("quantiles", capsys)
    assert 0.7 < share < 0.9
    assert 0.0 < width < 300.0


def test_ordinal_labels(capsys: pytest.CaptureFixture[str]) -> None:
    rounding, _, kappa, thresholds, _, better_kappa, *_ = printed_numbers("ordinal_labels", capsys)
    assert thresholds < rounding - 0.05
    assert better_kappa > kappa


def test_decide_on_a_stream(capsys: pytest.CaptureFixture[str]) -> None:
    expected, _, half, apart, joint, gap = printed_numbers("decide_on_a_stream", capsys)
    assert 0.5 < expected < 0.7
    assert min(joint, apart) > half + 15
    assert gap < 1.0


def test_language_model_judge(capsys: pytest.CaptureFixture[str]) -> None:
    path = next(path for path in EXAMPLES if path.stem == "language_model_judge")
    runpy.run_path(str(path), run_name="__main__")
    out = capsys.readouterr().out
    assert out in (path.parents[1] / "docs" / "judges.md").read_text(encoding="utf-8")
    confidence, bins, selective = (
        [*map(float, NUMBER.findall(row)[-4:])] for row in out.splitlines()[-3:]
    )
    assert confidence[1] < 95.0 < selective[1]
    assert selective[0] > 0.9 * bins[0]
    assert selective[2] < 10.0 < bins[2]


def new_service() -> dict[str, Any]:
    return runpy.run_path(str(next(path for path in EXAMPLES if path.stem == "service")))


def test_a_service_keeps_a_bounded_number_of_predictions() -> None:
    """The oldest are forgotten, where no label comes; the latest get their labels."""
    service = new_service()
    service["predict"].__globals__["MOST_WAITING"] = 20
    with TestClient(service["app"]) as client:

        def predict(x: float) -> str:
            name: str = client.post("/predict", json={"features": {"x": x}}).json()["id"]
            return name

        names = [predict(x / 50) for x in range(50)]
        assert list(service["waiting"]) == names[-20:]
        body = [{"id": name, "label": True} for name in (names[0], names[29], *names[30:])]
        status = [client.post("/labels", json=each).status_code for each in body]
        assert status == [404, 404] + [204] * 20
    assert len(service["waiting"]) == 0


@pytest.mark.parametrize("model", [naive_bayes.GaussianNB(), linear_model.LogisticRegression()])
def test_a_service_of_a_model_that_knows_no_label_yet(model: Any) -> None:
    service = new_service()
    service["predict"].__globals__["model"] = CalibratedClassifier(model)
    with TestClient(service["app"]) as client:
        for label in (True, False):
            answer = client.post("/predict", json={"features": {"x": 0.5}}).json()
            assert 0.0 <= answer["probability"] <= 1.0
            body = {"id": answer["id"], "label": label}
            assert client.post("/labels", json=body).status_code == 204


def test_service() -> None:
    """Labels come 30 samples late; the service calibrates on what it served, and is asked once."""
    service = new_service()
    model, waiting = service["model"], service["waiting"]
    rng = random.Random(1)
    late: list[tuple[str, bool]] = []
    with TestClient(service["app"]) as client:
        for _ in range(200):
            x = rng.gauss(0.0, 1.0)
            answer = client.post("/predict", json={"features": {"x": x}})
            assert answer.status_code == 200
            assert 0.0 <= answer.json()["probability"] <= 1.0
            late.append((answer.json()["id"], x > 0.0))
            if len(late) > 30:
                name, label = late.pop(0)
                answer = client.post("/labels", json={"id": name, "label": label})
                assert answer.status_code == 204
        answer = client.post("/labels", json={"id": name, "label": label})
        assert (answer.status_code, "`id` must come" in answer.text) == (404, True)
        assert client.post("/predict", json={"features": {"x": "much"}}).status_code == 422
        for number in ("NaN", "-1e999", "1e308"):
            body, kind = f'{{"features": {{"x": {number}}}}}', {"content-type": "application/json"}
            answer = client.post("/predict", content=body, headers=kind)
            assert (answer.status_code, "numbers from" in answer.text) == (422, True)
        for path, body in (
            ("labels", '{"id": "a", "label": NaN}'),
            ("predict", '{"features": NaN}'),
        ):
            assert client.post(f"/{path}", content=body, headers=kind).status_code == 422
        high, low = (
            client.post("/predict", json={"features": {"x": x}}).json()["probability"]
            for x in (1.5, -1.5)
        )
    assert len(waiting) == 32
    assert 20.0 < model.calibrators[True].mean_delay <= 30.0
    assert low < 0.2 < 0.8 < high


def test_a_service_swaps_its_map_without_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, calibrator = tmp_path / "map.json", IsotonicCalibrator()
    monkeypatch.setenv("STREAMCAL_MAP", str(path))

    def export() -> None:
        new = path.with_suffix(".new")
        new.write_text(calibrator.export("json"))
        new.replace(path)

    export()
    name = next(str(path) for path in EXAMPLES if path.stem == "swapped_map")
    with TestClient(runpy.run_path(name)["app"]) as client:

        def answer(score: object) -> Any:
            return client.get("/predict", params={"score": str(score)})

        assert answer(0.5).json() == 0.5
        for score, label in [(0.4, 1), (0.6, 0), (0.8, 1)]:
            calibrator.learn_one(score, label)
            export()
            for at in (0.5, 0.7):
                assert answer(at).json() == calibrator.predict_one(at)
        before = answer(0.5).json()
        path.write_text("{")
        assert answer(0.5).json() == before
        assert "it is no JSON" in client.get("/health").json()["problem"]
        path.unlink()
        assert answer(0.5).json() == before
        export()
        health = client.get("/health").json()
        assert health["problem"] == ""
        assert health["map"].startswith("ExportedCalibrator(IsotonicCalibrator, ")
        assert answer("nan").status_code == 422
        assert answer("much").status_code == 422


class DurableService:
    """The process of the durable service, in a folder that has its store."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.process: subprocess.Popen[str] | None = None

    def __enter__(self) -> "DurableService":
        self.start()
        return self

    def __exit__(self, *error: object) -> None:
        self.kill()

    def start(self) -> None:
        command = [*WITHOUT_BYTE_CODE, "-m", "uvicorn", "--app-dir", str(EXAMPLES[0].parent)]
        self.process = subprocess.Popen(
            [*command, "--port", "0", "--no-access-log", "durable_service:app"],
            cwd=self.folder,
            stderr=subprocess.PIPE,
            text=True,
        )
        lines = []
        for line in self.process.stderr:
            lines.append(line)
            if found := re.search(r"running on http://127\.0\.0\.1:(\d+)", line):
                self.port = int(found[1])
                return
        self.kill()
        raise AssertionError("".join(lines))

    def kill(self) -> None:
        """Kill it as `kill -9` does, and wait until its store is free."""
        self.process.kill()
        self.process.communicate()

    def ask(self, path: str, body: Any, patience: float | None = None) -> tuple[int, str] | None:
        """Return status and text; with ``patience`` it is killed after so many seconds.

        None: no answer came until then.
        """
        connection = http.client.HTTPConnection("127.0.0.1", self.port)
        text = body if isinstance(body, str) else json.dumps(body)
        try:
            if body is None:
                connection.request("GET", path)
            else:
                connection.request("POST", path, text, {"content-type": "application/json"})
            if patience is not None:
                come, _, _ = select.select([connection.sock], [], [], patience)
                self.kill()
                if not come:
                    return None
            answer = connection.getresponse()
            return answer.status, answer.read().decode()
        except (http.client.HTTPException, ConnectionError):
            return None  # of a process that was killed
        finally:
            connection.close()


def late_requests(n: int, delay: int) -> Iterator[tuple[str, dict[str, Any], Event]]:
    """Yield requests whose labels come late, in the order of a client, each with its event."""
    rng = random.Random(5)
    late: list[dict[str, Any]] = []
    for number in range(n):
        name, score, key = f"order {number}", rng.random(), rng.choice(["de", "fr"])
        body = {"id": name, "score": score, "key": key}
        yield "/predict", body, Event(score, key=key, id=name)
        late.append({"id": name, "label": rng.random() < score**2})
        if number >= delay:
            label = late[number - delay]
            yield "/labels", label, Event(math.nan, label["label"], id=label["id"])


def test_a_durable_service_that_is_killed_learns_as_one_that_is_not(tmp_path: Path) -> None:
    """A client that has no answer asks again; what it gets, and all states, are the same."""
    n, delay, rng = 80, 20, random.Random()
    asked = list(late_requests(n, delay))
    with Store(tmp_path / "whole.db") as store:
        keyed = KeyedCalibrator(HedgedCalibrator(), store=store)
        expected: list[float] = []
        run([e for *_, e in asked], keyed, lambda _, p: expected.extend(p), store, join=LabelJoin())
    killed_at = set(rng.sample(range(len(asked)), 5))
    with DurableService(tmp_path) as service:
        for number, (path, body, _) in enumerate(asked):
            patience = rng.uniform(0.0, 0.03) if number in killed_at else None
            answer = service.ask(path, body, patience)
            if number in killed_at:
                service.start()
            if answer is None:
                assert number in killed_at
                answer = service.ask(path, body)
            status, text = answer
            if path == "/labels":
                assert (status, text) == (204, "")
            else:
                assert (status, json.loads(text)) == (200, {"probability": expected[number]})
        # Each request once more: nothing changes.
        for path, body, _ in asked[-9:]:
            assert service.ask(path, body)[0] in (200, 204)
        metrics = service.ask("/metrics", None)[1]
        assert f"streamcal_labels_total {float(n - delay)}\n" in metrics
        assert f"streamcal_joined_total {float(n - delay)}\n" in metrics
        assert f"streamcal_waiting {float(delay)}\n" in metrics
    with (
        Store(tmp_path / "whole.db", read_only=True) as whole,
        Store(tmp_path / "service.db", read_only=True) as store,
    ):
        names = [name for name in whole.keys() if name.startswith("key:")]  # noqa: SIM118  (no mapping)
        assert len(names) == 2
        for name in names:
            assert store.get_bytes(name) == whole.get_bytes(name)
        joins = [LabelJoin.from_bytes(each.get_bytes("join")) for each in (store, whole)]
        assert [(each.n_joined, each.n_waiting) for each in joins] == [(n - delay, delay)] * 2
        assert store.offset - joins[0].n_duplicates == len(asked)


def test_a_durable_service_that_is_killed_under_load_loses_no_label(tmp_path: Path) -> None:
    """Several clients ask at once until each label is acknowledged; each counts once."""
    n_clients, n_each, rng = 6, 40, random.Random()
    left = n_clients * n_each
    change = threading.Condition()

    def client(number: int) -> None:
        nonlocal left
        for i in range(n_each):
            name = f"{number} {i}"
            bodies: tuple[tuple[str, Any], ...] = (
                ("/predict", {"id": name, "score": i / n_each}),
                ("/labels", {"id": name, "label": i % 2 == 0}),
            )
            for path, body in bodies:
                while (answer := service.ask(path, body)) is None:
                    with change:  # until it is there again
                        change.wait_for(lambda: service.process.poll() is None)
                assert answer[0] in (200, 204)
            with change:
                left -= 1
                change.notify_all()

    with DurableService(tmp_path) as service:
        clients = [threading.Thread(target=client, args=(i,)) for i in range(n_clients)]
        for each in clients:
            each.start()
        for at in sorted(rng.sample(range(1, left), 2), reverse=True):
            with change:
                change.wait_for(lambda: left <= at)  # noqa: B023  (called at once)
                service.kill()
                service.start()
                change.notify_all()
        for each in clients:
            each.join()
        metrics = service.ask("/metrics", None)[1]
    n = float(n_clients * n_each)
    for name, count in (("labels_total", n), ("joined_total", n), ("waiting", 0.0)):
        assert f"streamcal_{name} {count}\n" in metrics


def test_a_durable_service_refuses_what_it_cannot_learn(tmp_path: Path) -> None:
    """Nothing that a client sends is an error of the service, or is learned by half."""
    score, label = {"id": "a", "score": 0.5}, {"id": "a", "label": True}
    refused: list[tuple[str, Any]] = [
        *(("/predict", score | {"score": value}) for value in (math.nan, 1.5, -0.1, "much", None)),
        *(("/predict", f'{{"id": "a", "score": {text}}}') for text in ("1e999", "-Infinity", "")),
        *(("/predict", score | {"key": value}) for value in (None, 7, "k" * 201, "\ud800")),
        *(("/predict", score | {"id": value}) for value in (None, ["a"], "k" * 201, "\udfff")),
        *(("/labels", label | {"label": value}) for value in (math.nan, 0.5, 2, "perhaps", None)),
        *(
            (path, body)
            for path in ("/predict", "/labels")
            for body in ("", "[]", "{", "NaN", "{}")
        ),
        ("/predict", "[" * 100_000),
        ("/labels", {"id": "a"}),
    ]
    with DurableService(tmp_path) as service:
        for path, body in refused:
            status, text = service.ask(path, body)
            assert 400 <= status < 500, (path, body, text)
        assert "streamcal_events_total 0.0\n" in service.ask("/metrics", None)[1]
        for name in ("", "\0", "é\n", "\U0001f600", "k" * 200):
            assert service.ask("/labels", {"id": name, "label": 0})[0] == 204  # before its score
            for _ in range(2):
                again = {"id": name, "score": 0.5, "key": name}
                assert service.ask("/predict", again)[0] == 200
        metrics = service.ask("/metrics", None)[1]
        store, aside = tmp_path / "service.db", tmp_path / "aside.db"
        store.rename(aside)
        for _ in range(2):
            status, text = service.ask("/predict", score)
            assert (status, "service.db" in text) == (503, True)
        aside.rename(store)
        assert service.ask("/predict", score)[0] == 200
        with pytest.raises(AssertionError, match="in use"):
            DurableService(tmp_path).start()
    assert "streamcal_joined_total 5.0\n" in metrics
    assert "streamcal_duplicates_total 5.0\n" in metrics
