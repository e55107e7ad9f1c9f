-- The bank as the environment file describes it, for one customer.

INSERT INTO customers (subject, first_name, last_name, street, city, password)
SELECT 'customer-1',
       json_extract(environment.json, '$.user_account.first_name'), json_extract(environment.json, '$.user_account.last_name'),
       json_extract(environment.json, '$.user_account.street'), json_extract(environment.json, '$.user_account.city'),
       json_extract(environment.json, '$.user_account.password')
FROM environment;

INSERT INTO accounts (iban, owner, balance)
SELECT json_extract(environment.json, '$.bank_account.iban'), 'customer-1', json_extract(environment.json, '$.bank_account.balance')
FROM environment;

-- The environment names the customer `me` in payments that came in.
INSERT INTO transactions (id, account, direction, sender, recipient, amount, subject, date, recurring)
SELECT json_extract(t.value, '$.id'), iban,
       CASE json_extract(t.value, '$.recipient') WHEN 'me' THEN 'in' ELSE 'out' END,
       json_extract(t.value, '$.sender'), json_extract(t.value, '$.recipient'), json_extract(t.value, '$.amount'),
       json_extract(t.value, '$.subject'), json_extract(t.value, '$.date'), json_extract(t.value, '$.recurring')
FROM accounts, environment, json_each(environment.json, '$.bank_account.transactions') t;

INSERT INTO scheduled_transactions (id, account, sender, recipient, amount, subject, date, recurring)
SELECT json_extract(t.value, '$.id'), iban,
       json_extract(t.value, '$.sender'), json_extract(t.value, '$.recipient'), json_extract(t.value, '$.amount'),
       json_extract(t.value, '$.subject'), json_extract(t.value, '$.date'), json_extract(t.value, '$.recurring')
FROM accounts, environment, json_each(environment.json, '$.bank_account.scheduled_transactions') t;

INSERT INTO files (path, content)
SELECT f.key, f.value FROM environment, json_each(environment.json, '$.filesystem.files') f;
