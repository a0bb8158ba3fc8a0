-- Money back that is no return of goods, exchanges, amounts other than computed, and what two managers decide.

-- Lists in one constant: the server reads every check of a row again for each statement that writes one.
ALTER TABLE cases DROP CONSTRAINT cases_kind_check, ADD CONSTRAINT cases_kind_check CHECK (kind = ANY (
    '{return,cancellation,warranty,keep_item,price_reduction,price_adjustment,goodwill,shipping_only,exchange,duplicate_charge}'
));
ALTER TABLE cases DROP CONSTRAINT cases_reason_check, ADD CONSTRAINT cases_reason_check CHECK (reason = ANY (
    '{changed_mind,size,faulty,damaged,wrong_item,cancelled,not_delivered,other,late,lower_price,service}'
));
ALTER TABLE cases DROP CONSTRAINT cases_stage_check, ADD CONSTRAINT cases_stage_check CHECK (stage = ANY (
    '{waiting_goods,ready,needs_person,nothing_due,approved,held,sending,unknown,pending,needs_review,paid,came_back,refused,'
    'rejected,exchanged}'
));
ALTER TABLE cases ADD CONSTRAINT cases_merchant_id_case_id_kind_key UNIQUE (merchant_id, case_id, kind);

-- What a case that is no return asks for on one line, as a person typed it: `minor` is the amount, the new price of a unit, or what
-- a unit is worth with its defect, beside `conform_minor` without it.
-- `units` NULL: the whole line. `entry`: with or without tax. A row ends with its case; nothing else of it changes.
CREATE TABLE case_asks (
    merchant_id uuid NOT NULL,
    case_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('keep_item', 'price_reduction', 'price_adjustment', 'goodwill', 'shipping_only')),
    order_id uuid NOT NULL,
    line_id uuid NOT NULL,
    line_quantity integer NOT NULL,
    units int4range CHECK (NOT isempty(units) AND NOT lower_inf(units) AND NOT upper_inf(units)
        AND lower(units) >= 0 AND upper(units) <= line_quantity),
    minor bigint NOT NULL CHECK (minor > 0 OR (minor = 0 AND kind IN ('price_adjustment', 'price_reduction'))),
    conform_minor bigint,
    entry text NOT NULL CHECK (entry IN ('gross', 'net')),
    -- A person, or a recovery that found at the provider that one had.
    asked_by text NOT NULL CHECK (asked_by ~ '^staff:|^token:recovery$'),
    at timestamptz NOT NULL DEFAULT now(),
    live boolean NOT NULL DEFAULT true,
    PRIMARY KEY (merchant_id, case_id),
    CHECK ((units IS NOT NULL) = (kind IN ('keep_item', 'price_reduction', 'price_adjustment'))),
    CONSTRAINT worth_less_with_its_defect CHECK (CASE kind WHEN 'price_reduction' THEN coalesce(conform_minor > minor, false)
        ELSE conform_minor IS NULL END),
    -- The price of a unit is adjusted once, and reduced once.
    CONSTRAINT adjusted_once EXCLUDE USING gist (merchant_id WITH =, line_id WITH =, units WITH &&)
        WHERE (live AND kind = 'price_adjustment'),
    CONSTRAINT reduced_once EXCLUDE USING gist (merchant_id WITH =, line_id WITH =, units WITH &&)
        WHERE (live AND kind = 'price_reduction'),
    FOREIGN KEY (merchant_id, case_id, order_id) REFERENCES cases (merchant_id, case_id, order_id),
    FOREIGN KEY (merchant_id, case_id, kind) REFERENCES cases (merchant_id, case_id, kind),
    FOREIGN KEY (merchant_id, line_id, order_id, line_quantity) REFERENCES order_lines (merchant_id, line_id, order_id, quantity)
);
CREATE INDEX case_asks_of_order ON case_asks (merchant_id, order_id);
CREATE INDEX case_asks_of_line ON case_asks (merchant_id, line_id);

CREATE FUNCTION keep_ask_exact() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF (to_jsonb(NEW) - 'live') IS DISTINCT FROM (to_jsonb(OLD) - 'live') OR NOT OLD.live THEN
        RAISE EXCEPTION 'what was asked for stays as it was asked' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NOT NEW.live AND EXISTS (SELECT 1 FROM intents WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id
            AND state NOT IN ('withdrawn', 'failed', 'reversed')) THEN
        RAISE EXCEPTION 'an ask with money paid or on its way does not end' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER exact BEFORE UPDATE ON case_asks FOR EACH ROW EXECUTE FUNCTION keep_ask_exact();
