"""Learners as bytes, and back: `stateful` has their base class, `format` the bytes.

``_thaw`` of a learner reads its fields and arrays by the functions of `checks`.
"""

from streamcal._state.checks import (
    Arrays,
    Fields,
    are_in,
    array_of,
    as_float,
    as_int,
    as_list,
    as_name,
    require,
    state_of,
)
from streamcal._state.format import (
    DIGEST,
    MAGIC,
    VERSION,
    check,
    decode,
    decode_body,
    encode,
    encode_body,
    nest,
    prefixed,
    seal,
    without_prefix,
)
from streamcal._state.stateful import Stateful, as_names, fill, nested, pack, restore, unpack

__all__ = [
    "DIGEST",
    "MAGIC",
    "VERSION",
    "Arrays",
    "Fields",
    "Stateful",
    "are_in",
    "array_of",
    "as_float",
    "as_int",
    "as_list",
    "as_name",
    "as_names",
    "check",
    "decode",
    "decode_body",
    "encode",
    "encode_body",
    "fill",
    "nest",
    "nested",
    "pack",
    "prefixed",
    "require",
    "restore",
    "seal",
    "state_of",
    "unpack",
    "without_prefix",
]
