-- Limits of people, pause, shadow, automatic approval.

-- Pausing is one person's, starting again is two people's, and one of the two is finance. A brake moves only through these
-- journals: nobody holds UPDATE on what they move, and the owner's triggers check who it was. Stopping is always safe, so
-- anybody of the listed roles may, for one merchant or for all; an engineer may by command.
ALTER TABLE merchant_brakes
    ADD COLUMN paused_reason text CHECK (length(paused_reason) <= 500),
    ADD COLUMN shadow_at timestamptz,
    ADD COLUMN shadow_by text CHECK (length(shadow_by) <= 80),
    ADD COLUMN shadow_reason text CHECK (length(shadow_reason) <= 500);
REVOKE UPDATE (paused_at, paused_by) ON merchant_brakes FROM onceback_console;

-- A row here stops every merchant of the deployment.
CREATE TABLE deployment_brakes (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    paused_at timestamptz NOT NULL,
    paused_by text NOT NULL CHECK (length(paused_by) <= 80),
    paused_reason text NOT NULL CHECK (length(paused_reason) BETWEEN 1 AND 500)
);

CREATE TABLE brake_pulls (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    pull_id uuid NOT NULL,
    brake text NOT NULL CHECK (brake IN ('pause', 'all', 'shadow')),
    actor text NOT NULL CHECK (length(actor) <= 80),
    staff_id uuid,
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, pull_id),
    CHECK (CASE WHEN staff_id IS NULL THEN actor ~ '^engineer:.+' ELSE actor = 'staff:' || staff_id::text END),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
CREATE TABLE brake_asks (
    merchant_id uuid NOT NULL,
    ask_id uuid NOT NULL,
    brake text NOT NULL CHECK (brake IN ('pause', 'all', 'shadow', 'stop')),
    staff_id uuid NOT NULL,
    role text NOT NULL CHECK (role IN ('manager', 'finance')),
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 500),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, ask_id),
    UNIQUE (merchant_id, ask_id, brake, staff_id, role),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
CREATE TABLE brake_answers (
    merchant_id uuid NOT NULL,
    ask_id uuid NOT NULL,
    brake text NOT NULL,
    asked_by uuid NOT NULL,
    asked_role text NOT NULL,
    staff_id uuid NOT NULL,
    role text NOT NULL CHECK (role IN ('manager', 'finance')),
    granted boolean NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, ask_id),
    CONSTRAINT two_people_start_again CHECK (NOT granted OR staff_id <> asked_by),
    CONSTRAINT one_of_them_is_finance CHECK (NOT granted OR 'finance' IN (role, asked_role)),
    FOREIGN KEY (merchant_id, ask_id, brake, asked_by, asked_role)
        REFERENCES brake_asks (merchant_id, ask_id, brake, staff_id, role),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);

-- Who closed an alarm and what was done about it.
CREATE TABLE alarm_closings (
    merchant_id uuid NOT NULL,
    alarm_id uuid NOT NULL,
    staff_id uuid NOT NULL,
    did text NOT NULL CHECK (length(did) BETWEEN 1 AND 500),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, alarm_id),
    FOREIGN KEY (merchant_id, alarm_id) REFERENCES alarms (merchant_id, alarm_id),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);

DO $$
DECLARE name text;
BEGIN
    FOREACH name IN ARRAY ARRAY['brake_pulls', 'brake_asks', 'brake_answers', 'alarm_closings'] LOOP
        EXECUTE format('CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON %I FOR EACH ROW EXECUTE FUNCTION refuse_change()', name);
        EXECUTE format('CREATE TRIGGER never_emptied BEFORE TRUNCATE ON %I FOR EACH STATEMENT EXECUTE FUNCTION refuse_change()', name);
    END LOOP;
END $$;

-- The role in which a person acts is the one they have now, whatever the row says.
CREATE FUNCTION brake_role(m uuid, s uuid) RETURNS text LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT ms.role FROM memberships ms JOIN staff s2 ON s2.staff_id = ms.staff_id
    WHERE ms.merchant_id = m AND ms.staff_id = s AND ms.ended_at IS NULL AND s2.disabled_at IS NULL
$$;

