"""Use every public name once, in an environment that has streamcal from its wheel.

``python smoke.py SITE`` fails unless streamcal lies in SITE and each name of ``streamcal.__all__``
does what it is for.
"""

import sys
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

import streamcal

SCORES, LABELS = [0.1, 0.9, 0.4, 0.6], [0, 1, 1, 0]


def main(site: str) -> None:
    """Check where the package lies, then each of its names."""
    home = Path(streamcal.__file__).parent
    assert home.parent == Path(site), home
    assert files("streamcal").joinpath("py.typed").is_file()
    assert version("streamcal-river") == streamcal.__version__
    assert streamcal.isotonic_fit(SCORES, LABELS)(0.5) == 0.5
    assert not {"jax", "numba", "river", "scipy"} & set(sys.modules)  # compiled long ago

    from river.linear_model import LinearRegression, LogisticRegression

    def calibrates(name: str, **options: object) -> None:
        calibrator = getattr(streamcal, name)(**options)
        assert isinstance(calibrator, streamcal.Calibrator)
        for score, label in zip(SCORES, LABELS, strict=True):
            calibrator.learn_one(score, label)
        assert 0.0 <= calibrator.predict_one(0.5) <= 1.0
        again = streamcal.Calibrator.from_bytes(calibrator.to_bytes())
        assert again.predict_one(0.5) == calibrator.predict_one(0.5)

    def wraps(name: str, model: object, labels: list[object], **options: object) -> None:
        wrapper = getattr(streamcal, name)(model, **options)
        for score, label in zip(SCORES, labels, strict=True):
            wrapper.learn_one({"x": score}, label)
        wrapper.predict_one({"x": 0.5})

    uses = {
        "AnytimeCalibrator": lambda: calibrates("AnytimeCalibrator", loss="absolute"),
    }
    missing = set(streamcal.__all__) ^ set(uses)
    assert not missing, missing
    for name, use in uses.items():
        use()
    print(f"streamcal {streamcal.__version__} works from its wheel, {len(uses)} names")


if __name__ == "__main__":
    main(*sys.argv[1:])
