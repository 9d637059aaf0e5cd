package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

// An experiment offers a service more than its database can do.
type experiment struct {
	load             float64       // offered queries as a multiple of the capacity
	patience         time.Duration // after which a client leaves
	warmUp, duration time.Duration // load before it is measured, and while it is
}

func (x *experiment) validate() error {
	switch {
	case !(x.load > 0 && x.load <= 100):
		return fmt.Errorf("-load %v: must be > 0 and <= 100", x.load)
	case x.patience <= 0:
		return fmt.Errorf("-patience %v: must be > 0", x.patience)
	case x.warmUp < 0:
		return fmt.Errorf("-warm-up %v: must be >= 0", x.warmUp)
	case x.duration < time.Second:
		return fmt.Errorf("-duration %v: must be >= 1s", x.duration)
	}
	return nil
}

// routes lists the requests of clients, in the shares of mix.targets and mix.js.
var routes = []struct {
	method, path, query string
	share               float64 // of the requests
	queries             float64 // of the database
}{
	{"GET", "/catalog", "", 0.3, 0},
	{"POST", "/orders", "?customer=17&product=42", 0.5, 1},
	{"GET", "/customers/17", "", 0.2, 5},
}

// A result says what clients got from a limit, and what it cost the database. All rates are per
// second.
type result struct {
	limit   string
	routes  []answers
	all     answers
	useful  float64 // queries of requests that were answered with success before their client left
	queries float64 // that had a connection
	opened  float64 // connections
}

// answers counts what became of requests. The latencies of the served ones are sorted. They count
// from the instants at which the requests were due.
type answers struct {
	offered, served, rejected, failed, left float64
	latencies                               []time.Duration
}

// add adds the answers of another route.
func (a *answers) add(b answers) {
	a.offered += b.offered
	a.served += b.served
	a.rejected += b.rejected
	a.failed += b.failed
	a.left += b.left
	a.latencies = append(a.latencies, b.latencies...)
	slices.Sort(a.latencies)
}

// quantile returns a quantile of the latencies, or 0 without any.
func (a *answers) quantile(q float64) time.Duration {
	if len(a.latencies) == 0 {
		return 0
	}
	return a.latencies[min(len(a.latencies)-1, int(q*float64(len(a.latencies))))]
}

// row returns a line of the table.
func (a *answers) row(name string) string {
	return fmt.Sprintf("%s\t%.1f\t%.1f\t%.1f\t%.1f\t%.1f\t%v\t%v\t\n", name, a.offered, a.served, a.rejected, a.left, a.failed,
		a.quantile(0.50).Round(time.Millisecond), a.quantile(0.95).Round(time.Millisecond))
}

// run measures the capacity, offers load to a service with each limit in turn, and prints a table.
func (x experiment) run(ctx context.Context, db *postgres, c config, out io.Writer) ([]result, error) {
	capacity, err := measureCapacity(ctx, db, c)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(out, "%.0f queries/s of %.0f that the database can do; clients leave after %v\n\n", x.load*capacity, capacity, x.patience)
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	var results []result
	for _, c.limit = range []string{"none", "fixed", "auto"} {
		r, err := x.overload(ctx, db, c, capacity)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
		fmt.Fprintf(table, "limit %s\toffered/s\tserved\trejected\tleft\tfailed\tP50\tP95\t\n", r.limit)
		for i, route := range r.routes {
			_, _ = io.WriteString(table, route.row(routes[i].method+" "+routes[i].path))
		}
		_, _ = io.WriteString(table, r.all.row("all"))
		_ = table.Flush()
		fmt.Fprintf(out, "%.0f useful queries/s of %.0f; %.1f connections opened/s\n\n", r.useful, r.queries, r.opened)
	}
	return results, nil
}

