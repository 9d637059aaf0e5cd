CREATE TABLE customers (id int PRIMARY KEY, name text NOT NULL);
CREATE TABLE products (id int PRIMARY KEY, name text NOT NULL, price int NOT NULL);
CREATE TABLE orders (
	id       int GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
	customer int NOT NULL REFERENCES customers,
	product  int NOT NULL REFERENCES products,
	price    int NOT NULL,
	created  timestamptz NOT NULL DEFAULT now()
);
INSERT INTO customers SELECT n, 'customer ' || n FROM generate_series(1, 1000) n;
INSERT INTO products SELECT n, 'product ' || n, 100 + n % 900 FROM generate_series(1, 50) n;
INSERT INTO orders (customer, product, price)
	SELECT 1 + n % 1000, p.id, p.price FROM generate_series(1, 5000) n JOIN products p ON p.id = 1 + n % 50;
CREATE INDEX ON orders (customer);
ANALYZE;
