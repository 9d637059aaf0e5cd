//go:build system

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The field tests run real proxies, each a process. The service behind them and the load
// are in the process of the test. FIELD_DURATION is the duration of the measurement.
func fieldTime(t *testing.T) time.Duration {
	t.Helper()
	if s := os.Getenv("FIELD_DURATION"); s != "" {
		d, err := time.ParseDuration(s)
		fatal(t, err)
		return d
	}
	return 5 * time.Second
}

// startProxy runs a proxy before an origin, with additional flags.
func startProxy(t *testing.T, name, origin string, flags ...string) (listen, admin string) {
	t.Helper()
	args := append([]string{"proxy", "--origin", origin, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0"}, flags...)
	_, listen, admin, log := start(t, name, args...)
	var mu sync.Mutex
	var lines []string
	go func() {
		for log.Scan() {
			mu.Lock()
			lines = append(lines, log.Text())
			mu.Unlock()
		}
	}()
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		t.Logf("the proxy says:\n%s", strings.Join(lines, "\n"))
	})
	return listen, admin
}

// A crew is a service with a number of workers, a service time, and an unbounded queue.
type crew struct {
	workers chan struct{}
	takes   time.Duration
	cv      bool // exponential rather than constant

	did, took atomic.Int64 // pieces of work, and the nanoseconds that they took
}

// capacity returns the possible throughput of the workers, given the delays of the
// machine.
func (c *crew) capacity() float64 {
	return float64(cap(c.workers)) * float64(c.did.Load()) / time.Duration(c.took.Load()).Seconds()
}

func newCrew(workers int, takes time.Duration) *crew {
	return &crew{workers: make(chan struct{}, workers), takes: takes}
}

// work continues after its client has left.
func (c *crew) work() {
	c.workers <- struct{}{}
	defer func() { <-c.workers }()
	d := c.takes
	if c.cv {
		d = time.Duration(rand.ExpFloat64() * float64(d))
	}
	began := time.Now()
	time.Sleep(d)
	c.took.Add(int64(time.Since(began)))
	c.did.Add(1)
}

func (c *crew) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	c.work()
	_, _ = io.WriteString(w, "done\n")
}

// A service listens on one address, and can be down for a while.
type service struct {
	t       *testing.T
	addr    string
	handler http.Handler
	srv     *http.Server
}

func newService(t *testing.T, h http.Handler) *service {
	t.Helper()
	s := &service{t: t, addr: "127.0.0.1:0", handler: h}
	s.up()
	t.Cleanup(s.down)
	return s
}

func (s *service) url() string { return "http://" + s.addr }

func (s *service) up() {
	s.t.Helper()
	var ln net.Listener
	var err error
	for range 50 { // the port may still be in use
		if ln, err = net.Listen("tcp", s.addr); err == nil {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = ln.Addr().String()
	s.srv = &http.Server{Handler: s.handler}
	go func() { _ = s.srv.Serve(ln) }()
}

// down closes all connections: requests in flight fail.
func (s *service) down() { _ = s.srv.Close() }

// A tally counts the answers of a load, by the second of the request.
type fieldTally struct {
	mu       sync.Mutex
	began    time.Time
	sent, ok int
	status   map[int]int // 0: none
	perSec   []struct{ sent, ok int }
}

func (f *fieldTally) add(at time.Time, status int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := int(at.Sub(f.began) / time.Second)
	for len(f.perSec) <= i {
		f.perSec = append(f.perSec, struct{ sent, ok int }{})
	}
	f.sent++
	f.perSec[i].sent++
	f.status[status]++
	if status == 200 {
		f.ok++
		f.perSec[i].ok++
	}
}

func (f *fieldTally) share() float64 { return float64(f.ok) / float64(max(f.sent, 1)) }

func (f *fieldTally) String() string {
	return fmt.Sprintf("%d of %d served; statuses %v; by second %v", f.ok, f.sent, f.status, f.perSec)
}

// loadClient has enough connections.
func loadClient() *http.Client {
	return &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 2000}}
}

// fieldLoad sends requests to the urls in turn at a rate, in an open loop, with a
// time-out. All requests have the header.
func fieldLoad(ctx context.Context, rate float64, d, timeout time.Duration, header http.Header, urls ...string) *fieldTally {
	f := &fieldTally{began: time.Now(), status: map[int]int{}}
	client := loadClient()
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	var turn atomic.Uint64
	for i := 0; ; i++ {
		at := f.began.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if at.Sub(f.began) >= d || ctx.Err() != nil {
			break
		}
		time.Sleep(time.Until(at))
		all.Go(func() {
			f.add(at, askFor(ctx, client, urls[turn.Add(1)%uint64(len(urls))], at.Add(timeout), header))
		})
	}
	all.Wait()
	return f
}

func askFor(ctx context.Context, client *http.Client, url string, deadline time.Time, header http.Header) (status int) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		panic(err)
	}
	if header != nil {
		r.Header = header.Clone()
	}
	resp, err := client.Do(r)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return 0
	}
	return resp.StatusCode
}

// fieldDial opens a connection to a proxy and writes the text.
func fieldDial(t *testing.T, url, text string) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	fatal(t, err)
	t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	return conn
}
