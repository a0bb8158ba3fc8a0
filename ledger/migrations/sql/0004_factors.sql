-- Second factors and passkeys of people, what they showed with them, and how strong an approval has to be (S4-S8, S15, S27-S34).

-- The seed of a person's authenticator app, sealed for that person with a key outside the database. `last_step`: the newest
-- half-minute a code of it was taken for, so that no code is taken twice. Until its first code it waits in `session_hash` alone.
CREATE TABLE totp_factors (
    factor_id uuid PRIMARY KEY,
    staff_id uuid NOT NULL REFERENCES staff (staff_id),
    session_hash bytea NOT NULL REFERENCES sessions (session_hash),
    sealed_seed bytea NOT NULL CHECK (length(sealed_seed) BETWEEN 40 AND 200),
    made_at timestamptz NOT NULL DEFAULT now(),
    confirmed_at timestamptz,
    last_step bigint,
    last_used_at timestamptz,
    ended_at timestamptz,
    CHECK ((confirmed_at IS NULL) = (last_step IS NULL))
);
CREATE UNIQUE INDEX one_app_of_a_person ON totp_factors (staff_id) WHERE confirmed_at IS NOT NULL AND ended_at IS NULL;

-- A passkey as it was enrolled, sealed by the web process: a key that is written with SQL alone carries no seal, and signs
-- nothing. Its counter, and when it was used, follow it.
CREATE TABLE passkeys (
    credential_id bytea PRIMARY KEY CHECK (length(credential_id) BETWEEN 8 AND 1023),
    staff_id uuid NOT NULL REFERENCES staff (staff_id),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 60),
    public_key bytea NOT NULL CHECK (length(public_key) BETWEEN 32 AND 2000),
    device_bound boolean NOT NULL,
    enrolled_at timestamptz NOT NULL,
    seal_key_id text NOT NULL,
    seal bytea NOT NULL CHECK (length(seal) = 64),
    counter bigint NOT NULL CHECK (counter BETWEEN 0 AND 4294967295),
    backed_up boolean NOT NULL,
    last_used_at timestamptz,
    ended_at timestamptz,
    ended_because text CHECK (ended_because IN ('removed', 'reset', 'counter')),
    CHECK ((ended_at IS NULL) = (ended_because IS NULL))
);
CREATE INDEX passkeys_of_staff ON passkeys (staff_id) WHERE ended_at IS NULL;

-- Ten codes for whoever lost the rest, each good once.
CREATE TABLE recovery_codes (
    code_hash bytea PRIMARY KEY CHECK (length(code_hash) = 32),
    staff_id uuid NOT NULL REFERENCES staff (staff_id),
    made_at timestamptz NOT NULL DEFAULT now(),
    ended_at timestamptz
);
CREATE INDEX recovery_codes_of_staff ON recovery_codes (staff_id) WHERE ended_at IS NULL;

CREATE TRIGGER stays_ended BEFORE UPDATE ON totp_factors FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION end_once();
CREATE TRIGGER stays_ended BEFORE UPDATE ON passkeys FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION end_once();
CREATE TRIGGER stays_ended BEFORE UPDATE ON recovery_codes FOR EACH ROW WHEN (OLD.ended_at IS NOT NULL) EXECUTE FUNCTION end_once();

-- A code is taken once, and a counter never goes back (S4, S32).
CREATE FUNCTION only_forward() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_TABLE_NAME = 'passkeys' THEN
        IF NEW.counter < OLD.counter OR (NEW.counter = OLD.counter AND NEW.counter > 0 AND NEW.last_used_at IS DISTINCT FROM OLD.last_used_at) THEN
            RAISE EXCEPTION 'the counter of a key went back' USING ERRCODE = 'check_violation', CONSTRAINT = 'counter_goes_forward';
        END IF;
    ELSIF NEW.last_step <= OLD.last_step AND NEW.last_used_at IS DISTINCT FROM OLD.last_used_at THEN
        RAISE EXCEPTION 'a code is taken once' USING ERRCODE = 'check_violation', CONSTRAINT = 'code_taken_once';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER only_forward BEFORE UPDATE ON passkeys FOR EACH ROW EXECUTE FUNCTION only_forward();
CREATE TRIGGER only_forward BEFORE UPDATE ON totp_factors FOR EACH ROW EXECUTE FUNCTION only_forward();

