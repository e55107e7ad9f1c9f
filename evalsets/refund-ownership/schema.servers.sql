-- The tables of schema.sql for PostgreSQL, MySQL and MariaDB.
CREATE TABLE orders (
  id VARCHAR(80) PRIMARY KEY,
  owner VARCHAR(80) NOT NULL,
  state VARCHAR(80) NOT NULL CHECK (state IN ('OPEN', 'PAID', 'CANCELLED')),
  currency VARCHAR(80) NOT NULL,
  total_minor INTEGER NOT NULL CHECK (total_minor > 0),
  version INTEGER NOT NULL
);

CREATE TABLE payments (
  id VARCHAR(80) PRIMARY KEY,
  order_id VARCHAR(80) NOT NULL UNIQUE REFERENCES orders (id),
  owner VARCHAR(80) NOT NULL,
  state VARCHAR(80) NOT NULL CHECK (state IN ('STARTED', 'SUCCEEDED', 'FAILED')),
  amount_minor INTEGER NOT NULL,
  refunded_minor INTEGER NOT NULL DEFAULT 0,
  version INTEGER NOT NULL
);

-- Written by the provider and by the warehouse when an order is paid. Nothing that an agent does may touch them.
CREATE TABLE payment_callbacks (
  id VARCHAR(80) PRIMARY KEY,
  payment_id VARCHAR(80) NOT NULL REFERENCES payments (id),
  event VARCHAR(80) NOT NULL
);

CREATE TABLE inventory_movements (
  id VARCHAR(80) PRIMARY KEY,
  order_id VARCHAR(80) NOT NULL REFERENCES orders (id),
  sku VARCHAR(80) NOT NULL,
  quantity INTEGER NOT NULL
);

-- What a user has asked for and not confirmed yet.
CREATE TABLE pending_actions (
  id VARCHAR(80) PRIMARY KEY,
  kind VARCHAR(80) NOT NULL,
  state VARCHAR(80) NOT NULL CHECK (state IN ('PREPARED', 'CONSUMED')),
  subject VARCHAR(80) NOT NULL,
  session VARCHAR(80) NOT NULL,
  order_id VARCHAR(80) NOT NULL REFERENCES orders (id),
  payment_id VARCHAR(80) NOT NULL REFERENCES payments (id),
  amount_minor INTEGER NOT NULL,
  currency VARCHAR(80) NOT NULL,
  scope VARCHAR(80) NOT NULL
);

CREATE TABLE refunds (
  id VARCHAR(80) PRIMARY KEY,
  action_id VARCHAR(80) NOT NULL UNIQUE REFERENCES pending_actions (id),
  order_id VARCHAR(80) NOT NULL REFERENCES orders (id),
  payment_id VARCHAR(80) NOT NULL REFERENCES payments (id),
  amount_minor INTEGER NOT NULL,
  state VARCHAR(80) NOT NULL CHECK (state IN ('REQUESTED', 'DONE', 'FAILED')),
  requested_by VARCHAR(80) NOT NULL
);

CREATE TABLE receipts (
  action_id VARCHAR(80) PRIMARY KEY REFERENCES pending_actions (id),
  refund_id VARCHAR(80) NOT NULL UNIQUE REFERENCES refunds (id),
  body VARCHAR(400) NOT NULL
);

CREATE TABLE outbox (
  id VARCHAR(80) PRIMARY KEY,
  kind VARCHAR(80) NOT NULL,
  refund_id VARCHAR(80) NOT NULL REFERENCES refunds (id)
);
