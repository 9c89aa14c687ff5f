"""Loads SQLAlchemy's test plugin, as every dialect's suite must."""

import pytest

pytest.register_assert_rewrite("sqlalchemy.testing.assertions")

from sqlalchemy.testing.plugin.pytestplugin import *  # noqa: E402,F403
from sqlalchemy.dialects.postgresql import provision  # noqa: E402


# SQLAlchemy's own makes extensions (citext, hstore) before the first test. No test of the suite needs
# them, and Skein has no extensions.
@provision.post_configure_engine.for_db("postgresql")
def no_extensions(url, engine, follower_ident):
    pass
