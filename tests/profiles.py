"""Hypothesis profiles: `quick` for every run, `slow` with HYPOTHESIS_PROFILE=slow. Importing this module loads one."""

import os

from hypothesis import HealthCheck, settings

# The quick one tries the same examples every time: what it finds stands in the way of nobody else's change.
settings.register_profile(
    "quick", max_examples=60, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("slow", max_examples=3000, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))
