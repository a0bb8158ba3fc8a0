-- What is owed adds up, line by line, whoever writes it: amounts to the total, taxes to the tax, lines of the order and payments
-- to what is payable. Figures that do not are refused before anything can be proposed on them.

CREATE FUNCTION entitlement_adds_up() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
DECLARE
    lines record;
    payable bigint := NEW.total_minor - coalesce((NEW.record->>'paid_before')::bigint, 0);
BEGIN
    SELECT coalesce(sum((line->>'minor')::bigint), 0) AS minor, coalesce(sum((line->'tax'->>'minor')::bigint), 0) AS tax
        INTO lines FROM jsonb_array_elements(NEW.record->'lines') AS line;
    IF (NEW.total_minor, NEW.tax_minor, NEW.payable_minor) <> (lines.minor, lines.tax, greatest(0, payable))
        OR (NEW.record->>'total')::bigint IS DISTINCT FROM NEW.total_minor
        OR (NEW.record->>'tax')::bigint IS DISTINCT FROM NEW.tax_minor
        OR NEW.total_minor <> (SELECT coalesce(sum(value::bigint), 0) FROM jsonb_each_text(NEW.record->'subtotals'))
        OR NEW.total_minor <> (SELECT coalesce(sum(value::bigint), 0) FROM jsonb_each_text(NEW.record->'claimed'))
            - (SELECT coalesce(sum(value::bigint), 0) FROM jsonb_each_text(NEW.record->'retained'))
            + (SELECT coalesce(sum(value::bigint), 0) FROM jsonb_each_text(NEW.record->'released'))
        OR NEW.payable_minor <> coalesce((NEW.record->>'funding_shortfall_minor')::bigint, 0)
            + (SELECT coalesce(sum((draw->>'order_minor')::bigint), 0) FROM jsonb_array_elements(NEW.record->'draws') AS draw)
    THEN
        RAISE EXCEPTION 'an entitlement adds up, line by line' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER adds_up BEFORE INSERT ON entitlements FOR EACH ROW EXECUTE FUNCTION entitlement_adds_up();

-- Cash goes back in its smallest coin.
ALTER TABLE captures DROP CONSTRAINT captures_step_minor_check,
    ADD CONSTRAINT captures_step_minor_check CHECK (step_minor IN (1, 5, 10, 50, 100, 500, 1000));

-- When the customer said it, where that was before somebody wrote it down here: windows count from it, and so does the due time.
ALTER TABLE cases ADD COLUMN stated_at timestamptz, ADD CONSTRAINT cases_stated_before CHECK (stated_at <= opened_at);
