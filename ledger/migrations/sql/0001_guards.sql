-- Triggers. Those that move balances and states run as the owner, who has no login at run time, cannot bypass row-level
-- security, and sees only the tenant of the transaction. Nobody holds UPDATE on what they move.

CREATE FUNCTION refuse_change() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['transfers', 'line_claims', 'cap_entries', 'events', 'approvals', 'attempts',
        'attempt_results', 'looks', 'entitlements', 'evidence', 'photos', 'policies', 'conversations', 'notes',
        'order_conflicts', 'intent_transitions', 'idempotency_keys']
    LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;

CREATE FUNCTION apply_transfer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE captures SET
        available_minor = available_minor
            + CASE WHEN NEW.to_balance = 'available' THEN NEW.amount_minor WHEN NEW.from_balance = 'available' THEN -NEW.amount_minor ELSE 0 END,
        reserved_minor = reserved_minor
            + CASE WHEN NEW.to_balance = 'reserved' THEN NEW.amount_minor WHEN NEW.from_balance = 'reserved' THEN -NEW.amount_minor ELSE 0 END,
        refunded_minor = refunded_minor
            + CASE WHEN NEW.to_balance = 'refunded' THEN NEW.amount_minor WHEN NEW.from_balance = 'refunded' THEN -NEW.amount_minor ELSE 0 END,
        disputed_minor = disputed_minor
            + CASE WHEN NEW.to_balance = 'disputed' THEN NEW.amount_minor WHEN NEW.from_balance = 'disputed' THEN -NEW.amount_minor ELSE 0 END
    WHERE merchant_id = NEW.merchant_id AND capture_id = NEW.capture_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'transfer names no capture of this merchant' USING ERRCODE = 'foreign_key_violation';
    END IF;
    -- What goes on or back is what an earlier step of the same intent, or of the same object at the provider, moved: whole
    -- and once. And it goes only when the intent has come to the state that says so (P9): the event is inserted first.
    IF NEW.step IN ('settle', 'release', 'reverse', 'external_reverse', 'dispute_won') THEN
        PERFORM 1 FROM transfers WHERE merchant_id = NEW.merchant_id
            AND (intent_id = NEW.intent_id OR source_ref = NEW.source_ref)
            AND step = CASE NEW.step WHEN 'reverse' THEN 'settle' WHEN 'external_reverse' THEN 'external'
                WHEN 'dispute_won' THEN 'dispute' ELSE 'reserve' END
            AND capture_id = NEW.capture_id AND amount_minor = NEW.amount_minor;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'step % has no matching earlier step', NEW.step USING ERRCODE = 'check_violation';
        END IF;
        PERFORM 1 FROM transfers WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id
            AND step = CASE NEW.step WHEN 'settle' THEN 'release' WHEN 'release' THEN 'settle' ELSE '' END;
        IF FOUND THEN
            RAISE EXCEPTION 'an intent settles or releases, never both' USING ERRCODE = 'check_violation';
        END IF;
        IF NEW.intent_id IS NOT NULL THEN
            PERFORM 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id
                AND state = ANY (CASE NEW.step WHEN 'release' THEN ARRAY['withdrawn', 'failed']
                    WHEN 'settle' THEN ARRAY['succeeded'] ELSE ARRAY['reversed'] END);
            IF NOT FOUND THEN
                RAISE EXCEPTION 'the state of the intent does not allow the step %', NEW.step USING ERRCODE = 'check_violation';
            END IF;
        END IF;
    ELSIF NEW.step = 'reserve' THEN
        PERFORM 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND amount_minor = NEW.amount_minor;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a reservation is for exactly the amount of its intent' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER moves_balances AFTER INSERT ON transfers FOR EACH ROW EXECUTE FUNCTION apply_transfer();

