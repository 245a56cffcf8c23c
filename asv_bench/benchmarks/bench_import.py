"""What importing costs: in a fresh process, with river's own import as the yardstick."""


class Import:
    """Seconds from nothing imported to the names in hand."""

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
