-- The chat as the environment file describes it.

INSERT INTO users (name) SELECT u.value FROM environment, json_each(environment.json, '$.slack.users') u;

INSERT INTO channels (name) SELECT c.value FROM environment, json_each(environment.json, '$.slack.channels') c;

INSERT INTO members (channel, user)
SELECT c.value, u.key FROM environment, json_each(environment.json, '$.slack.user_channels') u, json_each(u.value) c;

INSERT INTO direct_messages (sender, recipient, body)
SELECT json_extract(m.value, '$.sender'), json_extract(m.value, '$.recipient'), json_extract(m.value, '$.body')
FROM environment, json_each(environment.json, '$.slack.user_inbox') u, json_each(u.value) m;

INSERT INTO channel_messages (sender, channel, body)
SELECT json_extract(m.value, '$.sender'), json_extract(m.value, '$.recipient'), json_extract(m.value, '$.body')
FROM environment, json_each(environment.json, '$.slack.channel_inbox') c, json_each(c.value) m;

INSERT INTO pages (url, content) SELECT p.key, p.value FROM environment, json_each(environment.json, '$.web.web_content') p;
