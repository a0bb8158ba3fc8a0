-- S38. What a version of a policy approves by itself: small, plain, seen by somebody who did not ask, and within a limit of its
-- own a day. Its seal has a key of its own, outside the database as that of people's approvals is.

-- An approval is a person's or a policy's, and says which: neither passes for the other.
ALTER TABLE approvals ALTER COLUMN staff_id DROP NOT NULL;
ALTER TABLE approvals DROP CONSTRAINT approvals_approver_check;
ALTER TABLE approvals DROP CONSTRAINT approvals_check;
ALTER TABLE approvals DROP CONSTRAINT approvals_strength_check;
ALTER TABLE approvals ADD CONSTRAINT approvals_strength_check CHECK (strength IN ('session', 'policy'));
ALTER TABLE approvals ADD CONSTRAINT a_persons_or_a_policys CHECK (
    CASE WHEN staff_id IS NULL
        THEN strength = 'policy' AND approver ~ '^policy:[a-z0-9][a-z0-9-]{0,59}@[1-9][0-9]{0,9}$' AND seat = 1 AND note = ''
            AND expires_at <= approved_at + interval '24 hours'
        ELSE strength <> 'policy' AND approver = 'staff:' || staff_id::text
    END
);

-- A policy approves and says why it did not; it moves nothing else. The worker is no policy.
ALTER TABLE events DROP CONSTRAINT events_actor_check;
ALTER TABLE events ADD CONSTRAINT events_actor_check CHECK (actor ~ '^(staff:|token:|system$|worker:|policy:)');
ALTER TABLE events ADD CONSTRAINT a_policy_only_approves CHECK (
    actor !~ '^policy:' OR kind = 'automatic.left' AND to_state IS NULL OR kind = 'intent.approved' AND to_state = 'approved'
);
CREATE POLICY worker_is_no_policy ON events AS RESTRICTIVE FOR INSERT TO onceback_worker WITH CHECK (actor !~ '^policy:');

-- The day's own limit, in the merchant's zone: one row a currency and day, moved by the approvals themselves. What was called
-- back is not given back to it: it limits what is approved, not what is paid.
CREATE TABLE automatic_days (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    business_day date NOT NULL,
    limit_minor bigint NOT NULL CHECK (limit_minor >= 0),
    used_count integer NOT NULL DEFAULT 0 CHECK (used_count >= 0),
    used_minor bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (merchant_id, currency, business_day),
    CONSTRAINT within_the_automatic_limit CHECK (used_minor BETWEEN 0 AND limit_minor)
);
CREATE TRIGGER never_deleted BEFORE DELETE ON automatic_days FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON automatic_days FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- What a document approves by itself in a currency: up to how much at once, and how much a day. No row: nothing. What cannot be
-- read as whole minor units, and what is no approved version, names nothing.
CREATE FUNCTION automatic_terms(document jsonb, cur text) RETURNS TABLE (most_minor bigint, day_minor bigint)
    LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
    SELECT CASE WHEN whole THEN (t->>'most_minor')::bigint END, CASE WHEN whole THEN (t->>'day_minor')::bigint END
    FROM (SELECT document->'automatic'->cur AS t) named
    CROSS JOIN LATERAL (SELECT coalesce(jsonb_typeof(t->'most_minor') = 'number' AND jsonb_typeof(t->'day_minor') = 'number'
        AND t->>'most_minor' ~ '^[1-9][0-9]{0,14}$' AND t->>'day_minor' ~ '^[1-9][0-9]{0,14}$', false) AS whole) w
    WHERE whole AND coalesce(document->>'status', 'approved') = 'approved'
$$;

-- The rule of an intent: named by the version its fingerprint is bound to, and by every one in force now; the lowest counts.
CREATE FUNCTION automatic_rule(m uuid, i uuid) RETURNS TABLE (most_minor bigint, day_minor bigint)
    LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT min(t.most_minor), min(t.day_minor) FROM intents x
    JOIN policies p ON p.merchant_id = x.merchant_id
        AND ((p.policy_id, p.version) = (x.policy_id, x.policy_version) OR p.effective @> now())
    LEFT JOIN LATERAL automatic_terms(p.document, x.currency) t ON true
    WHERE x.merchant_id = m AND x.intent_id = i
    HAVING bool_and(t.most_minor IS NOT NULL) AND bool_or(p.effective @> now())
$$;

