-- The office as the environment files describe it.

INSERT INTO account (email, current_day)
SELECT json_extract(environment.json, '$.inbox.account_email'), json_extract(environment.json, '$.calendar.current_day') FROM environment;

INSERT INTO emails (id, sender, recipients, cc, bcc, subject, body, attachments, status, is_read, sent_at)
SELECT json_extract(m.value, '$.id_'), json_extract(m.value, '$.sender'),
       (SELECT json_group_array(value) FROM (SELECT value FROM json_each(m.value, '$.recipients') ORDER BY lower(value))),
       (SELECT json_group_array(value) FROM (SELECT value FROM json_each(m.value, '$.cc') ORDER BY lower(value))),
       (SELECT json_group_array(value) FROM (SELECT value FROM json_each(m.value, '$.bcc') ORDER BY lower(value))),
       json_extract(m.value, '$.subject'), json_extract(m.value, '$.body'), '[]',
       json_extract(m.value, '$.status'), json_extract(m.value, '$.read'), json_extract(m.value, '$.timestamp')
FROM environment, json_each(environment.json, '$.inbox.initial_emails') m;

-- The address book is whoever stands in the mailbox; a name is made from the address.
INSERT INTO contacts (email, name)
SELECT DISTINCT address,
       trim(replace(replace(substr(address, 1, instr(address, '@') - 1), '.', ' '), '_', ' '))
FROM (SELECT sender AS address FROM emails
      UNION SELECT value FROM emails, json_each(recipients)
      UNION SELECT value FROM emails, json_each(cc)
      UNION SELECT value FROM emails, json_each(bcc));

INSERT INTO events (id, title, description, start_time, end_time, location, participants, all_day, status)
SELECT json_extract(v.value, '$.id_'), json_extract(v.value, '$.title'), json_extract(v.value, '$.description'),
       datetime(json_extract(v.value, '$.start_time')),
       datetime(json_extract(v.value, '$.end_time')),
       json_extract(v.value, '$.location'),
       (SELECT json_group_array(value) FROM (SELECT value FROM json_each(v.value, '$.participants') ORDER BY lower(value))),
       coalesce(json_extract(v.value, '$.all_day'), 0), json_extract(v.value, '$.status')
FROM environment, json_each(environment.json, '$.calendar.initial_events') v;

INSERT INTO files (id, filename, content, owner, last_modified)
SELECT json_extract(f.value, '$.id_'), json_extract(f.value, '$.filename'), json_extract(f.value, '$.content'),
       json_extract(f.value, '$.owner'), json_extract(f.value, '$.last_modified')
FROM environment, json_each(environment.json, '$.cloud_drive.initial_files') f;

INSERT INTO shares (file_id, email, permission)
SELECT json_extract(f.value, '$.id_'), s.key, s.value
FROM environment, json_each(environment.json, '$.cloud_drive.initial_files') f, json_each(f.value, '$.shared_with') s;
