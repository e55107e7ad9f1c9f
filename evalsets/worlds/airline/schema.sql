-- An airline's bookings, as far as its service desk can change them.

CREATE TABLE users (
  id         TEXT PRIMARY KEY,
  first_name TEXT NOT NULL,
  last_name  TEXT NOT NULL,
  membership TEXT NOT NULL
);

-- `amount` is what is left of a gift card, or what a certificate is worth.
CREATE TABLE payment_methods (
  id      TEXT NOT NULL,
  user_id TEXT NOT NULL REFERENCES users (id),
  source  TEXT NOT NULL,
  amount  INTEGER,
  PRIMARY KEY (id, user_id)
);

-- `passengers` is JSON, each with first name, last name and date of birth.
CREATE TABLE reservations (
  id               TEXT PRIMARY KEY,
  user_id          TEXT NOT NULL REFERENCES users (id),
  origin           TEXT NOT NULL,
  destination      TEXT NOT NULL,
  flight_type      TEXT NOT NULL,
  cabin            TEXT NOT NULL,
  passengers       TEXT NOT NULL,
  total_baggages   INTEGER NOT NULL,
  nonfree_baggages INTEGER NOT NULL,
  insurance        TEXT NOT NULL,
  status           TEXT NOT NULL DEFAULT 'booked'
);

CREATE INDEX reservations_of_users ON reservations (user_id);

CREATE TABLE reservation_flights (
  reservation_id TEXT NOT NULL REFERENCES reservations (id),
  line           INTEGER NOT NULL,
  flight_number  TEXT NOT NULL,
  date           TEXT NOT NULL,
  price          INTEGER NOT NULL,
  PRIMARY KEY (reservation_id, line)
);

-- What a reservation has cost, and what was given back.
CREATE TABLE payments (
  reservation_id TEXT NOT NULL REFERENCES reservations (id),
  line           INTEGER NOT NULL,
  payment_id     TEXT NOT NULL,
  amount         INTEGER NOT NULL,
  PRIMARY KEY (reservation_id, line)
);

-- What a seat costs, of the flights that somebody asks for.
CREATE TABLE fares (
  flight_number TEXT NOT NULL,
  date          TEXT NOT NULL,
  cabin         TEXT NOT NULL,
  price         INTEGER NOT NULL,
  PRIMARY KEY (flight_number, date, cabin)
);
