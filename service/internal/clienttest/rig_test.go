package client_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// A site is weir serve in the bubble of a test, behind a network of pipes.
type site struct {
	t       *testing.T
	core    *server.Server
	api     http.Handler
	network *testrig.Network

	handlers sync.WaitGroup
	delay    atomic.Int64 // of connections, in nanoseconds
	mu       sync.Mutex
	fault    http.HandlerFunc // answers instead, if not nil
	log      []string         // method and path of each request
}

// newSite serves until the test ends.
func newSite(t *testing.T, of ...config.Rule) *site {
	t.Helper()
	core, err := server.New(server.Config{Rules: rules(of...)})
	must(t, err)
	api, err := httpapi.New(core, httpapi.Config{})
	must(t, err)
	s := &site{t: t, core: core, api: api, network: testrig.Listen()}
	srv := &http.Server{Handler: s, Protocols: new(http.Protocols)}
	srv.Protocols.SetUnencryptedHTTP2(true)
	srv.Protocols.SetHTTP1(true)
	var served sync.WaitGroup
	served.Go(func() { _ = srv.Serve(s.network) })
	t.Cleanup(func() {
		_ = srv.Close()
		served.Wait()
		synctest.Wait()
		s.handlers.Wait()
	})
	return s
}

// forbid makes the API refuse keys, as if a token did not allow them.
func (s *site) forbid(bad func(key string) bool) {
	s.t.Helper()
	s.configure(httpapi.Config{Authorize: func(_ *http.Request, _ token.Action, key string) error {
		if bad(key) {
			return errors.New("not one of your keys")
		}
		return nil
	}})
}

// configure makes the API another one, before there are requests.
func (s *site) configure(cfg httpapi.Config) {
	s.t.Helper()
	api, err := httpapi.New(s.core, cfg)
	must(s.t, err)
	s.api = api
}

// dial connects to the site.
func (s *site) dial(ctx context.Context, network, address string) (net.Conn, error) {
	time.Sleep(time.Duration(s.delay.Load()))
	return s.network.Dial(ctx, network, address)
}

func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.handlers.Add(1)
	defer s.handlers.Done()
	s.mu.Lock()
	s.log = append(s.log, r.Method+" "+r.URL.EscapedPath())
	fault := s.fault
	s.mu.Unlock()
	if fault != nil {
		fault(w, r)
		return
	}
	s.api.ServeHTTP(w, r)
}

// answer lets f answer instead of the API, which answers again if f is nil.
func (s *site) answer(f http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.fault = f
}

// slow lets each answer take a while.
func (s *site) slow(each time.Duration) {
	s.answer(func(w http.ResponseWriter, r *http.Request) {
		time.Sleep(each)
		s.api.ServeHTTP(w, r)
	})
}

// requests returns the number of requests with a prefix of method and path.
func (s *site) requests(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, line := range s.log {
		if strings.HasPrefix(line, prefix) {
			n++
		}
	}
	return n
}

// client returns a Client of the site, which is closed when the test ends.
func (s *site) client(cfg client.Config) *client.Client {
	s.t.Helper()
	cfg.URL = "http://weir.test"
	if cfg.Away == 0 {
		cfg.Away = client.Local
		cfg.LocalQuota = cmp.Or(cfg.LocalQuota, gcra.Unlimited())
	}
	cfg.Instances = max(cfg.Instances, 1)
	if cfg.HTTP == nil {
		protocols := new(http.Protocols)
		protocols.SetUnencryptedHTTP2(true)
		cfg.HTTP = &http.Client{Timeout: 1, Transport: &http.Transport{Protocols: protocols, DialContext: s.dial}}
	}
	c, err := client.New(cfg)
	must(s.t, err)
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// left returns how many tokens a key has.
func (s *site) left(key string) int {
	var v decider.Verdict
	_ = s.core.Decide(context.Background(), &decider.Request{Key: key}, &v)
	return v.Answers[0].Remaining
}

// bubble runs f in virtual time; it ends with all goroutines.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func rules(of ...config.Rule) *config.Rules {
	set := &config.Rules{Apply: config.First, Rules: of}
	if err := set.Complete(); err != nil {
		panic(err)
	}
	return set
}

// every is a rule of n tokens per period, for each key.
func every(n int, period time.Duration) config.Rule {
	return config.Rule{Name: "every", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: n, Period: period}}}
}

// atOnce is a rule of n leases, for each key.
func atOnce(limit int, ttl time.Duration) config.Rule {
	return config.Rule{Name: "atonce", Glob: "*", Concurrency: &config.Concurrency{Limit: config.Limit(limit), TTL: ttl}}
}

// takes checks how many of some calls are allowed.
func takes(t *testing.T, c *client.Client, key string, want, of int) {
	t.Helper()
	got := 0
	for range of {
		d, err := c.Take(t.Context(), key, 1)
		must(t, err)
		if d.OK {
			got++
		}
	}
	check(t, fmt.Sprintf("of %d for %q, allowed", of, key), got, want)
}

// lose lets a Client find out that its server is away.
func lose(t *testing.T, c *client.Client) {
	t.Helper()
	for range 10 {
		if c.Stats().Away {
			return
		}
		_, err := c.Take(t.Context(), "lost", 1)
		must(t, err)
		synctest.Wait() // the request behind the call has failed too
	}
	t.Fatal("ten failures, and the server is not away")
}

// reason returns the Reason of a rejection.
func reason(err error) weir.Reason {
	if r, ok := errors.AsType[*weir.Rejection](err); ok {
		return r.Reason
	}
	return 0
}

func hang(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func status(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body))
	}
}

func check[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
