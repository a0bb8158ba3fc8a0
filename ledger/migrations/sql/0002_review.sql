-- Settling what only a person can settle, and what follows when money comes back late.

-- After some refusals somebody acted elsewhere: the worker hints itself to read the payment again.
GRANT INSERT ON provider_events TO onceback_worker;
-- Money that came back late makes its case a person's again, with a time by which somebody has to act.
GRANT UPDATE (due_at) ON cases TO onceback_worker;

-- What a whole list of the provider showed, kept beside our intent: evidence for people, never changed.
CREATE TABLE provider_lists (
    merchant_id uuid NOT NULL,
    list_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    asked_at timestamptz NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT now(),
    refunds integer NOT NULL CHECK (refunds >= 0),
    digest bytea NOT NULL CHECK (length(digest) = 32),
    PRIMARY KEY (merchant_id, list_id),
    UNIQUE (merchant_id, list_id, intent_id),
    CHECK (asked_at <= taken_at),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES outbox (merchant_id, intent_id)
);
CREATE INDEX provider_lists_of_intent ON provider_lists (merchant_id, intent_id, taken_at);
CREATE TABLE listed_refunds (
    merchant_id uuid NOT NULL,
    list_id uuid NOT NULL,
    refund_ref text NOT NULL CHECK (length(refund_ref) BETWEEN 1 AND 80),
    status text NOT NULL CHECK (length(status) <= 40),
    amount_minor bigint NOT NULL,
    currency text NOT NULL CHECK (length(currency) <= 3),
    charge_ref text NOT NULL CHECK (length(charge_ref) <= 100),
    -- Which intent its metadata names; '' for a refund without a mark of ours.
    marked text NOT NULL CHECK (length(marked) <= 80),
    created_at timestamptz,
    PRIMARY KEY (merchant_id, list_id, refund_ref),
    FOREIGN KEY (merchant_id, list_id) REFERENCES provider_lists (merchant_id, list_id)
);

-- Two people settle what only people can: one proposes what a stored list supports, one of the other role confirms exactly
-- that, and the worker asks the provider once more before it carries it out. What was paid by hand they settle on its record.
CREATE TABLE settlements (
    merchant_id uuid NOT NULL,
    settlement_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    n integer NOT NULL CHECK (n > 0),
    -- The evidence. NULL: what a person recorded as paid by hand, which no provider lists (manual_settlements).
    list_id uuid,
    outcome text NOT NULL CHECK (outcome IN ('succeeded', 'pending', 'failed')),
    refund_ref text CHECK (length(refund_ref) BETWEEN 1 AND 80),
    named text[] NOT NULL DEFAULT '{}',
    note text NOT NULL CHECK (length(note) BETWEEN 1 AND 500),
    proposed_by uuid NOT NULL,
    proposed_role text NOT NULL CHECK (proposed_role IN ('manager', 'finance')),
    proposed_at timestamptz NOT NULL DEFAULT now(),
    digest bytea NOT NULL CHECK (length(digest) = 32),
    PRIMARY KEY (merchant_id, settlement_id),
    UNIQUE (merchant_id, intent_id, n),
    UNIQUE (merchant_id, settlement_id, digest, proposed_by, proposed_role),
    CONSTRAINT on_its_evidence CHECK (
        CASE WHEN list_id IS NULL THEN refund_ref IS NULL AND named = '{}' AND outcome <> 'pending'
        ELSE outcome = 'failed' OR refund_ref IS NOT NULL END
    ),
    FOREIGN KEY (merchant_id, list_id, intent_id) REFERENCES provider_lists (merchant_id, list_id, intent_id),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES intents (merchant_id, intent_id),
    FOREIGN KEY (merchant_id, proposed_by) REFERENCES memberships (merchant_id, staff_id)
);
CREATE TABLE settlement_decisions (
    merchant_id uuid NOT NULL,
    settlement_id uuid NOT NULL,
    digest bytea NOT NULL,
    proposed_by uuid NOT NULL,
    proposed_role text NOT NULL,
    decided_by uuid NOT NULL,
    decided_role text NOT NULL CHECK (decided_role IN ('manager', 'finance')),
    confirmed boolean NOT NULL,
    reason text NOT NULL DEFAULT '' CHECK (length(reason) <= 500),
    decided_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, settlement_id),
    CONSTRAINT settled_by_two CHECK (NOT confirmed OR (decided_by <> proposed_by AND decided_role <> proposed_role)),
    CONSTRAINT a_refusal_has_a_reason CHECK (confirmed OR reason <> ''),
    FOREIGN KEY (merchant_id, settlement_id, digest, proposed_by, proposed_role)
        REFERENCES settlements (merchant_id, settlement_id, digest, proposed_by, proposed_role),
    FOREIGN KEY (merchant_id, decided_by) REFERENCES memberships (merchant_id, staff_id)
);
CREATE TABLE settlement_results (
    merchant_id uuid NOT NULL,
    settlement_id uuid NOT NULL,
    result text NOT NULL CHECK (result IN ('carried_out', 'void')),
    reason text NOT NULL DEFAULT '' CHECK (length(reason) <= 60),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, settlement_id),
    FOREIGN KEY (merchant_id, settlement_id) REFERENCES settlement_decisions (merchant_id, settlement_id)
);

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['provider_lists', 'listed_refunds', 'settlements', 'settlement_decisions', 'settlement_results']
    LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;

