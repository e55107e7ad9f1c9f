-- The domain's own database: `{users: {ID: ..}, reservations: {ID: ..}, flights: {NUMBER: ..}}`.

INSERT INTO users (id, first_name, last_name, membership)
  SELECT key, json_extract(value, '$.name.first_name'), json_extract(value, '$.name.last_name'), json_extract(value, '$.membership')
  FROM environment, json_each(environment.json, '$.users');

INSERT INTO payment_methods (id, user_id, source, amount)
  SELECT p.key, u.key, json_extract(p.value, '$.source'), json_extract(p.value, '$.amount')
  FROM environment, json_each(environment.json, '$.users') u, json_each(u.value, '$.payment_methods') p;

INSERT INTO reservations (id, user_id, origin, destination, flight_type, cabin, passengers, total_baggages, nonfree_baggages, insurance)
  SELECT r.key, json_extract(r.value, '$.user_id'), json_extract(r.value, '$.origin'), json_extract(r.value, '$.destination'),
         json_extract(r.value, '$.flight_type'), json_extract(r.value, '$.cabin'),
         (SELECT json_group_array(json_array(json_extract(p.value, '$.first_name'), json_extract(p.value, '$.last_name'),
            json_extract(p.value, '$.dob'))) FROM json_each(r.value, '$.passengers') p),
         json_extract(r.value, '$.total_baggages'), json_extract(r.value, '$.nonfree_baggages'), json_extract(r.value, '$.insurance')
  FROM environment, json_each(environment.json, '$.reservations') r;

INSERT INTO reservation_flights (reservation_id, line, flight_number, date, price)
  SELECT r.key, f.key, json_extract(f.value, '$.flight_number'), json_extract(f.value, '$.date'), json_extract(f.value, '$.price')
  FROM environment, json_each(environment.json, '$.reservations') r, json_each(r.value, '$.flights') f;

INSERT INTO payments (reservation_id, line, payment_id, amount)
  SELECT r.key, p.key, json_extract(p.value, '$.payment_id'), json_extract(p.value, '$.amount')
  FROM environment, json_each(environment.json, '$.reservations') r, json_each(r.value, '$.payment_history') p;

-- A flight that has left, or was cancelled, has no prices.
INSERT INTO fares (flight_number, date, cabin, price)
  SELECT f.key, d.key, c.key, c.value
  FROM environment, json_each(environment.json, '$.flights') f, json_each(f.value, '$.dates') d, json_each(d.value, '$.prices') c;
