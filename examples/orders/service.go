package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"net/http"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/metric"
)

// A config says how the service limits its work, and treats its database.
type config struct {
	limit  string        // none, fixed or auto
	fixed  int           // requests of a route in flight with limit fixed
	cancel string        // grace, request or close
	query  time.Duration // how long a query holds its connection
}

func (c *config) validate() error {
	switch {
	case c.limit != "none" && c.limit != "fixed" && c.limit != "auto":
		return fmt.Errorf("-limit %q: must be none, fixed or auto", c.limit)
	case c.fixed < 1:
		return fmt.Errorf("-fixed %d: must be > 0", c.fixed)
	case c.cancel != "grace" && c.cancel != "request" && c.cancel != "close":
		return fmt.Errorf("-cancel %q: must be grace, request or close", c.cancel)
	case c.query < 0:
		return fmt.Errorf("-query %v: must be >= 0", c.query)
	}
	return nil
}

// A service has three routes, which share a pool of connections.
type service struct {
	pool    *pgxpool.Pool
	query   float64 // how long a query holds its connection, in seconds
	catalog []byte
}

// newService returns a service on a database. The caller closes its pool.
func newService(ctx context.Context, db *postgres, c config) (*service, error) {
	pool, err := newPool(ctx, db, c.cancel)
	if err != nil {
		return nil, err
	}
	s := &service{pool: pool, query: c.query.Seconds()}
	if err := pool.QueryRow(ctx, "SELECT json_agg(p ORDER BY id) FROM products p").Scan(&s.catalog); err != nil {
		pool.Close()
		return nil, fmt.Errorf("catalog: %w", err)
	}
	return s, nil
}

// handler returns the routes with the limits of c in front, and metrics.
func (s *service) handler(c config) (http.Handler, error) {
	registry := prometheus.NewRegistry()
	registry.MustRegister(poolMetrics(s.pool)...)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /catalog", s.getCatalog)
	mux.HandleFunc("POST /orders", s.postOrder)
	mux.HandleFunc("GET /customers/{id}", s.getCustomer)
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))

	switch c.limit {
	case "none":
		return mux, nil
	case "auto":
		h := httplimit.Handler(mux)
		registry.MustRegister(metric.NewHTTP("orders", h.Middleware))
		return h, nil
	}
	m, err := httplimit.New(httplimit.Config{PerClass: func(string) weir.Limiter {
		lim, err := inflight.New(inflight.Config{Algorithm: limit.Fixed(c.fixed), Depth: 3})
		if err != nil {
			panic(err) // the Config is valid
		}
		return lim
	}})
	if err != nil {
		return nil, err
	}
	registry.MustRegister(metric.NewHTTP("orders", m))
	return m.Handler(mux), nil
}

// getCatalog answers from memory.
func (s *service) getCatalog(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(s.catalog)
}

// postOrder makes one query.
func (s *service) postOrder(w http.ResponseWriter, r *http.Request) {
	var ids [2]int
	for i, name := range []string{"customer", "product"} {
		var err error
		if ids[i], err = strconv.Atoi(r.FormValue(name)); err != nil {
			http.Error(w, name+": must be a number", http.StatusBadRequest)
			return
		}
	}
	const sql = `INSERT INTO orders (customer, product, price)
		SELECT c.id, p.id, p.price FROM customers c, products p, pg_sleep($3) WHERE c.id = $1 AND p.id = $2 RETURNING id`
	var id int
	if err := s.pool.QueryRow(r.Context(), sql, ids[0], ids[1], s.query).Scan(&id); err != nil {
		fail(w, r, err)
		return
	}
	w.WriteHeader(http.StatusCreated)
	fmt.Fprintln(w, id)
}

// customerQueries are the parts of a customer's page.
var customerQueries = []struct{ name, sql string }{
	{"customer", `SELECT to_json(c) FROM customers c, pg_sleep($2) WHERE id = $1`},
	{"orders", `SELECT to_json(count(*)) FROM orders, pg_sleep($2) WHERE customer = $1`},
	{"spent", `SELECT to_json(coalesce(sum(price), 0)) FROM orders, pg_sleep($2) WHERE customer = $1`},
	{"last", `SELECT coalesce(json_agg(o), '[]') FROM
		(SELECT id, product, price FROM orders, pg_sleep($2) WHERE customer = $1 ORDER BY id DESC LIMIT 5) o`},
	{"favourites", `SELECT coalesce(json_agg(f), '[]') FROM
		(SELECT product, count(*) FROM orders, pg_sleep($2) WHERE customer = $1 GROUP BY 1 ORDER BY 2 DESC LIMIT 5) f`},
}

// getCustomer makes five queries. Each waits for a connection.
func (s *service) getCustomer(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil {
		http.Error(w, "id: must be a number", http.StatusBadRequest)
		return
	}
	page := map[string]json.RawMessage{}
	for _, q := range customerQueries {
		var part []byte
		if err := s.pool.QueryRow(r.Context(), q.sql, id, s.query).Scan(&part); err != nil {
			fail(w, r, err)
			return
		}
		page[q.name] = part
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(page)
}

// tooManyConnections is an SQLSTATE.
const tooManyConnections = "53300"

// fail answers a request after its query has failed. The limit takes 503 as a sign of overload.
func fail(w http.ResponseWriter, r *http.Request, err error) {
	var refused *pgconn.PgError
	switch {
	case errors.Is(err, pgx.ErrNoRows):
		http.NotFound(w, r)
	case errors.As(err, &refused) && refused.Code == tooManyConnections:
		http.Error(w, "too many connections", http.StatusServiceUnavailable)
	case r.Context().Err() != nil:
		httplimit.Reject(w, r, r.Context().Err()) // nothing reads it; the status is for logs
	default:
		log.Printf("%s: %v", r.URL.Path, err)
		http.Error(w, "the database has failed", http.StatusInternalServerError)
	}
}
