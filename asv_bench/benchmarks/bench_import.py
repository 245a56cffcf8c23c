"""The time of imports in a new process, beside that of river."""


class Import:
    """Seconds to import names in a new process."""

    repeat = (5, 20, 20.0)
    number = 1

    def timeraw_river(self) -> str:
        return "from river import linear_model, preprocessing"

    def timeraw_streamcal(self) -> str:
        return "import streamcal"

    def timeraw_streamcal_classifier(self) -> str:
        return "import streamcal; streamcal.CalibratedClassifier"

    def timeraw_streamcal_isotonic(self) -> str:
        return "import streamcal; streamcal.IsotonicCalibrator"