-- Who settles: a live manager or somebody of finance, in that role now, who did not approve the refund.
CREATE FUNCTION may_settle(m uuid, i uuid, who uuid, as_role text) RETURNS boolean LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM memberships ms JOIN staff s ON s.staff_id = ms.staff_id WHERE ms.merchant_id = m
            AND ms.staff_id = who AND ms.role = as_role AND ms.ended_at IS NULL AND s.disabled_at IS NULL)
        AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.merchant_id = m AND a.intent_id = i AND a.staff_id = who)
$$;
GRANT EXECUTE ON FUNCTION may_settle TO onceback_console, onceback_worker;

-- What is proposed is what the list shows: a refund of exactly this amount, currency and charge that is nobody else's, or the
-- absence of one. Whatever else stands there and bears our mark, or could be it, is named: it stays somebody's to explain.
CREATE FUNCTION propose_what_is_listed() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE i intents;
BEGIN
    SELECT * INTO i FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id;
    IF i.state <> 'needs_review' OR NOT may_settle(NEW.merchant_id, NEW.intent_id, NEW.proposed_by, NEW.proposed_role) THEN
        RAISE EXCEPTION 'only a refund that needs review is settled, by a manager or finance who did not approve it'
            USING ERRCODE = 'check_violation';
    END IF;
    PERFORM 1 FROM settlements s
    LEFT JOIN settlement_decisions d ON d.merchant_id = s.merchant_id AND d.settlement_id = s.settlement_id
    LEFT JOIN settlement_results r ON r.merchant_id = s.merchant_id AND r.settlement_id = s.settlement_id
    WHERE s.merchant_id = NEW.merchant_id AND s.intent_id = NEW.intent_id AND COALESCE(d.confirmed, true) AND r.result IS NULL;
    IF FOUND THEN
        RAISE EXCEPTION 'a settlement of this refund is open already' USING ERRCODE = 'unique_violation';
    END IF;
    -- What is paid by hand no provider lists: there the record of it is the evidence, and nothing else is.
    IF (i.act = 'manual') <> (NEW.list_id IS NULL) OR (i.act = 'manual' AND NOT EXISTS (SELECT 1 FROM manual_settlements h
            WHERE h.merchant_id = NEW.merchant_id AND h.intent_id = NEW.intent_id AND h.outcome = 'done')) THEN
        RAISE EXCEPTION 'a refund by hand is settled on its record, any other on a list' USING ERRCODE = 'check_violation';
    END IF;
    IF NEW.list_id IS NULL THEN
        RETURN NEW;
    END IF;
    IF NEW.refund_ref IS NOT NULL THEN
        PERFORM 1 FROM listed_refunds l WHERE l.merchant_id = NEW.merchant_id AND l.list_id = NEW.list_id
            AND l.refund_ref = NEW.refund_ref AND l.amount_minor = i.amount_minor AND l.currency = i.currency
            AND l.charge_ref = i.charge_ref AND (l.marked = i.intent_id::text OR (l.marked = '' AND NEW.outcome <> 'failed'))
            AND COALESCE(i.provider_refund_ref, l.refund_ref) = l.refund_ref
            AND NEW.outcome = CASE l.status WHEN 'succeeded' THEN 'succeeded' WHEN 'pending' THEN 'pending'
                WHEN 'requires_action' THEN 'pending' WHEN 'failed' THEN 'failed' WHEN 'canceled' THEN 'failed' END
            AND NOT EXISTS (SELECT 1 FROM intents o WHERE o.merchant_id = l.merchant_id AND o.provider_refund_ref = l.refund_ref
                AND o.intent_id <> i.intent_id)
            AND NOT EXISTS (SELECT 1 FROM external_refunds x WHERE x.merchant_id = l.merchant_id AND x.refund_ref = l.refund_ref);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the list shows no such refund for this intent' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    PERFORM 1 FROM listed_refunds l WHERE l.merchant_id = NEW.merchant_id AND l.list_id = NEW.list_id
        AND l.status NOT IN ('failed', 'canceled') AND l.refund_ref IS DISTINCT FROM NEW.refund_ref
        AND (l.marked = i.intent_id::text OR (NEW.outcome = 'failed' AND l.amount_minor = i.amount_minor
            AND l.currency = i.currency AND l.charge_ref = i.charge_ref
            AND NOT EXISTS (SELECT 1 FROM intents o WHERE o.merchant_id = l.merchant_id AND o.intent_id <> i.intent_id
                AND (o.provider_refund_ref = l.refund_ref OR o.intent_id::text = l.marked))))
        AND (l.refund_ref <> ALL (NEW.named) OR (NEW.outcome = 'failed' AND l.marked = i.intent_id::text
            AND l.amount_minor = i.amount_minor AND l.currency = i.currency AND l.charge_ref = i.charge_ref
            AND COALESCE(i.provider_refund_ref, l.refund_ref) = l.refund_ref));
    IF FOUND THEN
        RAISE EXCEPTION 'a refund on the list that could be this one is not named, or is this one' USING ERRCODE = 'check_violation';
    END IF;
    -- An absence is proven by a list that was asked for after the last attempt was over.
    IF NEW.outcome = 'failed' AND NEW.refund_ref IS NULL THEN
        PERFORM 1 FROM provider_lists p JOIN outbox b ON b.merchant_id = p.merchant_id AND b.intent_id = p.intent_id
        LEFT JOIN attempt_results r ON r.merchant_id = b.merchant_id AND r.intent_id = b.intent_id AND r.attempt_no = b.attempts
        WHERE p.merchant_id = NEW.merchant_id AND p.list_id = NEW.list_id AND (b.attempts = 0 OR p.asked_at >= r.at);
        IF NOT FOUND THEN
            RAISE EXCEPTION 'the list is older than the last attempt' USING ERRCODE = 'check_violation';
        END IF;
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER as_listed BEFORE INSERT ON settlements FOR EACH ROW EXECUTE FUNCTION propose_what_is_listed();