-- Whether somebody who did not ask saw the goods: a member of staff, or a system that reports receipts and opens no returns. One
-- system, or one person, that both asks and says it arrived is nobody's word but its own.
CREATE FUNCTION seen_by_another(m uuid, c uuid) RETURNS boolean LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT coalesce(bool_and(
        e.actor <> k.opened_by
        AND NOT EXISTS (SELECT 1 FROM conversations v WHERE v.merchant_id = m AND v.case_id = c AND v.actor = e.actor)
        AND (EXISTS (SELECT 1 FROM memberships ms JOIN staff s ON s.staff_id = ms.staff_id WHERE ms.merchant_id = m
                AND e.actor = 'staff:' || ms.staff_id::text AND ms.ended_at IS NULL AND s.disabled_at IS NULL)
            OR EXISTS (SELECT 1 FROM api_tokens t WHERE t.merchant_id = m AND e.actor = 'token:' || t.token_id
                AND 'receipts:write' = ANY (t.scopes) AND NOT 'cases:open' = ANY (t.scopes) AND t.revoked_at IS NULL))), false)
    FROM evidence e JOIN cases k ON k.merchant_id = e.merchant_id AND k.case_id = e.case_id
    WHERE e.merchant_id = m AND e.case_id = c AND e.kind IN ('received', 'inspected')
$$;

-- Whether what a channel says of how it knew the customer says that it did. The word is the channel's own: one that denies is no way
-- of knowing, however it is put, and a way that only looks like one leaves a refund to a person.
CREATE FUNCTION says_who(way text) RETURNS boolean LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
    SELECT lower(btrim(way)) !~ ('^(none|nobody|no|0|false|null|nil|n/?a|(no|not|non|never|self|customer)[_ ].*|failed.*|anonymous.*'
        || '|guest.*|un(verified|known|checked|identified|proven|confirmed|authenticated).*)?$')
$$;

-- Why an intent is a person's to approve, '' when a policy may. The console asks before it approves, the trigger below as the last
-- guard, and the worker before each send; what only counts at the approval itself (brakes, the day's limit, a list of disputes that
-- was read lately) is asked with `approving`.
CREATE FUNCTION automatic_obstacle(m uuid, i uuid, approving boolean) RETURNS text LANGUAGE plpgsql STABLE
    SET search_path = public, pg_temp AS $$
DECLARE
    x intents%ROWTYPE;
    c cases%ROWTYPE;
    o orders%ROWTYPE;
    k captures%ROWTYPE;
    e entitlements%ROWTYPE;
    rule record;
    used bigint;
