"""Checks of all invariants of the score index and its hulls."""

import numpy as np

from streamcal import IsotonicCalibrator

INNER = -1  # a node in the shape of a tree


class Structure:
    """The structure of the compiled object of a calibrator, with slow checks."""

    def __init__(self, calibrator: IsotonicCalibrator) -> None:
        self.regression = calibrator._regression
        _, arrays = self.regression.state()
        self.slots = np.column_stack([arrays["scores"], *arrays["sums"]])
        self.counts, self.edge_sums = arrays["counts"], arrays["edges"]
        ends = np.cumsum(arrays["lengths"])
        starts = ends - arrays["lengths"]
        self.edge_scores = np.column_stack([arrays["scores"][starts], arrays["scores"][ends - 1]])
        self.shape, self.bridges = arrays["shape"].tolist(), arrays["bridges"].tolist()

    def check(self) -> None:
        """Raise ``AssertionError`` with the first broken invariant."""
        self.regression.check()  # order, balance and links
        assert (self.slots[:, 1] > 0).all(), "a slot has no weight"
        assert self.counts.sum() == self.regression.n_samples, "samples are miscounted"
        self.n_parts = self.n_slots = self.n_edges = self.n_bridges = 0
        self.check_tree()
        assert self.n_parts == len(self.shape), "the tree has more parts than its shape"
        assert self.n_slots == len(self.slots), "chunks do not hold all slots"

    def check_tree(self) -> tuple[int, int]:
        """Check the next part of the tree in preorder; return its range of slots."""
        size = self.shape[self.n_parts]
        self.n_parts += 1
        if size != INNER:
            start, self.n_slots = self.n_slots, self.n_slots + size
            self.check_chunk(self.slots[start : self.n_slots])
            return start, self.n_slots
        first, last = self.bridges[self.n_bridges]
        self.n_bridges += 1
        start, middle = self.check_tree()
        _, stop = self.check_tree()
        # A bridge is an edge of the hull of all slots below, and the one that crosses if any.
        blocks = pooled(self.slots[start:stop])
        before = self.slots[middle - 1, 0]
        assert [first, last] == next(b[:2] for b in blocks if b[0] <= before <= b[1])
        return start, stop

    def check_chunk(self, slots: np.ndarray) -> None:
        expected = pooled(slots)
        edges = slice(self.n_edges, self.n_edges + len(expected))
        self.n_edges += len(expected)
        np.testing.assert_array_equal(
            self.edge_scores[edges], np.array([e[:2] for e in expected]).reshape(-1, 2)
        )
        sums = np.array([e[2:] for e in expected]).reshape(-1, 2)
        np.testing.assert_allclose(self.edge_sums[edges, 0], sums[:, 0], rtol=1e-12)
        scale = np.abs(slots[:, 2]).sum()
        np.testing.assert_allclose(
            self.edge_sums[edges, 1], sums[:, 1], rtol=1e-9, atol=1e-12 * scale
        )


def pooled(slots: np.ndarray) -> list[list[float]]:
    """Pool adjacent violators: [first score, last score, W, S] of each block."""
    blocks: list[list[float]] = []
    for score, w, s in slots.tolist():
        blocks.append([score, score, w, s])
        while len(blocks) > 1 and blocks[-2][3] * blocks[-1][2] >= blocks[-1][3] * blocks[-2][2]:
            _, last, w2, s2 = blocks.pop()
            blocks[-1][1:] = [last, blocks[-1][2] + w2, blocks[-1][3] + s2]
    return blocks
