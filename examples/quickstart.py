"""Calibrate a river pipeline, and compare log loss and the accuracy of confident predictions."""

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
            if served:  # naive Bayes predicts nothing before its first label
                loss.update(y, served)
                label, p = max(served.items(), key=lambda item: item[1])
                sure += p >= 0.9
                hits += p >= 0.9 and label == y
            classifier.learn_one(x, y)
        print(f"{name}: {loss}, ≥ 90 % confident {sure} times, correct in {hits / sure:.0%}")


if __name__ == "__main__":
    main()
