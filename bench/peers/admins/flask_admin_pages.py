"""Flask-Admin's list of cases in its quickest setting: fifty rows, no count, an index under every order, filter and search."""

import os

from flask import Flask
from flask_admin import Admin
from flask_admin.contrib.sqla import ModelView
from sqlalchemy import BigInteger, Column, DateTime, String, create_engine
from sqlalchemy.orm import DeclarativeBase, scoped_session, sessionmaker


class Base(DeclarativeBase):
    pass


class Case(Base):
    __tablename__ = "peer_cases"
    __table_args__ = {"schema": "bench"}
    id = Column(String, primary_key=True)
    number = Column(BigInteger)
    order_ref = Column(String)
    customer = Column(String)
    summary = Column(String)
    stage = Column(String)
    currency = Column(String)
    amount_minor = Column(BigInteger)
    due_at = Column(DateTime(timezone=True))
    opened_at = Column(DateTime(timezone=True))


class Cases(ModelView):
    can_create = can_edit = can_delete = False
    page_size = 50
    simple_list_pager = True
    named_filter_urls = True
    column_list = (
        "number",
        "order_ref",
        "customer",
        "summary",
        "stage",
        "currency",
        "amount_minor",
        "due_at",
        "opened_at",
    )
    column_default_sort = [("due_at", False), ("id", False)]
    column_filters = ("stage",)
    column_searchable_list = ("order_ref",)


def application() -> Flask:
    made = Flask(__name__)
    made.secret_key = "bench"  # noqa: S105 - of a page that shows rows of a benchmark
    engine = create_engine(os.environ["PEER_DATABASE_URL"], pool_size=8)
    session = scoped_session(sessionmaker(engine))
    made.teardown_appcontext(lambda _error: session.remove())
    Admin(made).add_view(Cases(Case, session))
    return made
