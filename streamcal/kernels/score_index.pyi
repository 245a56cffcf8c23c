SLOTS: int
DELTA: int
GAMMA: int
INNER: int
