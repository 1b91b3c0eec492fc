-- What each city has brought in: computed anew by every run, from the table of all orders.
CREATE MATERIALIZED VIEW revenue AS
SELECT city, count(*) AS orders, sum(cents) AS cents
FROM orders
GROUP BY city;

-- Orders of one city, as they come: a table in SQL that takes only what is new.
CREATE STREAMING TABLE orders_of_bern AS
SELECT id, cents, publish_time
FROM STREAM orders
WHERE city = 'Bern';
