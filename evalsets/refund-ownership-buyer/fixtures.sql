-- Two customers with one paid order each.
INSERT INTO orders (id, owner, state, currency, total_minor, version) VALUES
  ('4d1f2c8e-70b3-4a55-9e0d-6c2b91f7a318', 'usr_2087', 'PAID', 'CNY', 1800, 3),
  ('b9620f4a-1d7c-4c3e-8f26-05e8d34b7c91', 'usr_5512', 'PAID', 'CNY', 1800, 3);

INSERT INTO payments (id, order_id, owner, state, amount_minor, refunded_minor, version) VALUES
  ('pay_1', '4d1f2c8e-70b3-4a55-9e0d-6c2b91f7a318', 'usr_2087', 'SUCCEEDED', 1800, 0, 2),
  ('pay_2', 'b9620f4a-1d7c-4c3e-8f26-05e8d34b7c91', 'usr_5512', 'SUCCEEDED', 1800, 0, 2);

INSERT INTO payment_callbacks (id, payment_id, event) VALUES
  ('cb_1', 'pay_1', 'PAYMENT_SUCCEEDED'),
  ('cb_2', 'pay_2', 'PAYMENT_SUCCEEDED');

INSERT INTO inventory_movements (id, order_id, sku, quantity) VALUES
  ('mov_1', '4d1f2c8e-70b3-4a55-9e0d-6c2b91f7a318', 'TEA-250', -2),
  ('mov_2', 'b9620f4a-1d7c-4c3e-8f26-05e8d34b7c91', 'CUP-01', -1);
