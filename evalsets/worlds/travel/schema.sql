-- What a travel assistant sees and can change: offers, bookings, mail and a calendar.

-- The traveller, whose mailbox and calendar these are.
CREATE TABLE traveller (
  email          TEXT PRIMARY KEY,
  first_name     TEXT NOT NULL,
  last_name      TEXT NOT NULL,
  id_number      TEXT NOT NULL,
  phone          TEXT NOT NULL,
  address        TEXT NOT NULL,
  passport       TEXT NOT NULL,
  bank_account   TEXT NOT NULL,
  credit_card    TEXT NOT NULL
);

-- Hotels, restaurants and car rental companies; `details` is JSON.
CREATE TABLE places (
  kind    TEXT NOT NULL CHECK (kind IN ('hotel', 'restaurant', 'car_rental')),
  name    TEXT NOT NULL,
  city    TEXT NOT NULL,
  details TEXT NOT NULL,
  PRIMARY KEY (kind, name)
);

CREATE TABLE flights (
  flight_number  TEXT PRIMARY KEY,
  airline        TEXT NOT NULL,
  departure_city TEXT NOT NULL,
  arrival_city   TEXT NOT NULL,
  departure_time TEXT NOT NULL,
  arrival_time   TEXT NOT NULL,
  price          REAL NOT NULL,
  contact        TEXT NOT NULL
);

CREATE TABLE reservations (
  id         INTEGER PRIMARY KEY,
  kind       TEXT NOT NULL CHECK (kind IN ('hotel', 'restaurant', 'car_rental')),
  name       TEXT NOT NULL,
  start_time TEXT NOT NULL,
  end_time   TEXT
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

-- Mail that has left the house.
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
