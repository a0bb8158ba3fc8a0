-- Policies drafted by one manager and put into force by another. A version comes into force through these journals and in no
-- other way at run time: nobody of the console holds INSERT on `policies`, the owner's trigger publishes.

CREATE TABLE policy_drafts (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    draft_id uuid NOT NULL,
    policy_id text NOT NULL CHECK (policy_id ~ '^[a-z0-9][a-z0-9-]{0,59}$'),
    version integer NOT NULL CHECK (version > 0),
    document jsonb NOT NULL CHECK (pg_column_size(document) <= 200000),
    digest bytea NOT NULL CHECK (length(digest) = 32),
    -- NULL: as soon as it is approved. One that is past when it is drafted fills a time that no policy covers.
    effective_from timestamptz,
    effective_to timestamptz,
    -- People, or the policy by itself, may approve more than before: it binds from the next business day (SECURITY section 2).
    raises boolean NOT NULL,
    staff_id uuid NOT NULL,
    note text NOT NULL CHECK (length(note) BETWEEN 1 AND 500),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, draft_id),
    UNIQUE (merchant_id, draft_id, staff_id),
    CHECK (effective_to > effective_from),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
CREATE TABLE policy_answers (
    merchant_id uuid NOT NULL,
    draft_id uuid NOT NULL,
    answer text NOT NULL CHECK (answer IN ('approved', 'turned_down', 'withdrawn')),
    drafted_by uuid NOT NULL,
    staff_id uuid NOT NULL,
    -- The same as of its draft, compared with what is in force at the approval; either binds.
    raises boolean NOT NULL,
    note text NOT NULL CHECK (length(note) <= 500),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, draft_id),
    CONSTRAINT another_person_approves CHECK (answer <> 'approved' OR staff_id <> drafted_by),
    CONSTRAINT the_drafter_withdraws CHECK ((answer = 'withdrawn') = (staff_id = drafted_by)),
    FOREIGN KEY (merchant_id, draft_id, drafted_by) REFERENCES policy_drafts (merchant_id, draft_id, staff_id),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['policy_drafts', 'policy_answers'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;

-- What of a document says how much people, or the policy by itself, may approve: each figure by its path.
CREATE FUNCTION policy_allows(d jsonb) RETURNS TABLE (path text, said jsonb) LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
    WITH RECURSIVE leaf AS (
        SELECT array_to_string(place, '.') AS path, d #> place AS said FROM (VALUES ('{limits}'::text[]), ('{automatic}'), ('{signals}'),
            ('{goodwill,max_minor}'), ('{routes,always}'), ('{routes,manager_from_minor}'), ('{routes,two_managers_from_minor}'),
            ('{routes,factor_from_minor}'), ('{routes,passkey_from_minor}')) named (place)
        UNION ALL SELECT leaf.path || '.' || inside.key, inside.value FROM leaf
            CROSS JOIN LATERAL jsonb_each(CASE jsonb_typeof(leaf.said) WHEN 'object' THEN leaf.said ELSE '{}' END) inside
    ) SELECT path, said FROM leaf WHERE jsonb_typeof(said) NOT IN ('object', 'null')
