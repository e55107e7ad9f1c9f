-- Votes of several people, causes, bound facts, mandates, the audit.
ALTER TABLE ticket ADD COLUMN cause TEXT;
ALTER TABLE ticket ADD COLUMN roles TEXT NOT NULL DEFAULT '[]';
UPDATE ticket SET roles = json_array(role) WHERE role IS NOT NULL;
ALTER TABLE ticket DROP COLUMN role;
ALTER TABLE ticket ADD COLUMN approvals INTEGER NOT NULL DEFAULT 1;
ALTER TABLE ticket ADD COLUMN fresh INTEGER NOT NULL DEFAULT 0;
ALTER TABLE ticket ADD COLUMN actors TEXT NOT NULL DEFAULT '[]';
ALTER TABLE ticket ADD COLUMN bound TEXT NOT NULL DEFAULT '{}';
ALTER TABLE ticket ADD COLUMN said TEXT;
ALTER TABLE ticket ADD COLUMN offer TEXT;
ALTER TABLE ticket ADD COLUMN reconcile TEXT;
ALTER TABLE ticket ADD COLUMN claimed_at INTEGER;
ALTER TABLE ticket ADD COLUMN lost INTEGER NOT NULL DEFAULT 0;
UPDATE ticket SET lost = 1 WHERE state = 'unknown';
ALTER TABLE ticket ADD COLUMN resolved_by TEXT;
ALTER TABLE ticket ADD COLUMN resolved_at INTEGER;
ALTER TABLE ticket ADD COLUMN resolved_note TEXT;
ALTER TABLE ticket ADD COLUMN mandate TEXT;
ALTER TABLE ticket ADD COLUMN amount TEXT;
ALTER TABLE ticket ADD COLUMN ended_at INTEGER;
UPDATE ticket SET cause = 'terms_changed' WHERE state = 'cancelled';
UPDATE ticket SET ended_at = coalesce(completed_at, answered_at, expires_at)
 WHERE state IN ('succeeded', 'failed', 'denied', 'expired', 'cancelled');

CREATE TABLE vote (
    ticket  TEXT    NOT NULL REFERENCES ticket(id) ON DELETE CASCADE,
    number  INTEGER NOT NULL,
    issuer  TEXT    NOT NULL,
    subject TEXT    NOT NULL,
    verdict TEXT    NOT NULL,
    at      INTEGER NOT NULL,
    comment TEXT,
    channel TEXT    NOT NULL,
    roles   TEXT    NOT NULL,
    strong  INTEGER NOT NULL,
    PRIMARY KEY (ticket, number)
) STRICT, WITHOUT ROWID;
-- `answered_by` was `local:` and an operating system user, or `api:` and an approver of the config.
INSERT INTO vote (ticket, number, issuer, subject, verdict, at, comment, channel, roles, strong)
SELECT id, 1,
       iif(answered_by LIKE 'local:%', 'local', 'config'),
       substr(answered_by, instr(answered_by, ':') + 1),
       iif(state = 'denied', 'deny', 'approve'),
       answered_at, comment,
       iif(answered_by LIKE 'local:%', 'cli', 'api'),
       roles, 0
  FROM ticket WHERE answered_by IS NOT NULL;
ALTER TABLE ticket DROP COLUMN answered_by;
ALTER TABLE ticket DROP COLUMN answered_at;
ALTER TABLE ticket DROP COLUMN comment;

CREATE INDEX ticket_ended ON ticket(ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE mandate (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    id         TEXT    NOT NULL UNIQUE,
    tenant     TEXT    NOT NULL,
    issuer     TEXT    NOT NULL,
    subject    TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    session    TEXT,
    upstream   TEXT    NOT NULL,
    tool       TEXT    NOT NULL,
    same       TEXT    NOT NULL,
    at_most    TEXT,
    currency   TEXT,
    uses       INTEGER NOT NULL,
    spent      TEXT    NOT NULL,
    used       INTEGER NOT NULL,
    rule       TEXT    NOT NULL,
    ticket     TEXT,
    by_issuer  TEXT    NOT NULL,
    by_subject TEXT    NOT NULL,
    granted_at INTEGER NOT NULL,
    comment    TEXT,
    expires_at INTEGER NOT NULL,
    ended_by   TEXT,
    ended_at   INTEGER
) STRICT;
CREATE INDEX mandate_user ON mandate(tenant, issuer, subject, tool, expires_at);

-- Signed tickets that were taken: kept until they would have run out anyway.
CREATE TABLE issued (
    id         TEXT    NOT NULL,
    key        TEXT    NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (key, id)
) STRICT, WITHOUT ROWID;

-- Never changed: each row holds the hash of the one before it.
CREATE TABLE audit (
    seq     INTEGER PRIMARY KEY,
    at      INTEGER NOT NULL,
    event   TEXT    NOT NULL,
    ticket  TEXT,
    mandate TEXT,
    actor   TEXT    NOT NULL,
    details TEXT    NOT NULL,
    prev    TEXT    NOT NULL,
    hash    TEXT    NOT NULL
) STRICT;

CREATE TABLE cursor (
    name TEXT    NOT NULL PRIMARY KEY,
    seq  INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