-- Somebody has just shown that it is them. It is fresh for minutes in the one session, and pays for one act (S15): an approval
-- that it is then named by, or a change of the person's factors.
CREATE TABLE factor_acts (
    act_id uuid PRIMARY KEY,
    staff_id uuid NOT NULL REFERENCES staff (staff_id),
    session_hash bytea NOT NULL REFERENCES sessions (session_hash),
    kind text NOT NULL CHECK (kind IN ('password', 'recovery', 'totp', 'passkey')),
    signs_money boolean NOT NULL CHECK (NOT signs_money OR kind IN ('totp', 'passkey')),
    shown_at timestamptz NOT NULL DEFAULT now(),
    spent_at timestamptz,
    approval_id uuid UNIQUE,
    factor_id uuid REFERENCES totp_factors (factor_id),
    credential_id bytea REFERENCES passkeys (credential_id),
    CHECK (approval_id IS NULL OR (spent_at IS NOT NULL AND signs_money)),
    CONSTRAINT shown_with_what CHECK ((kind = 'totp') = (factor_id IS NOT NULL) AND (kind = 'passkey') = (credential_id IS NOT NULL))
);
CREATE INDEX factor_acts_unspent ON factor_acts (session_hash) WHERE spent_at IS NULL;
-- What was shown counts as long as the app or key it was shown with: one that ended takes what it had shown along, spent or not.
CREATE FUNCTION act_counts(factor uuid, credential bytea) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT NOT EXISTS (SELECT 1 FROM totp_factors t WHERE t.factor_id = factor AND t.ended_at IS NOT NULL)
        AND NOT EXISTS (SELECT 1 FROM passkeys k WHERE k.credential_id = credential AND k.ended_at IS NOT NULL)
$$;
CREATE FUNCTION spend_once() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    RAISE EXCEPTION 'this was spent already' USING ERRCODE = 'restrict_violation';
END $$;
CREATE TRIGGER spent_once BEFORE UPDATE ON factor_acts FOR EACH ROW WHEN (OLD.spent_at IS NOT NULL) EXECUTE FUNCTION spend_once();

-- What a browser is asked to sign to enrol a key, or to show that somebody is there.
CREATE TABLE key_ceremonies (
    nonce bytea PRIMARY KEY CHECK (length(nonce) = 32),
    staff_id uuid NOT NULL REFERENCES staff (staff_id),
    session_hash bytea NOT NULL REFERENCES sessions (session_hash),
    purpose text NOT NULL CHECK (purpose IN ('enrol', 'step_up')),
    made_at timestamptz NOT NULL DEFAULT now(),
    spent_at timestamptz
);
CREATE TRIGGER spent_once BEFORE UPDATE ON key_ceremonies FOR EACH ROW WHEN (OLD.spent_at IS NOT NULL) EXECUTE FUNCTION spend_once();

-- S27. The nonce that one approval of one intent is signed with: of one person, session, intent and act, spent by the first try.
CREATE TABLE approval_challenges (
    merchant_id uuid NOT NULL,
    nonce bytea NOT NULL CHECK (length(nonce) = 32),
    staff_id uuid NOT NULL,
    session_hash bytea NOT NULL CHECK (length(session_hash) = 32),
    intent_id uuid NOT NULL,
    act text NOT NULL CHECK (act ~ '^approve:[12]$'),
    fingerprint bytea NOT NULL CHECK (length(fingerprint) = 32),
    earlier bytea NOT NULL CHECK (length(earlier) IN (0, 32)),
    made_at timestamptz NOT NULL DEFAULT now(),
    spent_at timestamptz,
    PRIMARY KEY (merchant_id, nonce),
    CHECK ((act = 'approve:1') = (length(earlier) = 0)),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES intents (merchant_id, intent_id)
);
CREATE TRIGGER spent_once BEFORE UPDATE ON approval_challenges FOR EACH ROW WHEN (OLD.spent_at IS NOT NULL) EXECUTE FUNCTION spend_once();

-- S28. What a passkey signed for an approval, raw, so that it can be verified before each send and years later.
CREATE TABLE approval_assertions (
    merchant_id uuid NOT NULL,
    approval_id uuid NOT NULL,
    nonce bytea NOT NULL,
    staff_id uuid NOT NULL,
    credential_id bytea NOT NULL CHECK (length(credential_id) BETWEEN 8 AND 1023),
    act text NOT NULL CHECK (act ~ '^approve:[12]$'),
    earlier bytea NOT NULL CHECK (length(earlier) IN (0, 32)),
    client_data bytea NOT NULL CHECK (length(client_data) BETWEEN 1 AND 4096),
    authenticator_data bytea NOT NULL CHECK (length(authenticator_data) BETWEEN 37 AND 4096),
    signature bytea NOT NULL CHECK (length(signature) BETWEEN 1 AND 2048),
    counter_before bigint NOT NULL,
    counter_after bigint NOT NULL CHECK (counter_after > counter_before OR (counter_after = 0 AND counter_before = 0)),
    PRIMARY KEY (merchant_id, approval_id),
    CONSTRAINT signed_once UNIQUE (merchant_id, nonce),
    FOREIGN KEY (merchant_id, nonce) REFERENCES approval_challenges (merchant_id, nonce),
    CONSTRAINT of_its_approval FOREIGN KEY (merchant_id, approval_id) REFERENCES approvals (merchant_id, approval_id)
        DEFERRABLE INITIALLY DEFERRED
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON approval_assertions FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON approval_assertions FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- Whether the key or app that an approval was made with has ended by now.
CREATE FUNCTION proof_is_over(merchant uuid, approval uuid) RETURNS boolean
    LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM approval_assertions s JOIN passkeys k ON k.credential_id = s.credential_id
            WHERE s.merchant_id = merchant AND s.approval_id = approval AND k.ended_at IS NOT NULL)
        OR EXISTS (SELECT 1 FROM factor_acts f WHERE f.approval_id = approval AND NOT act_counts(f.factor_id, f.credential_id))