// measureCapacity returns how many queries a second the pool does while each of its connections is
// always in use.
func measureCapacity(ctx context.Context, db *postgres, c config) (float64, error) {
	s, err := newService(ctx, db, c)
	if err != nil {
		return 0, err
	}
	defer s.pool.Close()
	var wg sync.WaitGroup
	done, failures := make([]int, connections), make([]error, connections)
	start := time.Now()
	for i := range connections {
		wg.Go(func() {
			for ; time.Since(start) < 3*time.Second && failures[i] == nil; done[i]++ {
				var part []byte
				failures[i] = s.pool.QueryRow(ctx, customerQueries[0].sql, 17, s.query).Scan(&part)
			}
		})
	}
	wg.Wait()
	sum := 0
	for _, n := range done {
		sum += n
	}
	return float64(sum) / time.Since(start).Seconds(), cmp.Or(context.Cause(ctx), errors.Join(failures...))
}

// overload offers load to a service with the limit of c.
func (x experiment) overload(ctx context.Context, db *postgres, c config, capacity float64) (result, error) {
	s, err := newService(ctx, db, c)
	if err != nil {
		return result{}, err
	}
	defer s.pool.Close()
	h, err := s.handler(c)
	if err != nil {
		return result{}, err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return result{}, err
	}
	server := http.Server{Handler: h}
	go func() { _ = server.Serve(l) }()
	defer server.Close()

	queries := 0.0 // of a request, on average
	for _, route := range routes {
		queries += route.share * route.queries
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10_000}}
	defer client.CloseIdleConnections()
	r := result{limit: c.limit, routes: make([]answers, len(routes))}
	start := time.Now()
	var wg sync.WaitGroup
	for i, route := range routes {
		wg.Go(func() {
			url := "http://" + l.Addr().String() + route.path + route.query
			r.routes[i] = x.send(ctx, client, route.method, url, start, route.share*x.load*capacity/queries)
		})
	}
	sleepUntil(ctx, start.Add(x.warmUp))
	before := s.pool.Stat()
	sleepUntil(ctx, start.Add(x.warmUp+x.duration))
	after := s.pool.Stat()
	wg.Wait()
	seconds := x.duration.Seconds()
	r.queries = float64(after.AcquireCount()-before.AcquireCount()) / seconds
	r.opened = float64(after.NewConnsCount()-before.NewConnsCount()) / seconds
	for i, route := range routes {
		r.useful += r.routes[i].served * route.queries
		r.all.add(r.routes[i])
	}
	return r, context.Cause(ctx)
}

// send sends requests at a rate from start on, in an open loop: each when it is due, whatever
// became of earlier ones.
func (x experiment) send(ctx context.Context, client *http.Client, method, url string, start time.Time, rate float64) answers {
	var a answers
	var mu sync.Mutex // guards a
	var wg sync.WaitGroup
	for n := 0; ctx.Err() == nil; n++ {
		after := time.Duration(float64(n) / rate * float64(time.Second))
		if after >= x.warmUp+x.duration {
			break
		}
		due := start.Add(after)
		sleepUntil(ctx, due)
		wg.Go(func() {
			status, err := x.request(ctx, client, method, url, due)
			latency := time.Since(due)
			if after < x.warmUp {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			a.offered++
			switch {
			case errors.Is(err, context.DeadlineExceeded) || latency > x.patience:
				a.left++
			case err == nil && status < 300:
				a.served++
				a.latencies = append(a.latencies, latency)
			case status == http.StatusServiceUnavailable:
				a.rejected++
			default:
				a.failed++
			}
		})
	}
	wg.Wait()
	for _, count := range []*float64{&a.offered, &a.served, &a.rejected, &a.failed, &a.left} {
		*count /= x.duration.Seconds()
	}
	slices.Sort(a.latencies)
	return a
}

// request returns the status of an answer that has come whole before the client leaves.
func (x experiment) request(ctx context.Context, client *http.Client, method, url string, due time.Time) (int, error) {
	ctx, cancel := context.WithDeadline(ctx, due.Add(x.patience))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

func sleepUntil(ctx context.Context, t time.Time) {
	select {
	case <-time.After(time.Until(t)):
	case <-ctx.Done():
	}
}
