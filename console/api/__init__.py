"""`/api/v1`: JSON for the systems of a merchant's channels, its shop and its warehouse. No cookies, no pages.

Read in this order: `tokens` (who calls), `bodies` (what may be said), `idempotency` (one request, one answer), then
`orders`, `returns`, `charges`; `reports` and what is reported: `receipts`, `parcels`, `photos`, `facts`. `problems` is every
refusal, `openapi` the description a machine reads.
"""

from flask import Blueprint
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from werkzeug.exceptions import HTTPException

from console.api import charges, facts, openapi, orders, parcels, photos, problems, receipts, returns, tokens
from ledger.errors import LedgerError

blueprint = Blueprint("api", __name__, url_prefix="/api/v1")
blueprint.before_request(tokens.refuse_token_in_address)
for module in (orders, returns, charges, receipts, parcels, photos, facts, openapi):
    module.add_to(blueprint)
blueprint.register_error_handler(problems.Problem, problems.of_problem)
blueprint.register_error_handler(LedgerError, problems.of_ledger)
blueprint.register_error_handler(DBAPIError, problems.of_database)
blueprint.register_error_handler(PoolTimeout, problems.of_full_pool)
blueprint.register_error_handler(HTTPException, problems.of_http)
blueprint.register_error_handler(Exception, problems.of_unexpected)
