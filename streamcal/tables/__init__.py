r"""Tables of any length, read and written in chunks: CSV, NDJSON and Parquet.

A `Reader` yields a `Chunk` of rows at a time; a `Writer` writes the rows of a chunk with one more
column. Memory holds a few chunks, whatever the size of the file. A row of CSV stays as it is and
gets one more cell at its end, a line of NDJSON one more field. Parquet keeps its schema and
metadata. The rows that a pipe has at present are a chunk. A `Series` reads several tables as one.

>>> import tempfile, pathlib
>>> from streamcal.tables.numbers import as_numbers
>>> from streamcal.tables.open import open_table
>>> from streamcal.tables.output import Output
>>> folder = tempfile.TemporaryDirectory()
>>> path = pathlib.Path(folder.name, "scores.csv")
>>> _ = path.write_text("id,p\na,0.50\nb,1\n")
>>> output = Output(path.with_name("out.csv"))
>>> with open_table(path, ["p"], new_column="q") as table, output:
...     with table.writer(output) as writer:
...         for chunk in table:
...             values, _ = as_numbers(chunk.columns["p"])
...             writer.write(chunk, values / 2)
>>> print(path.with_name("out.csv").read_text().strip())
id,p,q
a,0.50,0.25
b,1,0.5
>>> folder.cleanup()
"""
