-- A web shop's database, as far as its assistant can change it.

CREATE TABLE users (
  id         TEXT PRIMARY KEY,
  first_name TEXT NOT NULL,
  last_name  TEXT NOT NULL,
  email      TEXT NOT NULL,
  address1   TEXT NOT NULL,
  address2   TEXT NOT NULL,
  city       TEXT NOT NULL,
  state      TEXT NOT NULL,
  country    TEXT NOT NULL,
  zip        TEXT NOT NULL,
  -- Counts the writes: one that puts what was there before is one too.
  version    INTEGER NOT NULL DEFAULT 0
);

CREATE TABLE payment_methods (
  id      TEXT PRIMARY KEY,
  user_id TEXT NOT NULL REFERENCES users (id)
);

CREATE TABLE orders (
  id       TEXT PRIMARY KEY,
  user_id  TEXT NOT NULL REFERENCES users (id),
  status   TEXT NOT NULL,
  address1 TEXT NOT NULL,
  address2 TEXT NOT NULL,
  city     TEXT NOT NULL,
  state    TEXT NOT NULL,
  country  TEXT NOT NULL,
  zip      TEXT NOT NULL,
  -- What was asked for and is not done yet: items to return, to send in exchange, and by which payment method.
  request  TEXT,
  version  INTEGER NOT NULL DEFAULT 0
);

-- An order may hold the same item twice.
CREATE TABLE order_items (
  order_id TEXT NOT NULL REFERENCES orders (id),
  line     INTEGER NOT NULL,
  item_id  TEXT NOT NULL,
  PRIMARY KEY (order_id, line)
);

CREATE INDEX items_of_orders ON order_items (order_id, item_id);

-- What the shop sells; `variants` is JSON by item.
CREATE TABLE products (
  id       TEXT PRIMARY KEY,
  name     TEXT NOT NULL,
  variants TEXT NOT NULL
);
