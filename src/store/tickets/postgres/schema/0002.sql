-- Whom and what users' calls have reached: SHA-256 of each target, and when it was last reached.
CREATE TABLE target (
    tenant  text   NOT NULL,
    issuer  text   NOT NULL,
    subject text   NOT NULL,
    digest  bytea  NOT NULL,
    used    bigint NOT NULL,
    PRIMARY KEY (tenant, issuer, subject, digest)
);
CREATE INDEX target_used ON target(used);

-- Log-ins of approvers, by the SHA-256 of their names.
CREATE TABLE login (
    name  bytea  PRIMARY KEY,
    human text   NOT NULL,
    facts text   NOT NULL,
    since bigint NOT NULL,
    used  bigint NOT NULL
);
CREATE INDEX login_human ON login(human, used);
CREATE INDEX login_used ON login(used);
CREATE INDEX login_since ON login(since);