CREATE FUNCTION apply_brake_pull() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE who text := substr(NEW.actor, 1, 80);
BEGIN
    IF NEW.staff_id IS NOT NULL THEN
        IF coalesce(brake_role(NEW.merchant_id, NEW.staff_id), '') NOT IN ('desk', 'manager', 'finance', 'admin') THEN
            RAISE EXCEPTION 'this role does not pause' USING ERRCODE = 'check_violation';
        END IF;
        SELECT name INTO who FROM staff WHERE staff_id = NEW.staff_id;
    END IF;
    IF NEW.brake = 'all' THEN
        INSERT INTO deployment_brakes (paused_at, paused_by, paused_reason) VALUES (NEW.at, who, NEW.reason) ON CONFLICT DO NOTHING;
    ELSIF NEW.brake = 'pause' THEN
        UPDATE merchant_brakes SET paused_at = NEW.at, paused_by = who, paused_reason = NEW.reason
        WHERE merchant_id = NEW.merchant_id AND paused_at IS NULL;
    ELSE
        UPDATE merchant_brakes SET shadow_at = NEW.at, shadow_by = who, shadow_reason = NEW.reason
        WHERE merchant_id = NEW.merchant_id AND shadow_at IS NULL;
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER pulls_the_brake AFTER INSERT ON brake_pulls FOR EACH ROW EXECUTE FUNCTION apply_brake_pull();

-- No row of the brakes' journals carries another time than that of its transaction, or another role than the person's.
CREATE FUNCTION keep_brake_row_true() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    NEW.at := now();
    IF TG_TABLE_NAME = 'brake_pulls' THEN
        RETURN NEW;
    END IF;
    IF TG_TABLE_NAME = 'alarm_closings' THEN
        IF coalesce(brake_role(NEW.merchant_id, NEW.staff_id), '') NOT IN ('manager', 'finance') THEN
            RAISE EXCEPTION 'this role closes no alarm' USING ERRCODE = 'check_violation';
        END IF;
    ELSIF brake_role(NEW.merchant_id, NEW.staff_id) IS DISTINCT FROM NEW.role THEN
        RAISE EXCEPTION 'a person acts in the role they have' USING ERRCODE = 'check_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER is_true BEFORE INSERT ON brake_pulls FOR EACH ROW EXECUTE FUNCTION keep_brake_row_true();
CREATE TRIGGER is_true BEFORE INSERT ON brake_asks FOR EACH ROW EXECUTE FUNCTION keep_brake_row_true();
CREATE TRIGGER is_true BEFORE INSERT ON brake_answers FOR EACH ROW EXECUTE FUNCTION keep_brake_row_true();
CREATE TRIGGER is_true BEFORE INSERT ON alarm_closings FOR EACH ROW EXECUTE FUNCTION keep_brake_row_true();

-- A request counts for the brake that was on when it was made, for a day.
CREATE FUNCTION apply_brake_answer() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE asked timestamptz;
BEGIN
    IF NOT NEW.granted THEN
        RETURN NULL;
    END IF;
    SELECT at INTO asked FROM brake_asks WHERE merchant_id = NEW.merchant_id AND ask_id = NEW.ask_id
        AND at > NEW.at - interval '24 hours';
    IF NEW.brake = 'all' THEN
        DELETE FROM deployment_brakes WHERE paused_at <= asked;
    ELSIF NEW.brake = 'pause' THEN
        UPDATE merchant_brakes SET paused_at = NULL, paused_by = NULL, paused_reason = NULL
        WHERE merchant_id = NEW.merchant_id AND paused_at <= asked;
    ELSIF NEW.brake = 'stop' THEN
        UPDATE merchant_brakes SET stopped_at = NULL, stopped_reason = NULL
        WHERE merchant_id = NEW.merchant_id AND stopped_at <= asked;
        IF FOUND THEN
            -- Its alarm is over with it, so that a credential that is still not right raises a new one.
            UPDATE alarms SET closed_at = NEW.at WHERE merchant_id = NEW.merchant_id AND closed_at IS NULL
                AND kind IN ('submitter_stopped', 'look_refused');
            RETURN NULL;
        END IF;
    ELSE
        UPDATE merchant_brakes SET shadow_at = NULL, shadow_by = NULL, shadow_reason = NULL
        WHERE merchant_id = NEW.merchant_id AND shadow_at <= asked;
    END IF;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the brake of this request is not on any more, or the request is older than it or than a day'
            USING ERRCODE = 'check_violation';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER releases_the_brake AFTER INSERT ON brake_answers FOR EACH ROW EXECUTE FUNCTION apply_brake_answer();

-- A brake that is on comes off by a granted request of this very transaction and in no other way.
CREATE FUNCTION granted_now(m uuid, which text, since timestamptz) RETURNS boolean LANGUAGE sql STABLE
    SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM brake_answers n JOIN brake_asks a ON a.merchant_id = n.merchant_id AND a.ask_id = n.ask_id
        WHERE n.merchant_id = m AND n.brake = which AND n.granted AND n.at = now() AND a.at >= since)
