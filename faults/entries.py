"""Every way into the product that commits, with the paths of the kill matrix it is on, or why it is on none.

A way in is a route that is not only read, a periodic job, or a command. `tests/faults/test_entries.py` holds this list against
what there is. A page and the command behind it commit once, together: where a path uses the command the page is on it.
"""

from typing import Final

_AT_THE_DESK: Final = "it opens or ends nobody's refund: words beside a case"
_ADVICE: Final = "it says who works on a case and when: no guard of the money reads it, and done again it is the same"
_WHO: Final = "it says who may come in; no refund and no balance follows from it"
_SET_UP: Final = (
    "it sets a merchant up before there is a refund; one transaction, and done again it is refused or the same"
)
_TERMS: Final = (
    "terms are drafted by one and put into force by another; the sales that come fall under them, and no refund moves"
)
_EXCHANGE: Final = (
    "other goods instead of money: it takes the claim and withdraws what waits, in one transaction; nothing is sent"
)
_EVIDENCE: Final = "another piece of evidence, by the same locks and the same working out as goods that come in"
_ORDERS: Final = (
    "it stores an order once, the same again is the same row; what is learnt of its delivery is another piece of evidence, by"
    " the same locks and the same working out as goods that come in, and said again it adds nothing"
)
_READS: Final = "it reads, or runs the jobs that are named here"

ON: Final[dict[str, tuple[str, ...]]] = {
    "api.open_a_return": ("asked for and reported by the API, sent again",),
    "api.report_receipt": (
        "asked for and reported by the API, sent again",
        "a policy approves by itself, reported again",
    ),
    "api.open_about_charges": ("a charge made twice is read and paid back once",),
    "charges.open_at_counter": ("a charge made twice is read and paid back once",),
    "charges.read_again": ("reading a charge made twice meets the fault",),
    "brakes.pull": ("paused before it leaves, started again by two", "shadow mode: recorded, and nothing is sent"),
    "brakes.ask": ("paused before it leaves, started again by two",),
    "brakes.grant": ("paused before it leaves, started again by two", "shadow mode: recorded, and nothing is sent"),
    "by_hand.done": ("a gift card is paid back by hand, recorded again",),
    "by_hand.not_done": ("by hand it could not be paid, recorded again",),
    "caps.ask": ("held by the day's cap, raised by two",),
    "caps.grant": ("held by the day's cap, raised by two",),
    "case.close": ("the rest is not coming, pressed again",),
    "case.reject": ("a case is rejected, pressed again",),
    "case.work_out": ("who approved it leaves, and it is approved anew",),
    "confirm.approve_refund": ("approving, pressed again after the restart", "approving, not pressed again"),
    "confirm_together.approve_all": ("two payments approved together, pressed again",),
    "counter.open_at_counter": ("opened at the counter, pressed again",),
    "decision.withdraw": ("calling back before it leaves, pressed again", "calling back, and nobody presses again"),
    "disputes.rule": ("the bank asks, and finance lets it go",),
    "goods_in.record": ("evidence changes an approved refund",),
    "kinds.give": ("goodwill is asked for and approved, both again",),
    "override.give": ("another amount is asked for and approved, both again",),
    "outside.match": ("a dashboard refund is matched to its case, the rest is paid",),
    "outside.unrelated": ("a dashboard refund was for none of the goods",),
    "people.leave": ("who approved it leaves, and it is approved anew",),
    "reconciliation.resolve": ("a discrepancy is resolved, pressed again",),
    "unknown.ask": ("nobody knows, and two people settle it",),
    "unknown.confirm": ("nobody knows, and two people settle it",),
    "unknown.propose": ("nobody knows, and two people settle it",),
    "webhooks.take_stripe_event": ("pending, then settled", "the bank sends it back days later"),
    "job submitter": ("an approved refund is sent",),
    "job reconciler": ("unknown, found and adopted", "unknown, proven absent, sent again"),
    "job inbox": ("pending, then settled",),
    "job by_hand": ("a gift card is paid back by hand, said again",),
    "job outside": ("some of it is given back in the dashboard", "disputed before it leaves, then won"),
    "job charges": ("a charge made twice is read and paid back once", "reading a charge made twice meets the fault"),
    "job holds": ("only authorised: let go, not refunded", "an authorisation lapses before anybody approves"),
    "job daily_cap": ("held by the day's cap, released the next day",),
    "job books": ("the books are compared with the provider's", "the books find what the bank sent back"),
    "job verify": ("an old backup is restored and taken up again",),
    "job overdue": ("an approved refund is sent",),
    "job self_check": ("an approved refund is sent",),
    "command recover": ("an old backup is restored and taken up again",),
}

_FACTORS: Final = (
    "what a person proves themselves with: one transaction; the worker verifies before each send whether it still holds"
)

_IN_QUESTION: Final = (
    "two people say in one transaction what stands of an order: nothing of it was payable before, no refund moves, and what its"
    " cases are worked out to then is proposed as any; two confirmations at once are raced in tests/race"
)
_FORGOTTEN: Final = (
    "words and pictures of closed cases are overwritten in one transaction; no refund and no balance follows from it"
)

