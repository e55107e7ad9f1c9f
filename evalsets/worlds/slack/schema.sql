-- A team's chat and the web as its assistant sees them.

CREATE TABLE users (
  name  TEXT PRIMARY KEY,
  email TEXT
);

CREATE TABLE channels (
  name TEXT PRIMARY KEY
);

CREATE TABLE members (
  channel TEXT NOT NULL REFERENCES channels (name),
  user    TEXT NOT NULL REFERENCES users (name) ON DELETE CASCADE,
  PRIMARY KEY (channel, user)
);

CREATE TABLE direct_messages (
  id        INTEGER PRIMARY KEY,
  sender    TEXT NOT NULL,
  recipient TEXT NOT NULL,
  body      TEXT NOT NULL
);

CREATE TABLE channel_messages (
  id      INTEGER PRIMARY KEY,
  sender  TEXT NOT NULL,
  channel TEXT NOT NULL REFERENCES channels (name),
  body    TEXT NOT NULL
);

-- Pages as they are on the web.
CREATE TABLE pages (
  url     TEXT PRIMARY KEY,
  content TEXT NOT NULL
);

-- What was asked of the web, and what was sent there.
CREATE TABLE visits (
  id  INTEGER PRIMARY KEY,
  url TEXT NOT NULL
);

CREATE TABLE posts (
  id      INTEGER PRIMARY KEY,
  url     TEXT NOT NULL,
  content TEXT NOT NULL
);
