from streamcal.kernels.label_index import LabelIndex

MOST_LABELS: int

class MinPlus(LabelIndex): ...
