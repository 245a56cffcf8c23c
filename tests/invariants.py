"""Everything that must hold inside the score index and its hulls, looked at from outside."""

import numpy as np

from streamcal import IsotonicCalibrator
from streamcal.kernels import hull
from streamcal.kernels import isotonic as kernels
from streamcal.kernels import score_index as index


class Structure:
    """A plain view of a calibrator's arrays, with the recursion that the kernels avoid."""

    def __init__(self, calibrator: IsotonicCalibrator) -> None:
        self.data, self.links = calibrator._data, calibrator._links
        capacity = int(self.links[index.CAPACITY])
        nodes = index.HEAD + index.NODE * capacity
        self.nodes = self.data[index.HEAD : nodes].reshape(capacity, index.NODE)
        self.chunks = self.data[nodes:].reshape(capacity, index.CHUNK)
        nodes = index.META + index.NODE_LINKS * capacity
        self.node_links = self.links[index.META : nodes].reshape(capacity, index.NODE_LINKS)
        self.chunk_links = self.links[nodes:].reshape(capacity, index.CHUNK_LINKS)

    def slots(self, c: int) -> np.ndarray:
        size = self.chunk_links[c, index.SIZE]
        end = index.CHUNK_HEAD + index.SLOT * size
        return self.chunks[c, index.CHUNK_HEAD : end].reshape(size, index.SLOT)

    def edges(self, c: int) -> np.ndarray:
        n = self.chunk_links[c, index.EDGES]
        return self.chunks[c, index.CHUNK - hull.EDGE * n :].reshape(n, hull.EDGE)[::-1]

    def check(self) -> None:
        """Raise ``AssertionError`` naming the first broken invariant."""
        links = self.links
        assert links[kernels.STAGE] == 0, "a change is unfinished"
        assert links[kernels.PENDING] == index.NONE, "folding is pending"
        leaves = self.check_tree(int(links[index.ROOT]), index.NONE, -np.inf, np.inf)
        chain, before, c = [], index.NONE, int(links[index.FIRST])
        while c != index.NONE:
            assert self.chunk_links[c, index.PREVIOUS] == before, f"chunk {c} is mislinked"
            chain.append(c)
            before, c = c, int(self.chunk_links[c, index.NEXT])
        assert before == links[index.LAST], "the last chunk is not the last"
        assert chain == leaves, "the chain of chunks is not the order of leaves"
        assert links[index.N_FREE] == len(self.chunks) - len(leaves), "chunks are lost"
        scores = np.concatenate([self.slots(c)[:, 0] for c in leaves])
        assert (np.diff(scores) > 0).all(), "scores are out of order"
        assert len(scores) == links[index.N_SCORES], "scores are miscounted"
        held = sum(
            self.chunk_links[c, index.COUNTS : index.COUNTS + len(self.slots(c))].sum()
            for c in leaves
        )
        assert held == self.data[kernels.N_SAMPLES], "samples are miscounted"

    def check_tree(self, code: int, parent: int, low: float, high: float) -> list[int]:
        """Check a child whose scores must lie in [low, high); return its chunks in order."""
        if code < 0:
            c = -1 - code
            assert self.chunk_links[c, index.CHUNK_PARENT] == parent, (
                f"chunk {c} has a wrong parent"
            )
            self.check_chunk(c, low, high, alone=parent == index.NONE)
            return [c]
        left, right, above, n_leaves, dirty = map(int, self.node_links[code])
        assert above == parent, f"node {code} has a wrong parent"
        assert dirty == index.CLEAN, f"node {code} is dirty"
        key = self.nodes[code, index.NODE_KEY]
        lefts = self.check_tree(left, code, low, key)
        rights = self.check_tree(right, code, key, high)
        assert len(lefts) + len(rights) == n_leaves, f"node {code} miscounts its leaves"
        heavy, light = max(len(lefts), len(rights)), min(len(lefts), len(rights))
        assert heavy <= index.DELTA * light, f"node {code} is out of balance"
        self.check_bridge(code, lefts, rights)
        return lefts + rights

    def check_chunk(self, c: int, low: float, high: float, alone: bool) -> None:
        slots, edges = self.slots(c), self.edges(c)
        assert alone or len(slots), f"chunk {c} is empty"
        if not len(slots):
            return
        assert low <= slots[0, 0], f"chunk {c} starts below its key"
        assert slots[-1, 0] < high, f"chunk {c} ends above its key"
        counts = self.chunk_links[c, index.COUNTS : index.COUNTS + len(slots)]
        assert (counts > 0).all(), f"chunk {c} has an empty slot"
        assert (slots[:, 1] > 0).all(), f"chunk {c} has a slot without weight"
        expected = pooled(slots)
        np.testing.assert_array_equal(edges[:, hull.FIRST_SCORE], [e[0] for e in expected])
        np.testing.assert_array_equal(edges[:, hull.LAST_SCORE], [e[1] for e in expected])
        np.testing.assert_allclose(edges[:, hull.EDGE_W], [e[2] for e in expected], rtol=1e-12)
        scale = np.abs(slots[:, 2]).sum()
        np.testing.assert_allclose(
            edges[:, hull.EDGE_S], [e[3] for e in expected], rtol=1e-9, atol=1e-12 * scale
        )

    def check_bridge(self, code: int, lefts: list[int], rights: list[int]) -> None:
        """A bridge is an edge of the hull of all slots below, and the one that crosses if any."""
        left = np.concatenate([self.slots(c) for c in lefts])
        right = np.concatenate([self.slots(c) for c in rights])
        node = self.nodes[code]
        blocks = pooled(np.concatenate([left, right]))
        block = next(b for b in blocks if b[0] <= left[-1, 0] <= b[1])
        assert node[hull.FIRST_SCORE] == block[0], f"the bridge of node {code} starts wrong"
        assert node[hull.LAST_SCORE] == block[1], f"the bridge of node {code} ends wrong"
        before = sum(b[2] for b in blocks if b[1] < block[0])
        behind = sum(b[2] for b in blocks if b[0] > block[1])
        np.testing.assert_allclose(
            node[[hull.EDGE_W, hull.BEFORE_W, hull.BEHIND_W]],
            [block[2], before, behind],
            rtol=1e-12,
        )
        np.testing.assert_allclose(
            node[[hull.LEFT_W, hull.RIGHT_W]],
            [left[:, 1].sum(), right[:, 1].sum()],
            rtol=1e-12,
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
