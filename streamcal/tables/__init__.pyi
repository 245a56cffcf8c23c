# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.tables.base import Chunk as Chunk
from streamcal.tables.base import Fault as Fault
from streamcal.tables.base import Reader as Reader
from streamcal.tables.base import TableError as TableError
from streamcal.tables.base import Writer as Writer
from streamcal.tables.numbers import as_numbers as as_numbers
from streamcal.tables.open import format_of as format_of
from streamcal.tables.open import open_table as open_table
from streamcal.tables.output import Output as Output
from streamcal.tables.output import is_standard as is_standard
from streamcal.tables.output import standard_output as standard_output
from streamcal.tables.output import sync_folder as sync_folder
from streamcal.tables.output import write_file as write_file
from streamcal.tables.series import Series as Series

__all__: list[str]
