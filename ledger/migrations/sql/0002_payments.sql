-- Forms of payment: authorised, captured in parts, through a platform, split, paid back by hand.

-- What an intent does. A refund sends money back, a cancel lets go of money that was only authorised, and what the provider
-- does not hold (gift card, store credit, cash) is paid back by hand and recorded with its reference.
ALTER TABLE intents ADD COLUMN act text NOT NULL DEFAULT 'refund' CHECK (act IN ('refund', 'cancel_payment', 'manual'));
ALTER TABLE intents ALTER COLUMN provider_account_id DROP NOT NULL;
ALTER TABLE intents ALTER COLUMN payment_intent_ref DROP NOT NULL;
ALTER TABLE intents ALTER COLUMN charge_ref DROP NOT NULL;
ALTER TABLE intents ADD CONSTRAINT only_by_hand_without_provider CHECK (
    num_nonnulls(provider_account_id, payment_intent_ref, charge_ref) = CASE act WHEN 'manual' THEN 0 ELSE 3 END
);

-- Money that was authorised and not taken stands beside the balances: held → releasing (a cancel was approved) → released
-- (it was let go), and held → captured when it is taken after all. captured_minor is what was taken, now as before.
ALTER TABLE captures
    ADD COLUMN held_minor bigint NOT NULL DEFAULT 0,
    ADD COLUMN releasing_minor bigint NOT NULL DEFAULT 0,
    ADD COLUMN released_minor bigint NOT NULL DEFAULT 0,
    ADD COLUMN next_read_at timestamptz;
ALTER TABLE captures ADD CONSTRAINT holds_not_negative CHECK (held_minor >= 0 AND releasing_minor >= 0 AND released_minor >= 0);
CREATE INDEX captures_to_read ON captures (merchant_id, next_read_at) WHERE next_read_at IS NOT NULL;

ALTER TABLE transfers DROP CONSTRAINT listed_moves;
ALTER TABLE transfers ADD CONSTRAINT listed_moves CHECK (
    (step, from_balance, to_balance) IN (
        ('reserve', 'available', 'reserved'), ('release', 'reserved', 'available'),
        ('settle', 'reserved', 'refunded'), ('reverse', 'refunded', 'available'),
        ('external', 'available', 'refunded'), ('external_reverse', 'refunded', 'available'),
        ('dispute', 'available', 'disputed'), ('dispute_won', 'disputed', 'available'),
        ('reserve', 'held', 'releasing'), ('release', 'releasing', 'held'), ('settle', 'releasing', 'released')
    )
);

CREATE FUNCTION keep_act_of_transfer() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id
        AND (act = 'cancel_payment') = (NEW.from_balance IN ('held', 'releasing'));
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a cancel moves what is held, a refund what was taken' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER of_its_act BEFORE INSERT ON transfers FOR EACH ROW WHEN (NEW.intent_id IS NOT NULL)
    EXECUTE FUNCTION keep_act_of_transfer();

-- What the provider did to a hold (capture_facts) wins over a reservation: a later release or settle moves what is left.
CREATE FUNCTION apply_hold() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE captures SET
        held_minor = held_minor + CASE NEW.step WHEN 'reserve' THEN -NEW.amount_minor
            WHEN 'release' THEN least(releasing_minor, NEW.amount_minor) ELSE 0 END,
        releasing_minor = releasing_minor + CASE NEW.step WHEN 'reserve' THEN NEW.amount_minor
            ELSE -least(releasing_minor, NEW.amount_minor) END,
        released_minor = released_minor + CASE NEW.step WHEN 'settle' THEN least(releasing_minor, NEW.amount_minor) ELSE 0 END
    WHERE merchant_id = NEW.merchant_id AND capture_id = NEW.capture_id;
    RETURN NULL;
END $$;
CREATE TRIGGER moves_holds AFTER INSERT ON transfers FOR EACH ROW WHEN (NEW.from_balance IN ('held', 'releasing'))
    EXECUTE FUNCTION apply_hold();

-- What a read of the payment at the provider showed: the one way in which captured_minor changes after the import.
CREATE TABLE capture_facts (
    merchant_id uuid NOT NULL,
    fact_id uuid NOT NULL,
    capture_id uuid NOT NULL,
    kind text NOT NULL CHECK (kind IN ('captured', 'released', 'not_captured')),
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    payment_status text NOT NULL CHECK (length(payment_status) BETWEEN 1 AND 40),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, fact_id),
    FOREIGN KEY (merchant_id, capture_id) REFERENCES captures (merchant_id, capture_id)
);
CREATE INDEX capture_facts_of_capture ON capture_facts (merchant_id, capture_id);

CREATE FUNCTION apply_capture_fact() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    IF NEW.kind = 'not_captured' THEN
        UPDATE captures SET captured_minor = captured_minor - NEW.amount_minor, available_minor = available_minor - NEW.amount_minor,
            held_minor = held_minor + NEW.amount_minor
        WHERE merchant_id = NEW.merchant_id AND capture_id = NEW.capture_id;
    ELSE
        UPDATE captures SET
            held_minor = held_minor - least(held_minor, NEW.amount_minor),
            releasing_minor = releasing_minor - (NEW.amount_minor - least(held_minor, NEW.amount_minor)),
            captured_minor = captured_minor + CASE NEW.kind WHEN 'captured' THEN NEW.amount_minor ELSE 0 END,
            available_minor = available_minor + CASE NEW.kind WHEN 'captured' THEN NEW.amount_minor ELSE 0 END,
            released_minor = released_minor + CASE NEW.kind WHEN 'released' THEN NEW.amount_minor ELSE 0 END
        WHERE merchant_id = NEW.merchant_id AND capture_id = NEW.capture_id;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fact names no capture of this merchant' USING ERRCODE = 'foreign_key_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER moves_capture AFTER INSERT ON capture_facts FOR EACH ROW EXECUTE FUNCTION apply_capture_fact();

