"""`Store` and `KeyedCalibrator`: a commit, a state read, and a batch of many keys."""

import tempfile
from pathlib import Path

import numpy as np

WINDOW = 200
KEYS = 500


class Keyed:
    """``KEYS`` calibrators with full windows, all in memory or most of them in the store."""

    params = (None, 50)
    param_names = ("max_live",)
    number = 1
    warmup_time = 0.0

    def setup(self, max_live: int | None) -> None:
        from streamcal import IsotonicCalibrator, KeyedCalibrator
        from streamcal.durable.keys import name_of
        from streamcal.durable.store import Store

        self.folder = tempfile.TemporaryDirectory()
        self.store = Store(Path(self.folder.name, "run.db"))
        self.keyed = KeyedCalibrator(
            IsotonicCalibrator(window=WINDOW), max_live=max_live, store=self.store
        )
        rng = np.random.default_rng(1)
        self.keys = np.repeat(np.arange(KEYS), WINDOW).tolist()
        self.scores = rng.random(len(self.keys))
        self.y = rng.random(len(self.keys)) < self.scores
        self.keyed.learn_many(self.keys, self.scores, self.y)
        self.states = self.keyed.states()
        self.keyed.save()
        self.name = name_of(KEYS // 2)

    def teardown(self, max_live: int | None) -> None:
        self.store.close()
        self.folder.cleanup()

    def time_save(self, max_live: int | None) -> None:
        self.store.save(self.states, 1)

    def time_get(self, max_live: int | None) -> None:
        self.store.get(self.name)

    def time_predict_learn_many(self, max_live: int | None) -> None:
        self.keyed.predict_learn_many(self.keys, self.scores, self.y)
