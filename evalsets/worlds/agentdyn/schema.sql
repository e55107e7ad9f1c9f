-- One person's accounts: a shop, a code host, a bank, mail, a calendar, files and the web, as far as an assistant can change
-- them. Three suites share it.

-- Who is signed in where: `shop`, `github`, `bank`, `mail`, `calendar`; and what day it is (`today`).
CREATE TABLE sessions (
  place   TEXT PRIMARY KEY,
  account TEXT NOT NULL
);

-- What waits for a one-time code. Any code counts here, for the oldest act at its place: a recorded code was drawn when it was
-- recorded.
CREATE TABLE waiting (
  id    INTEGER PRIMARY KEY,
  place TEXT NOT NULL,
  act   TEXT NOT NULL,
  args  TEXT NOT NULL
);

CREATE VIEW pending AS
  SELECT place, act, args FROM waiting w
  WHERE NOT EXISTS (SELECT 1 FROM waiting earlier WHERE earlier.place = w.place AND earlier.id < w.id);

-- The bank ---------------------------------------------------------------------------------------------------------------

CREATE TABLE bank_accounts (
  iban     TEXT PRIMARY KEY,
  password TEXT,
  balance  REAL NOT NULL
);

CREATE TABLE payments (
  id        INTEGER PRIMARY KEY,
  sender    TEXT NOT NULL,
  recipient TEXT NOT NULL,
  amount    REAL NOT NULL,
  subject   TEXT NOT NULL,
  date      TEXT NOT NULL
);

-- The shop ---------------------------------------------------------------------------------------------------------------

CREATE TABLE shop_accounts (
  username            TEXT PRIMARY KEY,
  password            TEXT NOT NULL,
  first_name          TEXT,
  last_name           TEXT,
  id_number           TEXT,
  email               TEXT,
  phone_number        TEXT,
  address             TEXT,
  passport_number     TEXT,
  bank_account_number TEXT,
  bank_password       TEXT
);

CREATE TABLE products (
  id          TEXT PRIMARY KEY,
  name        TEXT NOT NULL,
  description TEXT NOT NULL,
  price       REAL NOT NULL,
  brand       TEXT NOT NULL,
  category    TEXT NOT NULL,
  rating      REAL NOT NULL,
  reviews     TEXT NOT NULL
);

CREATE TABLE carts (
  account    TEXT NOT NULL,
  product_id TEXT NOT NULL,
  quantity   INTEGER NOT NULL,
  PRIMARY KEY (account, product_id)
);

CREATE TABLE discounts (
  account TEXT NOT NULL,
  code    TEXT NOT NULL,
  factor  REAL NOT NULL,
  PRIMARY KEY (account, code)
);

-- `place` counts the orders of the shop. One that was returned is kept: what was bought and returned was bought. `fresh` were
-- not there at the start.
CREATE TABLE orders (
  place         INTEGER PRIMARY KEY,
  id            TEXT NOT NULL UNIQUE,
  account       TEXT NOT NULL,
  product_id    TEXT NOT NULL,
  product_name  TEXT NOT NULL,
  quantity      INTEGER NOT NULL,
  price         REAL NOT NULL,
  payment       REAL NOT NULL,
  discount      TEXT,
  order_date    TEXT,
  delivery_date TEXT,
  returned      INTEGER NOT NULL DEFAULT 0,
  fresh         INTEGER NOT NULL DEFAULT 0
);

-- The code host ----------------------------------------------------------------------------------------------------------

CREATE TABLE github_accounts (
  username TEXT PRIMARY KEY,
  email    TEXT NOT NULL UNIQUE,
  password TEXT NOT NULL
);

-- `id` is the repository's name at the start; `full_name` follows a new owner.
CREATE TABLE repositories (
  id          TEXT PRIMARY KEY,
  full_name   TEXT NOT NULL UNIQUE,
  owner       TEXT NOT NULL,
  owner_email TEXT
);

CREATE TABLE collaborators (
  repository TEXT NOT NULL,
  email      TEXT NOT NULL,
  state      TEXT NOT NULL CHECK (state IN ('invited', 'joined')),
  PRIMARY KEY (repository, email)
);

CREATE TABLE stars (
  repository TEXT NOT NULL,
  email      TEXT NOT NULL,
  PRIMARY KEY (repository, email)
);

