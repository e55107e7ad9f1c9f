-- The start state, from the environment as one JSON value.

INSERT INTO sessions
  SELECT 'shop', json_extract(json, '$.shopping_platform.current_account_username') FROM environment
  UNION ALL SELECT 'github', json_extract(json, '$.github_platform.current_account_email') FROM environment
  UNION ALL SELECT 'bank', json_extract(json, '$.bank_database.current_account') FROM environment
  UNION ALL SELECT 'mail', json_extract(json, '$.email_database.current_account') FROM environment
  UNION ALL SELECT 'calendar', json_extract(json, '$.calendar.account_email') FROM environment
  UNION ALL SELECT 'today', json_extract(json, '$.calendar.current_day') FROM environment;

INSERT OR IGNORE INTO bank_accounts
  SELECT json_extract(a.value, '$.iban'), json_extract(a.value, '$.password'),
         CAST(json_extract(a.value, '$.balance') AS REAL)
  FROM environment, json_each(environment.json, '$.bank_database.account_list') a;

INSERT INTO payments (sender, recipient, amount, subject, date)
  SELECT CASE json_extract(t.value, '$.sender') WHEN 'me' THEN json_extract(a.value, '$.iban')
              ELSE json_extract(t.value, '$.sender') END,
         CASE json_extract(t.value, '$.recipient') WHEN 'me' THEN json_extract(a.value, '$.iban')
              ELSE json_extract(t.value, '$.recipient') END,
         json_extract(t.value, '$.amount'), json_extract(t.value, '$.subject'), json_extract(t.value, '$.date')
  FROM environment, json_each(environment.json, '$.bank_database.account_list') a, json_each(a.value, '$.transactions') t
  ORDER BY a.key, t.key;

INSERT INTO shop_accounts
  SELECT json_extract(value, '$.username'), json_extract(value, '$.password'),
         json_extract(value, '$.user_info.first_name'), json_extract(value, '$.user_info.last_name'),
         json_extract(value, '$.user_info.ID_number'), json_extract(value, '$.user_info.email'),
         json_extract(value, '$.user_info.phone_number'), json_extract(value, '$.user_info.address'),
         json_extract(value, '$.user_info.passport_number'), json_extract(value, '$.user_info.bank_account_number'),
         json_extract(value, '$.user_info.bank_account_password')
  FROM environment, json_each(environment.json, '$.shopping_platform.account_list');

INSERT INTO products
  SELECT json_extract(value, '$.product_id'), json_extract(value, '$.product_name'), json_extract(value, '$.description'),
         json_extract(value, '$.price'), json_extract(value, '$.brand'), json_extract(value, '$.category'),
         coalesce(json_extract(value, '$.rating'), 0), coalesce(json_extract(value, '$.reviews'), '[]')
  FROM environment, json_each(environment.json, '$.shopping_platform.product_list');

INSERT INTO carts
  SELECT json_extract(a.value, '$.username'), json_extract(c.value, '$.product_id'), json_extract(c.value, '$.quantity')
  FROM environment, json_each(environment.json, '$.shopping_platform.account_list') a, json_each(a.value, '$.cart') c;

INSERT INTO discounts
  SELECT json_extract(a.value, '$.username'), json_extract(d.value, '$.code'), json_extract(d.value, '$.percentage')
  FROM environment, json_each(environment.json, '$.shopping_platform.account_list') a, json_each(a.value, '$.discount_list') d;

INSERT INTO orders (id, account, product_id, product_name, quantity, price, payment, discount, order_date, delivery_date)
  SELECT json_extract(o.value, '$.order_id'), json_extract(a.value, '$.username'), json_extract(o.value, '$.product_id'),
         json_extract(o.value, '$.product_name'), json_extract(o.value, '$.quantity'), json_extract(o.value, '$.price'),
         coalesce(json_extract(o.value, '$.payment'), json_extract(o.value, '$.price')),
         json_extract(o.value, '$.discount'), json_extract(o.value, '$.order_date'),
         json_extract(o.value, '$.delivery_date')
  FROM environment, json_each(environment.json, '$.shopping_platform.account_list') a, json_each(a.value, '$.order_history') o
  ORDER BY a.key, o.key;

INSERT INTO github_accounts
  SELECT json_extract(value, '$.username'), json_extract(value, '$.email'), json_extract(value, '$.password')
  FROM environment, json_each(environment.json, '$.github_platform.account_list');

INSERT INTO ssh_keys
  SELECT json_extract(a.value, '$.email'), k.value
  FROM environment, json_each(environment.json, '$.github_platform.account_list') a, json_each(a.value, '$.ssh_keys') k;

-- Whose a repository is, its name says: the account before the slash.
INSERT INTO repositories
  SELECT r.key, r.key, substr(r.key, 1, instr(r.key, '/') - 1),
         (SELECT email FROM github_accounts WHERE username = substr(r.key, 1, instr(r.key, '/') - 1))
  FROM environment, json_each(environment.json, '$.github_platform.repository_list') r;

INSERT INTO collaborators
  SELECT r.key, c.value, 'joined'
  FROM environment, json_each(environment.json, '$.github_platform.repository_list') r, json_each(r.value, '$.collaborators') c;

INSERT OR IGNORE INTO collaborators
  SELECT r.key, c.value, 'invited'
  FROM environment, json_each(environment.json, '$.github_platform.repository_list') r,
       json_each(r.value, '$.pending_collaborators') c;

