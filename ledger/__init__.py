"""The money side: who may be paid what, once, and how that is kept true. PostgreSQL is the last guard of all of it.

Read in the order of a refund's life:

    order_facts allocation orders        what was bought and what was charged for it, stored once
    cases conversations                  who holds which units (asked_lines, serial_claims), and who asked where
    evidence policies                    what arrived, which terms decide
    unmatched_receipts                   what arrived for no return we know of, and a person's one answer to it
    room allowances exchanges            what is left of each line; money back with the goods kept; goods instead of money
    entitlement* assessment              what is owed (pure), and from rows to the exact intents
    overrides                            another amount than computed: an exception, with the computed one beside it
    fingerprint seals approvals          what is bound when a person approves (two_managers: or two), verified again
    automatic_rule automatic             what a policy approves by itself, and everything that makes it a person's
    reservation caps                     money set aside: captures, order lines, the daily cap
    by_hand captures                     what a person pays back elsewhere; what the provider holds and took
    outbox recording settlement reconciliation     sent under one key, recorded as one of four outcomes, looked up when unknown
    external_refunds disputes            what others do at the provider, and (outside_places) the room it takes here
    account_lists external_matching      how far the provider's lists were read; what a refund made outside was for
    reconciliation_run reconciliation_pages discrepancies self_check   the books beside the provider, and against themselves
    leases teamwork mentions presence    who has a case in hand and whose it is: advice that no guard of the money reads
    erasure                              what is forgotten of people, and what is kept of their money
    events states errors database        the history that moves states, and what everything stands on

Rules: functions take the open connection and never commit; the entry point opens one transaction per command. Locks are
taken in the order order, case, intent, order lines by id, captures by id, cap day. Amounts are whole minor units beside a
currency. Nothing here knows Flask, a scheduler, the provider's SDK or a model.
"""
