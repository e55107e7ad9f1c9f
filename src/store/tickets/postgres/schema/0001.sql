-- Times are microseconds since 1970, UTC; leases are the server's own time. `unknown` holds its place in `ticket_open`: a call
-- that may have been carried out is not asked for again.
CREATE TABLE ticket (
    seq            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id             text   NOT NULL UNIQUE,
    state          text   NOT NULL,
    cause          text,
    digest         text   NOT NULL,
    tenant         text   NOT NULL,
    issuer         text   NOT NULL,
    subject        text   NOT NULL,
    agent          text   NOT NULL,
    actors         text   NOT NULL,
    session        text,
    route          text   NOT NULL,
    upstream       text   NOT NULL,
    tool           text   NOT NULL,
    arguments      text   NOT NULL,
    policy         text   NOT NULL,
    layer          text   NOT NULL,
    rule           text   NOT NULL,
    reason         text   NOT NULL,
    gate           text   NOT NULL,
    roles          text   NOT NULL,
    approvals      bigint NOT NULL,
    fresh          boolean NOT NULL,
    summary        text   NOT NULL,
    bound          text   NOT NULL,
    said           text,
    offer          text,
    reconcile      text,
    created_at     bigint NOT NULL,
    expires_at     bigint NOT NULL,
    expiry_told    boolean NOT NULL DEFAULT false,
    attempt        bigint NOT NULL DEFAULT 0,
    lost           bigint NOT NULL DEFAULT 0,
    boot           text,
    claim          text,
    claimed_at     bigint,
    completed_at   bigint,
    receipt_status bigint,
    receipt_type   text,
    receipt_body   bytea,
    receipt_length bigint,
    receipt_sha256 text,
    resolved_by    text,
    resolved_at    bigint,
    resolved_note  text,
    mandate        text,
    amount         text,
    ended_at       bigint
);
CREATE UNIQUE INDEX ticket_open ON ticket(digest) WHERE state IN ('requested', 'approved', 'redeeming', 'unknown');
CREATE INDEX ticket_call ON ticket(digest, seq);
CREATE INDEX ticket_state ON ticket(state, expires_at);
CREATE INDEX ticket_user ON ticket(tenant, issuer, subject, created_at);
CREATE INDEX ticket_ended ON ticket(ended_at) WHERE ended_at IS NOT NULL;

CREATE TABLE vote (
    ticket  text   NOT NULL REFERENCES ticket(id) ON DELETE CASCADE,
    number  bigint NOT NULL,
    issuer  text   NOT NULL,
    subject text   NOT NULL,
    verdict text   NOT NULL,
    at      bigint NOT NULL,
    comment text,
    channel text   NOT NULL,
    roles   text   NOT NULL,
    strong  boolean NOT NULL,
    PRIMARY KEY (ticket, number)
);

CREATE TABLE mandate (
    seq        bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id         text   NOT NULL UNIQUE,
    tenant     text   NOT NULL,
    issuer     text   NOT NULL,
    subject    text   NOT NULL,
    agent      text   NOT NULL,
    session    text,
    upstream   text   NOT NULL,
    tool       text   NOT NULL,
    same       text   NOT NULL,
    at_most    text,
    currency   text,
    uses       bigint NOT NULL,
    spent      text   NOT NULL,
    used       bigint NOT NULL,
    rule       text   NOT NULL,
    ticket     text,
    by_issuer  text   NOT NULL,
    by_subject text   NOT NULL,
    granted_at bigint NOT NULL,
    comment    text,
    expires_at bigint NOT NULL,
    ended_by   text,
    ended_at   bigint
);
CREATE INDEX mandate_user ON mandate(tenant, issuer, subject, tool, expires_at);

-- Signed tickets that were taken: kept until they would have run out anyway.
CREATE TABLE issued (
    key        text   NOT NULL,
    id         text   NOT NULL,
    expires_at bigint NOT NULL,
    PRIMARY KEY (key, id)
);

-- Never changed: each row holds the hash of the one before it.
CREATE TABLE audit (
    seq     bigint PRIMARY KEY,
    at      bigint NOT NULL,
    event   text   NOT NULL,
    ticket  text,
    mandate text,
    actor   text   NOT NULL,
    details text   NOT NULL,
    prev    text   NOT NULL,
    hash    text   NOT NULL
);
-- One row: whoever locks it writes the next rows of the audit.
CREATE TABLE audit_head (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    seq  bigint  NOT NULL,
    hash text    NOT NULL
);
INSERT INTO audit_head (seq, hash) VALUES (0, repeat('0', 64));

CREATE TABLE cursor (
    name text   PRIMARY KEY,
    seq  bigint NOT NULL
);

-- The processes that serve the store. `epoch` only grows; it is also the key of the advisory lock that a living process holds.
CREATE TABLE node (
    epoch       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    boot        text        NOT NULL UNIQUE,
    lease_until timestamptz NOT NULL
);

-- What calls came to, by part of their limit's window.
CREATE TABLE ledger (
    account text    NOT NULL,
    part    bigint  NOT NULL,
    amount  numeric NOT NULL,
    until   bigint  NOT NULL,
    PRIMARY KEY (account, part)
);
CREATE INDEX ledger_until ON ledger(until);
