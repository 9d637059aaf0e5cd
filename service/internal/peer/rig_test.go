package peer_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/peer/serve"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

var secret = []byte("a secret of the whole fleet")

// quota is n tokens in a period.
func quota(n int, period time.Duration, a config.Algorithm) config.Quota {
	return config.Quota{Rate: config.Rate{Count: n, Period: period}, Algorithm: a}
}

// one is a rule for every key.
func one(name string, q config.Quota) config.Rule {
	return config.Rule{Name: name, Glob: "*", Quota: q}
}

func newServer(t testing.TB, cfg server.Config, rules ...config.Rule) *server.Server {
	t.Helper()
	if cfg.Rules == nil {
		cfg.Rules = &config.Rules{Rules: rules}
	}
	s, err := server.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newHandler(t testing.TB, cfg serve.Config) *serve.Handler {
	t.Helper()
	h, err := serve.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// A site is an instance in the bubble of a test, behind a network of pipes.
type site struct {
	*serve.Handler
	t       *testing.T
	network *testrig.Network
	http    *http.Server
}

// newSite serves until the test ends.
func newSite(t *testing.T, cfg serve.Config) *site {
	t.Helper()
	s := &site{t: t, network: testrig.Listen()}
	if cfg.Decider == nil {
		cfg.Decider = newServer(t, server.Config{}, one("all", quota(10, time.Second, config.GCRA)))
	}
	s.Handler = newHandler(t, cfg)
	mux := http.NewServeMux()
	mux.Handle(wire.Path, s.Handler)
	s.http = &http.Server{Handler: mux}
	var served sync.WaitGroup
	served.Go(func() { _ = s.http.Serve(s.network) })
	t.Cleanup(func() {
		_ = s.http.Close()
		served.Wait()
		ended, cancel := context.WithCancel(context.Background())
		cancel()
		_ = s.Shutdown(ended)
		synctest.Wait()
	})
	return s
}

// dial returns a Client of the site, which is closed before the site.
func (s *site) dial(cfg peer.Config) *peer.Client {
	s.t.Helper()
	cfg.URL = "http://weir"
	cfg.Dial = s.network.Dial
	c, err := peer.New(cfg)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { c.Close() })
	synctest.Wait()
	return c
}

// breaks breaks all connections, and allows no new ones until the network is repaired.
func (s *site) breaks() {
	s.network.Refuse()
	for _, c := range s.network.Conns() {
		_ = c.Close()
	}
}

// loopback serves a Handler on loopback, and returns its URL.
func loopback(t testing.TB, h *serve.Handler) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(wire.Path, h)
	srv := httptest.NewServer(mux)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = h.Shutdown(ctx)
		srv.Close()
	})
	return srv.URL
}

// dial returns a Client of a server on loopback that is up.
func dial(t testing.TB, cfg peer.Config) *peer.Client {
	t.Helper()
	up := make(chan struct{})
	var once sync.Once
	cfg.OnState = func(s peer.State) {
		if s.Up {
			once.Do(func() { close(up) })
		}
	}
	c, err := peer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	select {
	case <-up:
	case <-time.After(10 * time.Second):
		t.Fatalf("not up: %+v", c.State())
	}
	return c
}

// decide decides about a key.
func decide(d decider.Decider, key string, n int) (v decider.Verdict, err error) {
	err = d.Decide(context.Background(), &decider.Request{Key: key, N: n}, &v)
	return v, err
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, test)
}
