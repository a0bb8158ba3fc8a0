-- What the database asks of an approval and of the move it makes: the same guards as before, each row looked at once for all of
-- them. A statement costs the server more than what it reads, and an approval runs these while others wait.

DROP TRIGGER of_proposals ON approvals;
DROP TRIGGER of_verified_captures ON approvals;
DROP FUNCTION approve_proposals_only(), approve_verified_only();

-- P6. An approval answers a proposal: it is never added to an intent that has moved on. Its payment is as it was read last since the
-- books were restored. It is as strong as its amount alone takes by the routes of today, and shows what it says it was made with;
-- what takes more because of other refunds of the order or customer is refused by the program (S22). Where two records of the case
-- contradict one another, the person who approves says how that was settled; what a policy approves never has such a conflict. Who
-- came in with a recovery code approves nothing for a day (S8).
CREATE FUNCTION approve_what_stands() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    it record;
BEGIN
    SELECT i.state, c.provider_account_id IS NOT NULL AND c.verified_generation <> d.generation AS unread,
        strength_for(coalesce(today.document, own.document)->'routes', o.currency, i.order_minor, i.route = 'two_managers') AS strength,
        CASE WHEN NEW.staff_id IS NOT NULL AND btrim(NEW.note) = '' THEN
            e.record->'rules' @> ANY (ARRAY['[{"id": "evidence.conflict", "status": "needs_review"}]',
                '[{"id": "reason.supported", "status": "needs_review"}]']::jsonb[]) END AS unsettled,
        recovered_lately(NEW.staff_id) AS recovered
    INTO it FROM intents i
    JOIN captures c ON c.merchant_id = i.merchant_id AND c.capture_id = i.capture_id
    JOIN orders o ON o.merchant_id = i.merchant_id AND o.order_id = i.order_id
    JOIN entitlements e ON e.merchant_id = i.merchant_id AND e.entitlement_id = i.entitlement_id
    JOIN policies own ON own.merchant_id = i.merchant_id AND own.policy_id = i.policy_id AND own.version = i.policy_version
    LEFT JOIN policies today ON today.merchant_id = i.merchant_id AND today.policy_id = i.policy_id AND today.effective @> now()
    CROSS JOIN deployment d
    WHERE i.merchant_id = NEW.merchant_id AND i.intent_id = NEW.intent_id;
    IF it.state IS DISTINCT FROM 'proposed' THEN
        RAISE EXCEPTION 'only a proposed intent is approved' USING ERRCODE = 'check_violation';
    END IF;
    IF it.unread THEN
        RAISE EXCEPTION 'capture_not_verified: it is read again at the provider before it is paid back' USING ERRCODE = 'check_violation';
    END IF;
    IF it.unsettled THEN
        RAISE EXCEPTION 'a conflict is settled with a reason' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'conflict_settled_with_a_reason';
    END IF;
    IF it.recovered THEN
        RAISE EXCEPTION 'who lost their factors approves nothing for a day' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'recovered_lately';
    END IF;
    IF it.strength = 'passkey' AND NEW.strength <> 'passkey' OR it.strength = 'factor' AND NEW.strength NOT IN ('factor', 'passkey') THEN
        RAISE EXCEPTION 'this amount takes a stronger approval' USING ERRCODE = 'check_violation', CONSTRAINT = 'as_strong_as_needed';
    END IF;
    IF NEW.strength IN ('factor', 'passkey') THEN
        IF NOT (CASE NEW.strength
            WHEN 'factor' THEN EXISTS (SELECT 1 FROM factor_acts f WHERE f.approval_id = NEW.approval_id
                AND f.staff_id = NEW.staff_id AND f.signs_money AND f.shown_at > NEW.approved_at - interval '5 minutes'
                AND act_counts(f.factor_id, f.credential_id))
            ELSE EXISTS (SELECT 1 FROM approval_assertions s JOIN approval_challenges c
                ON c.merchant_id = s.merchant_id AND c.nonce = s.nonce WHERE s.merchant_id = NEW.merchant_id
                AND s.approval_id = NEW.approval_id AND s.staff_id = NEW.staff_id AND c.staff_id = NEW.staff_id
                AND c.intent_id = NEW.intent_id AND c.fingerprint = NEW.fingerprint AND c.act = 'approve:' || NEW.seat
                AND s.act = c.act AND s.earlier = c.earlier AND c.spent_at IS NOT NULL) END) THEN
            RAISE EXCEPTION 'an approval shows what it was made with' USING ERRCODE = 'check_violation',
                CONSTRAINT = 'shows_its_strength';
        END IF;
    END IF;
    -- S31: what was signed with a key is good for four hours, all else for a day.
    IF NEW.expires_at > NEW.approved_at + (CASE NEW.strength WHEN 'passkey' THEN interval '4 hours' ELSE interval '24 hours' END) THEN
        RAISE EXCEPTION 'this approval would be good for too long' USING ERRCODE = 'check_violation', CONSTRAINT = 'good_for_hours';
    END IF;
    RETURN NEW;
END $$;

CREATE TRIGGER of_what_stands BEFORE INSERT ON approvals FOR EACH ROW EXECUTE FUNCTION approve_what_stands();

-- P3, P4, P6, P7. What is approved has its approval, by two managers where it takes two, and is carried by lines of its order or by
-- the one payment that its case claims, which is still one too many.
CREATE FUNCTION move_what_was_approved() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    it record;
    why text;
