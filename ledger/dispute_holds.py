"""The one question asked right before the call: does the bank dispute, or ask about, this charge now?"""

from typing import Final

# For an intent `i` of a statement. A formal dispute holds until it is won; a bank's question until it is closed, or until finance
# ruled that the refund goes nevertheless. The trigger `not_while_disputed` asks the same, as the last guard.
HOLDS: Final = """EXISTS (SELECT 1 FROM disputes d WHERE d.merchant_id = i.merchant_id AND d.charge_ref = i.charge_ref
        AND d.provider_account_id = i.provider_account_id AND d.status NOT IN ('won', 'prevented', 'warning_closed')
        AND (dispute_takes(d.status) OR NOT EXISTS (SELECT 1 FROM dispute_rulings r
            WHERE r.merchant_id = d.merchant_id AND r.dispute_ref = d.dispute_ref)))"""