$$;
CREATE FUNCTION signs_counted(d jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
    SELECT d ? 'signals' OR jsonb_typeof(d->'shipping') IS NOT DISTINCT FROM 'object'
$$;

-- Whether more may be approved under one document than under another: `policy_changes.raised`, so that nobody's word counts. What
-- signs of risk and fixed rules are where a document does not name them is the engine's; a test holds both beside each other.
CREATE FUNCTION policy_allows_more(was jsonb, wanted jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
    WITH old AS (SELECT * FROM policy_allows(was)), new AS (SELECT * FROM policy_allows(wanted)),
    limited AS (
        SELECT (SELECT array_agg(DISTINCT substring(path FROM '^limits\.[^.]+\.[^.]+')) FROM old WHERE path LIKE 'limits.%') AS old,
            (SELECT array_agg(DISTINCT substring(path FROM '^limits\.[^.]+\.[^.]+')) FROM new WHERE path LIKE 'limits.%') AS new),
    moved AS (
        SELECT path, old.said AS old, new.said AS new, split_part(path, '.', 3) AS part,
            substring(path FROM '^limits\.[^.]+\.[^.]+') AS limit_of,
            CASE substring(path FROM '^signals\.([^.]+)\.threshold$') WHEN 'refunds_30d' THEN 3 WHEN 'refund_value_90d_minor' THEN 50000
                WHEN 'return_rate_365d_bps' THEN 5000 WHEN 'not_received_365d' THEN 2 WHEN 'account_age_days' THEN 7 ELSE 1 END AS usual,
            CASE WHEN substring(path FROM '^routes\.always\.(.*)$') IN ('evidence.conflict', 'line.ceiling', 'capture.available',
                'dispute.none', 'paid.within', 'advance.within', 'override.within', 'grade_d', 'duplicate.charge')
                THEN 'manager' ELSE 'staff' END AS fixed
        FROM old FULL JOIN new USING (path) WHERE old.said IS DISTINCT FROM new.said),
    summed AS (
        SELECT coalesce(was#>'{routes,sum_over}', it) AS old, coalesce(wanted#>'{routes,sum_over}', it) AS new
        FROM (SELECT '["order_lifetime", "staff_day", "customer_day"]'::jsonb AS it) every)
    SELECT NOT (SELECT old <@ new FROM summed) OR signs_counted(was) AND NOT signs_counted(wanted) OR coalesce(bool_or(CASE
        WHEN path LIKE 'signals.%' THEN signs_counted(was) AND CASE
            WHEN part = 'raise_by' OR path LIKE 'signals.account_age_days.%'
                THEN coalesce(moved.new::numeric, usual) < coalesce(moved.old::numeric, usual)
            ELSE coalesce(moved.new::numeric, usual) > coalesce(moved.old::numeric, usual) END
        WHEN path LIKE 'routes.always.%' THEN array_position('{staff,manager,two_managers}', coalesce(moved.new#>>'{}', fixed))
            < array_position('{staff,manager,two_managers}', coalesce(moved.old#>>'{}', fixed))
        WHEN moved.old IS NOT NULL AND moved.new IS NOT NULL THEN moved.new::numeric > moved.old::numeric
        WHEN path LIKE 'limits.%' THEN limited.old IS NULL OR limited.new IS NULL OR CASE WHEN moved.new IS NULL
            THEN limit_of = ANY (limited.old) AND limit_of = ANY (limited.new) AND path LIKE '%.day%'
            ELSE NOT (limit_of = ANY (limited.old) AND limit_of = ANY (limited.new)) END
        WHEN path ~ '^routes\.(two|factor|passkey)' THEN moved.new IS NULL
        ELSE moved.new IS NOT NULL END), false)
    FROM moved CROSS JOIN limited
$$;

-- The same against what is in force when the draft begins, as `policy_raises.raises_over` finds it.
CREATE FUNCTION policy_raises(d policy_drafts) RETURNS boolean LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    WITH standing AS MATERIALIZED (
        SELECT policy_id, document FROM policies WHERE merchant_id = d.merchant_id AND effective @> coalesce(d.effective_from, now())),
    own AS (
        SELECT coalesce((SELECT document FROM standing WHERE policy_id = d.policy_id), (SELECT document FROM policies
            WHERE merchant_id = d.merchant_id AND policy_id = d.policy_id ORDER BY version DESC LIMIT 1)) AS document)
    SELECT CASE WHEN own.document IS NOT NULL THEN policy_allows_more(own.document, d.document)
        ELSE EXISTS (SELECT 1 FROM standing) AND (
            coalesce(d.document->'limits', '{}') NOT IN ('{}', 'null')
                AND NOT EXISTS (SELECT 1 FROM standing WHERE coalesce(document->'limits', '{}') NOT IN ('{}', 'null'))
            OR EXISTS (SELECT 1 FROM unnest('{routes,automatic,signals,goodwill}'::text[]) name
                WHERE coalesce(d.document->name, '{}') NOT IN ('{}', 'null')))
        END FROM own
$$;

CREATE FUNCTION keep_policy_row_true() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.at := now();
    IF coalesce(brake_role(NEW.merchant_id, NEW.staff_id), '') <> 'manager' THEN
        RAISE EXCEPTION 'managers draft and approve policies' USING ERRCODE = 'check_violation', CONSTRAINT = 'managers_only';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER is_true BEFORE INSERT ON policy_drafts FOR EACH ROW EXECUTE FUNCTION keep_policy_row_true();
CREATE TRIGGER is_true BEFORE INSERT ON policy_answers FOR EACH ROW EXECUTE FUNCTION keep_policy_row_true();

-- Whoever writes the answer: that nothing is raised is found from the documents. Only more can be said than is found.
CREATE FUNCTION answer_raises() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.raises := NEW.raises OR NEW.answer = 'approved' AND coalesce((SELECT policy_raises(d) FROM policy_drafts d
        WHERE d.merchant_id = NEW.merchant_id AND d.draft_id = NEW.draft_id), false);
    RETURN NEW;
END $$;
CREATE TRIGGER raises_as_found BEFORE INSERT ON policy_answers FOR EACH ROW EXECUTE FUNCTION answer_raises();

-- Whether one sale could fall under both and neither is the more specific (ENTITLEMENT section 8). A set that only one of them has
-- makes that one win; two sets without a member in common never meet.
CREATE FUNCTION policies_tie(a jsonb, b jsonb) RETURNS boolean LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
    SELECT coalesce(a->>'priority', '0') = coalesce(b->>'priority', '0')
        AND a#>>'{select,tenant}' IS NOT DISTINCT FROM b#>>'{select,tenant}'
        AND bool_and(CASE WHEN x = '[]' OR y = '[]' THEN x = y ELSE x ?| ARRAY(SELECT jsonb_array_elements_text(y)) END)
    FROM (SELECT coalesce(a->'select'->name, '[]') AS x, coalesce(b->'select'->name, '[]') AS y
        FROM unnest(ARRAY['categories', 'reasons', 'regions', 'payment_methods', 'channels', 'sale_modes']) name) sets
$$;

-- One at a time for each merchant, so that two who publish at once see each other: the second waits for the merchant's row.
CREATE FUNCTION keep_policies_apart() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM merchants WHERE id = NEW.merchant_id FOR NO KEY UPDATE;
    PERFORM 1 FROM policies o WHERE o.merchant_id = NEW.merchant_id AND o.policy_id <> NEW.policy_id
        AND o.effective && NEW.effective AND policies_tie(o.document, NEW.document);
    IF FOUND THEN
        RAISE EXCEPTION 'one sale could fall under two policies' USING ERRCODE = 'exclusion_violation',
            CONSTRAINT = 'one_policy_decides_a_sale';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER one_decides BEFORE INSERT ON policies FOR EACH ROW EXECUTE FUNCTION keep_policies_apart();

-- When what is approved now begins: never before the approval, but where the draft fills a time that is past and raises nothing.
CREATE FUNCTION policy_begins(d policy_drafts, n policy_answers) RETURNS timestamptz LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT CASE WHEN d.effective_from < d.at AND NOT (d.raises OR n.raises) THEN d.effective_from
        WHEN d.raises OR n.raises THEN greatest(d.effective_from, ((now() AT TIME ZONE g.zone)::date + 1)::timestamp AT TIME ZONE g.zone)
        ELSE greatest(d.effective_from, now()) END
    FROM merchants g WHERE g.id = d.merchant_id
$$;

-- A version that is in force ends where the next one begins, in the transaction that approves that one; nothing else of it changes.
CREATE FUNCTION keep_policy() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE put_back policies%ROWTYPE;
BEGIN
    IF TG_OP = 'UPDATE' THEN
        put_back := NEW;
        put_back.effective := OLD.effective;
        IF put_back IS NOT DISTINCT FROM OLD AND lower(NEW.effective) IS NOT DISTINCT FROM lower(OLD.effective)
            AND NEW.effective <@ OLD.effective AND upper(NEW.effective) >= now() AND EXISTS (
                SELECT 1 FROM policy_answers n JOIN policy_drafts d ON d.merchant_id = n.merchant_id AND d.draft_id = n.draft_id
                WHERE n.merchant_id = OLD.merchant_id AND n.answer = 'approved' AND n.at = now() AND d.policy_id = OLD.policy_id
                    AND d.version > OLD.version AND policy_begins(d, n) = upper(NEW.effective)) THEN
            RETURN NEW;
        END IF;
    END IF;
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END $$;
DROP TRIGGER append_only ON policies;
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON policies FOR EACH ROW EXECUTE FUNCTION keep_policy();

CREATE FUNCTION apply_policy_answer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    d policy_drafts%ROWTYPE;
    since timestamptz;
BEGIN
    IF NEW.answer <> 'approved' THEN
        RETURN NULL;
    END IF;
    PERFORM 1 FROM merchants WHERE id = NEW.merchant_id FOR NO KEY UPDATE;
    SELECT * INTO d FROM policy_drafts WHERE merchant_id = NEW.merchant_id AND draft_id = NEW.draft_id;
    IF d.version <> 1 + coalesce((SELECT max(version) FROM policies WHERE merchant_id = d.merchant_id AND policy_id = d.policy_id), 0) THEN
        RAISE EXCEPTION 'another version was published since' USING ERRCODE = 'check_violation', CONSTRAINT = 'drafted_from_the_newest';
    END IF;
    since := policy_begins(d, NEW);
    IF since < now() THEN
        PERFORM 1 FROM policies WHERE merchant_id = d.merchant_id AND effective && tstzrange(since, now());
        IF FOUND THEN
            RAISE EXCEPTION 'a policy decides what was sold then' USING ERRCODE = 'check_violation', CONSTRAINT = 'takes_over_nothing_past';
        END IF;
    ELSE
        UPDATE policies SET effective = tstzrange(lower(effective), since) WHERE merchant_id = d.merchant_id
            AND policy_id = d.policy_id AND effective @> since AND lower(effective) IS DISTINCT FROM since;
    END IF;
    INSERT INTO policies (merchant_id, policy_id, version, effective, document, digest, author, approver)
        VALUES (d.merchant_id, d.policy_id, d.version, tstzrange(since, d.effective_to), d.document, d.digest,
            'staff:' || d.staff_id::text, 'staff:' || NEW.staff_id::text);
    RETURN NULL;
END $$;
CREATE TRIGGER publishes AFTER INSERT ON policy_answers FOR EACH ROW EXECUTE FUNCTION apply_policy_answer();

GRANT SELECT, INSERT ON policy_drafts, policy_answers TO onceback_console;
GRANT EXECUTE ON FUNCTION policy_raises(policy_drafts), policy_allows_more(jsonb, jsonb), policy_allows(jsonb), signs_counted(jsonb)
    TO onceback_console;

-- Several policies may be in force at once now. Of those that set limits the lowest counts; where none does, the defaults. Its names
-- are bound as it is made, so the planner takes it in where it is called.
CREATE OR REPLACE FUNCTION reviewer_limits(m uuid, who text, cur text, exponent integer)
    RETURNS TABLE (span text, most integer, most_minor bigint) LANGUAGE sql STABLE
BEGIN ATOMIC
    WITH terms AS (
        SELECT document->'limits' AS l FROM policies
        WHERE merchant_id = m AND effective @> now() AND jsonb_typeof(document->'limits') = 'object'
    )
    SELECT d.span, d.most, (d.major * power(10::numeric, exponent))::bigint
    FROM (VALUES ('desk', 'hour', 40, 1500), ('desk', 'day', 150, 5000), ('manager', 'hour', 40, 10000)) d(role, span, most, major)
    WHERE d.role = who AND NOT EXISTS (SELECT 1 FROM terms)
    UNION ALL
    SELECT s.span, min(coalesce((l->who->cur->s.span->>'count')::integer, 0)),
        min(coalesce((l->who->cur->s.span->>'minor')::bigint, 0))
    FROM terms, (VALUES ('hour'), ('day')) s(span)
    WHERE who IN ('desk', 'manager') AND (s.span = 'hour' OR l->who->cur ? 'day') GROUP BY s.span;
END;

-- The rule of an intent: named by the version its fingerprint is bound to, and by the one of that policy in force now; were another
-- in force that could decide the same sale, it would have to name it too.
CREATE OR REPLACE FUNCTION automatic_rule(m uuid, i uuid) RETURNS TABLE (most_minor bigint, day_minor bigint)
    LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT min(t.most_minor), min(t.day_minor) FROM intents x
    JOIN policies own ON own.merchant_id = x.merchant_id AND own.policy_id = x.policy_id AND own.version = x.policy_version
    JOIN policies p ON p.merchant_id = x.merchant_id AND ((p.policy_id, p.version) = (x.policy_id, x.policy_version)
        OR p.effective @> now() AND (p.policy_id = x.policy_id OR policies_tie(p.document, own.document)))
    LEFT JOIN LATERAL automatic_terms(p.document, x.currency) t ON true
    WHERE x.merchant_id = m AND x.intent_id = i
    HAVING bool_and(t.most_minor IS NOT NULL) AND bool_or(p.effective @> now())
$$;

-- Signs of risk of a case (ENTITLEMENT section 8), from our own rows of its customer: the last 500 cases and orders at most. As the
-- owner, for the worker derives too and reads no messages; only counts come out. A sign that cannot be told has no row.
CREATE FUNCTION risk_signals(m uuid, c uuid) RETURNS TABLE (name text, number bigint) LANGUAGE sql STABLE SECURITY DEFINER
    SET search_path = public, pg_temp AS $$
    WITH k AS (SELECT * FROM cases WHERE merchant_id = m AND case_id = c),
    others AS MATERIALIZED (
        SELECT x.case_id, x.order_id, x.currency, x.channel, x.opened_at, x.closed_at, x.stage, x.reason FROM k
        JOIN cases x ON x.merchant_id = m AND x.customer_id = k.customer_id AND x.case_id <> c ORDER BY x.opened_at DESC LIMIT 500),
    mine AS MATERIALIZED (
        SELECT o.order_id, o.placed_at FROM k JOIN orders o ON o.merchant_id = m AND o.customer_id = k.customer_id
        ORDER BY o.placed_at DESC LIMIT 500),
    paid AS MATERIALIZED (
        SELECT i.case_id, i.order_minor, i.state_at, x.currency FROM others x
        JOIN intents i ON i.merchant_id = m AND i.case_id = x.case_id AND i.state = 'succeeded'),
    charged AS MATERIALIZED (
        SELECT p.provider_account_id, p.charge_ref FROM mine o
        JOIN captures p ON p.merchant_id = m AND p.order_id = o.order_id AND p.charge_ref IS NOT NULL),
    year AS (SELECT order_id FROM mine WHERE placed_at > now() - interval '365 days')
    SELECT found.* FROM (VALUES
        ('refunds_30d', (SELECT count(DISTINCT case_id) FROM paid WHERE state_at > now() - interval '30 days')),
        ('refund_value_90d_minor', (SELECT sum(order_minor)::bigint FROM paid JOIN k USING (currency)
            WHERE state_at > now() - interval '90 days')),
        ('return_rate_365d_bps', (SELECT CASE WHEN count(*) >= 5 THEN count(*) FILTER (WHERE order_id IN (
            SELECT order_id FROM others WHERE stage <> 'rejected' UNION SELECT order_id FROM k)) * 10000 / count(*) END FROM year)),
        -- Goods that one side says never arrived: the customer to their bank, or whoever closed a return of which nothing came.
        ('not_received_365d', (SELECT count(*) FROM (
            SELECT x.case_id::text AS what FROM others x JOIN events e ON e.merchant_id = m AND e.case_id = x.case_id
                AND e.kind = 'case.rejected' AND e.reason = 'not_returned' AND e.at > now() - interval '365 days'
            UNION SELECT x.case_id::text FROM others x WHERE x.reason = 'not_delivered' AND x.opened_at > now() - interval '365 days'
            UNION SELECT d.dispute_ref FROM charged h JOIN disputes d ON d.merchant_id = m
                AND d.provider_account_id = h.provider_account_id AND d.charge_ref = h.charge_ref
                AND d.reason = 'product_not_received' AND d.created_at > now() - interval '365 days') gone)),
        ('grade_x_ever', (SELECT count(*) FROM others x JOIN evidence e ON e.merchant_id = m AND e.case_id = x.case_id AND e.grade = 'X')),
        ('serial_mismatch_ever', (SELECT count(*) FROM others x
            JOIN evidence e ON e.merchant_id = m AND e.case_id = x.case_id AND e.serial IS NOT NULL
            JOIN order_lines l ON l.merchant_id = m AND l.line_id = e.line_id
            JOIN orders o ON o.merchant_id = m AND o.order_id = l.order_id
            CROSS JOIN LATERAL jsonb_array_elements(o.allocation->'lines') sold
            WHERE sold->>'line_id' = l.line_ref AND jsonb_array_length(coalesce(sold->'serials', '[]')) > 0
                AND NOT sold->'serials' ? e.serial)),
        ('account_age_days', (SELECT extract(day FROM now() - min(placed_at))::bigint FROM mine)),
        ('other_channel_open', (SELECT count(*) FROM others x, k WHERE x.closed_at IS NULL AND x.channel <> k.channel)),
        ('external_refund_open', (SELECT count(*) FROM charged h JOIN external_refunds e ON e.merchant_id = m
            AND e.provider_account_id = h.provider_account_id AND e.charge_ref = h.charge_ref
            AND e.status NOT IN ('failed', 'canceled') AND e.allocated_minor < e.amount_minor)),
        ('dispute_365d', (SELECT count(*) FROM charged h JOIN disputes d ON d.merchant_id = m
            AND d.provider_account_id = h.provider_account_id AND d.charge_ref = h.charge_ref
            AND d.created_at > now() - interval '365 days')),
        ('text_claims_approval', (SELECT count(*) FROM (
            SELECT customer_text AS said FROM conversations WHERE merchant_id = m AND case_id = c
            UNION ALL SELECT note FROM evidence WHERE merchant_id = m AND case_id = c) text
            WHERE said ~* '\m(approv(e|ed|al)|authori[sz](ed|ation)|signed off|green light|genehmig(t|ung)|bewilligt|approuvé|aprobado|approvato)\M'
            AND NOT EXISTS (SELECT 1 FROM intents i JOIN approvals a ON a.merchant_id = m AND a.intent_id = i.intent_id
                WHERE i.merchant_id = m AND i.case_id = c)))
    ) found (name, number) WHERE found.number IS NOT NULL
$$;
GRANT EXECUTE ON FUNCTION risk_signals(uuid, uuid) TO onceback_console, onceback_worker;
GRANT EXECUTE ON FUNCTION policies_tie(jsonb, jsonb) TO onceback_console, onceback_worker;
