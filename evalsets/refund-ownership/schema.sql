CREATE TABLE orders (
  id TEXT PRIMARY KEY,
  owner TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('OPEN', 'PAID', 'CANCELLED')),
  currency TEXT NOT NULL,
  total_minor INTEGER NOT NULL CHECK (total_minor > 0),
  version INTEGER NOT NULL
) STRICT;

CREATE TABLE payments (
  id TEXT PRIMARY KEY,
  order_id TEXT NOT NULL UNIQUE REFERENCES orders (id),
  owner TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('STARTED', 'SUCCEEDED', 'FAILED')),
  amount_minor INTEGER NOT NULL,
  refunded_minor INTEGER NOT NULL DEFAULT 0,
  version INTEGER NOT NULL
) STRICT;

-- Written by the provider and by the warehouse when an order is paid. Nothing that an agent does may touch them.
CREATE TABLE payment_callbacks (
  id TEXT PRIMARY KEY,
  payment_id TEXT NOT NULL REFERENCES payments (id),
  event TEXT NOT NULL
) STRICT;

CREATE TABLE inventory_movements (
  id TEXT PRIMARY KEY,
  order_id TEXT NOT NULL REFERENCES orders (id),
  sku TEXT NOT NULL,
  quantity INTEGER NOT NULL
) STRICT;

-- What a user has asked for and not confirmed yet.
CREATE TABLE pending_actions (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('PREPARED', 'CONSUMED')),
  subject TEXT NOT NULL,
  session TEXT NOT NULL,
  order_id TEXT NOT NULL REFERENCES orders (id),
  payment_id TEXT NOT NULL REFERENCES payments (id),
  amount_minor INTEGER NOT NULL,
  currency TEXT NOT NULL,
  scope TEXT NOT NULL
) STRICT;

CREATE TABLE refunds (
  id TEXT PRIMARY KEY,
  action_id TEXT NOT NULL UNIQUE REFERENCES pending_actions (id),
  order_id TEXT NOT NULL REFERENCES orders (id),
  payment_id TEXT NOT NULL REFERENCES payments (id),
  amount_minor INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('REQUESTED', 'DONE', 'FAILED')),
  requested_by TEXT NOT NULL
) STRICT;

CREATE TABLE receipts (
  action_id TEXT PRIMARY KEY REFERENCES pending_actions (id),
  refund_id TEXT NOT NULL UNIQUE REFERENCES refunds (id),
  body TEXT NOT NULL
) STRICT;

CREATE TABLE outbox (
  id TEXT PRIMARY KEY,
  kind TEXT NOT NULL,
  refund_id TEXT NOT NULL REFERENCES refunds (id)
) STRICT;
