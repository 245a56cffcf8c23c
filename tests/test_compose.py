"""The files of `examples/compose` fit each other, and ask for what the service exports."""

import json
import math
import random
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest
import yaml

from streamcal import HedgedCalibrator
from streamcal.durable import Event, LabelJoin, Store, run
from streamcal.report import prometheus_text

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "examples/compose"

# Of what compose files may have, the part that this one uses: a misspelt key is none of these.
PARTS = {"name", "services", "volumes"}
OF_SERVICE = {*("build", "environment", "extra_hosts", "image", "ports", "restart", "volumes")}


def read(name: str) -> Any:
    text = (FOLDER / name).read_text(encoding="utf-8")
    return json.loads(text) if name.endswith(".json") else yaml.safe_load(text)


@pytest.fixture(scope="module")
def compose() -> Any:
    return read("compose.yaml")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return what the service exports: the kind of each metric, and the labels of its samples."""
    rng, events = random.Random(2), []
    for number in range(300):
        events.append(Event(rng.random(), id=number))
        events.append(Event(math.nan, rng.random() < 0.3, id=number))
    with Store(tmp_path_factory.mktemp("compose") / "service.db") as store:
        run(lambda _: events, HedgedCalibrator(), lambda *_: None, store, join=LabelJoin())
        text = prometheus_text(store)
    kinds = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.M))
    samples: dict[str, Any] = {name: {"kind": kind, "labels": []} for name, kind in kinds.items()}
    for name, listed in re.findall(r"^(\w+)(?:\{(.*)\})? \S+$", text, re.M):
        samples[name]["labels"].append(dict(re.findall(r'(\w+)="(.*?)"', listed)))
    return samples


def expressions() -> list[str]:
    """Return all that Prometheus is asked: rules, panels and annotations."""
    board = read("grafana/streamcal.json")
    rules = [rule["expr"] for group in read("rules.yml")["groups"] for rule in group["rules"]]
    panels = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    lists = [each["expr"] for each in board["annotations"]["list"]]
    variables = [each["query"]["query"] for each in board["templating"]["list"]]
    return rules + panels + lists + variables


def test_services_have_what_they_need(compose: Any) -> None:
    assert compose.keys() <= PARTS
    declared, used = set(compose["volumes"]), set()
    for name, service in compose["services"].items():
        assert service.keys() <= OF_SERVICE, name
        assert ("image" in service) != ("build" in service), name
        assert re.fullmatch(r"[\w/]+:v?\d+(\.\d+)+", service.get("image", "any:1.0")), name
        for port in service["ports"]:  # no other machine reaches it
            assert re.fullmatch(r"127\.0\.0\.1:(\d+):\1", port)
        for volume in service.get("volumes", ()):
            source, target, *mode = volume.split(":")
            assert target.startswith("/")
            if source.startswith("."):
                assert (FOLDER / source).is_file(), volume
                assert mode == ["ro"]
            else:
                used.add(source)
    assert used == declared
    ports = [port for service in compose["services"].values() for port in service["ports"]]
    assert len(set(ports)) == len(ports)


def test_the_image_is_made_of_files_that_are_sent(compose: Any) -> None:
    build = compose["services"]["service"]["build"]
    assert (FOLDER / build["context"]).resolve() == ROOT
    text = (ROOT / build["dockerfile"]).read_text(encoding="utf-8")
    ignored, *sent = (FOLDER / "Dockerfile.dockerignore").read_text(encoding="utf-8").split()
    assert ignored == "*"
    kept = [line.removeprefix("!") for line in sent if line.startswith("!")]
    assert [name for name in kept if not (ROOT / name).exists()] == []
    copied = re.findall(r"^COPY (?!--from)(\S+) ", text, re.M)
    assert set(copied) - {"."} <= set(kept)
    meson = (ROOT / "meson.build").read_text(encoding="utf-8")
    needed = {"streamcal", "meson.build", "pyproject.toml", *re.findall(r"[\w]+\.py(?=')", meson)}
    assert needed <= set(kept)
    assert re.search(r'"uvicorn", .*"durable_service:app"', text)
    assert "WORKDIR /data" in text
    assert "store:/data" in compose["services"]["service"]["volumes"]


def test_services_find_each_other(compose: Any) -> None:
    prometheus = read("prometheus.yml")
    (scrape,) = prometheus["scrape_configs"]
    (alerts,) = prometheus["alerting"]["alertmanagers"]
    named = [*scrape["static_configs"][0]["targets"], *alerts["static_configs"][0]["targets"]]
    (source,) = read("grafana/sources.yml")["datasources"]
    named.append(source["url"].removeprefix("http://"))
    for each in named:
        host, port = each.split(":")
        assert f"127.0.0.1:{port}:{port}" in compose["services"][host]["ports"]
    mounted = {
        volume.split(":")[1]
        for service in compose["services"].values()
        for volume in service.get("volumes", ())
    }
    assert {f"/etc/prometheus/{name}" for name in prometheus["rule_files"]} <= mounted
    (provider,) = read("grafana/boards.yml")["providers"]
    assert f"{provider['options']['path']}/streamcal.json" in mounted


def test_alarms_go_to_a_receiver() -> None:
    manager = read("alertmanager.yml")
    (receiver,) = manager["receivers"]
    assert manager["route"]["receiver"] == receiver["name"]
    assert receiver["webhook_configs"][0]["url"].startswith("http")
    rules = [rule for group in read("rules.yml")["groups"] for rule in group["rules"]]
    names = [rule["alert"] for rule in rules]
    assert len(set(names)) == len(names)
    guide = (ROOT / "docs/serving.md").read_text(encoding="utf-8")
    for rule in rules:
        assert rule.keys() <= {"alert", "expr", "for", "labels", "annotations"}
        assert rule["labels"]["severity"] in ("info", "warning", "critical")
        assert rule["annotations"].keys() == {"summary", "description"}
        assert f"| {rule['alert']} |" in guide


def test_what_is_asked_for_is_exported(exported: Any) -> None:
    assert exported["streamcal_labels_total"] == {"kind": "counter", "labels": [{}]}
    asked = expressions()
    for text in asked:
        assert text.count("(") == text.count(")"), text
        names = set(re.findall(r"\bstreamcal_\w+", text)) | set(re.findall(r"\bup\b", text))
        assert names, text
        assert names - {"up"} <= exported.keys(), text
        for name, listed in re.findall(r"\b(streamcal_\w+)\{(.*?)\}", text):
            selected = dict(re.findall(r'(\w+)="(.*?)"', listed))
            fits = [
                labels for labels in exported[name]["labels"] if selected.items() <= labels.items()
            ]
            assert fits, text
        for call, name in re.findall(r"\b(rate|increase|changes)\((\w+)", text):
            assert exported[name]["kind"] == "counter", f"{call} of a gauge: {text}"
    board = read("grafana/streamcal.json")
    for panel in board["panels"]:
        for target in panel["targets"]:
            for label in re.findall(r"\{\{(\w+)\}\}", target["legendFormat"]):
                (name, *_) = re.findall(r"\bstreamcal_\w+", target["expr"])
                assert all(label in labels for labels in exported[name]["labels"]), target
    needed = {"alarm", "brier_gain", "calibration_alarms_total", "log_loss_sum_total", "waiting"}
    assert {f"streamcal_{name}" for name in needed} <= set(re.findall(r"streamcal_\w+", str(asked)))


def test_the_board_is_drawn_from_its_source() -> None:
    board = read("grafana/streamcal.json")
    (source,) = read("grafana/sources.yml")["datasources"]
    own = {"type": source["type"], "uid": source["uid"]}
    panels = board["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        assert panel["type"] in ("stat", "timeseries")
        assert panel["title"]
        assert panel["description"].endswith(".")
        assert panel["datasource"] == own
        refs = [target["refId"] for target in panel["targets"]]
        assert len(set(refs)) == len(refs) > 0
        assert all(target["datasource"] == own for target in panel["targets"])
        place = panel["gridPos"]
        assert 0 <= place["x"] < place["x"] + place["w"] <= 24
    for one, other in combinations((panel["gridPos"] for panel in panels), 2):
        assert (
            one["x"] + one["w"] <= other["x"]
            or other["x"] + other["w"] <= one["x"]
            or one["y"] + one["h"] <= other["y"]
            or other["y"] + other["h"] <= one["y"]
        )
    for each in (*board["annotations"]["list"], *board["templating"]["list"]):
        assert each["datasource"] == own
