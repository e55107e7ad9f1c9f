-- Types that SQLite, PostgreSQL and MySQL all have.
CREATE TABLE orders (
  id    VARCHAR(40) PRIMARY KEY,
  owner VARCHAR(40) NOT NULL,
  state VARCHAR(20) NOT NULL,
  cents INTEGER NOT NULL
);

CREATE TABLE refunds (
  id           VARCHAR(40) PRIMARY KEY,
  order_id     VARCHAR(40) NOT NULL REFERENCES orders (id),
  cents        INTEGER NOT NULL,
  requested_by VARCHAR(40) NOT NULL
);

CREATE TABLE visits (
  id   VARCHAR(40) PRIMARY KEY,
  page VARCHAR(40) NOT NULL
);
