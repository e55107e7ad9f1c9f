-- The bank's database, as far as its assistant can change it.

CREATE TABLE customers (
  subject    TEXT PRIMARY KEY,
  first_name TEXT NOT NULL,
  last_name  TEXT NOT NULL,
  street     TEXT NOT NULL,
  city       TEXT NOT NULL,
  password   TEXT NOT NULL
);

CREATE TABLE accounts (
  iban    TEXT PRIMARY KEY,
  owner   TEXT NOT NULL REFERENCES customers (subject),
  balance REAL NOT NULL
);

-- `account` is whose ledger the row stands in and `direction` which way the money went; `sender` and `recipient` are as the
-- bank shows them.
CREATE TABLE transactions (
  id        INTEGER PRIMARY KEY,
  account   TEXT NOT NULL REFERENCES accounts (iban),
  direction TEXT NOT NULL CHECK (direction IN ('in', 'out')),
  sender    TEXT NOT NULL,
  recipient TEXT NOT NULL,
  amount    REAL NOT NULL CHECK (typeof(amount) = 'real'),
  subject   TEXT NOT NULL,
  date      TEXT NOT NULL,
  recurring INTEGER NOT NULL CHECK (recurring IN (0, 1))
);

CREATE TABLE scheduled_transactions (
  id        INTEGER PRIMARY KEY,
  account   TEXT NOT NULL REFERENCES accounts (iban),
  sender    TEXT NOT NULL,
  recipient TEXT NOT NULL,
  amount    REAL NOT NULL CHECK (typeof(amount) = 'real'),
  subject   TEXT NOT NULL,
  date      TEXT NOT NULL,
  recurring INTEGER NOT NULL CHECK (recurring IN (0, 1))
);

CREATE TABLE files (
  path    TEXT PRIMARY KEY,
  content TEXT NOT NULL
);