BEGIN
    SELECT i.route, i.order_minor, i.capture_id, c.kind,
        EXISTS (SELECT 1 FROM approvals a WHERE a.merchant_id = NEW.merchant_id AND a.intent_id = NEW.intent_id
            AND a.approver = NEW.actor) AS approved,
        (SELECT sum(l.amount_minor) FROM line_claims l WHERE l.merchant_id = NEW.merchant_id AND l.intent_id = NEW.intent_id) AS claimed
    INTO it FROM intents i JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id
    WHERE i.merchant_id = NEW.merchant_id AND i.intent_id = NEW.intent_id;
    IF it.approved IS NOT TRUE THEN
        RAISE EXCEPTION 'nothing is approved without the approval of its actor' USING ERRCODE = 'check_violation';
    END IF;
    IF it.claimed IS DISTINCT FROM it.order_minor THEN
        PERFORM 1 FROM charge_claims k WHERE k.merchant_id = NEW.merchant_id AND k.case_id = NEW.case_id
            AND k.capture_id = it.capture_id AND k.live;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'nothing is approved that the lines of its order do not carry' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    IF it.route = 'two_managers' AND (SELECT count(*) FROM approvals a JOIN memberships m ON m.merchant_id = a.merchant_id
            AND m.staff_id = a.staff_id AND m.role = 'manager' AND m.ended_at IS NULL
            JOIN staff p ON p.staff_id = a.staff_id AND p.disabled_at IS NULL
            WHERE a.merchant_id = NEW.merchant_id AND a.intent_id = NEW.intent_id) <> 2 THEN
        RAISE EXCEPTION 'two managers approve this, one after the other' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'two_managers_approve';
    END IF;
    IF it.kind = 'duplicate_charge' THEN
        why := duplicate_obstacle(NEW.merchant_id, NEW.intent_id);
        IF why <> '' THEN
            RAISE EXCEPTION 'a duplicate charge is paid back while it is one: %', why
                USING ERRCODE = 'check_violation', CONSTRAINT = 'duplicate_still_stands';
        END IF;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER as_approved AFTER INSERT ON events FOR EACH ROW
    WHEN (NEW.from_state = 'proposed' AND NEW.to_state = 'approved') EXECUTE FUNCTION move_what_was_approved();

-- As in 0001; what is approved is asked above, before this, for triggers go by their names.
CREATE OR REPLACE FUNCTION apply_event() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE cases SET head_number = NEW.number, head_hash = NEW.hash, stage = COALESCE(NEW.case_stage, stage)
    WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id AND head_number = NEW.number - 1
        AND head_hash IS NOT DISTINCT FROM NEW.previous_hash;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'event does not follow the last one of its case' USING ERRCODE = 'serialization_failure';
    END IF;
    -- P3, P11: what is sent is reserved and counted.
    IF NEW.to_state = 'submitting' THEN
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

-- A person's hour and day and the journal that moves them, in one statement; the row's own check refuses what does not fit.
CREATE OR REPLACE FUNCTION count_approval() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    counted integer;
BEGIN
    WITH what AS MATERIALIZED (
        SELECT i.amount_minor, i.currency, i.exponent, p.role, date_trunc('hour', now()) AS hour,
            (now() AT TIME ZONE g.zone)::date AS day, g.zone
        FROM intents i JOIN merchants g ON g.id = i.merchant_id
        LEFT JOIN (SELECT ms.role FROM memberships ms JOIN staff s ON s.staff_id = ms.staff_id AND s.disabled_at IS NULL
            WHERE ms.merchant_id = NEW.merchant_id AND ms.staff_id = NEW.staff_id AND ms.ended_at IS NULL) p ON true
        WHERE i.merchant_id = NEW.merchant_id AND i.intent_id = NEW.intent_id),
    entry AS (
        INSERT INTO approval_entries (merchant_id, approval_id, intent_id, seat, staff_id, currency, amount_minor)
        SELECT NEW.merchant_id, NEW.approval_id, NEW.intent_id, NEW.seat, NEW.staff_id, what.currency, what.amount_minor FROM what)
    INSERT INTO reviewer_windows AS w (merchant_id, staff_id, currency, span, starts_at, ends_at, limit_count, limit_minor,
            used_count, used_minor)
        SELECT NEW.merchant_id, NEW.staff_id, what.currency, l.span,
            CASE l.span WHEN 'hour' THEN what.hour ELSE what.day::timestamp AT TIME ZONE what.zone END,
            CASE l.span WHEN 'hour' THEN what.hour + interval '1 hour' ELSE (what.day + 1)::timestamp AT TIME ZONE what.zone END,
            l.most, l.most_minor, 1, what.amount_minor
        FROM what CROSS JOIN LATERAL reviewer_limits(NEW.merchant_id, what.role, what.currency, what.exponent) l
        ORDER BY l.span DESC
        ON CONFLICT (merchant_id, staff_id, currency, span, starts_at) DO UPDATE SET limit_count = EXCLUDED.limit_count,
            limit_minor = EXCLUDED.limit_minor, used_count = w.used_count + 1, used_minor = w.used_minor + EXCLUDED.used_minor;
    GET DIAGNOSTICS counted = ROW_COUNT;
    IF counted = 0 THEN
        RAISE EXCEPTION 'this role approves nothing' USING ERRCODE = 'check_violation', CONSTRAINT = 'within_what_a_person_approves';
    END IF;
    RETURN NULL;
END $$;