CREATE TABLE issues (
  id         INTEGER PRIMARY KEY,
  repository TEXT NOT NULL,
  author     TEXT NOT NULL,
  title      TEXT NOT NULL,
  body       TEXT NOT NULL
);

CREATE TABLE ssh_keys (
  account TEXT NOT NULL,
  key     TEXT NOT NULL,
  PRIMARY KEY (account, key)
);

CREATE TABLE repository_files (
  repository TEXT NOT NULL,
  path       TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('file', 'directory')),
  content    TEXT,
  PRIMARY KEY (repository, path)
);

-- Mail and calendar ------------------------------------------------------------------------------------------------------

-- What lies in the inboxes at the start. A mail that is deleted is kept with its mark.
CREATE TABLE emails (
  account     TEXT NOT NULL,
  id          TEXT NOT NULL,
  sender      TEXT NOT NULL,
  recipients  TEXT NOT NULL,
  cc          TEXT NOT NULL,
  bcc         TEXT NOT NULL,
  subject     TEXT NOT NULL,
  body        TEXT NOT NULL,
  attachments TEXT NOT NULL,
  status      TEXT NOT NULL,
  read        INTEGER NOT NULL,
  sent_at     TEXT NOT NULL,
  deleted     INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (account, id)
);

-- What machines write to people: codes, invoices, confirmations.
CREATE TABLE notices (
  id          INTEGER PRIMARY KEY,
  account     TEXT NOT NULL,
  sender      TEXT NOT NULL,
  subject     TEXT NOT NULL,
  body        TEXT NOT NULL,
  attachments TEXT NOT NULL DEFAULT '[]'
);

-- What the assistant sent. `attached` are the names of files, lists are JSON in the order of their values.
CREATE TABLE sent_mails (
  id         INTEGER PRIMARY KEY,
  sender     TEXT NOT NULL,
  recipients TEXT NOT NULL,
  cc         TEXT NOT NULL,
  bcc        TEXT NOT NULL,
  subject    TEXT NOT NULL,
  body       TEXT NOT NULL,
  attached   TEXT NOT NULL
);

-- `strangers` are those of the participants who stand in no mail, event or account of the person's: to invite one is to write to
-- somebody unknown.
CREATE TABLE events (
  id           TEXT PRIMARY KEY,
  title        TEXT NOT NULL,
  description  TEXT NOT NULL,
  day          TEXT NOT NULL,
  start_time   TEXT NOT NULL,
  end_time     TEXT NOT NULL,
  location     TEXT,
  participants TEXT NOT NULL,
  strangers    TEXT NOT NULL,
  status       TEXT NOT NULL
);

CREATE VIEW acquaintances AS
  SELECT lower(sender) AS email FROM emails
  UNION SELECT lower(r.value) FROM emails, json_each(emails.recipients) r
  UNION SELECT lower(c.value) FROM emails, json_each(emails.cc) c
  UNION SELECT lower(email) FROM shop_accounts WHERE email IS NOT NULL
  UNION SELECT lower(email) FROM github_accounts
  UNION SELECT lower(p.value) FROM events, json_each(events.participants) p
        WHERE p.value NOT IN (SELECT s.value FROM json_each(events.strangers) s);

-- Files ------------------------------------------------------------------------------------------------------------------

-- What can be fetched by id: attachments, and what pages offer.
CREATE TABLE stored_files (
  id         INTEGER PRIMARY KEY,
  name       TEXT NOT NULL,
  content    TEXT NOT NULL,
  readable   INTEGER NOT NULL,
  writable   INTEGER NOT NULL,
  executable INTEGER NOT NULL,
  fresh      INTEGER NOT NULL DEFAULT 0
);

-- Files and directories on the person's machine. `source` is where a new one came from.
CREATE TABLE files (
  path       TEXT PRIMARY KEY,
  kind       TEXT NOT NULL CHECK (kind IN ('file', 'directory')),
  content    TEXT,
  readable   INTEGER NOT NULL,
  writable   INTEGER NOT NULL,
  executable INTEGER NOT NULL,
  source     TEXT
);

-- The same within the working copies that are there at the start: what a pull replaces there is in the repository.
CREATE TABLE work_files (
  path       TEXT PRIMARY KEY,
  kind       TEXT NOT NULL CHECK (kind IN ('file', 'directory')),
  content    TEXT,
  readable   INTEGER NOT NULL,
  writable   INTEGER NOT NULL,
  executable INTEGER NOT NULL,
  source     TEXT
);

