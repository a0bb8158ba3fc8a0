"""The money side: who may be paid what, once, and how that is kept true. PostgreSQL is the last guard of all of it.

Read in the order of a refund's life:

    order_facts allocation orders        what was bought and what was charged for it, stored once
    cases evidence policies              who holds which units, what arrived, which terms decide
    entitlement* assessment              what is owed (pure), and from rows to the exact intents
    fingerprint seals approvals          what is bound when a person approves, and how it is verified again
    reservation caps                     money set aside: captures, order lines, the daily cap
    by_hand captures                     what a person pays back elsewhere; what the provider holds and took
    outbox recording settlement reconciliation     sent under one key, recorded as one of four outcomes, looked up when unknown
    external_refunds disputes            what others do at the provider, and (outside_places) the room it takes here
    account_lists external_matching      how far the provider's lists were read; what a refund made outside was for
    reconciliation_run reconciliation_pages discrepancies self_check   the books beside the provider, and against themselves
    events states errors database        the history that moves states, and what everything stands on

Rules: functions take the open connection and never commit; the entry point opens one transaction per command. Locks are
taken in the order order, case, intent, order lines by id, captures by id, cap day. Amounts are whole minor units beside a
currency. Nothing here knows Flask, a scheduler, the provider's SDK or a model.
"""
