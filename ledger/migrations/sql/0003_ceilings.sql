-- P1. A case is paid what its entitlement says, in all: what was paid of it, may still be paid or went back outside comes off. One
-- live intent at a time (P2) says nothing of those that are paid, and a line (P4) may have room for other units.
CREATE FUNCTION pay_within_entitlement() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE spent bigint;
BEGIN
    SELECT coalesce(sum(order_minor), 0) INTO spent FROM intents
    WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id AND state NOT IN ('withdrawn', 'failed', 'reversed');
    SELECT spent + coalesce(sum(order_minor), 0) INTO spent FROM external_allocations
    WHERE merchant_id = NEW.merchant_id AND case_id = NEW.case_id;
    PERFORM 1 FROM entitlements WHERE merchant_id = NEW.merchant_id AND entitlement_id = NEW.entitlement_id
        AND total_minor >= spent + NEW.order_minor;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'a case is paid what its entitlement says in all, or less' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER paid_within_entitlement BEFORE INSERT ON intents FOR EACH ROW EXECUTE FUNCTION pay_within_entitlement();
