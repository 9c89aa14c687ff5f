"""What the suite may ask of Skein: what SQLAlchemy's own file says of PostgreSQL, without what Skein
does not have. `sqlalchemy_own` is `test/requirements.py` of SQLAlchemy's source distribution. What has
no requirement of its own stands in known_gaps.py."""

from sqlalchemy.testing import exclusions
from sqlalchemy_own import DefaultRequirements


def without(reason):
    """A requirement that is not met, and why."""
    return property(lambda self: exclusions.skip_if(lambda config: True, reason))


class Requirements(DefaultRequirements):
    time_timezone = without("TIME WITH TIME ZONE is not supported")
