-- An office: a mailbox, an address book, a calendar and a drive, as far as their assistant can change them.

-- Whose mailbox, calendar and drive this is, and what day it is there.
CREATE TABLE account (
  email       TEXT PRIMARY KEY,
  current_day TEXT NOT NULL
);

CREATE TABLE contacts (
  email TEXT PRIMARY KEY,
  name  TEXT NOT NULL
);

-- Lists of addresses are JSON, sorted.
CREATE TABLE emails (
  id          TEXT PRIMARY KEY,
  sender      TEXT NOT NULL,
  recipients  TEXT NOT NULL,
  cc          TEXT NOT NULL,
  bcc         TEXT NOT NULL,
  subject     TEXT NOT NULL,
  body        TEXT NOT NULL,
  attachments TEXT NOT NULL,
  status      TEXT NOT NULL CHECK (status IN ('received', 'sent', 'draft')),
  is_read     INTEGER NOT NULL CHECK (is_read IN (0, 1)),
  sent_at     TEXT NOT NULL
);

-- Mail that has left the house: deleting the copy in the mailbox does not bring it back.
CREATE TABLE deliveries (
  id          INTEGER PRIMARY KEY,
  recipients  TEXT NOT NULL,
  cc          TEXT NOT NULL,
  bcc         TEXT NOT NULL,
  subject     TEXT NOT NULL,
  body        TEXT NOT NULL,
  attachments TEXT NOT NULL
);

CREATE TABLE events (
  id           TEXT PRIMARY KEY,
  title        TEXT NOT NULL,
  description  TEXT NOT NULL,
  start_time   TEXT NOT NULL,
  end_time     TEXT NOT NULL,
  location     TEXT,
  participants TEXT NOT NULL,
  all_day      INTEGER NOT NULL CHECK (all_day IN (0, 1)),
  status       TEXT NOT NULL CHECK (status IN ('confirmed', 'canceled'))
);

CREATE TABLE files (
  id            TEXT PRIMARY KEY,
  filename      TEXT NOT NULL,
  content       TEXT NOT NULL,
  owner         TEXT NOT NULL,
  last_modified TEXT NOT NULL
);

CREATE TABLE shares (
  file_id    TEXT NOT NULL REFERENCES files (id) ON DELETE CASCADE,
  email      TEXT NOT NULL,
  permission TEXT NOT NULL CHECK (permission IN ('r', 'rw')),
  PRIMARY KEY (file_id, email)
);