$$;
CREATE FUNCTION keep_brakes() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF OLD.paused_at IS NOT NULL AND NEW.paused_at IS DISTINCT FROM OLD.paused_at AND NOT granted_now(OLD.merchant_id, 'pause', OLD.paused_at)
        OR OLD.stopped_at IS NOT NULL AND NEW.stopped_at IS DISTINCT FROM OLD.stopped_at AND NOT granted_now(OLD.merchant_id, 'stop', OLD.stopped_at)
        OR OLD.shadow_at IS NOT NULL AND NEW.shadow_at IS DISTINCT FROM OLD.shadow_at AND NOT granted_now(OLD.merchant_id, 'shadow', OLD.shadow_at)
    THEN
        RAISE EXCEPTION 'two people take a brake off' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER two_people BEFORE UPDATE ON merchant_brakes FOR EACH ROW EXECUTE FUNCTION keep_brakes();
CREATE TRIGGER never_deleted BEFORE DELETE ON merchant_brakes FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON merchant_brakes FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE FUNCTION keep_deployment_brakes() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF TG_OP = 'UPDATE' OR NOT granted_now(NULLIF(current_setting('onceback.merchant', true), '')::uuid, 'all', OLD.paused_at) THEN
        RAISE EXCEPTION 'two people take a brake off' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN OLD;
END $$;
CREATE TRIGGER two_people BEFORE UPDATE OR DELETE ON deployment_brakes FOR EACH ROW EXECUTE FUNCTION keep_deployment_brakes();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON deployment_brakes FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

CREATE FUNCTION apply_alarm_closing() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
BEGIN
    UPDATE alarms SET closed_at = NEW.at WHERE merchant_id = NEW.merchant_id AND alarm_id = NEW.alarm_id AND closed_at IS NULL;
    RETURN NULL;
END $$;
CREATE TRIGGER closes AFTER INSERT ON alarm_closings FOR EACH ROW EXECUTE FUNCTION apply_alarm_closing();

GRANT SELECT ON deployment_brakes, brake_pulls, brake_asks, brake_answers, alarm_closings TO onceback_console;
GRANT INSERT ON brake_pulls, brake_asks, brake_answers, alarm_closings TO onceback_console;
GRANT SELECT ON deployment_brakes TO onceback_worker;
GRANT EXECUTE ON FUNCTION brake_role(uuid, uuid), granted_now(uuid, text, timestamptz) TO onceback_console, onceback_worker;

