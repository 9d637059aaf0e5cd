package main

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgconn/ctxwatch"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// connections is the size of the pool.
const connections = 10

// newPool returns a pool of connections to a database. The string cancel says what a query does
// after its context has ended.
func newPool(ctx context.Context, db *postgres, cancel string) (*pgxpool.Pool, error) {
	cfg, err := pgxpool.ParseConfig("user=orders dbname=postgres sslmode=disable port=5432")
	if err != nil {
		return nil, err
	}
	cfg.ConnConfig.Host = db.socket
	cfg.MaxConns = connections
	switch cancel {
	case "grace": // the query goes on for a second at most; then pgx closes the connection
		cfg.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.DeadlineContextWatcherHandler{Conn: conn.Conn(), DeadlineDelay: time.Second}
		}
	case "request": // pgx asks PostgreSQL to cancel the query, and waits until that must have come
		cfg.ConnConfig.BuildContextWatcherHandler = func(conn *pgconn.PgConn) ctxwatch.Handler {
			return &pgconn.CancelRequestContextWatcherHandler{Conn: conn, DeadlineDelay: time.Second}
		}
	case "close": // pgx closes the connection, and opens another one for the next query
	}
	return pgxpool.NewWithConfig(ctx, cfg)
}

// poolMetrics says how the pool is used.
func poolMetrics(pool *pgxpool.Pool) (all []prometheus.Collector) {
	counter := func(name, help string, value func(*pgxpool.Stat) int64) {
		all = append(all, prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(value(pool.Stat())) }))
	}
	counter("pool_acquires_total", "Queries that got a connection.", (*pgxpool.Stat).AcquireCount)
	counter("pool_canceled_acquires_total", "Queries whose client left before they got a connection.", (*pgxpool.Stat).CanceledAcquireCount)
	counter("pool_new_connections_total", "Connections opened.", (*pgxpool.Stat).NewConnsCount)
	return all
}
