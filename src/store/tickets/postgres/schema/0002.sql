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
