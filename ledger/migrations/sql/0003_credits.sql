-- Credit entries (ENTITLEMENT section 4): what a refund that was paid takes back of the sale, line by line and tax by code, for the
-- shop's books. Written by the settlement itself and by nobody else; a refund that came back writes the reversing entry.

-- What the shop calls its invoice, stated with the order or once it is known. The newest counts.
CREATE TABLE order_invoices (
    merchant_id uuid NOT NULL,
    order_id uuid NOT NULL,
    n integer NOT NULL CHECK (n > 0),
    invoice_ref text NOT NULL CHECK (length(invoice_ref) BETWEEN 1 AND 80),
    stated_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, order_id, n),
    FOREIGN KEY (merchant_id, order_id) REFERENCES orders (merchant_id, order_id)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON order_invoices FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON order_invoices FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT ON order_invoices TO onceback_console;
GRANT INSERT ON order_invoices TO onceback_console;

-- `order_minor` is of the order's currency, `amount_minor` of the payment's; both below zero in a reversing entry. `dated_on`: the
-- day of the repayment in the merchant's zone. `person`: why somebody completes it by hand, '' where it is complete.
CREATE TABLE credit_entries (
    merchant_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    step text NOT NULL CHECK (step IN ('settle', 'reverse')),
    case_id uuid NOT NULL,
    order_id uuid NOT NULL,
    invoice_ref text,
    reason text NOT NULL,
    dated_on date NOT NULL,
    order_currency text NOT NULL,
    order_minor bigint NOT NULL,
    currency text NOT NULL,
    amount_minor bigint NOT NULL,
    person text NOT NULL DEFAULT '' CHECK (person IN ('', 'tax_not_known', 'on_no_line')),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, intent_id, step),
    CHECK (CASE step WHEN 'settle' THEN order_minor >= 0 AND amount_minor > 0 ELSE order_minor <= 0 AND amount_minor < 0 END),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES intents (merchant_id, intent_id),
    FOREIGN KEY (merchant_id, case_id, order_id) REFERENCES cases (merchant_id, case_id, order_id)
);
CREATE INDEX credit_entries_dated ON credit_entries (merchant_id, dated_on, intent_id);
CREATE INDEX credit_entries_of_case ON credit_entries (merchant_id, case_id);
CREATE TABLE credit_rows (
    merchant_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    step text NOT NULL,
    place integer NOT NULL CHECK (place > 0),
    rule text NOT NULL,
    line_ref text NOT NULL,
    units text NOT NULL,
    code text,
    rate_ppm integer,
    gross_minor bigint NOT NULL,
    net_minor bigint NOT NULL,
    tax_minor bigint NOT NULL,
    PRIMARY KEY (merchant_id, intent_id, step, place),
    CONSTRAINT net_and_tax_are_gross CHECK (net_minor + tax_minor = gross_minor),
    FOREIGN KEY (merchant_id, intent_id, step) REFERENCES credit_entries (merchant_id, intent_id, step)
);
DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['credit_entries', 'credit_rows'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;
GRANT SELECT ON credit_entries, credit_rows TO onceback_console, onceback_worker;

-- n/d rounded half up; d > 0.
CREATE FUNCTION half_up(n numeric, d numeric) RETURNS numeric LANGUAGE sql IMMUTABLE SET search_path = public, pg_temp AS $$
    SELECT div(2 * n + d, 2 * d) - (2 * n + d < 0 AND mod(2 * n + d, 2 * d) <> 0)::integer
$$;

-- The lines of a refund, tax by code: what its entitlement says of each, less what entries of earlier entitlements of the case say,
-- and of that this refund's share. Several refunds of one entitlement share it cumulatively, so that they sum to it to the unit; the
-- tax of a row is peeled along its gross. The first code of a line carries its net; a further one only its tax. In plpgsql, so that it
-- is planned once a session.
CREATE FUNCTION credit_rows_of(i intents) RETURNS TABLE (rule text, line_ref text, units text, code text, gross numeric, tax numeric)
    LANGUAGE plpgsql STABLE SET search_path = public, pg_temp AS $$
#variable_conflict use_column
BEGIN
    RETURN QUERY WITH record AS (
        SELECT e.record FROM entitlements e WHERE e.merchant_id = i.merchant_id AND e.entitlement_id = i.entitlement_id),
    said AS (
        SELECT l.line->>'rule' AS rule, split_part(l.line->>'ref', '[', 1) AS ref, substring(l.line->>'ref' FROM '\[.*$') AS units,
            nullif(c.code, '') AS code, l.n, c.k, c.tax,
            CASE WHEN c.k = 1 THEN (l.line->>'minor')::numeric - coalesce((l.line->'tax'->>'minor')::numeric, 0) + c.tax ELSE c.tax END AS gross
        FROM record CROSS JOIN LATERAL jsonb_array_elements(record.record->'lines') WITH ORDINALITY l (line, n)
        CROSS JOIN LATERAL (
            SELECT key AS code, value::numeric AS tax, row_number() OVER (ORDER BY key) AS k
            FROM jsonb_each_text(CASE WHEN l.line->'tax'->'codes' = '{}' THEN jsonb_build_object('', l.line->'tax'->'minor')
                ELSE l.line->'tax'->'codes' END)) c
        WHERE (l.line->>'minor')::numeric <> 0),
    wanted AS (
        SELECT rule, ref, code, string_agg(units, ' ' ORDER BY n) AS units, min(n) * 100 + min(k) AS place, sum(gross) AS gross,
            sum(tax) AS tax FROM said GROUP BY rule, ref, code),
    entered AS (
        SELECT r.rule, r.line_ref AS ref, r.code, sum(r.gross_minor) AS gross, sum(r.tax_minor) AS tax FROM credit_rows r
        JOIN credit_entries c ON c.merchant_id = r.merchant_id AND c.intent_id = r.intent_id AND c.step = r.step
        JOIN intents x ON x.merchant_id = c.merchant_id AND x.intent_id = c.intent_id
        WHERE c.merchant_id = i.merchant_id AND c.case_id = i.case_id AND x.entitlement_id <> i.entitlement_id
        GROUP BY r.rule, r.line_ref, r.code),
    due AS (
        SELECT coalesce(w.rule, e.rule) AS rule, coalesce(w.ref, e.ref) AS ref, coalesce(w.code, e.code) AS code, coalesce(w.units, '')
            AS units, coalesce(w.place, 0) AS place, coalesce(w.gross, 0) - coalesce(e.gross, 0) AS gross,
            coalesce(w.tax, 0) - coalesce(e.tax, 0) AS tax
        FROM wanted w FULL JOIN entered e ON e.rule = w.rule AND e.ref = w.ref AND e.code IS NOT DISTINCT FROM w.code),
    share AS (
        SELECT (SELECT sum(gross) FROM due) AS whole, coalesce((SELECT sum(c.order_minor) FROM credit_entries c
            JOIN intents x ON x.merchant_id = c.merchant_id AND x.intent_id = c.intent_id
            WHERE c.merchant_id = i.merchant_id AND c.case_id = i.case_id AND x.entitlement_id = i.entitlement_id), 0) AS before),
    run AS (
        SELECT due.*, sum(due.gross) OVER (ORDER BY due.place, due.rule, due.ref, due.code) AS reached FROM due WHERE gross <> 0 OR tax <> 0),
    cut AS (
        SELECT run.*, half_up(reached * before, whole) - half_up((reached - gross) * before, whole) AS low,
            half_up(reached * (before + i.order_minor), whole) - half_up((reached - gross) * (before + i.order_minor), whole) AS high,
            half_up(tax * before, whole) AS tax_low, half_up(tax * (before + i.order_minor), whole) AS tax_high
        FROM run CROSS JOIN share WHERE whole > 0)
    SELECT rule, ref, units, code, high - low, CASE WHEN gross = 0 THEN tax_high - tax_low
        ELSE half_up(tax * high * sign(gross), abs(gross)) - half_up(tax * low * sign(gross), abs(gross)) END
    FROM cut ORDER BY place, rule, ref, code;
END $$;

CREATE FUNCTION write_credit_entry() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    i intents%ROWTYPE;
    found jsonb;
    apart numeric;
BEGIN
    SELECT * INTO i FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id;
    -- What was only authorised is let go: no money was taken, and none goes back.
    IF i.act = 'cancel_payment' THEN
        RETURN NULL;
    END IF;
    IF NEW.step = 'reverse' THEN
        INSERT INTO credit_entries (merchant_id, intent_id, step, case_id, order_id, invoice_ref, reason, dated_on, order_currency,
            order_minor, currency, amount_minor, person)
        SELECT c.merchant_id, c.intent_id, 'reverse', c.case_id, c.order_id, c.invoice_ref, c.reason,
            (NEW.at AT TIME ZONE m.zone)::date, c.order_currency, -c.order_minor, c.currency, -c.amount_minor, c.person
        FROM credit_entries c JOIN merchants m ON m.id = c.merchant_id
        WHERE c.merchant_id = i.merchant_id AND c.intent_id = i.intent_id AND c.step = 'settle';
        INSERT INTO credit_rows (merchant_id, intent_id, step, place, rule, line_ref, units, code, rate_ppm, gross_minor, net_minor,
            tax_minor)
        SELECT merchant_id, intent_id, 'reverse', place, rule, line_ref, units, code, rate_ppm, -gross_minor, -net_minor, -tax_minor
        FROM credit_rows WHERE merchant_id = i.merchant_id AND intent_id = i.intent_id AND step = 'settle';
        RETURN NULL;
    END IF;
    SELECT coalesce(jsonb_agg(to_jsonb(r)), '[]'), i.order_minor - coalesce(sum(r.gross), 0) INTO found, apart
        FROM credit_rows_of(i) WITH ORDINALITY r WHERE r.gross <> 0 OR r.tax <> 0;
    -- The day the money left: as a person recorded it, as a bank confirmed it later, else of the call that paid it.
    INSERT INTO credit_entries (merchant_id, intent_id, step, case_id, order_id, invoice_ref, reason, dated_on, order_currency,
        order_minor, currency, amount_minor, person)
    SELECT i.merchant_id, i.intent_id, 'settle', i.case_id, i.order_id, coalesce((SELECT n.invoice_ref FROM order_invoices n
            WHERE n.merchant_id = i.merchant_id AND n.order_id = i.order_id ORDER BY n.n DESC LIMIT 1), o.facts->>'invoice_ref'),
        c.reason, (coalesce(
            (SELECT s.recorded_at FROM manual_settlements s WHERE s.merchant_id = i.merchant_id AND s.intent_id = i.intent_id),
            (SELECT NEW.at FROM events v WHERE v.merchant_id = i.merchant_id AND v.case_id = i.case_id AND v.intent_id = i.intent_id
                AND v.to_state = 'pending' LIMIT 1),
            (SELECT max(a.started_at) FROM attempts a WHERE a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id), NEW.at)
            AT TIME ZONE m.zone)::date,
        o.currency, i.order_minor, i.currency, i.amount_minor,
        CASE WHEN apart <> 0 THEN 'on_no_line' WHEN e.record->>'tax_known' = 'false' THEN 'tax_not_known' ELSE '' END
    FROM orders o JOIN cases c ON c.merchant_id = i.merchant_id AND c.case_id = i.case_id JOIN merchants m ON m.id = i.merchant_id
    LEFT JOIN entitlements e ON e.merchant_id = i.merchant_id AND e.entitlement_id = i.entitlement_id
    WHERE o.merchant_id = i.merchant_id AND o.order_id = i.order_id;
    INSERT INTO credit_rows (merchant_id, intent_id, step, place, rule, line_ref, units, code, rate_ppm, gross_minor, net_minor, tax_minor)
    SELECT i.merchant_id, i.intent_id, 'settle', r.ordinality, r.rule, r.line_ref, r.units, r.code, (
            SELECT (t->>'rate_ppm')::integer FROM orders o CROSS JOIN LATERAL jsonb_array_elements(o.allocation->'lines') l
            CROSS JOIN LATERAL jsonb_array_elements(coalesce(l->'taxes', '[]')) t WHERE o.merchant_id = i.merchant_id
                AND o.order_id = i.order_id AND l->>'line_id' = r.line_ref AND t->>'code' = r.code LIMIT 1),
        r.gross, r.gross - r.tax, r.tax
    FROM jsonb_to_recordset(found) AS r (ordinality integer, rule text, line_ref text, units text, code text, gross bigint, tax bigint)
    -- What no line of the case explains is said so, never left out: the entry is the money that left.
    UNION ALL SELECT i.merchant_id, i.intent_id, 'settle', 1000000, 'on_no_line', '', '', NULL, NULL, apart, apart, 0 WHERE apart <> 0;
    RETURN NULL;
END $$;
CREATE TRIGGER writes_credit AFTER INSERT ON transfers FOR EACH ROW
    WHEN (NEW.intent_id IS NOT NULL AND NEW.step IN ('settle', 'reverse')) EXECUTE FUNCTION write_credit_entry();
