"""States of calibrators as bytes: written, read, and a calibrator without state."""

import numpy as np

N = 200


class States:
    """Calibrators that have learned ``N`` samples of different scores."""

    params = ("platt", "isotonic", "hedge")
    param_names = ("calibrator",)

    def setup(self, calibrator: str) -> None:
        from streamcal import Calibrator, HedgedCalibrator, IsotonicCalibrator, PlattCalibrator

        self.calibrator: Calibrator = {
            "platt": PlattCalibrator,
            "isotonic": lambda: IsotonicCalibrator(window=N),
            "hedge": HedgedCalibrator,
        }[calibrator]()
        rng = np.random.default_rng(1)
        scores = rng.random(N)
        self.calibrator.learn_many(scores, rng.random(N) < scores)
        self.state = self.calibrator.to_bytes()
        self.read = Calibrator.from_bytes

    def time_to_bytes(self, calibrator: str) -> None:
        self.calibrator.to_bytes()

    def time_from_bytes(self, calibrator: str) -> None:
        self.read(self.state)

    def time_clone(self, calibrator: str) -> None:
        self.calibrator.clone()

    def track_bytes(self, calibrator: str) -> int:
        return len(self.state)
