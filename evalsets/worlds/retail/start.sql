-- The shop's own database: `{users: [..], orders: [..], products: [..]}`.

INSERT INTO users (id, first_name, last_name, email, address1, address2, city, state, country, zip)
  SELECT json_extract(value, '$.user_id'), json_extract(value, '$.name.first_name'), json_extract(value, '$.name.last_name'),
         json_extract(value, '$.email'), json_extract(value, '$.address.address1'), json_extract(value, '$.address.address2'),
         json_extract(value, '$.address.city'), json_extract(value, '$.address.state'), json_extract(value, '$.address.country'),
         json_extract(value, '$.address.zip')
  FROM environment, json_each(environment.json, '$.users');

INSERT INTO payment_methods (id, user_id)
  SELECT p.key, json_extract(u.value, '$.user_id')
  FROM environment, json_each(environment.json, '$.users') u, json_each(u.value, '$.payment_methods') p;

INSERT INTO orders (id, user_id, status, address1, address2, city, state, country, zip)
  SELECT json_extract(value, '$.order_id'), json_extract(value, '$.user_id'), json_extract(value, '$.status'),
         json_extract(value, '$.address.address1'), json_extract(value, '$.address.address2'),
         json_extract(value, '$.address.city'), json_extract(value, '$.address.state'), json_extract(value, '$.address.country'),
         json_extract(value, '$.address.zip')
  FROM environment, json_each(environment.json, '$.orders');

INSERT INTO order_items (order_id, line, item_id)
  SELECT json_extract(o.value, '$.order_id'), i.key, json_extract(i.value, '$.item_id')
  FROM environment, json_each(environment.json, '$.orders') o, json_each(o.value, '$.items') i;

INSERT INTO products (id, name, variants)
  SELECT json_extract(value, '$.product_id'), json_extract(value, '$.name'), json_extract(value, '$.variants')
  FROM environment, json_each(environment.json, '$.products');
