package peer_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/peer"
	"github.com/weir-go/weir/service/internal/server"
)

const secret = "a secret of the whole fleet"

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

func newHandler(t testing.TB, cfg peer.HandlerConfig) *peer.Handler {
	t.Helper()
	h, err := peer.NewHandler(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

// dial returns a Client that is up.
func dial(t testing.TB, cfg peer.Config) *peer.Client {
	t.Helper()
	up := make(chan struct{}, 100)
	if tell := cfg.OnState; true {
		cfg.OnState = func(s peer.State) {
			if tell != nil {
				tell(s)
			}
			if s.Up {
				select {
				case up <- struct{}{}:
				default:
				}
			}
		}
	}
	c, err := peer.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	select {
	case <-up:
	case <-time.After(5 * time.Second):
		t.Fatalf("not up: %+v", c.State())
	}
	return c
}

// serve serves a Handler on loopback.
func serve(t testing.TB, h *peer.Handler) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle(peer.Path, h)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	t.Cleanup(func() {
		ctx, cancel := contextFor(time.Second)
		defer cancel()
		_ = h.Shutdown(ctx)
	})
	return srv.URL
}
