-- An order that replaces exchanged goods is paid with what was paid for those (ENTITLEMENT section 5). Its credit is no money of its
-- own: it names the payment the money is on, and what comes back of the replacement goes there, so that the chain stays within it.
ALTER TABLE captures
    DROP CONSTRAINT captures_tender_check,
    ADD CONSTRAINT captures_tender_check
        CHECK (tender IN ('card', 'wallet', 'bank', 'gift_card', 'store_credit', 'cash', 'exchange_credit')),
    ADD COLUMN source_capture_id uuid,
    ADD CONSTRAINT a_credit_names_its_payment CHECK ((tender = 'exchange_credit') = (source_capture_id IS NOT NULL)
        AND (source_capture_id IS NULL OR charge_ref IS NULL)),
    ADD FOREIGN KEY (merchant_id, source_capture_id, currency) REFERENCES captures (merchant_id, capture_id, currency);
CREATE UNIQUE INDEX one_credit_of_a_payment ON captures (merchant_id, order_id, source_capture_id) WHERE source_capture_id IS NOT NULL;

CREATE FUNCTION keep_credit_true() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM captures s WHERE s.merchant_id = NEW.merchant_id AND s.capture_id = NEW.source_capture_id
        AND s.source_capture_id IS NULL AND s.order_id <> NEW.order_id;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'an exchange credit names a payment of another order' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER credit_is_true BEFORE INSERT ON captures FOR EACH ROW WHEN (NEW.source_capture_id IS NOT NULL)
    EXECUTE FUNCTION keep_credit_true();