BEGIN
    SELECT * INTO x FROM intents WHERE merchant_id = m AND intent_id = i;
    SELECT * INTO rule FROM automatic_rule(m, i);
    IF rule.most_minor IS NULL THEN
        RETURN 'not_named';
    END IF;
    SELECT * INTO c FROM cases WHERE merchant_id = m AND case_id = x.case_id;
    SELECT * INTO o FROM orders WHERE merchant_id = m AND order_id = x.order_id;
    SELECT * INTO k FROM captures WHERE merchant_id = m AND capture_id = x.capture_id;
    SELECT * INTO e FROM entitlements WHERE merchant_id = m AND entitlement_id = x.entitlement_id;
    -- What is asked for has to be a refund, by itself, of a plain return.
    IF x.act <> 'refund' OR EXISTS (SELECT 1 FROM provider_accounts a WHERE a.merchant_id = m
            AND a.provider_account_id = x.provider_account_id AND a.charge_type = 'separate') THEN
        RETURN 'act';
    ELSIF c.separate THEN
        RETURN 'separate';
    ELSIF x.route <> 'desk' OR e.record->'route'->>'level' IS DISTINCT FROM 'staff'
            -- A sign of risk raised it to the desk.
            OR jsonb_path_exists(e.record, '$.route.because[*] ? (@ starts with "signal.")') THEN
        RETURN 'route';
    ELSIF x.requester <> c.opened_by THEN
        RETURN 'asked_again';
    ELSIF x.replaces IS NOT NULL OR EXISTS (SELECT 1 FROM intents b WHERE b.merchant_id = m AND b.case_id = x.case_id
            AND b.intent_id <> i AND (b.state <> 'withdrawn' OR b.state_reason <> 'evidence_changed' OR EXISTS (SELECT 1 FROM events v
                WHERE v.merchant_id = m AND v.intent_id = b.intent_id AND v.to_state = 'held'))) THEN
        RETURN 'not_the_first';
    ELSIF x.currency <> o.currency OR x.order_minor <> e.total_minor OR e.payable_minor <> e.total_minor
            OR jsonb_typeof(e.record->'rules') IS DISTINCT FROM 'array' OR EXISTS (SELECT 1 FROM jsonb_array_elements(e.record->'rules') r
                WHERE coalesce(r->>'status', 'fail') IN ('fail', 'needs_review')) THEN
        RETURN 'not_plain';
    ELSIF o.blocked OR cardinality(o.discrepancies) > 0 THEN
        RETURN 'blocked';
    END IF;
    -- Who asked is known, and somebody else saw the goods as they were sold.
    IF NOT EXISTS (SELECT 1 FROM conversations v WHERE v.merchant_id = m AND v.case_id = x.case_id)
            OR EXISTS (SELECT 1 FROM conversations v WHERE v.merchant_id = m AND v.case_id = x.case_id
                AND NOT says_who(v.customer_verified)) THEN
        RETURN 'not_verified';
    ELSIF NOT seen_by_another(m, x.case_id) THEN
        RETURN 'channel_only';
    ELSIF c.received <> c.announced THEN
        RETURN 'not_plain';
    ELSIF EXISTS (SELECT 1 FROM evidence v WHERE v.merchant_id = m AND v.case_id = x.case_id
            AND v.kind = 'inspected' AND v.grade NOT IN ('N', 'A', 'B')) THEN
        RETURN 'grade';
    END IF;
    -- The payment is known as it stands, and nobody else is at it.
    IF k.provider_account_id IS NULL OR k.held_minor + k.releasing_minor > 0
            OR k.verified_generation <> (SELECT generation FROM deployment) THEN
        RETURN 'unread';
    ELSIF EXISTS (SELECT 1 FROM disputes d WHERE d.merchant_id = m AND d.charge_ref = k.charge_ref
            AND d.provider_account_id = k.provider_account_id)
        -- One that a comparison saw there and nobody could write down here counts as well.
        OR EXISTS (SELECT 1 FROM provider_disputes d WHERE d.merchant_id = m AND d.charge_ref = k.charge_ref
            AND d.provider_account_id = k.provider_account_id) THEN
        RETURN 'disputed';
    ELSIF EXISTS (SELECT 1 FROM external_refunds r WHERE r.merchant_id = m AND r.charge_ref = k.charge_ref
            AND r.provider_account_id = k.provider_account_id AND r.status NOT IN ('failed', 'canceled')
            AND r.allocated_minor < r.amount_minor) THEN
        RETURN 'outside';
    ELSIF EXISTS (SELECT 1 FROM discrepancies d WHERE d.merchant_id = m
            AND (d.intent_id IN (SELECT b.intent_id FROM intents b WHERE b.merchant_id = m AND b.order_id = x.order_id)
                OR d.about = 'payment' AND d.provider_account_id = k.provider_account_id AND d.refund_ref = k.charge_ref
                OR d.refund_ref IN (SELECT r.refund_ref FROM external_refunds r WHERE r.merchant_id = m AND r.charge_ref = k.charge_ref))
            AND NOT EXISTS (SELECT 1 FROM discrepancy_acts a WHERE a.merchant_id = m AND a.discrepancy_id = d.discrepancy_id
                AND a.kind = 'resolved')) THEN
        RETURN 'discrepancy';
    ELSIF EXISTS (SELECT 1 FROM line_claims n JOIN line_claims b ON b.merchant_id = n.merchant_id AND b.line_id = n.line_id
            JOIN intents y ON y.merchant_id = b.merchant_id AND y.intent_id = b.intent_id
            WHERE n.merchant_id = m AND n.intent_id = i AND n.step = 'claim' AND y.state <> 'withdrawn'
                -- One that came later and was let go first went before it as well; what a person lets go afterwards knew of this one.
                AND (y.number < x.number OR approving AND y.intent_id <> i AND y.state <> 'proposed'))
        OR EXISTS (SELECT 1 FROM line_claims n JOIN external_allocations r ON r.merchant_id = n.merchant_id AND r.line_id = n.line_id
            WHERE n.merchant_id = m AND n.intent_id = i) THEN
        RETURN 'line_before';
    ELSIF x.amount_minor > rule.most_minor THEN
        RETURN 'above';
    ELSIF NOT approving THEN
        RETURN '';
    END IF;
    IF NOT EXISTS (SELECT 1 FROM merchant_brakes b WHERE b.merchant_id = m AND b.paused_at IS NULL AND b.stopped_at IS NULL)
            OR EXISTS (SELECT 1 FROM deployment_brakes) THEN
        RETURN 'paused';
    ELSIF EXISTS (SELECT 1 FROM merchant_brakes b WHERE b.merchant_id = m AND b.shadow_at IS NOT NULL) THEN
        RETURN 'shadow';
    ELSIF NOT EXISTS (SELECT 1 FROM account_readings r WHERE r.merchant_id = m AND r.provider_account_id = k.provider_account_id
            AND r.list = 'disputes' AND r.failing_since IS NULL AND r.read_at > now() - interval '5 minutes') THEN
        RETURN 'disputes_unread';
    END IF;
    SELECT coalesce(max(d.used_minor), 0) INTO used FROM automatic_days d JOIN merchants g ON g.id = d.merchant_id
    WHERE d.merchant_id = m AND d.currency = x.currency AND d.business_day = (now() AT TIME ZONE g.zone)::date;
    RETURN CASE WHEN used + x.amount_minor > rule.day_minor THEN 'day_limit' ELSE '' END;