CREATE FUNCTION apply_line_claim() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.step = 'release' THEN
        PERFORM 1 FROM line_claims WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id
            AND line_id = NEW.line_id AND step = 'claim' AND amount_minor = -NEW.amount_minor;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a release gives back exactly what was claimed' USING ERRCODE = 'check_violation';
        END IF;
        PERFORM 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id
            AND state IN ('withdrawn', 'failed', 'reversed');
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a line is given back only by an intent that came to nothing' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    UPDATE order_lines SET claimed_minor = claimed_minor + NEW.amount_minor
    WHERE merchant_id = NEW.merchant_id AND line_id = NEW.line_id
        AND order_id = (SELECT order_id FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id);
    IF NOT FOUND THEN
        RAISE EXCEPTION 'claim names no line of the order of its intent' USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER moves_claimed AFTER INSERT ON line_claims FOR EACH ROW EXECUTE FUNCTION apply_line_claim();

-- A reservation over the cap inserts no row and raises nothing: the caller sees 0 rows and holds the intent.
CREATE FUNCTION apply_cap_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.step = 'return' THEN
        PERFORM 1 FROM cap_entries WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND step = 'reserve'
            AND amount_minor = -NEW.amount_minor AND currency = NEW.currency AND business_day = NEW.business_day;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'a return gives back exactly what was reserved' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    PERFORM 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND currency = NEW.currency
        AND amount_minor = abs(NEW.amount_minor) AND (NEW.step = 'reserve' OR state IN ('withdrawn', 'failed', 'reversed'));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a cap entry is for exactly its intent, and returned only when that came to nothing'
            USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.step = 'reserve' AND NEW.business_day <> (
        SELECT (now() AT TIME ZONE zone)::date FROM merchants WHERE id = NEW.merchant_id) THEN
        RAISE EXCEPTION 'a refund counts on the business day on which it is approved or released' USING ERRCODE = 'check_violation';
    END IF;
    UPDATE cap_days SET used_minor = used_minor + NEW.amount_minor
    WHERE merchant_id = NEW.merchant_id AND currency = NEW.currency AND business_day = NEW.business_day
        AND used_minor + NEW.amount_minor <= limit_minor;
    IF FOUND THEN
        -- This runs before the primary key is looked at, and ON CONFLICT DO NOTHING would keep the day moved. Whoever else
        -- inserts the same entry waits for the day's row above.
        PERFORM 1 FROM cap_entries WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND step = NEW.step;
        IF FOUND THEN
            RAISE EXCEPTION 'an intent is counted once and returned once' USING ERRCODE = 'unique_violation';
        END IF;
        RETURN NEW;
    END IF;
    INSERT INTO cap_days (merchant_id, currency, business_day, limit_minor)
        SELECT merchant_id, currency, NEW.business_day, limit_minor FROM caps
        WHERE merchant_id = NEW.merchant_id AND currency = NEW.currency
        ON CONFLICT DO NOTHING;
    UPDATE cap_days SET used_minor = used_minor + NEW.amount_minor
    WHERE merchant_id = NEW.merchant_id AND currency = NEW.currency AND business_day = NEW.business_day
        AND used_minor + NEW.amount_minor <= limit_minor;
    RETURN CASE WHEN FOUND THEN NEW END;
END $$;
CREATE TRIGGER moves_cap BEFORE INSERT ON cap_entries FOR EACH ROW EXECUTE FUNCTION apply_cap_entry();

