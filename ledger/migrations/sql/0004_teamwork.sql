-- Working together: who has a case in hand, who looks at it, whose it is, until when it rests, whom a note speaks to.
-- Advice, all of it. No guard of the money reads any of these rows, and none of them holds up an approval.

-- Whose a case is, and until when it rests. On the case itself, so that a view of the queue stays one scan of one index.
ALTER TABLE cases ADD COLUMN assigned_to uuid;
ALTER TABLE cases ADD COLUMN snoozed_until timestamptz;
ALTER TABLE cases ADD COLUMN snooze_reason text NOT NULL DEFAULT '';
ALTER TABLE cases ADD CONSTRAINT cases_snooze_reason_check
    CHECK (snooze_reason IN ('', 'customer', 'parcel', 'warehouse', 'colleague', 'provider', 'other'));
ALTER TABLE cases ADD CONSTRAINT rests_for_a_reason CHECK ((snoozed_until IS NULL) = (snooze_reason = ''));
ALTER TABLE cases ADD FOREIGN KEY (merchant_id, assigned_to) REFERENCES memberships (merchant_id, staff_id);
CREATE INDEX cases_assigned ON cases (merchant_id, assigned_to, due_at, case_id)
    WHERE closed_at IS NULL AND assigned_to IS NOT NULL;
CREATE INDEX cases_unassigned ON cases (merchant_id, due_at, case_id) WHERE closed_at IS NULL AND assigned_to IS NULL;
CREATE INDEX cases_snoozed ON cases (merchant_id, due_at, case_id) WHERE closed_at IS NULL AND snoozed_until IS NOT NULL;
-- What is open by its age, for the oldest of all are closed; and everything there is by due time.
CREATE INDEX cases_open_by_age ON cases (merchant_id, opened_at, case_id) WHERE closed_at IS NULL;
CREATE INDEX cases_by_due ON cases (merchant_id, due_at, case_id);
-- Refunds that wait for more than the desk.
CREATE INDEX intents_exceptional ON intents (merchant_id, case_id) WHERE state = 'proposed' AND route <> 'desk';
GRANT UPDATE (assigned_to, snoozed_until, snooze_reason) ON cases TO onceback_console;

-- A claim is a lease: one person has a case in hand until an instant, and then nobody has, without anybody doing anything.
-- `by_next`: taken with "next case", and let go with the following one.
CREATE TABLE case_leases (
    merchant_id uuid NOT NULL,
    case_id uuid NOT NULL,
    staff_id uuid NOT NULL,
    taken_at timestamptz NOT NULL DEFAULT now(),
    until timestamptz NOT NULL,
    by_next boolean NOT NULL DEFAULT false,
    PRIMARY KEY (merchant_id, case_id),
    CHECK (until >= taken_at),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
CREATE INDEX case_leases_of_person ON case_leases (merchant_id, staff_id, until);
GRANT SELECT, INSERT ON case_leases TO onceback_console;
GRANT UPDATE (staff_id, taken_at, until, by_next) ON case_leases TO onceback_console;

-- Which case a person has before them, and when they were last seen there: one row a person, for one looks at one page at a time.
CREATE TABLE case_presence (
    merchant_id uuid NOT NULL,
    staff_id uuid NOT NULL,
    case_id uuid NOT NULL,
    doing text NOT NULL CHECK (doing IN ('looking', 'deciding')),
    seen_at timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (merchant_id, staff_id),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
CREATE INDEX case_presence_of_case ON case_presence (merchant_id, case_id);
GRANT SELECT, INSERT ON case_presence TO onceback_console;
GRANT UPDATE (case_id, doing, seen_at) ON case_presence TO onceback_console;

CREATE TABLE case_tags (
    merchant_id uuid NOT NULL,
    case_id uuid NOT NULL,
    tag text NOT NULL CHECK (tag ~ '^[a-z0-9][a-z0-9-]{0,23}$'),
    staff_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    gone_at timestamptz,
    PRIMARY KEY (merchant_id, case_id, tag),
    FOREIGN KEY (merchant_id, case_id) REFERENCES cases (merchant_id, case_id),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
CREATE INDEX case_tags_by_tag ON case_tags (merchant_id, tag, case_id) WHERE gone_at IS NULL;
GRANT SELECT, INSERT ON case_tags TO onceback_console;
GRANT UPDATE (staff_id, at, gone_at) ON case_tags TO onceback_console;

-- Whom a note speaks to. The note is of the same case.
ALTER TABLE notes ADD UNIQUE (merchant_id, note_id, case_id);
CREATE TABLE mentions (
    merchant_id uuid NOT NULL,
    note_id uuid NOT NULL,
    staff_id uuid NOT NULL,
    case_id uuid NOT NULL,
    at timestamptz NOT NULL DEFAULT now(),
    read_at timestamptz,
    PRIMARY KEY (merchant_id, note_id, staff_id),
    FOREIGN KEY (merchant_id, note_id, case_id) REFERENCES notes (merchant_id, note_id, case_id),
    FOREIGN KEY (merchant_id, staff_id) REFERENCES memberships (merchant_id, staff_id)
);
CREATE INDEX mentions_unread ON mentions (merchant_id, staff_id, case_id) WHERE read_at IS NULL;
GRANT SELECT, INSERT ON mentions TO onceback_console;
GRANT UPDATE (read_at) ON mentions TO onceback_console;