CREATE FUNCTION decide_in_role() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM settlements s JOIN intents i ON i.merchant_id = s.merchant_id AND i.intent_id = s.intent_id
    WHERE s.merchant_id = NEW.merchant_id AND s.settlement_id = NEW.settlement_id AND i.state = 'needs_review'
        AND (NOT NEW.confirmed OR may_settle(NEW.merchant_id, s.intent_id, NEW.decided_by, NEW.decided_role));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a settlement is confirmed while its refund needs review, by one who may settle it' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER in_role BEFORE INSERT ON settlement_decisions FOR EACH ROW EXECUTE FUNCTION decide_in_role();

-- The way out of needs_review: two people's word, not used up yet, for exactly this state. The worker alone has none.
CREATE FUNCTION leave_review_by_two() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM settlements s
    JOIN settlement_decisions d ON d.merchant_id = s.merchant_id AND d.settlement_id = s.settlement_id AND d.confirmed
    LEFT JOIN settlement_results r ON r.merchant_id = s.merchant_id AND r.settlement_id = s.settlement_id
    WHERE s.merchant_id = NEW.merchant_id AND s.intent_id = NEW.intent_id AND s.outcome = NEW.to_state AND r.result IS NULL;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'what needs review is settled by two people' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER settled_by_two BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.from_state = 'needs_review')
    EXECUTE FUNCTION leave_review_by_two();

GRANT SELECT, INSERT ON settlements, settlement_decisions TO onceback_console;
GRANT SELECT ON provider_lists, listed_refunds, settlement_results TO onceback_console;
GRANT SELECT, INSERT ON provider_lists, listed_refunds, settlement_results TO onceback_worker;
GRANT SELECT ON settlements, settlement_decisions TO onceback_worker;
