"""Pictures of a run: a model's estimated cycles as a page, a trace and figures."""

from celosia.sw.profile.figures import Profile, profile

__all__ = ["Profile", "profile"]
