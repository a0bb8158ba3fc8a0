-- What a person or a system states of a case beside goods and parcels: that they never left or were lost, how a repair or a
-- replacement went, whether an insurance was used, that the shop offered to collect, who asks, when a fault showed. Of one kind and
-- line the newest counts; nothing is taken away.
CREATE TABLE case_facts (
    merchant_id uuid NOT NULL,
    fact_id uuid NOT NULL,
    case_id uuid NOT NULL,
    number integer NOT NULL CHECK (number > 0),
    kind text NOT NULL,
    order_id uuid NOT NULL,
    line_id uuid,
    line_quantity integer,
    said text NOT NULL,
    cure text CHECK (cure IN ('repair', 'replacement')),
    happened_at timestamptz,
    customer_ref text CHECK (length(customer_ref) BETWEEN 1 AND 254),
    note text NOT NULL DEFAULT '' CHECK (length(note) <= 500),
    channel text NOT NULL,
    actor text NOT NULL CHECK (actor ~ '^(staff|token):'),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, fact_id),
    UNIQUE (merchant_id, case_id, number),
    CONSTRAINT said_as_its_kind_is_said CHECK (coalesce(CASE kind
        WHEN 'not_delivered' THEN said IN ('not_dispatched', 'lost', 'delivered')
        WHEN 'cure' THEN said IN ('done', 'failed', 'refused', 'impossible', 'waived')
        WHEN 'fee_use' THEN said IN ('used', 'unused')
        WHEN 'collection' THEN said IN ('offered', 'not_offered')
        WHEN 'claimant' THEN said IN ('buyer', 'other')
        WHEN 'fault' THEN said = 'showed' END, false)),
    -- Of the whole case, or of one line; what only one kind has.
    CONSTRAINT of_a_line_or_the_case CHECK ((line_id IS NOT NULL) = (kind IN ('not_delivered', 'cure', 'fee_use', 'fault'))
        AND (line_id IS NULL) = (line_quantity IS NULL)),
    CONSTRAINT only_its_kind_has_it CHECK ((cure IS NULL OR kind = 'cure') AND (customer_ref IS NOT NULL) = (kind = 'claimant')
        AND (happened_at IS NOT NULL OR kind <> 'fault') AND (happened_at IS NULL OR kind IN ('cure', 'fault', 'not_delivered'))),
    CONSTRAINT happened_before_it_was_said CHECK (happened_at <= at + interval '1 day'),
    FOREIGN KEY (merchant_id, case_id, order_id) REFERENCES cases (merchant_id, case_id, order_id),
    FOREIGN KEY (merchant_id, line_id, order_id, line_quantity) REFERENCES order_lines (merchant_id, line_id, order_id, quantity)
);
CREATE INDEX case_facts_cured ON case_facts (merchant_id, order_id) WHERE kind = 'cure';
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON case_facts FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON case_facts FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT ON case_facts TO onceback_console, onceback_worker;
GRANT INSERT ON case_facts TO onceback_console;

-- Money on somebody's bare word is approved by another person than who gave it (P7).
CREATE FUNCTION refuse_own_word() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF EXISTS (SELECT 1 FROM intents i JOIN case_facts f ON f.merchant_id = i.merchant_id AND f.case_id = i.case_id
            WHERE i.merchant_id = NEW.merchant_id AND i.intent_id = NEW.intent_id AND f.actor = NEW.approver) THEN
        RAISE EXCEPTION 'nobody approves on their own word' USING ERRCODE = 'check_violation',
            CONSTRAINT = 'nobody_approves_on_their_own_word';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER not_on_their_own_word BEFORE INSERT ON approvals FOR EACH ROW WHEN (NEW.staff_id IS NOT NULL)
    EXECUTE FUNCTION refuse_own_word();
