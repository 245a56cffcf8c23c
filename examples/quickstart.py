"""Calibrate a river pipeline and see what it changes: log loss, and what "90 %" means."""

from river import datasets, metrics, naive_bayes, preprocessing

import streamcal


def main() -> None:
    model = preprocessing.StandardScaler() | naive_bayes.GaussianNB()
    calibrated = streamcal.CalibratedClassifier(model.clone())

    for name, classifier in (("raw", model), ("calibrated", calibrated)):
        loss = metrics.LogLoss()
        sure = hits = 0
        for x, y in datasets.Phishing():
            served = classifier.predict_proba_one(x)
            if served:  # naive Bayes knows no label before the first
                loss.update(y, served)
                label, p = max(served.items(), key=lambda item: item[1])
                sure += p >= 0.9
                hits += p >= 0.9 and label == y
            classifier.learn_one(x, y)
        print(f"{name}: {loss}, at least 90 % sure {sure} times and right in {hits / sure:.0%}")


if __name__ == "__main__":
    main()