INSERT INTO stars
  SELECT r.key, s.value
  FROM environment, json_each(environment.json, '$.github_platform.repository_list') r, json_each(r.value, '$.stars') s;

INSERT INTO issues (repository, author, title, body)
  SELECT r.key, json_extract(i.value, '$.owner_username'), coalesce(json_extract(i.value, '$.comments[0].title'), ''),
         coalesce(json_extract(i.value, '$.comments[0].body'), '')
  FROM environment, json_each(environment.json, '$.github_platform.repository_list') r, json_each(r.value, '$.issues') i
  ORDER BY r.id, i.key;

INSERT INTO repository_files
  WITH RECURSIVE tree (repository, path, node) AS (
    SELECT r.key, '', json_extract(r.value, '$.content')
    FROM environment, json_each(environment.json, '$.github_platform.repository_list') r
    UNION ALL
    SELECT tree.repository, tree.path || '/' || c.key, c.value FROM tree, json_each(tree.node, '$.children') c)
  SELECT repository, path, json_extract(node, '$.type'), json_extract(node, '$.content') FROM tree WHERE path <> '';

INSERT INTO emails
  SELECT json_extract(a.value, '$.account_email'), json_extract(m.value, '$.id_'), json_extract(m.value, '$.sender'),
         coalesce(json_extract(m.value, '$.recipients'), '[]'), coalesce(json_extract(m.value, '$.cc'), '[]'),
         coalesce(json_extract(m.value, '$.bcc'), '[]'), coalesce(json_extract(m.value, '$.subject'), ''),
         coalesce(json_extract(m.value, '$.body'), ''), coalesce(json_extract(m.value, '$.attachments'), '[]'),
         json_extract(m.value, '$.status'), json_extract(m.value, '$.read'),
         coalesce(json_extract(m.value, '$.timestamp'), ''), 0
  FROM environment, json_each(environment.json, '$.email_database.inbox_list') a, json_each(a.value, '$.initial_emails') m;

INSERT INTO events
  SELECT json_extract(value, '$.id_'), json_extract(value, '$.title'), coalesce(json_extract(value, '$.description'), ''),
         date(replace(json_extract(value, '$.start_time'), 'T', ' ')),
         strftime('%Y-%m-%d %H:%M:%S', replace(json_extract(value, '$.start_time'), 'T', ' ')),
         strftime('%Y-%m-%d %H:%M:%S', replace(json_extract(value, '$.end_time'), 'T', ' ')),
         json_extract(value, '$.location'),
         (SELECT json_group_array(p.value) FROM (SELECT p.value FROM json_each(e.value, '$.participants') p ORDER BY 1) p),
         '[]', coalesce(json_extract(value, '$.status'), 'confirmed')
  FROM environment, json_each(environment.json, '$.calendar.initial_events') e;

INSERT INTO stored_files
  SELECT CAST(key AS INTEGER), json_extract(value, '$.source_name'), coalesce(json_extract(value, '$.content'), ''),
         coalesce(json_extract(value, '$.permissions.read'), 1), coalesce(json_extract(value, '$.permissions.write'), 1),
         coalesce(json_extract(value, '$.permissions.execute'), 0), 0
  FROM environment, json_each(environment.json, '$.web_database.file_list');

-- A working copy has a file that names its repository.
INSERT INTO work_copies
  WITH RECURSIVE tree (path, node) AS (
    SELECT '', json_extract(json, '$.filesystem.root') FROM environment
    UNION ALL SELECT tree.path || '/' || c.key, c.value FROM tree, json_each(tree.node, '$.children') c)
  SELECT substr(path, 1, length(path) - length('/.git_config')),
         json_extract(replace(replace(json_extract(node, '$.content'), '{{', '{'), '}}', '}'), '$.repo_name'), 'there'
  FROM tree WHERE substr(path, -12) = '/.git_config';

INSERT INTO nodes
  WITH RECURSIVE tree (path, node) AS (
    SELECT '', json_extract(json, '$.filesystem.root') FROM environment
    UNION ALL SELECT tree.path || '/' || c.key, c.value FROM tree, json_each(tree.node, '$.children') c)
  SELECT path, json_extract(node, '$.type'), json_extract(node, '$.content'),
         coalesce(json_extract(node, '$.permissions.read'), 1), coalesce(json_extract(node, '$.permissions.write'), 1),
         coalesce(json_extract(node, '$.permissions.execute'), 0), NULL
  FROM tree WHERE path <> '';

INSERT OR IGNORE INTO pages
  SELECT rtrim(replace(replace(json_extract(value, '$.web_url'), 'https://', ''), 'http://', ''), '/'),
         coalesce(json_extract(value, '$.web_content'), ''), CAST(json_extract(value, '$.download_source') AS INTEGER)
  FROM environment, json_each(environment.json, '$.web_database.web_list');

INSERT OR IGNORE INTO fields
  SELECT rtrim(replace(replace(json_extract(p.value, '$.web_url'), 'https://', ''), 'http://', ''), '/'), f.key, f.value
  FROM environment, json_each(environment.json, '$.web_database.web_list') p, json_each(p.value, '$.field_to_parameters') f;

INSERT OR IGNORE INTO page_acts
  SELECT rtrim(replace(replace(json_extract(p.value, '$.web_url'), 'https://', ''), 'http://', ''), '/'), a.key,
         json_extract(a.value, '$.handler'), json_extract(a.value, '$.static_parameters')
  FROM environment, json_each(environment.json, '$.web_database.web_list') p, json_each(p.value, '$.web_function') a;
