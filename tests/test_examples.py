"""The examples run as a reader would run them, are short, and print what they promise."""

import random
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from river import linear_model, naive_bayes

from streamcal import CalibratedClassifier

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
        "durable_stream",
        "ordinal_labels",
        "quantiles",
        "quickstart",
        "service",
    ]
    for path in EXAMPLES:
        assert len(path.read_text(encoding="utf-8").splitlines()) < 60


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
