"""What every mirrored table is written in."""

from sqlalchemy import DateTime, MetaData, text

metadata = MetaData()

MOMENT = DateTime(timezone=True)
NOW = text("now()")