CREATE TRIGGER never_deleted BEFORE DELETE ON case_asks FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON case_asks FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- An exchange is the customer's choice: it uses the claim on the units up for ever and moves no money.
CREATE TABLE exchanges (
    merchant_id uuid NOT NULL,
    case_id uuid NOT NULL,
    wish text NOT NULL CHECK (length(wish) BETWEEN 1 AND 200),
    in_stock boolean NOT NULL CHECK (in_stock),
    policy_id text NOT NULL,
    policy_version integer NOT NULL,
    recorded_by text NOT NULL CHECK (recorded_by ~ '^staff:'),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, case_id),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, policy_id, policy_version) REFERENCES policies (merchant_id, policy_id, version)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON exchanges FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON exchanges FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Whoever proposes a refund of the case at the same moment holds its key: this waits for it, and then sees it.
CREATE FUNCTION exchange_as_allowed() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM policies WHERE merchant_id = NEW.merchant_id AND policy_id = NEW.policy_id AND version = NEW.policy_version
        AND document->'exchange'->>'allowed' = 'true';
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the policy offers no exchange' USING ERRCODE = 'check_violation', CONSTRAINT = 'exchange_as_allowed';
    END IF;
    -- Whoever gives money for keeping units of the order waits here too (`refuse_kept_exchanged`), or is waited for.
    PERFORM 1 FROM orders o JOIN cases c ON c.merchant_id = o.merchant_id AND c.order_id = o.order_id
        WHERE c.merchant_id = NEW.merchant_id AND c.case_id = NEW.case_id FOR NO KEY UPDATE OF o;
    PERFORM 1 FROM cases WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id FOR UPDATE;
    PERFORM 1 FROM case_items WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id AND live;
    IF NOT FOUND OR EXISTS (SELECT 1 FROM intents WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id
            AND state NOT IN ('withdrawn', 'failed', 'reversed')) OR 0 < (SELECT sum(order_minor) FROM external_allocations
            WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id) THEN
        RAISE EXCEPTION 'units are exchanged or refunded, never both' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'exchanged_or_refunded';
    END IF;
    -- An exchange is worth the whole unit, and takes nothing off for what was given so that it was kept.
    PERFORM 1 FROM case_items ci JOIN case_asks a ON a.merchant_id = ci.merchant_id AND a.line_id = ci.line_id
        AND a.units && ci.units AND a.live AND a.kind IN ('keep_item', 'price_reduction')
    JOIN intents i ON i.merchant_id = a.merchant_id AND i.case_id = a.case_id AND i.state NOT IN ('withdrawn', 'failed', 'reversed')
    WHERE ci.merchant_id = NEW.merchant_id AND ci.case_id = NEW.case_id AND ci.live;
    IF FOUND THEN
        RAISE EXCEPTION 'units are kept or exchanged, never both' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'kept_or_exchanged';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER as_allowed BEFORE INSERT ON exchanges FOR EACH ROW EXECUTE FUNCTION exchange_as_allowed();

-- After the foreign key to the case has waited for an exchange that is being recorded: triggers fire by name.
CREATE FUNCTION refuse_exchanged() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM exchanges WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id) THEN
        RAISE EXCEPTION 'units are exchanged or refunded, never both' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'exchanged_or_refunded';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER exchanged_or_refunded AFTER INSERT ON intents FOR EACH ROW EXECUTE FUNCTION refuse_exchanged();

-- The other way round: nothing is given on units that were exchanged, neither for keeping them nor because their price fell. The
-- order's row is where the two meet, for a case of one and a case of the other share no other.
CREATE FUNCTION refuse_kept_exchanged() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM case_asks WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id AND live AND units IS NOT NULL;
    IF NOT FOUND THEN
        RETURN NEW;
    END IF;
    PERFORM 1 FROM orders WHERE merchant_id = NEW.merchant_id AND order_id = NEW.order_id FOR NO KEY UPDATE;
    PERFORM 1 FROM case_asks a JOIN case_items ci ON ci.merchant_id = a.merchant_id AND ci.line_id = a.line_id
        AND ci.units && a.units AND ci.live
    JOIN exchanges x ON x.merchant_id = ci.merchant_id AND x.case_id = ci.case_id
    WHERE a.merchant_id = NEW.merchant_id AND a.case_id = NEW.case_id AND a.live;
    IF FOUND THEN
        RAISE EXCEPTION 'units are kept or exchanged, never both' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'kept_or_exchanged';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER kept_or_exchanged AFTER INSERT ON intents FOR EACH ROW EXECUTE FUNCTION refuse_kept_exchanged();
