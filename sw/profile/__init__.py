"""Pictures of a run: a model's estimated cycles as a page, a trace and figures."""

from celosia.sw.profile.figures import Profile, profile
from celosia.sw.profile.losses import Stretch

__all__ = ["Profile", "Stretch", "profile"]
