import os

from hypothesis import HealthCheck, settings

# No deadline: the first example of a test may compile, and shared machines stall. In the gates each
# run has the same examples, so that a change is judged by the change; at the desk they vary.
settings.register_profile(
    "default", deadline=None, suppress_health_check=[HealthCheck.too_slow], print_blob=True
)
settings.register_profile("ci", settings.get_profile("default"), derandomize=True, database=None)
settings.register_profile("thorough", settings.get_profile("default"), max_examples=2_000)
settings.load_profile(
    os.environ.get("HYPOTHESIS_PROFILE") or ("ci" if os.environ.get("CI") else "default")
)