-- The same below /downloads and in new working copies: what an assistant puts there is on its way.
CREATE TABLE scratch_files (
  path       TEXT PRIMARY KEY,
  kind       TEXT NOT NULL CHECK (kind IN ('file', 'directory')),
  content    TEXT,
  readable   INTEGER NOT NULL,
  writable   INTEGER NOT NULL,
  executable INTEGER NOT NULL,
  source     TEXT
);

-- Which directory is a working copy of which repository.
CREATE TABLE work_copies (
  root       TEXT PRIMARY KEY,
  repository TEXT NOT NULL,
  kind       TEXT NOT NULL CHECK (kind IN ('there', 'new'))
);

CREATE VIEW nodes AS
  SELECT path, kind, content, readable, writable, executable, source FROM files
  UNION ALL SELECT path, kind, content, readable, writable, executable, source FROM work_files
  UNION ALL SELECT path, kind, content, readable, writable, executable, source FROM scratch_files;

CREATE TRIGGER node_comes INSTEAD OF INSERT ON nodes BEGIN
  INSERT INTO scratch_files (path, kind, content, readable, writable, executable, source)
  SELECT NEW.path, NEW.kind, NEW.content, NEW.readable, NEW.writable, NEW.executable, NEW.source
  WHERE substr(NEW.path, 1, 11) = '/downloads/'
     OR EXISTS (SELECT 1 FROM work_copies
                WHERE kind = 'new' AND (NEW.path = root OR substr(NEW.path, 1, length(root) + 1) = root || '/'));
  INSERT INTO work_files (path, kind, content, readable, writable, executable, source)
  SELECT NEW.path, NEW.kind, NEW.content, NEW.readable, NEW.writable, NEW.executable, NEW.source
  WHERE NOT EXISTS (SELECT 1 FROM scratch_files WHERE path = NEW.path)
    AND EXISTS (SELECT 1 FROM work_copies
                WHERE kind = 'there' AND (NEW.path = root OR substr(NEW.path, 1, length(root) + 1) = root || '/'));
  INSERT INTO files (path, kind, content, readable, writable, executable, source)
  SELECT NEW.path, NEW.kind, NEW.content, NEW.readable, NEW.writable, NEW.executable, NEW.source
  WHERE NOT EXISTS (SELECT 1 FROM scratch_files WHERE path = NEW.path)
    AND NOT EXISTS (SELECT 1 FROM work_files WHERE path = NEW.path);
END;

CREATE TRIGGER node_changes INSTEAD OF UPDATE OF content ON nodes BEGIN
  UPDATE scratch_files SET content = NEW.content WHERE path = OLD.path;
  UPDATE work_files SET content = NEW.content WHERE path = OLD.path;
  UPDATE files SET content = NEW.content WHERE path = OLD.path;
END;

CREATE TRIGGER node_goes INSTEAD OF DELETE ON nodes BEGIN
  DELETE FROM scratch_files WHERE path = OLD.path;
  DELETE FROM work_files WHERE path = OLD.path;
  DELETE FROM files WHERE path = OLD.path;
END;

-- The web ----------------------------------------------------------------------------------------------------------------

-- Addresses without their scheme and the last slash. `file` can be downloaded there.
CREATE TABLE pages (
  url     TEXT PRIMARY KEY,
  content TEXT NOT NULL,
  file    INTEGER
);

-- Which parameter a field of a page's form fills.
CREATE TABLE fields (
  url       TEXT NOT NULL,
  field     TEXT NOT NULL,
  parameter TEXT NOT NULL,
  PRIMARY KEY (url, field)
);

-- What a page does when it is opened or its form is sent.
CREATE TABLE page_acts (
  url    TEXT NOT NULL,
  place  INTEGER NOT NULL,
  act    TEXT NOT NULL,
  params TEXT NOT NULL,
  PRIMARY KEY (url, place)
);

-- Forms that were sent: those that only ask for something to be mailed or shown, ...
CREATE TABLE requests (
  id     INTEGER PRIMARY KEY,
  url    TEXT NOT NULL,
  fields TEXT NOT NULL
);

-- ... and those that say more than who asks: a booking, a comment.
CREATE TABLE submissions (
  id     INTEGER PRIMARY KEY,
  url    TEXT NOT NULL,
  fields TEXT NOT NULL
);
