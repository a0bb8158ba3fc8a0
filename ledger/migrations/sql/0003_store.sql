-- What an entitlement was derived from is stored with it, to the byte, so that it can be derived again for ever. What was stored
-- before this revision has none of it, and stays as it is.

-- An allocation, or the terms of a policy: stored once, and named by its digest.
CREATE TABLE entitlement_sources (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    digest bytea NOT NULL,
    tag text NOT NULL CHECK (tag IN ('allocation@1', 'policy-terms@1')),
    document text NOT NULL,
    PRIMARY KEY (merchant_id, digest),
    CONSTRAINT named_by_its_digest CHECK (
        digest = sha256(convert_to(tag, 'UTF8') || '\x00'::bytea || convert_to(document, 'UTF8'))
    )
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON entitlement_sources FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON entitlement_sources FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
GRANT SELECT, INSERT ON entitlement_sources TO onceback_console, onceback_worker;

-- A record names its inputs by digest; these are they. No terms: no policy decided.
ALTER TABLE entitlements
    ADD COLUMN allocation_digest bytea,
    ADD COLUMN terms_digest bytea,
    ADD COLUMN evidence text,
    ADD COLUMN priors text,
    ADD FOREIGN KEY (merchant_id, allocation_digest) REFERENCES entitlement_sources (merchant_id, digest),
    ADD FOREIGN KEY (merchant_id, terms_digest) REFERENCES entitlement_sources (merchant_id, digest);

-- Not valid: of rows of before it is not asked.
ALTER TABLE entitlements ADD CONSTRAINT inputs_are_stored_as_bound CHECK ((
    record->'bound'->>'evidence' = 'sha256:' || encode(
        sha256(convert_to('evidence@1', 'UTF8') || '\x00'::bytea || convert_to(evidence, 'UTF8')), 'hex')
    AND record->'bound'->>'priors' = 'sha256:' || encode(
        sha256(convert_to('priors@1', 'UTF8') || '\x00'::bytea || convert_to(priors, 'UTF8')), 'hex')
    AND record->'bound'->>'allocation' = 'sha256:' || encode(allocation_digest, 'hex')
    AND CASE WHEN terms_digest IS NULL THEN record->'bound'->>'terms' = 'none'
        ELSE right(record->'bound'->>'terms', 71) = 'sha256:' || encode(terms_digest, 'hex') END
) IS TRUE) NOT VALID;
