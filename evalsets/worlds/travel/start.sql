-- Offers, mail and calendar as the environment file describes them.

INSERT INTO traveller (email, first_name, last_name, id_number, phone, address, passport, bank_account, credit_card)
SELECT json_extract(environment.json, '$.user.email'), json_extract(environment.json, '$.user.first_name'), json_extract(environment.json, '$.user.last_name'),
       json_extract(environment.json, '$.user.ID_number'), json_extract(environment.json, '$.user.phone_number'), json_extract(environment.json, '$.user.address'),
       json_extract(environment.json, '$.user.passport_number'), json_extract(environment.json, '$.user.bank_account_number'),
       json_extract(environment.json, '$.user.credit_card_number')
FROM environment;

INSERT INTO places (kind, name, city, details)
SELECT 'hotel', json_extract(p.value, '$.name'), json_extract(p.value, '$.city'), json_remove(p.value, '$.name', '$.city')
FROM environment, json_each(environment.json, '$.hotels.hotel_list') p
UNION ALL
SELECT 'restaurant', json_extract(p.value, '$.name'), json_extract(p.value, '$.city'), json_remove(p.value, '$.name', '$.city')
FROM environment, json_each(environment.json, '$.restaurants.restaurant_list') p
UNION ALL
SELECT 'car_rental', json_extract(p.value, '$.name'), json_extract(p.value, '$.city'), json_remove(p.value, '$.name', '$.city')
FROM environment, json_each(environment.json, '$.car_rental.company_list') p;

INSERT INTO flights (flight_number, airline, departure_city, arrival_city, departure_time, arrival_time, price, contact)
SELECT json_extract(f.value, '$.flight_number'), json_extract(f.value, '$.airline'), json_extract(f.value, '$.departure_city'),
       json_extract(f.value, '$.arrival_city'), datetime(json_extract(f.value, '$.departure_time')),
       datetime(json_extract(f.value, '$.arrival_time')), json_extract(f.value, '$.price'),
       json_extract(f.value, '$.contact_information')
FROM environment, json_each(environment.json, '$.flights.flight_list') f;

INSERT INTO emails (id, sender, recipients, cc, bcc, subject, body, attachments, status, is_read, sent_at)
SELECT json_extract(m.value, '$.id_'), json_extract(m.value, '$.sender'),
       (SELECT json_group_array(value) FROM (SELECT value FROM json_each(m.value, '$.recipients') ORDER BY lower(value))),
       (SELECT json_group_array(value) FROM (SELECT value FROM json_each(m.value, '$.cc') ORDER BY lower(value))),
       (SELECT json_group_array(value) FROM (SELECT value FROM json_each(m.value, '$.bcc') ORDER BY lower(value))),
       json_extract(m.value, '$.subject'), json_extract(m.value, '$.body'), '[]',
       json_extract(m.value, '$.status'), json_extract(m.value, '$.read'), json_extract(m.value, '$.timestamp')
FROM environment, json_each(environment.json, '$.inbox.initial_emails') m;

INSERT INTO events (id, title, description, start_time, end_time, location, participants, all_day, status)
SELECT json_extract(v.value, '$.id_'), json_extract(v.value, '$.title'), json_extract(v.value, '$.description'),
       datetime(json_extract(v.value, '$.start_time')), datetime(json_extract(v.value, '$.end_time')),
       json_extract(v.value, '$.location'),
       (SELECT json_group_array(value) FROM (SELECT value FROM json_each(v.value, '$.participants') ORDER BY lower(value))),
       coalesce(json_extract(v.value, '$.all_day'), 0), json_extract(v.value, '$.status')
FROM environment, json_each(environment.json, '$.calendar.initial_events') v;
