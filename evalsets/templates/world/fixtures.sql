INSERT INTO orders (id, owner, state, cents) VALUES
  ('ord-1', 'ann', 'PAID', 1800),
  ('ord-2', 'bob', 'PAID', 2500);