OFF: Final[dict[str, str]] = {
    "in_question.confirm": _IN_QUESTION,
    "in_question.propose": _IN_QUESTION,
    "in_question.turn_down": _IN_QUESTION,
    "receipts.close": _AT_THE_DESK,
    "receipts.match": _EVIDENCE,
    "receipts.put_aside": _EVIDENCE,
    "erasures.ask": _FORGOTTEN,
    "erasures.grant": _FORGOTTEN,
    "erasures.refuse": _FORGOTTEN,
    "job erasure": _FORGOTTEN,
    "job mailer": "it sends mail that names no refund, and never inside a transaction; lost or sent twice it moves nothing",
    "come_in.enter": _WHO,
    "enrolment.add_key": _FACTORS,
    "enrolment.begin_app": _FACTORS,
    "enrolment.begin_key": _FACTORS,
    "enrolment.confirm_app": _FACTORS,
    "invitations.call_back": _WHO,
    "invitations.grant": _WHO,
    "invitations.invited": _WHO,
    "invitations.refuse": _WHO,
    "people.sign_out": _WHO,
    "roles.asked": _WHO,
    "roles.grant": "the same revocation as for who leaves, by the same function",
    "roles.refuse": _WHO,
    "second_factor.begin_key": _FACTORS,
    "second_factor.code": _FACTORS,
    "second_factor.key": _FACTORS,
    "second_factor.recovery": _FACTORS,
    "settings.save": _WHO,
    "command demo seed": _SET_UP,
    "command merchants expect": _SET_UP,
    "command merchants retention": _SET_UP,
    "command merchants second-factor": _SET_UP,
    "command orders in-question": _READS,
    "confirm.challenge": "a nonce to sign with; the approval it is for is on the path of approving",
    "factors.begin_app": _FACTORS,
    "factors.confirm_app": _FACTORS,
    "factors.new_codes": _FACTORS,
    "factors.remove_app": _FACTORS,
    "factors.show_code": _FACTORS,
    "factors.show_password": _FACTORS,
    "factors.show_recovery": _FACTORS,
    "passkeys.add": _FACTORS,
    "passkeys.begin": _FACTORS,
    "passkeys.begin_showing": _FACTORS,
    "passkeys.remove": _FACTORS,
    "passkeys.show": _FACTORS,
    "resets.asked": _FACTORS,
    "resets.grant": _FACTORS,
    "resets.refuse": _FACTORS,
    "api.put_order": _ORDERS,
    "api.add_a_photo": _EVIDENCE,
    "api.report_a_parcel": _EVIDENCE,
    "api.state_a_fact": _EVIDENCE,
    "api.show_nothing": "it answers that there is nothing there",
    "brakes.close": _AT_THE_DESK,
    "brakes.refuse": "a brake that stays on lets nothing go: what holds is the row that was there",
    "caps.refuse": "a cap that is not raised stays as it is: what holds is the row that was there",
    "bulk.act": _ADVICE,
    "case.note": _AT_THE_DESK,
    "exchange.give": _EXCHANGE,
    "exchange.record": _EXCHANGE,
    "override.remove": "the figure worked out stands again, proposed by the same working out as on the path of another amount",
    "parcels.record": _EVIDENCE,
    "facts.record": _EVIDENCE,
    "warranty.claim": "a case of its own kind, proposed by the same working out as a return",
    "photos.add": _EVIDENCE,
    "exports.take": "it takes a copy out, on the record; no refund and no balance follows from it",
    "queue.next_case": _ADVICE,
    "teamwork.add_tag": _ADVICE,
    "teamwork.assign": _ADVICE,
    "teamwork.claim": _ADVICE,
    "teamwork.read": _ADVICE,
    "teamwork.release": _ADVICE,
    "teamwork.remove_tag": _ADVICE,
    "teamwork.set_due": _ADVICE,
    "teamwork.snooze": _ADVICE,
    "teamwork.take_over": _ADVICE,
    "teamwork.wake": _ADVICE,
    "home.csp_report": "it writes a line of the log",
    "drafting.keep_document": _TERMS,
    "drafting.keep_fields": _TERMS,
    "policies.approve": _TERMS,
    "policies.refuse": _TERMS,
    "policies.withdraw": _TERMS,
    "command entitlement audit": _READS,
    "command entitlement explain": _READS,
    "reconciliation.ask": "it asks for the run that the path of the books begins with; no run moves money",
    "reconciliation.note": _AT_THE_DESK,
    "reconciliation.take": _AT_THE_DESK,
    "sessions.end_all": _WHO,
    "sessions.end_one": _WHO,
    "sign_in.enter": _WHO,
    "sign_in.keep_note": _AT_THE_DESK,
    "sign_in.sign_out": _WHO,
    "unknown.turn_down": "what is turned down moves nothing: the refund waits for people as it did",
    "job liveness": "a lock of the server, and no row",
    "command brakes pause": "the pause that the desk pulls, by the same function, on the path of the pause",
    "command brakes show": _READS,
    "command db deployment": _SET_UP,
    "command db migrate": "the schema, in one transaction for each revision, while nothing runs",
    "command jobs begin": _READS,
    "command jobs run": _READS,
    "command keys new": "it prints a key and writes no row",
    "command ledger verify": "the check of the job self_check, asked for by hand",
    "command merchants add": _SET_UP,
    "command orders import": _ORDERS,
    "command policies publish": _SET_UP,
    "command reconcile run": "it asks for the run that the path of the books begins with; no run moves money",
    "command recovered close": "engineers say which units a refund of before the recovery was for, once; no refund follows from it",
    "command recovered list": _READS,
    "command staff add": _WHO,
    "command staff disable": "the function behind the page of people, on the path of who leaves",
    "command staff enable": _WHO,
    "command staff list": _READS,
    "command staff password": _WHO,
    "command staff role": "the same revocation as for who leaves, by the same function",
    "command tokens list": _READS,
    "command tokens new": _WHO,
    "command tokens revoke": _WHO,
}
