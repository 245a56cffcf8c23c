# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.isotonic.anytime.fit import anytime_isotonic as anytime_isotonic
from streamcal.isotonic.anytime.fit import (
    anytime_isotonic_refinements as anytime_isotonic_refinements,
)
from streamcal.isotonic.anytime.staircase import AnytimeStaircase as AnytimeStaircase
from streamcal.isotonic.sharded import isotonic_fit_sharded as isotonic_fit_sharded
from streamcal.isotonic.stack import PAVStack as PAVStack
from streamcal.isotonic.staircase import Staircase as Staircase
from streamcal.isotonic.staircase import isotonic_fit as isotonic_fit

__all__: list[str]
