"""What NannyML estimates for windows; ``expected_metrics.py`` runs it in another Python.

    PYTHON benchmarks/nannyml_cbpe.py SAMPLES.npz

The file holds ``p`` and ``y`` with the predicted labels ``chosen``, ``reference`` (the first
sample of the labelled ones that CBPE is fitted to, and the one after the last), ``ends`` of the
windows, and their length ``window``. Prints a JSON object: a list of estimates for each metric.
NannyML needs Python < 3.13; ``pip install nannyml statsmodels`` in an environment of its own. Its
usage logging is switched off here.
"""

import json
import os
import sys
import warnings

os.environ["NML_DISABLE_USAGE_LOGGING"] = "1"
warnings.simplefilter("ignore")

import nannyml  # noqa: E402  (when it is imported, logging and warnings must be off)
import numpy as np  # noqa: E402
import pandas as pd  # noqa: E402

NAMES = {"f1": "f1", "precision": "precision", "auc": "roc_auc"}


def main() -> None:
    """Fit, estimate and print."""
    given = np.load(sys.argv[1])
    frame = pd.DataFrame({name: given[name] for name in ("p", "y", "chosen")})
    window = int(given["window"])
    estimator = nannyml.CBPE(
        metrics=list(NAMES.values()),
        y_pred_proba="p",
        y_pred="chosen",
        y_true="y",
        problem_type="classification_binary",
        chunk_size=window,
    )
    estimator.fit(frame[slice(*given["reference"])].reset_index(drop=True))
    windows = pd.concat([frame[end - window : end] for end in given["ends"]], ignore_index=True)
    found = estimator.estimate(windows.drop(columns="y")).filter(period="analysis").to_df()
    values = {name: found[theirs]["value"].tolist() for name, theirs in NAMES.items()}
    print(json.dumps({"calibrates": bool(estimator.needs_calibration), **values}))


if __name__ == "__main__":
    main()
