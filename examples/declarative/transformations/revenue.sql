-- The revenue of each city. Every run computes it again from the table of all orders.
CREATE MATERIALIZED VIEW revenue AS
SELECT city, count(*) AS orders, sum(cents) AS cents
FROM orders
GROUP BY city;

-- The orders of one city: a streaming table, to which a run adds only new orders.
CREATE STREAMING TABLE orders_of_bern AS
SELECT id, cents, publish_time
FROM STREAM orders
WHERE city = 'Bern';