CREATE TRIGGER exchanged_units_stay BEFORE UPDATE ON case_items FOR EACH ROW EXECUTE FUNCTION refuse_exchanged();

-- What was given with the goods kept lies on units that may still come back. No more leaves for units than they cost, whatever room
-- the line has left for its others (P4 knows nothing of units). What discounts and promotions put on single units, or move between
-- lines, the engine tells apart alone. The line is locked by the claim itself, so whoever comes second sees the first.
CREATE FUNCTION claim_within_units() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    l record;
    mine int4multirange;
    touched int4multirange;
    of_cases uuid[];
    claimed numeric;
    worth numeric;
BEGIN
    PERFORM 1 FROM case_asks WHERE merchant_id = NEW.merchant_id AND line_id = NEW.line_id AND live AND units IS NOT NULL;
    IF NOT FOUND THEN
        RETURN NULL;
    END IF;
    SELECT x.gross_minor::numeric AS gross, x.quantity::numeric AS q, CASE WHEN x.gross_minor % s.step = 0 THEN s.step ELSE 1 END AS step
        INTO l FROM order_lines x
        JOIN orders o ON o.merchant_id = x.merchant_id AND o.order_id = x.order_id
        CROSS JOIN LATERAL (SELECT coalesce((o.allocation->>'step_minor')::bigint, 1) AS step) s
        WHERE x.merchant_id = NEW.merchant_id AND x.line_id = NEW.line_id
            AND coalesce(jsonb_array_length(o.allocation->'promos'), 0) = 0
            AND NOT EXISTS (SELECT 1 FROM jsonb_array_elements(o.allocation->'lines') a
                WHERE a->>'line_id' = x.line_ref AND a ? 'segments');
    IF l IS NULL THEN
        RETURN NULL;
    END IF;
    SELECT range_agg(units) INTO mine FROM units_of_line(NEW.merchant_id, NEW.line_id)
        WHERE case_id = (SELECT case_id FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id);
    SELECT range_agg(units), array_agg(case_id) INTO touched, of_cases FROM units_of_line(NEW.merchant_id, NEW.line_id)
        WHERE case_id IN (SELECT case_id FROM units_of_line(NEW.merchant_id, NEW.line_id) WHERE units && mine);
    SELECT coalesce(sum(c.amount_minor), 0) INTO claimed FROM line_claims c
        JOIN intents i ON i.merchant_id = c.merchant_id AND i.intent_id = c.intent_id
        WHERE c.merchant_id = NEW.merchant_id AND c.line_id = NEW.line_id AND i.case_id = ANY (of_cases);
    SELECT sum(l.step * (div(2 * l.gross * upper(r) + l.q * l.step, 2 * l.q * l.step)
            - div(2 * l.gross * lower(r) + l.q * l.step, 2 * l.q * l.step)))
        INTO worth FROM unnest(touched) AS r;
    IF claimed > worth THEN
        RAISE EXCEPTION 'more than these units cost: % of %', claimed, worth
            USING ERRCODE = 'check_violation', CONSTRAINT = 'claimed_within_units';
    END IF;
    RETURN NULL;
END $$;

-- Which case holds which units of a line, or gave something on them.
CREATE FUNCTION units_of_line(m uuid, l uuid) RETURNS TABLE (case_id uuid, units int4range)
    LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT case_id, units FROM case_items WHERE merchant_id = m AND line_id = l AND live
    UNION SELECT case_id, units FROM case_asks WHERE merchant_id = m AND line_id = l AND live AND units IS NOT NULL
$$;
CREATE TRIGGER within_units AFTER INSERT ON line_claims FOR EACH ROW WHEN (NEW.step = 'claim') EXECUTE FUNCTION claim_within_units();

