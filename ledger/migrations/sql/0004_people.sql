-- How people come in: the second factor at the door, by what the merchant asks of which roles (S6).

-- Of whom a merchant asks for a second factor: whoever has one anyway (own), everybody but readers (money), everybody (all).
ALTER TABLE merchants ADD COLUMN second_factor text NOT NULL DEFAULT 'own' CHECK (second_factor IN ('own', 'money', 'all'));

-- A session after the password alone: it opens the page of the factor, or of adding one, and nothing else. Another session
-- begins after that; this one never becomes whole.
ALTER TABLE sessions ADD COLUMN waits_for text CHECK (waits_for IN ('factor', 'enrolment'));

-- Whether a person has anything beside the password in use, and whether a merchant asks a role for it.
CREATE FUNCTION has_factor(who uuid) RETURNS boolean LANGUAGE sql STABLE SET search_path = public, pg_temp AS $$
    SELECT EXISTS (SELECT 1 FROM totp_factors WHERE staff_id = who AND confirmed_at IS NOT NULL AND ended_at IS NULL)
        OR EXISTS (SELECT 1 FROM passkeys WHERE staff_id = who AND ended_at IS NULL)
$$;
CREATE FUNCTION asks_for_factor(asked text, role text) RETURNS boolean LANGUAGE sql IMMUTABLE
    SET search_path = public, pg_temp AS $$
    SELECT asked = 'all' OR (asked = 'money' AND role <> 'reader')
$$;
GRANT EXECUTE ON FUNCTION has_factor(uuid), asks_for_factor(text, text) TO onceback_console;

-- Another role for a member: one admin asks, a second one decides, neither is the person (SECURITY section 2).
CREATE TABLE role_changes (
    merchant_id uuid NOT NULL,
    change_id uuid NOT NULL,
    staff_id uuid NOT NULL,
    was text NOT NULL,
    role text NOT NULL CHECK (role IN ('reader', 'desk', 'manager', 'finance', 'admin') AND role <> was),
    reason text NOT NULL CHECK (length(reason) BETWEEN 1 AND 300),
    asked_by uuid NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT now(),
    decided_by uuid,
    decided_at timestamptz,
    granted boolean,
    PRIMARY KEY (merchant_id, change_id),
    CONSTRAINT two_others_change CHECK (asked_by <> staff_id
        AND (NOT granted OR (decided_by <> asked_by AND decided_by <> staff_id))),
    CHECK (num_nonnulls(decided_by, decided_at, granted) IN (0, 3)),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id),
    FOREIGN KEY (merchant_id, asked_by) REFERENCES memberships (merchant_id, staff_id),
    FOREIGN KEY (merchant_id, decided_by) REFERENCES memberships (merchant_id, staff_id)
);
CREATE UNIQUE INDEX one_open_change_of_a_person ON role_changes (merchant_id, staff_id) WHERE decided_at IS NULL;
CREATE TRIGGER once BEFORE INSERT OR UPDATE ON role_changes FOR EACH ROW EXECUTE FUNCTION decide_once();

-- Somebody is to work here. A second admin decides; then a link exists, of which the database knows the digest. What ends an
-- invitation is one row: who came by it, or who called it back.
CREATE TABLE invitations (
    merchant_id uuid NOT NULL REFERENCES merchants (id),
    invitation_id uuid NOT NULL,
    email text NOT NULL CHECK (email = lower(email) AND length(email) BETWEEN 3 AND 254),
    name text NOT NULL CHECK (length(name) BETWEEN 1 AND 80),
    role text NOT NULL CHECK (role IN ('reader', 'desk', 'manager', 'finance', 'admin')),
    asked_by uuid NOT NULL,
    asked_at timestamptz NOT NULL DEFAULT now(),
    decided_by uuid,
    decided_at timestamptz,
    granted boolean,
    PRIMARY KEY (merchant_id, invitation_id),
    CONSTRAINT two_admins_invite CHECK (NOT granted OR decided_by <> asked_by),
    CHECK (num_nonnulls(decided_by, decided_at, granted) IN (0, 3)),
    FOREIGN KEY (merchant_id, asked_by) REFERENCES memberships (merchant_id, staff_id),
    FOREIGN KEY (merchant_id, decided_by) REFERENCES memberships (merchant_id, staff_id)
);
CREATE TRIGGER once BEFORE INSERT OR UPDATE ON invitations FOR EACH ROW EXECUTE FUNCTION decide_once();

