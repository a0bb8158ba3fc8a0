-- An order whose facts do not add up, or that the shop stated again otherwise, as two people settled it. The statements and the first
-- allocation stay: what is settled is added, as the statement that stands and an allocation of the next number.

-- Who bought by the other statement: that may be what differs.
ALTER TABLE order_conflicts
    ADD COLUMN customer_id uuid,
    ADD UNIQUE (merchant_id, order_id, conflict_id),
    ADD FOREIGN KEY (merchant_id, customer_id) REFERENCES customers (merchant_id, customer_id);
CREATE INDEX orders_blocked ON orders (merchant_id, imported_at) WHERE blocked;

CREATE TABLE order_settlements (
    merchant_id uuid NOT NULL,
    settlement_id uuid NOT NULL,
    order_id uuid NOT NULL,
    -- What it was proposed on: the allocation, the names of what is in question, and every other statement that is not settled yet.
    before_digest bytea NOT NULL CHECK (length(before_digest) = 32),
    discrepancies text[] NOT NULL,
    conflicts uuid[] NOT NULL,
    -- The statement that stands; NULL: the one the order has.
    conflict_id uuid,
    -- Which figure stands and by which methods, as `allocation_methods.Settlement` writes it.
    choice jsonb NOT NULL,
    reason text NOT NULL CHECK (reason IN ('shop_confirmed', 'invoice_seen', 'provider_shows', 'price_typed_wrong', 'rounding',
        'corrected_later', 'sent_by_mistake', 'other')),
    note text NOT NULL CHECK (length(note) BETWEEN 1 AND 500),
    -- What it comes to. The lines are those of the allocation; a new one gets its id from `line_ids`, a payment that only the
    -- standing statement names comes from `captures`, and `parts` are parts of the order that a payment is stated to have paid.
    total_minor bigint NOT NULL CHECK (total_minor >= 0),
    allocation_digest bytea NOT NULL,
    names_after text[] NOT NULL,
    line_ids jsonb NOT NULL,
    captures jsonb NOT NULL,
    parts jsonb NOT NULL,
    proposed_by uuid NOT NULL,
    proposed_role text NOT NULL CHECK (proposed_role IN ('manager', 'finance')),
    proposed_at timestamptz NOT NULL DEFAULT now(),
    digest bytea NOT NULL CHECK (length(digest) = 32),
    PRIMARY KEY (merchant_id, settlement_id),
    UNIQUE (merchant_id, settlement_id, digest, proposed_by),
    CHECK (conflict_id IS NULL OR conflict_id = ANY (conflicts)),
    FOREIGN KEY (merchant_id, order_id) REFERENCES orders (merchant_id, order_id),
    FOREIGN KEY (merchant_id, order_id, conflict_id) REFERENCES order_conflicts (merchant_id, order_id, conflict_id),
    FOREIGN KEY (merchant_id, allocation_digest) REFERENCES entitlement_sources (merchant_id, digest),
    FOREIGN KEY (merchant_id, proposed_by) REFERENCES memberships (merchant_id, staff_id)
);
CREATE INDEX order_settlements_of_order ON order_settlements (merchant_id, order_id, proposed_at);
CREATE TABLE order_settlement_answers (
    merchant_id uuid NOT NULL,
    settlement_id uuid NOT NULL,
    digest bytea NOT NULL,
    proposed_by uuid NOT NULL,
    decided_by uuid NOT NULL,
    decided_role text NOT NULL CHECK (decided_role IN ('manager', 'finance')),
    confirmed boolean NOT NULL,
    reason text NOT NULL DEFAULT '' CHECK (length(reason) <= 500),
    decided_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, settlement_id),
    CONSTRAINT another_person_confirms CHECK (NOT confirmed OR decided_by <> proposed_by),
    CONSTRAINT turned_down_with_a_reason CHECK (confirmed OR reason <> ''),
    FOREIGN KEY (merchant_id, settlement_id, digest, proposed_by)
        REFERENCES order_settlements (merchant_id, settlement_id, digest, proposed_by),
    FOREIGN KEY (merchant_id, decided_by) REFERENCES memberships (merchant_id, staff_id)
);
-- Every allocation an order has had: 1 is that of its import, kept here once another follows.
CREATE TABLE order_allocations (
    merchant_id uuid NOT NULL,
    order_id uuid NOT NULL,
    n integer NOT NULL CHECK (n > 0),
    settlement_id uuid,
    customer_id uuid,
    facts jsonb NOT NULL,
    facts_digest bytea NOT NULL,
    total_minor bigint NOT NULL,
    allocation jsonb NOT NULL,
    allocation_method text NOT NULL,
    allocation_digest bytea NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, order_id, n),
    UNIQUE (merchant_id, settlement_id),
    CHECK ((n = 1) = (settlement_id IS NULL)),
    FOREIGN KEY (merchant_id, order_id) REFERENCES orders (merchant_id, order_id),
    FOREIGN KEY (merchant_id, settlement_id) REFERENCES order_settlement_answers (merchant_id, settlement_id)
);

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['order_settlements', 'order_settlement_answers', 'order_allocations'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;

-- The other statements of an order that nobody has settled yet.
CREATE FUNCTION open_conflicts(m uuid, o uuid) RETURNS uuid[] LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT coalesce(array_agg(c.conflict_id ORDER BY c.conflict_id), '{}') FROM order_conflicts c
    WHERE c.merchant_id = m AND c.order_id = o AND NOT EXISTS (SELECT 1 FROM order_settlements s
        JOIN order_settlement_answers a ON a.merchant_id = s.merchant_id AND a.settlement_id = s.settlement_id AND a.confirmed
        WHERE s.merchant_id = m AND s.order_id = o AND c.conflict_id = ANY (s.conflicts))
$$;
GRANT EXECUTE ON FUNCTION open_conflicts TO onceback_console;

-- Whether a settlement still speaks of the order as it is. The order's row is locked, so that a statement that comes in waits.
CREATE FUNCTION still_as_proposed(s order_settlements) RETURNS boolean LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE o orders%ROWTYPE;
BEGIN
    SELECT * INTO o FROM orders WHERE merchant_id = s.merchant_id AND order_id = s.order_id FOR NO KEY UPDATE;
    RETURN o.blocked AND (o.allocation_digest, o.discrepancies) = (s.before_digest, s.discrepancies)
        AND open_conflicts(s.merchant_id, s.order_id) = s.conflicts;
END $$;
GRANT EXECUTE ON FUNCTION still_as_proposed TO onceback_console;

CREATE FUNCTION keep_order_settlement_true() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.proposed_at := now();
    IF brake_role(NEW.merchant_id, NEW.proposed_by) IS DISTINCT FROM NEW.proposed_role THEN
        RAISE EXCEPTION 'a person acts in the role they have' USING ERRCODE = 'check_violation', CONSTRAINT = 'settles_in_role';
    END IF;
    IF NOT still_as_proposed(NEW) THEN
        RAISE EXCEPTION 'the order is not what was shown' USING ERRCODE = 'check_violation', CONSTRAINT = 'as_it_was_shown';
    END IF;
    PERFORM 1 FROM order_settlements s WHERE s.merchant_id = NEW.merchant_id AND s.order_id = NEW.order_id AND NOT EXISTS (
        SELECT 1 FROM order_settlement_answers a WHERE a.merchant_id = s.merchant_id AND a.settlement_id = s.settlement_id);
    IF FOUND THEN
        RAISE EXCEPTION 'a settlement of this order waits already' USING ERRCODE = 'unique_violation', CONSTRAINT = 'one_waits';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER is_true BEFORE INSERT ON order_settlements FOR EACH ROW EXECUTE FUNCTION keep_order_settlement_true();

CREATE FUNCTION keep_order_answer_true() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE s order_settlements%ROWTYPE;
BEGIN
    NEW.decided_at := now();
    IF brake_role(NEW.merchant_id, NEW.decided_by) IS DISTINCT FROM NEW.decided_role THEN
        RAISE EXCEPTION 'a person acts in the role they have' USING ERRCODE = 'check_violation', CONSTRAINT = 'settles_in_role';
    END IF;
    SELECT * INTO s FROM order_settlements WHERE merchant_id = NEW.merchant_id AND settlement_id = NEW.settlement_id;
    IF NEW.confirmed AND NOT still_as_proposed(s) THEN
        RAISE EXCEPTION 'the order is not what was shown' USING ERRCODE = 'check_violation', CONSTRAINT = 'as_it_was_shown';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER is_true BEFORE INSERT ON order_settlement_answers FOR EACH ROW EXECUTE FUNCTION keep_order_answer_true();

-- The settled allocation becomes that of the order. Once money was claimed of any line, lines are added or raised and nothing else:
-- what was claimed was worked out on what they were. A line that somebody asked back stays the goods and the number it is.
CREATE FUNCTION apply_order_settlement() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    s order_settlements%ROWTYPE;
    o orders%ROWTYPE;
    c order_conflicts%ROWTYPE;
    document jsonb;
    stated jsonb;
    claimed boolean;
BEGIN
    IF NOT NEW.confirmed THEN
        RETURN NULL;
    END IF;
    SELECT * INTO s FROM order_settlements WHERE merchant_id = NEW.merchant_id AND settlement_id = NEW.settlement_id;
    SELECT * INTO o FROM orders WHERE merchant_id = s.merchant_id AND order_id = s.order_id;
    SELECT * INTO c FROM order_conflicts WHERE merchant_id = s.merchant_id AND conflict_id = s.conflict_id;
    SELECT e.document::jsonb INTO STRICT document FROM entitlement_sources e
        WHERE e.merchant_id = s.merchant_id AND e.digest = s.allocation_digest AND e.tag = 'allocation@1';
    stated := coalesce(c.facts, o.facts);
    IF stated->>'currency' <> o.currency OR document->>'currency' <> o.currency OR document->>'order_ref' <> o.external_ref THEN
        RAISE EXCEPTION 'an order keeps its currency and its number' USING ERRCODE = 'check_violation', CONSTRAINT = 'same_order';
    END IF;
    IF s.conflict_id IS NOT NULL AND c.customer_id IS DISTINCT FROM o.customer_id
            AND EXISTS (SELECT 1 FROM cases WHERE merchant_id = o.merchant_id AND order_id = o.order_id) THEN
        RAISE EXCEPTION 'an order with cases keeps its customer' USING ERRCODE = 'check_violation', CONSTRAINT = 'same_customer';
    END IF;
    SELECT coalesce(bool_or(claimed_minor > 0), false) INTO claimed FROM order_lines
        WHERE merchant_id = o.merchant_id AND order_id = o.order_id;
    PERFORM 1 FROM order_lines l
    LEFT JOIN jsonb_array_elements(document->'lines') AS d(line) ON d.line->>'line_id' = l.line_ref
    WHERE l.merchant_id = o.merchant_id AND l.order_id = o.order_id AND (d.line IS NULL
        OR (claimed AND (d.line->>'gross_minor')::bigint < l.gross_minor)
        OR ((d.line->>'kind', d.line->>'sku', (d.line->>'quantity')::int) IS DISTINCT FROM (l.kind, l.sku, l.quantity) AND (claimed
            OR EXISTS (SELECT 1 FROM case_items i WHERE i.merchant_id = l.merchant_id AND i.line_id = l.line_id)
            OR EXISTS (SELECT 1 FROM case_asks a WHERE a.merchant_id = l.merchant_id AND a.line_id = l.line_id))));
    IF FOUND THEN
        RAISE EXCEPTION 'what was claimed or asked back of a line still fits it' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'claimed_lines_stay';
    END IF;
    INSERT INTO order_allocations (merchant_id, order_id, n, customer_id, facts, facts_digest, total_minor, allocation,
            allocation_method, allocation_digest)
        VALUES (o.merchant_id, o.order_id, 1, o.customer_id, o.facts, o.facts_digest, o.total_minor, o.allocation, o.allocation_method,
            o.allocation_digest)
        ON CONFLICT DO NOTHING;
    INSERT INTO order_allocations (merchant_id, order_id, n, settlement_id, customer_id, facts, facts_digest, total_minor,
            allocation, allocation_method, allocation_digest)
        SELECT o.merchant_id, o.order_id, 1 + max(n), s.settlement_id,
            CASE WHEN s.conflict_id IS NULL THEN o.customer_id ELSE c.customer_id END, stated, coalesce(c.facts_digest, o.facts_digest), s.total_minor,
            document, document->>'method', s.allocation_digest
        FROM order_allocations WHERE merchant_id = o.merchant_id AND order_id = o.order_id;
    INSERT INTO order_lines AS l (merchant_id, line_id, order_id, line_ref, position, kind, sku, title, quantity, unit_price_minor,
            discount_minor, gross_minor, tax_minor, step_minor)
        SELECT o.merchant_id, coalesce((s.line_ids->>(d.line->>'line_id'))::uuid, k.line_id), o.order_id, d.line->>'line_id',
            (d.line->>'position')::int, d.line->>'kind', d.line->>'sku', coalesce(k.title, d.line->>'title'), (d.line->>'quantity')::int,
            coalesce((d.line->>'unit_price_minor')::bigint, g.minor), greatest(0, (d.line->>'discount_minor')::bigint), g.minor,
            (d.line->>'tax_minor')::bigint,
            CASE WHEN g.minor % (document->>'step_minor')::bigint = 0 THEN (document->>'step_minor')::int ELSE 1 END
        FROM jsonb_array_elements(document->'lines') AS d(line)
        CROSS JOIN LATERAL (SELECT (d.line->>'gross_minor')::bigint AS minor) g
        LEFT JOIN order_lines k ON k.merchant_id = o.merchant_id AND k.order_id = o.order_id AND k.line_ref = d.line->>'line_id'
        ON CONFLICT (merchant_id, order_id, line_ref) DO UPDATE SET position = excluded.position, kind = excluded.kind,
            sku = excluded.sku, quantity = excluded.quantity, unit_price_minor = excluded.unit_price_minor,
            discount_minor = excluded.discount_minor, gross_minor = excluded.gross_minor, tax_minor = excluded.tax_minor,
            step_minor = excluded.step_minor;
    INSERT INTO captures (merchant_id, capture_id, order_id, position, capture_ref, tender, provider_account_id, payment_intent_ref,
            charge_ref, destination_kind, destination_brand, destination_last4, currency, captured_minor, order_minor, step_minor,
            captured_at, available_minor, held_minor, next_read_at, source_capture_id)
        SELECT o.merchant_id, r.capture_id, o.order_id, (SELECT coalesce(max(position), 0) FROM captures WHERE merchant_id = o.merchant_id
                AND order_id = o.order_id) + row_number() OVER (ORDER BY r.position), r.capture_ref, r.tender, r.provider_account_id,
            r.payment_intent_ref, r.charge_ref, r.destination_kind, r.destination_brand, r.destination_last4, r.currency,
            r.captured_minor, r.order_minor, r.step_minor, r.captured_at, r.captured_minor, r.held_minor, r.next_read_at, r.source_capture_id
        FROM jsonb_to_recordset(s.captures) AS r(capture_id uuid, position int, capture_ref text, tender text,
            provider_account_id uuid, payment_intent_ref text, charge_ref text, destination_kind text, destination_brand text,
            destination_last4 text, currency text, captured_minor bigint, order_minor bigint, step_minor smallint,
            captured_at timestamptz, held_minor bigint, next_read_at timestamptz, source_capture_id uuid);
    PERFORM 1 FROM jsonb_each_text(s.parts) p JOIN captures k ON k.merchant_id = o.merchant_id AND k.order_id = o.order_id
        AND k.capture_ref = p.key JOIN intents i ON i.merchant_id = k.merchant_id AND i.capture_id = k.capture_id
        AND i.state NOT IN ('withdrawn', 'failed', 'reversed');
    IF FOUND THEN
        RAISE EXCEPTION 'a payment of which money went back keeps its part of the order' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'drawn_payments_stay';
    END IF;
    UPDATE captures k SET order_minor = p.value::bigint FROM jsonb_each_text(s.parts) p
        WHERE k.merchant_id = o.merchant_id AND k.order_id = o.order_id AND k.capture_ref = p.key;
    UPDATE orders SET blocked = false, discrepancies = s.names_after, total_minor = s.total_minor, allocation = document,
        allocation_method = document->>'method', allocation_digest = s.allocation_digest, facts = stated,
        facts_digest = coalesce(c.facts_digest, facts_digest),
        customer_id = CASE WHEN s.conflict_id IS NULL THEN customer_id ELSE c.customer_id END,
        placed_at = (stated->>'placed_at')::timestamptz, zone = stated->>'zone', region = coalesce(stated->>'region', ''),
        channel = stated->>'channel', price_mode = stated->>'price_mode'
        WHERE merchant_id = o.merchant_id AND order_id = o.order_id;
    RETURN NULL;
END $$;
CREATE TRIGGER settles AFTER INSERT ON order_settlement_answers FOR EACH ROW EXECUTE FUNCTION apply_order_settlement();

-- A block is lifted, and a name of what is in question taken off, only by what two people settled in this very transaction.
CREATE FUNCTION keep_order_blocked() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE put_back orders%ROWTYPE;
BEGIN
    put_back := NEW;
    put_back.lock_no := OLD.lock_no;
    put_back.blocked := OLD.blocked;
    put_back.discrepancies := OLD.discrepancies;
    IF (put_back IS NOT DISTINCT FROM OLD AND (NEW.blocked OR NOT OLD.blocked) AND OLD.discrepancies <@ NEW.discrepancies)
        OR EXISTS (SELECT 1 FROM order_allocations a WHERE a.merchant_id = OLD.merchant_id AND a.order_id = OLD.order_id
            AND a.n > 1 AND a.at = now() AND a.allocation_digest = NEW.allocation_digest) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'an order changes only as two people settled it' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER settled_by_two BEFORE UPDATE OF blocked, discrepancies, total_minor, allocation, allocation_digest, facts, facts_digest
    ON orders FOR EACH ROW EXECUTE FUNCTION keep_order_blocked();

GRANT SELECT, INSERT ON order_settlements, order_settlement_answers TO onceback_console;
GRANT SELECT ON order_allocations TO onceback_console;
