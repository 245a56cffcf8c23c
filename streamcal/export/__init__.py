"""A map that leaves Python: knots with a bound on their error, as JSON, SQL or ONNX.

`curve.py` says what a calibrator tells of its map, `knots.py` makes a table of it, and `maps.py`
has the table and the formulas. `as_json.py`, `as_sql.py` and `as_onnx.py` write them; `as_json.py`
reads JSON again. `options.py` has the options of `streamcal.Calibrator.export`.
"""