-- An amount other than computed: an exception that one person asks for, with a reason, and another approves. The computed figure
-- stands beside it in the row, in the entitlement, in the intent and in what is approved. NULL takes the last one back.
CREATE TABLE overrides (
    merchant_id uuid NOT NULL,
    override_id uuid NOT NULL,
    case_id uuid NOT NULL,
    n integer NOT NULL CHECK (n > 0),
    entitlement_id uuid NOT NULL,
    computed_minor bigint NOT NULL CHECK (computed_minor > 0),
    minor bigint CHECK (minor > 0),
    reason text NOT NULL CHECK (reason IN (
        'value_loss_agreed', 'fault_unseen', 'promise_kept', 'price_error', 'deduction_waived', 'other'
    )),
    note text NOT NULL CHECK (length(note) BETWEEN 1 AND 500),
    asked_by text NOT NULL CHECK (asked_by ~ '^staff:'),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, override_id),
    UNIQUE (merchant_id, case_id, n),
    UNIQUE (merchant_id, override_id, case_id, asked_by),
    CONSTRAINT other_than_computed CHECK (minor <> computed_minor),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, entitlement_id, case_id) REFERENCES entitlements (merchant_id, entitlement_id, case_id)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON overrides FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON overrides FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Whoever asks for another amount is its requester, so P7 keeps them from approving it; and it is never the desk's.
ALTER TABLE intents DROP CONSTRAINT intents_route_check,
    ADD CONSTRAINT intents_route_check CHECK (route IN ('desk', 'manager', 'two_managers'));
ALTER TABLE intents ADD COLUMN computed_minor bigint, ADD COLUMN override_id uuid;
ALTER TABLE intents
    ADD CONSTRAINT computed_beside_the_override CHECK ((override_id IS NULL) = (computed_minor IS NULL)),
    ADD CONSTRAINT an_override_is_no_desks CHECK (override_id IS NULL OR route <> 'desk'),
    ADD CONSTRAINT asked_by_its_requester FOREIGN KEY (merchant_id, override_id, case_id, requester)
        REFERENCES overrides (merchant_id, override_id, case_id, asked_by);

-- An intent says of an override exactly what its entitlement says, and that says what was asked for.
CREATE FUNCTION keep_override_exact() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE said jsonb;
BEGIN
    SELECT record->'override' INTO said FROM entitlements
    WHERE merchant_id = NEW.merchant_id AND entitlement_id = NEW.entitlement_id;
    IF (said->>'id') IS DISTINCT FROM NEW.override_id::text
        OR (said->>'computed_minor')::bigint IS DISTINCT FROM NEW.computed_minor
        OR NEW.override_id IS NOT NULL AND NOT EXISTS (SELECT 1 FROM overrides WHERE merchant_id = NEW.merchant_id
            AND override_id = NEW.override_id AND minor = (said->>'minor')::bigint AND computed_minor = NEW.computed_minor) THEN
        RAISE EXCEPTION 'an intent says what was computed beside what was asked for' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'override_as_recorded';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER override_exact BEFORE INSERT ON intents FOR EACH ROW EXECUTE FUNCTION keep_override_exact();

-- What two managers decide is approved by both before it moves (`as_approved`); only there is a second seat.
CREATE FUNCTION second_seat() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF NOT EXISTS (SELECT 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND route = 'two_managers')
        OR NOT EXISTS (SELECT 1 FROM approvals WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND seat = 1
            AND fingerprint = NEW.fingerprint AND expires_at > now()) THEN
        RAISE EXCEPTION 'a second manager approves what the first did' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'second_seat_as_first';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER as_the_first AFTER INSERT ON approvals FOR EACH ROW WHEN (NEW.seat = 2) EXECUTE FUNCTION second_seat();

GRANT SELECT ON case_asks, exchanges, overrides TO onceback_console, onceback_worker;
GRANT INSERT ON case_asks, exchanges, overrides TO onceback_console;
GRANT UPDATE (live) ON case_asks TO onceback_console;
GRANT EXECUTE ON FUNCTION units_of_line(uuid, uuid) TO onceback_console, onceback_worker;

-- What a person named an amount of in a day is summed (`staff_day`).
CREATE INDEX intents_of_asker ON intents (merchant_id, requester, created_at) WHERE requester LIKE 'staff:%';