-- As in 0001, and by act: a refund and a cancel name the payment as it stands, a cancel the whole of what is held and only
-- where nothing was taken; by hand goes what the provider does not hold.
CREATE OR REPLACE FUNCTION keep_intent_exact() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state <> 'proposed' OR NEW.provider_refund_ref IS NOT NULL THEN
            RAISE EXCEPTION 'an intent starts as proposed' USING ERRCODE = 'check_violation';
        END IF;
        PERFORM 1 FROM captures WHERE merchant_id = NEW.merchant_id AND capture_id = NEW.capture_id AND order_id = NEW.order_id
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

-- What a person paid back in another system, or could not: once per intent, and one reference once per tender.
CREATE TABLE manual_settlements (
    merchant_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    outcome text NOT NULL CHECK (outcome IN ('done', 'not_done')),
    tender text NOT NULL CHECK (tender IN ('gift_card', 'store_credit', 'cash')),
    reference text CHECK (length(reference) BETWEEN 1 AND 80),
    reason text NOT NULL DEFAULT '' CHECK (length(reason) <= 300),
    recorded_by uuid NOT NULL,
    recorded_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, intent_id),
    CONSTRAINT one_reference_per_tender UNIQUE (merchant_id, tender, reference),
    CHECK ((outcome = 'done') = (reference IS NOT NULL) AND (outcome = 'not_done') = (reason <> '')),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES intents (merchant_id, intent_id),
    FOREIGN KEY (merchant_id, recorded_by) REFERENCES memberships (merchant_id, staff_id)
);

CREATE FUNCTION settle_approved_by_hand() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.recorded_at := now();
    PERFORM 1 FROM intents i JOIN captures c ON c.merchant_id = i.merchant_id AND c.capture_id = i.capture_id
    WHERE i.merchant_id = NEW.merchant_id AND i.intent_id = NEW.intent_id AND i.act = 'manual' AND i.state = 'approved'
        AND c.tender = NEW.tender
        AND EXISTS (SELECT 1 FROM approvals a WHERE a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id AND a.expires_at > now())
        AND NOT EXISTS (SELECT 1 FROM approvals a WHERE a.merchant_id = i.merchant_id AND a.intent_id = i.intent_id AND a.expires_at <= now());
    IF NOT FOUND THEN
        RAISE EXCEPTION 'by hand is settled what is approved, by hand and still' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER of_approved BEFORE INSERT ON manual_settlements FOR EACH ROW EXECUTE FUNCTION settle_approved_by_hand();

-- Money that a person says has left is not called back, and what was approved by hand leaves by nobody's timer.
CREATE FUNCTION keep_paid_by_hand() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM manual_settlements WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND outcome = 'done';
    IF FOUND THEN
        RAISE EXCEPTION 'what was paid back by hand is not withdrawn' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER paid_by_hand_stays BEFORE INSERT ON events FOR EACH ROW WHEN (NEW.to_state = 'withdrawn')
    EXECUTE FUNCTION keep_paid_by_hand();

CREATE FUNCTION wait_for_a_hand() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.due_at := 'infinity';
    RETURN NEW;
END $$;
CREATE TRIGGER by_hand BEFORE INSERT OR UPDATE ON outbox FOR EACH ROW WHEN (NEW.request->>'act' = 'manual')
    EXECUTE FUNCTION wait_for_a_hand();

-- Whose account a payment was made on. One credential and account serve one merchant: this key looks past row-level
-- security, so only the owner's set-up can meet it, and says nothing but that it is taken.
ALTER TABLE provider_accounts
    ADD COLUMN charge_type text NOT NULL DEFAULT 'own' CHECK (charge_type IN ('own', 'direct', 'destination', 'separate')),
    ADD COLUMN expected_account_ref text CHECK (expected_account_ref ~ '^acct_[A-Za-z0-9]{1,58}$');
ALTER TABLE provider_accounts ADD CONSTRAINT account_of_its_charge_type CHECK (
    CASE charge_type WHEN 'direct' THEN account_ref <> '' WHEN 'own' THEN true ELSE account_ref = '' END
);
ALTER TABLE provider_accounts ADD CONSTRAINT one_merchant_per_credential UNIQUE (credential, account_ref);

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['capture_facts', 'manual_settlements'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;

-- The console records what a person did by hand and settles nothing; the worker records what it read.
GRANT SELECT ON capture_facts, manual_settlements TO onceback_console, onceback_worker;
GRANT INSERT ON manual_settlements TO onceback_console;
GRANT INSERT ON capture_facts TO onceback_worker;
GRANT UPDATE (next_read_at) ON captures TO onceback_console, onceback_worker;

-- The worker may call back what was not sent when its payment turned out to be another, or its money left otherwise. What is
-- owed then it may propose (0002_outside grants that); a person approves it like any other. It still approves nothing.
ALTER POLICY worker_moves ON events WITH CHECK (
    to_state IS NULL
    OR (to_state = 'withdrawn' AND reason IN ('refunded_outside', 'disputed', 'dispute_over', 'captured_elsewhere', 'payment_released'))
    OR (to_state <> 'withdrawn' AND from_state <> 'proposed')
);
