package main

import (
	"log/slog"
	"testing"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/cli"
	"github.com/weir-go/weir/service/internal/proxy"
)

// parseProxy returns the configuration of a proxy with flags.
func parseProxy(t *testing.T, flags ...string) proxy.Config {
	t.Helper()
	var c proxyCmd
	parsing := *program
	parsing.Commands = []cli.Command{{Name: "proxy", New: func() cli.Runner { return &c }}}
	if err := parsing.Accepts(append([]string{"proxy", "--origin", "http://127.0.0.1:1"}, flags...)); err != nil {
		t.Fatal(err)
	}
	return c.config(slog.New(slog.DiscardHandler))
}

// The initial limit is within the bounds, unless it is given.
func TestProxyInitialLimit(t *testing.T) {
	for _, tt := range []struct {
		flags []string
		want  int
	}{
		{[]string{"--min-limit=32"}, 32},
		{[]string{"--max-limit=5"}, 5},
		{[]string{"--min-limit=32", "--initial-limit=40"}, 40},
	} {
		if got := parseProxy(t, tt.flags...).Auto.Initial; got != tt.want {
			t.Errorf("%q: it begins at %d: want %d", tt.flags, got, tt.want)
		}
	}
}

// Without flags, the proxy has the defaults of the library.
func TestProxyDefaults(t *testing.T) {
	cfg := parseProxy(t)
	if cfg.Queue != inflight.DefaultQueue || cfg.MaxWait != inflight.DefaultMaxWait {
		t.Errorf("%d may wait for %v: want inflight's defaults", cfg.Queue, cfg.MaxWait)
	}
	if cfg.LongLived != proxy.DefaultLongLived {
		t.Errorf("%d may be long-lived: want the proxy's default", cfg.LongLived)
	}
	if cfg.Timeout != proxy.DefaultTimeout || cfg.AbandonedHold != proxy.DefaultAbandonedHold || cfg.ClientTimeout != proxy.DefaultClientTimeout {
		t.Errorf("%+v: want the proxy's defaults", cfg)
	}
	initial := func(c limit.Config) int {
		a, err := limit.NewAuto(c)
		if err != nil {
			t.Fatal(err)
		}
		return a.Limit()
	}
	if got, want := initial(cfg.Auto), initial(limit.Config{}); got != want {
		t.Errorf("it begins at %d: want %d", got, want)
	}
	if want := (limit.Config{Initial: 10, Min: 1, Max: 10_000}); cfg.Auto != want {
		t.Errorf("%+v: want %+v, as limit.Config and docs/proxy.md say", cfg.Auto, want)
	}
}