-- P5. The event moves the intent. Two who race meet at the row lock of the case; the later finds another state and fails.
CREATE FUNCTION apply_event() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE cases SET head_number = NEW.number, head_hash = NEW.hash, stage = COALESCE(NEW.case_stage, stage)
    WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id AND head_number = NEW.number - 1
        AND head_hash IS NOT DISTINCT FROM NEW.previous_hash;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'event does not follow the last one of its case' USING ERRCODE = 'serialization_failure';
    END IF;
    -- P3, P4, P6, P7, P11: what is approved has its approval and its line claims, what is sent is reserved and counted.
    IF NEW.from_state = 'proposed' AND NEW.to_state = 'approved' THEN
        PERFORM 1 FROM approvals WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND approver = NEW.actor;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'nothing is approved without the approval of its actor' USING ERRCODE = 'check_violation';
        END IF;
        PERFORM 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND order_minor = (
            SELECT sum(amount_minor) FROM line_claims WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'nothing is approved that the lines of its order do not carry' USING ERRCODE = 'check_violation';
        END IF;
    ELSIF NEW.to_state = 'submitting' THEN
        PERFORM 1 FROM transfers t
        JOIN cap_entries c ON c.merchant_id = t.merchant_id AND c.intent_id = t.intent_id AND c.step = 'reserve'
        WHERE t.merchant_id = NEW.merchant_id AND t.intent_id = NEW.intent_id AND t.step = 'reserve';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'nothing is sent that is not reserved and counted' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    IF NEW.from_state = 'new' THEN
        PERFORM 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND state = 'proposed';
        IF NOT FOUND THEN
            RAISE EXCEPTION 'intent is not in state proposed' USING ERRCODE = 'serialization_failure';
        END IF;
    ELSIF NEW.to_state IS NOT NULL THEN
        UPDATE intents SET state = NEW.to_state, state_at = NEW.at, state_reason = NEW.reason
        WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND state = NEW.from_state;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'intent is not in state %', NEW.from_state USING ERRCODE = 'serialization_failure';
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER moves_state AFTER INSERT ON events FOR EACH ROW EXECUTE FUNCTION apply_event();

-- An intent starts as proposed, and is exact from its first moment: nothing the person saw can change under it.
CREATE FUNCTION keep_intent_exact() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'proposed' OR NEW.provider_refund_ref IS NOT NULL THEN
            RAISE EXCEPTION 'an intent starts as proposed' USING ERRCODE = 'check_violation';
        END IF;
        PERFORM 1 FROM captures WHERE merchant_id = NEW.merchant_id AND capture_id = NEW.capture_id AND order_id = NEW.order_id
            AND (provider_account_id, payment_intent_ref, charge_ref, destination_kind, destination_brand, destination_last4)
              = (NEW.provider_account_id, NEW.payment_intent_ref, NEW.charge_ref,
                 NEW.destination_kind, NEW.destination_brand, NEW.destination_last4);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'an intent pays back to a capture of its own order, as that stands' USING ERRCODE = 'check_violation';
        END IF;
        PERFORM 1 FROM entitlements WHERE merchant_id = NEW.merchant_id AND entitlement_id = NEW.entitlement_id
            AND (digest, evidence_digest, policy_id, policy_version)
              = (NEW.entitlement_digest, NEW.evidence_digest, NEW.policy_id, NEW.policy_version)
            AND payable_minor >= NEW.order_minor AND (currency <> NEW.currency OR NEW.order_minor = NEW.amount_minor);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'an intent pays what its entitlement says, or less' USING ERRCODE = 'check_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF (to_jsonb(NEW) - ARRAY['state', 'state_at', 'state_reason', 'provider_refund_ref', 'provider_reference', 'lock_no'])
        IS DISTINCT FROM
       (to_jsonb(OLD) - ARRAY['state', 'state_at', 'state_reason', 'provider_refund_ref', 'provider_reference', 'lock_no']) THEN
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
CREATE TRIGGER exact_insert BEFORE INSERT ON intents FOR EACH ROW EXECUTE FUNCTION keep_intent_exact();
CREATE TRIGGER exact BEFORE UPDATE ON intents FOR EACH ROW EXECUTE FUNCTION keep_intent_exact();
CREATE TRIGGER never_deleted BEFORE DELETE ON intents FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON intents FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- P6. An approval answers a proposal: it is never added to an intent that has moved on.
CREATE FUNCTION approve_proposals_only() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND state = 'proposed';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'only a proposed intent is approved' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER of_proposals BEFORE INSERT ON approvals FOR EACH ROW EXECUTE FUNCTION approve_proposals_only();

-- P11. A day starts with the standing limit, and changes it only to what two people agreed on, once.
CREATE FUNCTION keep_day_limit() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' AND NEW.limit_minor = OLD.limit_minor THEN
        RETURN NEW;
    END IF;
    PERFORM 1 FROM caps WHERE merchant_id = NEW.merchant_id AND currency = NEW.currency
        AND limit_minor = NEW.limit_minor AND TG_OP = 'INSERT';
    IF NOT FOUND THEN
        PERFORM 1 FROM cap_raises WHERE merchant_id = NEW.merchant_id AND currency = NEW.currency
            AND business_day = NEW.business_day AND to_minor = NEW.limit_minor AND granted;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the limit of a day is the standing one or a granted raise' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER agreed BEFORE INSERT OR UPDATE OF limit_minor ON cap_days FOR EACH ROW EXECUTE FUNCTION keep_day_limit();

CREATE FUNCTION decide_once() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.decided_at IS NOT NULL THEN
            RAISE EXCEPTION 'a raise is asked for first and decided later' USING ERRCODE = 'check_violation';
        END IF;
    ELSIF OLD.decided_at IS NOT NULL THEN
        RAISE EXCEPTION 'a raise is decided once' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER once BEFORE INSERT OR UPDATE ON cap_raises FOR EACH ROW EXECUTE FUNCTION decide_once();

-- The frozen request stays frozen; only its schedule moves.
CREATE FUNCTION keep_request_frozen() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF (NEW.request, NEW.request_digest, NEW.approved_at, NEW.trace) IS DISTINCT FROM (OLD.request, OLD.request_digest, OLD.approved_at, OLD.trace) THEN
        RAISE EXCEPTION 'the request of an approved intent never changes' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER frozen BEFORE UPDATE ON outbox FOR EACH ROW EXECUTE FUNCTION keep_request_frozen();
CREATE TRIGGER never_deleted BEFORE DELETE ON outbox FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON outbox FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Units are let go only while no money for them has left or may still leave: a row may end, or shrink to what was paid.
CREATE FUNCTION keep_paid_units() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE dropped int4multirange;
BEGIN
    IF NOT OLD.live OR NOT NEW.units <@ OLD.units THEN
        RAISE EXCEPTION 'released units are claimed by a new case, never revived' USING ERRCODE = 'restrict_violation';
    END IF;
    dropped := CASE WHEN NEW.live THEN int4multirange(OLD.units) - int4multirange(NEW.units) ELSE int4multirange(OLD.units) END;
    IF EXISTS (
        SELECT 1 FROM intents i JOIN order_lines l ON l.merchant_id = i.merchant_id AND l.line_id = OLD.line_id
        CROSS JOIN LATERAL jsonb_array_elements(i.units) AS unit
        WHERE i.merchant_id = OLD.merchant_id AND i.case_id = OLD.case_id AND i.state NOT IN ('withdrawn', 'failed', 'reversed')
            AND unit->>'line' = l.line_ref AND dropped && int4range((unit->>'from')::int, (unit->>'to')::int)) THEN
        RAISE EXCEPTION 'units with money paid or on its way are not released' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER paid_units_stay BEFORE UPDATE ON case_items FOR EACH ROW EXECUTE FUNCTION keep_paid_units();

-- A session that ended stays so.
CREATE FUNCTION end_once() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.ended_at IS DISTINCT FROM OLD.ended_at THEN
        RAISE EXCEPTION 'a session that has ended does not begin again' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stays_ended BEFORE UPDATE ON sessions FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION end_once();

DO $$
DECLARE f regprocedure;
BEGIN
    FOR f IN SELECT oid FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proowner = current_user::regrole LOOP
        EXECUTE format('REVOKE EXECUTE ON FUNCTION %s FROM PUBLIC', f);
    END LOOP;
END $$;