$$;

-- Lost everything: one admin asks, another decides, neither is the person. `lost_since`: from when on nothing of theirs counts.
CREATE TABLE factor_resets (
    merchant_id uuid NOT NULL,
    reset_id uuid NOT NULL,
    staff_id uuid NOT NULL,
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 300),
    lost_since timestamptz NOT NULL,
    asked_by uuid NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT now(),
    decided_by uuid,
    decided_at timestamptz,
    granted boolean,
    PRIMARY KEY (merchant_id, reset_id),
    CONSTRAINT two_others_reset CHECK (asked_by <> staff_id AND (NOT granted OR (decided_by <> asked_by AND decided_by <> staff_id))),
    CHECK (num_nonnulls(decided_by, decided_at, granted) IN (0, 3)),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id),
    FOREIGN KEY (merchant_id, asked_by) REFERENCES memberships (merchant_id, staff_id),
    FOREIGN KEY (merchant_id, decided_by) REFERENCES memberships (merchant_id, staff_id)
);
CREATE UNIQUE INDEX one_open_reset_of_a_person ON factor_resets (merchant_id, staff_id) WHERE decided_at IS NULL;
CREATE TRIGGER once BEFORE INSERT OR UPDATE ON factor_resets FOR EACH ROW EXECUTE FUNCTION decide_once();

-- How strong an approval of so much has to be by the routes of a policy, in minor units of the order's currency. A policy that
-- names no amount asks for none; what two managers decide takes a key of both wherever the policy asks for keys at all. It reads no
-- table and its names are bound as it is made, so the planner takes it in where it is called.
CREATE FUNCTION strength_for(routes jsonb, currency text, minor bigint, two boolean) RETURNS text LANGUAGE sql IMMUTABLE
    RETURN CASE
        WHEN minor >= (routes->'passkey_from_minor'->>currency)::bigint
            OR (two AND routes->'passkey_from_minor' ? currency) THEN 'passkey'
        WHEN minor >= (routes->'factor_from_minor'->>currency)::bigint THEN 'factor'
        ELSE 'session' END;

ALTER TABLE approvals DROP CONSTRAINT approvals_strength_check;
ALTER TABLE approvals ADD CONSTRAINT approvals_strength_check CHECK (strength IN ('session', 'factor', 'passkey', 'policy'));

-- Whether a person used a recovery code within a day (S8).
CREATE FUNCTION recovered_lately(who uuid) RETURNS boolean LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM factor_acts WHERE staff_id = who AND kind = 'recovery' AND shown_at > now() - interval '24 hours')
$$;
CREATE INDEX factor_acts_recovered ON factor_acts (staff_id, shown_at) WHERE kind = 'recovery';

GRANT EXECUTE ON FUNCTION strength_for(jsonb, text, bigint, boolean) TO onceback_console, onceback_worker;
GRANT EXECUTE ON FUNCTION recovered_lately(uuid) TO onceback_console;
GRANT EXECUTE ON FUNCTION act_counts(uuid, bytea), proof_is_over(uuid, uuid) TO onceback_console, onceback_worker;
GRANT SELECT (factor_id, ended_at) ON totp_factors TO onceback_worker;
GRANT SELECT, INSERT ON totp_factors, passkeys, recovery_codes, factor_acts, key_ceremonies, approval_challenges,
    approval_assertions, factor_resets TO onceback_console;
GRANT UPDATE (confirmed_at, last_step, last_used_at, ended_at) ON totp_factors TO onceback_console;
GRANT UPDATE (counter, backed_up, last_used_at, ended_at, ended_because) ON passkeys TO onceback_console;
GRANT UPDATE (ended_at) ON recovery_codes TO onceback_console;
GRANT UPDATE (spent_at, approval_id) ON factor_acts TO onceback_console;
GRANT UPDATE (spent_at) ON key_ceremonies, approval_challenges TO onceback_console;
GRANT UPDATE (decided_by, decided_at, granted) ON factor_resets TO onceback_console;
GRANT SELECT ON passkeys, factor_acts, approval_assertions TO onceback_worker;
