-- The same guards as before, in fewer statements: an approval runs them all while others wait for the cap's row.

-- The server reads every check of a row again for each statement that writes one: this one was longer than all others together.
ALTER TABLE transfers DROP CONSTRAINT listed_moves, ADD CONSTRAINT listed_moves CHECK (
    step || '/' || from_balance || '/' || to_balance = ANY (
        '{reserve/available/reserved,release/reserved/available,settle/reserved/refunded,reverse/refunded/available,'
        'external/available/refunded,external_reverse/refunded/available,dispute/available/disputed,dispute_won/disputed/available,'
        'reserve/held/releasing,release/releasing/held,settle/releasing/released}'
    )
);
-- The balances of a capture move some times after it was written; with room on its page no index of it is touched.
ALTER TABLE captures SET (fillfactor = 80);

-- An update is exact when, with what may change put back, the row is the one it was; compared as it stands, not as JSON.
CREATE OR REPLACE FUNCTION keep_intent_exact() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE put_back intents%ROWTYPE;
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'proposed' OR NEW.provider_refund_ref IS NOT NULL THEN
            RAISE EXCEPTION 'an intent starts as proposed' USING ERRCODE = 'check_violation';
        END IF;
        -- Of its own order, or the payment that an exchange credit of its order names, and then within that credit.
        PERFORM 1 FROM captures WHERE merchant_id = NEW.merchant_id AND capture_id = NEW.capture_id
            AND (order_id = NEW.order_id OR (NEW.act <> 'cancel_payment' AND EXISTS (SELECT 1 FROM captures credit
                WHERE credit.merchant_id = NEW.merchant_id AND credit.order_id = NEW.order_id
                    AND credit.source_capture_id = NEW.capture_id AND credit.captured_minor >= NEW.amount_minor + (
                        SELECT coalesce(sum(i.amount_minor), 0) FROM intents i WHERE i.merchant_id = NEW.merchant_id
                            AND i.order_id = NEW.order_id AND i.capture_id = NEW.capture_id
                            AND i.state NOT IN ('withdrawn', 'failed', 'reversed')))))
            AND (provider_account_id, payment_intent_ref, charge_ref, destination_kind, destination_brand, destination_last4)
              IS NOT DISTINCT FROM (NEW.provider_account_id, NEW.payment_intent_ref, NEW.charge_ref,
                 NEW.destination_kind, NEW.destination_brand, NEW.destination_last4)
            AND CASE NEW.act
                WHEN 'refund' THEN charge_ref IS NOT NULL
                WHEN 'cancel_payment' THEN captured_minor = 0 AND held_minor + releasing_minor = NEW.amount_minor
                ELSE tender IN ('gift_card', 'store_credit', 'cash') END;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'an intent pays back to a capture of its own order, as that stands' USING ERRCODE = 'check_violation';
        END IF;
        PERFORM 1 FROM entitlements WHERE merchant_id = NEW.merchant_id AND entitlement_id = NEW.entitlement_id
            AND (digest, evidence_digest, policy_id, policy_version)
              = (NEW.entitlement_digest, NEW.evidence_digest, NEW.policy_id, NEW.policy_version)
            AND payable_minor >= NEW.order_minor
            AND (currency <> NEW.currency OR NEW.order_minor = NEW.amount_minor OR NEW.act = 'cancel_payment');
        IF NOT FOUND THEN
            RAISE EXCEPTION 'an intent pays what its entitlement says, or less' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    put_back := NEW;
    put_back.state := OLD.state;
    put_back.state_at := OLD.state_at;
    put_back.state_reason := OLD.state_reason;
    put_back.provider_refund_ref := OLD.provider_refund_ref;
    put_back.provider_reference := OLD.provider_reference;
    put_back.lock_no := OLD.lock_no;
    IF put_back IS DISTINCT FROM OLD THEN
        RAISE EXCEPTION 'an intent is exact: its terms never change' USING ERRCODE = 'restrict_violation';
    END IF;
    IF OLD.provider_refund_ref IS NOT NULL AND NEW.provider_refund_ref IS DISTINCT FROM OLD.provider_refund_ref THEN
        RAISE EXCEPTION 'the provider''s refund of an intent never changes' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state <> OLD.state AND NOT EXISTS (
        SELECT 1 FROM intent_transitions WHERE from_state = OLD.state AND to_state = NEW.state) THEN
        RAISE EXCEPTION 'no transition from % to %', OLD.state, NEW.state USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;

-- A person's hour and day, moved by one statement; the row's own check refuses what does not fit.
CREATE OR REPLACE FUNCTION count_approval() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    what record;
    counted integer;
BEGIN
    SELECT i.amount_minor, i.currency, i.exponent, g.zone, brake_role(NEW.merchant_id, NEW.staff_id) AS role INTO what
        FROM intents i JOIN merchants g ON g.id = i.merchant_id
        WHERE i.merchant_id = NEW.merchant_id AND i.intent_id = NEW.intent_id;
    INSERT INTO approval_entries (merchant_id, approval_id, intent_id, seat, staff_id, currency, amount_minor)
        VALUES (NEW.merchant_id, NEW.approval_id, NEW.intent_id, NEW.seat, NEW.staff_id, what.currency, what.amount_minor);
    INSERT INTO reviewer_windows AS w (merchant_id, staff_id, currency, span, starts_at, ends_at, limit_count, limit_minor,
            used_count, used_minor)
        SELECT NEW.merchant_id, NEW.staff_id, what.currency, l.span, z.starts_at, z.ends_at, l.most, l.most_minor, 1, what.amount_minor
        FROM reviewer_limits(NEW.merchant_id, what.role, what.currency, what.exponent) l
        CROSS JOIN LATERAL (
            SELECT date_trunc('hour', now()) AS starts_at, date_trunc('hour', now()) + interval '1 hour' AS ends_at WHERE l.span = 'hour'
            UNION ALL
            SELECT (now() AT TIME ZONE what.zone)::date::timestamp AT TIME ZONE what.zone,
                ((now() AT TIME ZONE what.zone)::date + 1)::timestamp AT TIME ZONE what.zone WHERE l.span = 'day') z
        ORDER BY l.span DESC
        ON CONFLICT (merchant_id, staff_id, currency, span, starts_at) DO UPDATE SET limit_count = EXCLUDED.limit_count,
            limit_minor = EXCLUDED.limit_minor, used_count = w.used_count + 1, used_minor = w.used_minor + EXCLUDED.used_minor;
    GET DIAGNOSTICS counted = ROW_COUNT;
    IF counted = 0 THEN
        RAISE EXCEPTION 'this role approves nothing' USING ERRCODE = 'check_violation', CONSTRAINT = 'within_what_a_person_approves';
    END IF;
    RETURN NULL;
END $$;