END $$;

-- The last guard: no row says that a policy approved what it does not name, or at another time than now.
CREATE FUNCTION approve_as_named() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE why text;
BEGIN
    PERFORM 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id
        AND NEW.approver = 'policy:' || policy_id || '@' || policy_version AND NEW.approved_at = now();
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a policy approves what is under it, now' USING ERRCODE = 'check_violation', CONSTRAINT = 'automatic_only_as_named';
    END IF;
    why := automatic_obstacle(NEW.merchant_id, NEW.intent_id, true);
    IF why <> '' THEN
        RAISE EXCEPTION 'a person approves this: %', why USING ERRCODE = 'check_violation', CONSTRAINT = 'automatic_only_as_named';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER only_as_named BEFORE INSERT ON approvals FOR EACH ROW WHEN (NEW.staff_id IS NULL) EXECUTE FUNCTION approve_as_named();

-- A person's approval counts in their windows, a policy's in its day.
DROP TRIGGER counts_for_its_person ON approvals;
CREATE TRIGGER counts_for_its_person AFTER INSERT ON approvals FOR EACH ROW WHEN (NEW.staff_id IS NOT NULL)
    EXECUTE FUNCTION count_approval();
CREATE FUNCTION count_automatic_approval() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    what record;
    rule record;
    today date;
BEGIN
    SELECT amount_minor, currency INTO what FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id;
    SELECT * INTO rule FROM automatic_rule(NEW.merchant_id, NEW.intent_id);
    SELECT (now() AT TIME ZONE zone)::date INTO today FROM merchants WHERE id = NEW.merchant_id;
    INSERT INTO approval_entries (merchant_id, approval_id, intent_id, seat, staff_id, currency, amount_minor)
        VALUES (NEW.merchant_id, NEW.approval_id, NEW.intent_id, NEW.seat, NULL, what.currency, what.amount_minor);
    INSERT INTO automatic_days (merchant_id, currency, business_day, limit_minor)
        VALUES (NEW.merchant_id, what.currency, today, coalesce(rule.day_minor, 0)) ON CONFLICT DO NOTHING;
    UPDATE automatic_days SET limit_minor = rule.day_minor, used_count = used_count + 1, used_minor = used_minor + what.amount_minor
    WHERE merchant_id = NEW.merchant_id AND currency = what.currency AND business_day = today
        AND used_minor + what.amount_minor <= rule.day_minor;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'more than the policy approves by itself in one day'
            USING ERRCODE = 'check_violation', CONSTRAINT = 'within_the_automatic_limit';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER counts_for_its_policy AFTER INSERT ON approvals FOR EACH ROW WHEN (NEW.staff_id IS NULL)
    EXECUTE FUNCTION count_automatic_approval();

-- What the check before a send took from a policy is a person's: no timer lets it go (a recovery that finds it paid says so).
CREATE FUNCTION keep_for_a_person() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND state_reason LIKE 'automatic\_%';
    IF FOUND THEN
        RAISE EXCEPTION 'what a policy may not approve any more goes only by a new approval' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stays_with_a_person BEFORE INSERT ON events FOR EACH ROW
    WHEN (NEW.from_state = 'held' AND NEW.to_state = 'approved' AND NEW.reason <> 'recovery') EXECUTE FUNCTION keep_for_a_person();

-- How a policy is called where people are called by their name; NULL for whoever is none.
CREATE FUNCTION policy_in_words(m uuid, actor text) RETURNS text LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT 'policy ' || coalesce(NULLIF(left(p.document->>'title', 80), ''), p.policy_id) || ', version ' || p.version || ', rule automatic'
    FROM policies p WHERE p.merchant_id = m AND actor LIKE 'policy:%' AND actor = 'policy:' || p.policy_id || '@' || p.version
$$;

GRANT SELECT ON automatic_days TO onceback_console, onceback_worker;
GRANT EXECUTE ON FUNCTION automatic_terms(jsonb, text), automatic_rule(uuid, uuid), seen_by_another(uuid, uuid), says_who(text),
    automatic_obstacle(uuid, uuid, boolean), policy_in_words(uuid, text) TO onceback_console, onceback_worker;
-- What the worker needs to ask the same: whether the customer was known, never what was said; whose scope a report came under.
GRANT SELECT (merchant_id, case_id, actor, customer_verified) ON conversations TO onceback_worker;
GRANT SELECT (merchant_id, token_id, scopes, revoked_at) ON api_tokens TO onceback_worker;