-- What a person may approve in an hour and in a day, per currency: one row for each window, moved by the approvals themselves.
CREATE TABLE reviewer_windows (
    merchant_id uuid NOT NULL,
    staff_id uuid NOT NULL,
    currency text NOT NULL CHECK (currency ~ '^[A-Z]{3}$'),
    span text NOT NULL CHECK (span IN ('hour', 'day')),
    starts_at timestamptz NOT NULL,
    ends_at timestamptz NOT NULL CHECK (ends_at > starts_at),
    limit_count integer NOT NULL CHECK (limit_count >= 0),
    limit_minor bigint NOT NULL CHECK (limit_minor >= 0),
    used_count integer NOT NULL DEFAULT 0,
    used_minor bigint NOT NULL DEFAULT 0,
    PRIMARY KEY (merchant_id, staff_id, currency, span, starts_at),
    CONSTRAINT within_what_a_person_approves CHECK (
        used_count BETWEEN 0 AND limit_count AND used_minor BETWEEN 0 AND limit_minor),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
-- The journal that moves them. `at` is taken while the rows that are summed are locked, so it is the order of approvals (S30).
CREATE TABLE approval_entries (
    merchant_id uuid NOT NULL,
    approval_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    seat smallint NOT NULL,
    staff_id uuid,
    currency text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    at timestamptz NOT NULL DEFAULT clock_timestamp(),
    PRIMARY KEY (merchant_id, approval_id),
    UNIQUE (merchant_id, intent_id, seat),
    FOREIGN KEY (merchant_id, approval_id) REFERENCES approvals (merchant_id, approval_id),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES intents (merchant_id, intent_id)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON approval_entries FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON approval_entries FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The limits of a role in a currency, from the policy in force now; a currency it does not name has none of it to give, and a
-- policy without limits has the defaults, in major units of the currency.
CREATE FUNCTION reviewer_limits(m uuid, who text, cur text, exponent integer)
    RETURNS TABLE (span text, most integer, most_minor bigint) LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    WITH terms AS (
        SELECT NULLIF((SELECT document->'limits' FROM policies WHERE merchant_id = m AND effective @> now()
            ORDER BY policy_id, version DESC LIMIT 1), 'null') AS l
    )
    SELECT d.span, d.most, (d.major * power(10::numeric, exponent))::bigint
    FROM terms, (VALUES ('desk', 'hour', 40, 1500), ('desk', 'day', 150, 5000), ('manager', 'hour', 40, 10000)) d(role, span, most, major)
    WHERE terms.l IS NULL AND d.role = who
    UNION ALL
    SELECT s.span, coalesce((l->who->cur->s.span->>'count')::integer, 0), coalesce((l->who->cur->s.span->>'minor')::bigint, 0)
    FROM terms, (VALUES ('hour'), ('day')) s(span)
    WHERE terms.l IS NOT NULL AND who IN ('desk', 'manager') AND (s.span = 'hour' OR l->who->cur ? 'day')
$$;

CREATE FUNCTION count_approval() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER SET search_path = public, pg_temp AS $$
DECLARE
    what record;
    w record;
    counted boolean := false;
BEGIN
    SELECT amount_minor, currency, exponent INTO what FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id;
    INSERT INTO approval_entries (merchant_id, approval_id, intent_id, seat, staff_id, currency, amount_minor)
        VALUES (NEW.merchant_id, NEW.approval_id, NEW.intent_id, NEW.seat, NEW.staff_id, what.currency, what.amount_minor);
    FOR w IN
        SELECT l.*, z.starts_at, CASE l.span WHEN 'hour' THEN z.starts_at + interval '1 hour' ELSE z.next_at END AS ends_at
        FROM reviewer_limits(NEW.merchant_id, brake_role(NEW.merchant_id, NEW.staff_id), what.currency, what.exponent) l
        JOIN merchants g ON g.id = NEW.merchant_id
        CROSS JOIN LATERAL (SELECT
            CASE l.span WHEN 'hour' THEN date_trunc('hour', now()) ELSE (now() AT TIME ZONE g.zone)::date::timestamp AT TIME ZONE g.zone END
                AS starts_at,
            ((now() AT TIME ZONE g.zone)::date + 1)::timestamp AT TIME ZONE g.zone AS next_at) z
        ORDER BY l.span DESC
    LOOP
        counted := true;
        INSERT INTO reviewer_windows (merchant_id, staff_id, currency, span, starts_at, ends_at, limit_count, limit_minor)
            VALUES (NEW.merchant_id, NEW.staff_id, what.currency, w.span, w.starts_at, w.ends_at, w.most, w.most_minor)
            ON CONFLICT DO NOTHING;
        UPDATE reviewer_windows SET limit_count = w.most, limit_minor = w.most_minor, used_count = used_count + 1,
            used_minor = used_minor + what.amount_minor
        WHERE merchant_id = NEW.merchant_id AND staff_id = NEW.staff_id AND currency = what.currency AND span = w.span
            AND starts_at = w.starts_at AND used_count + 1 <= w.most AND used_minor + what.amount_minor <= w.most_minor;
        IF NOT FOUND THEN
            RAISE EXCEPTION 'more than this person approves in one %', w.span
                USING ERRCODE = 'check_violation', CONSTRAINT = 'within_what_a_person_approves';
        END IF;
    END LOOP;
    IF NOT counted THEN
        RAISE EXCEPTION 'this role approves nothing' USING ERRCODE = 'check_violation', CONSTRAINT = 'within_what_a_person_approves';
    END IF;
    RETURN NULL;
END $$;
CREATE TRIGGER counts_for_its_person AFTER INSERT ON approvals FOR EACH ROW EXECUTE FUNCTION count_approval();

GRANT SELECT ON reviewer_windows, approval_entries TO onceback_console;
GRANT SELECT ON approval_entries TO onceback_worker;
GRANT EXECUTE ON FUNCTION reviewer_limits(uuid, text, text, integer) TO onceback_console;

-- Shadow mode: what would have been sent, once for each refund. It is held, and nothing lets it go but a new approval round.
CREATE TABLE shadow_sends (
    merchant_id uuid NOT NULL,
    intent_id uuid NOT NULL,
    request_digest bytea NOT NULL CHECK (length(request_digest) = 32),
    currency text NOT NULL,
    amount_minor bigint NOT NULL CHECK (amount_minor > 0),
    at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, intent_id),
    FOREIGN KEY (merchant_id, intent_id) REFERENCES outbox (merchant_id, intent_id)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON shadow_sends FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON shadow_sends FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE FUNCTION keep_in_shadow() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    PERFORM 1 FROM intents WHERE merchant_id = NEW.merchant_id AND intent_id = NEW.intent_id AND state_reason IN ('shadow', 'left');
    IF FOUND THEN
        RAISE EXCEPTION 'what shadow mode or a leaver holds goes only by a new approval' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER stays_in_shadow BEFORE INSERT ON events FOR EACH ROW
    -- A recovery that finds the refund paid at the provider writes that down, whatever held it.
    WHEN (NEW.from_state = 'held' AND NEW.to_state = 'approved' AND NEW.reason <> 'recovery') EXECUTE FUNCTION keep_in_shadow();
GRANT SELECT ON shadow_sends TO onceback_console;
GRANT SELECT, INSERT ON shadow_sends TO onceback_worker;
