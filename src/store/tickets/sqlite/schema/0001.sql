-- Times are microseconds since 1970, UTC. `unknown` holds its place in `ticket_open`: a call that may have been carried out is
-- not asked for again.
CREATE TABLE ticket (
    seq            INTEGER PRIMARY KEY AUTOINCREMENT,
    id             TEXT    NOT NULL UNIQUE,
    state          TEXT    NOT NULL,
    digest         TEXT    NOT NULL,
    tenant         TEXT    NOT NULL,
    issuer         TEXT    NOT NULL,
    subject        TEXT    NOT NULL,
    agent          TEXT    NOT NULL,
    session        TEXT,
    route          TEXT    NOT NULL,
    upstream       TEXT    NOT NULL,
    tool           TEXT    NOT NULL,
    arguments      TEXT    NOT NULL,
    policy         TEXT    NOT NULL,
    layer          TEXT    NOT NULL,
    rule           TEXT    NOT NULL,
    reason         TEXT    NOT NULL,
    gate           TEXT    NOT NULL,
    role           TEXT,
    summary        TEXT    NOT NULL,
    created_at     INTEGER NOT NULL,
    expires_at     INTEGER NOT NULL,
    expiry_told    INTEGER NOT NULL DEFAULT 0,
    answered_by    TEXT,
    answered_at    INTEGER,
    comment        TEXT,
    attempt        INTEGER NOT NULL DEFAULT 0,
    boot           TEXT,
    completed_at   INTEGER,
    receipt_status INTEGER,
    receipt_type   TEXT,
    receipt_body   BLOB,
    receipt_length INTEGER,
    receipt_sha256 TEXT
) STRICT;
CREATE UNIQUE INDEX ticket_open ON ticket(digest) WHERE state IN ('requested', 'approved', 'redeeming', 'unknown');
CREATE INDEX ticket_call ON ticket(digest, seq);
CREATE INDEX ticket_state ON ticket(state, expires_at);
CREATE INDEX ticket_user ON ticket(tenant, issuer, subject, created_at);
