# The public names of the package, each in its own line; `streamcal._lazy` reads them, too.

from streamcal.report.run_sections import prometheus_text as prometheus_text

__all__: list[str]