CREATE TABLE invitation_links (
    merchant_id uuid NOT NULL,
    link_hash bytea NOT NULL CHECK (length(link_hash) = 32),
    invitation_id uuid NOT NULL,
    made_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, link_hash),
    FOREIGN KEY (merchant_id, invitation_id) REFERENCES invitations (merchant_id, invitation_id)
);

CREATE TABLE invitation_ends (
    merchant_id uuid NOT NULL,
    invitation_id uuid NOT NULL,
    staff_id uuid,
    called_back_by uuid,
    at timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT invited_once PRIMARY KEY (merchant_id, invitation_id),
    CHECK (num_nonnulls(staff_id, called_back_by) = 1),
    FOREIGN KEY (merchant_id, invitation_id) REFERENCES invitations (merchant_id, invitation_id),
    CONSTRAINT who_came FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
        DEFERRABLE INITIALLY DEFERRED,
    FOREIGN KEY (merchant_id, called_back_by) REFERENCES memberships (merchant_id, staff_id)
);
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON invitation_ends FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER append_only BEFORE UPDATE OR DELETE ON invitation_links FOR EACH ROW EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON invitation_ends FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();
CREATE TRIGGER never_emptied BEFORE TRUNCATE ON invitation_links FOR EACH STATEMENT EXECUTE FUNCTION refuse_change();

-- The console gives a membership or a role only in the transaction in which a second admin decided it, or the invited person came.
CREATE FUNCTION people_take_two() RETURNS trigger LANGUAGE plpgsql SET search_path = public, pg_temp AS $$
BEGIN
    IF current_user <> 'onceback_console' OR (TG_OP = 'UPDATE' AND NEW.role = OLD.role
            AND (OLD.ended_at IS NULL OR NEW.ended_at IS NOT NULL))
        OR EXISTS (SELECT 1 FROM role_changes c WHERE c.merchant_id = NEW.merchant_id AND c.staff_id = NEW.staff_id
            AND c.role = NEW.role AND c.granted AND c.decided_at = now())
        OR EXISTS (SELECT 1 FROM invitation_ends e JOIN invitations i ON i.merchant_id = e.merchant_id
            AND i.invitation_id = e.invitation_id WHERE e.merchant_id = NEW.merchant_id AND e.staff_id = NEW.staff_id
            AND e.at = now() AND i.role = NEW.role AND i.granted) THEN
        RETURN NEW;
    END IF;
    RAISE EXCEPTION 'a role takes a second admin' USING ERRCODE = 'check_violation', CONSTRAINT = 'people_take_two';
END $$;
CREATE TRIGGER people_take_two AFTER INSERT OR UPDATE ON memberships FOR EACH ROW EXECUTE FUNCTION people_take_two();

-- '' is the zone of the shop. Nobody could choose one before.
ALTER TABLE staff ALTER COLUMN zone SET DEFAULT '';
UPDATE staff SET zone = '';

GRANT SELECT, INSERT ON role_changes, invitations, invitation_links, invitation_ends TO onceback_console;
GRANT UPDATE (decided_by, decided_at, granted) ON role_changes, invitations TO onceback_console;

-- Mail that waits to be sent (S7, S37). It names no customer and no amount; a link of an invitation is made when it is sent.
CREATE TABLE mails (
    mail_id uuid PRIMARY KEY,
    to_address text NOT NULL CHECK (to_address = lower(to_address) AND length(to_address) BETWEEN 3 AND 254),
    kind text NOT NULL CHECK (kind IN ('new_browser', 'factor_changed', 'role_changed', 'mentioned', 'assigned', 'invited',
        'approved_by_key')),
    facts jsonb NOT NULL CHECK (length(facts::text) <= 2000),
    made_at timestamptz NOT NULL DEFAULT now(),
    due_at timestamptz NOT NULL DEFAULT now(),
    attempts integer NOT NULL DEFAULT 0,
    sent_at timestamptz,
    given_up_at timestamptz,
    fault text CHECK (length(fault) <= 80),
    CHECK (num_nonnulls(sent_at, given_up_at) <= 1)
);
CREATE INDEX mails_due ON mails (due_at) WHERE sent_at IS NULL AND given_up_at IS NULL;

-- Whether a person wants mail about mentions and cases that become theirs.
ALTER TABLE staff ADD COLUMN mail_work boolean NOT NULL DEFAULT false;

GRANT SELECT, INSERT ON mails TO onceback_console;
GRANT UPDATE (mail_work) ON staff TO onceback_console;
GRANT SELECT ON mails, invitations, invitation_ends TO onceback_worker;
GRANT UPDATE (due_at, attempts, sent_at, given_up_at, fault) ON mails TO onceback_worker;
GRANT INSERT ON invitation_links TO onceback_worker;
