package proxy_test

import (
	"net/http"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/balance"
	"github.com/weir-go/weir/service/internal/proxy"
)

// An origin gets no requests after its health check has failed twice; when it succeeds, the origin gets requests again within an interval.
func TestHealthChecks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var well atomic.Bool
		var checks, asked atomic.Int64
		well.Store(true)
		cfg := defaults(func(r *http.Request) (*http.Response, error) {
			switch {
			case r.URL.Path == "/base/healthz" && r.URL.Host == "a":
				if checks.Add(1); !well.Load() {
					return answer(503), nil
				}
			case r.URL.Host == "a":
				asked.Add(1)
			}
			time.Sleep(s / 100)
			return answer(200), nil
		})
		cfg.Origins = []string{"http://a/base", "http://b/base"}
		cfg.HealthPath, cfg.HealthInterval = "/healthz", 2*s
		a := arrivals{t: t, proxy: newProxy(t, cfg)}
		go a.proxy.CheckOrigins(t.Context())
		a.play(100, 20*s, 0, "")
		if n := checks.Load(); n < 9 || n > 11 || asked.Load() < 500 {
			t.Errorf("%d checks and %d requests in 20 s: want a check each 2 s, and about half of the requests", n, asked.Load())
		}
		well.Store(false)
		a.play(100, 4100*time.Millisecond, 0, "")
		state(t, a.proxy, 0, balance.Ejected)
		asked.Store(0)
		a.play(100, 60*s, 0, "")
		if n := asked.Load(); n > 0 {
			t.Errorf("%d requests while the health check fails", n)
		}
		well.Store(true)
		a.play(100, 4*s, 0, "")
		if n := asked.Load(); n == 0 {
			t.Error("no request within two intervals")
		}
		state(t, a.proxy, 0, balance.Starting)
		a.all.Wait()
	})
}

// A dead origin gets requests again at the first good check, however long it was away.
func TestHealthChecksOfADeadOrigin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFleet(t, func(c *proxy.Config) { c.HealthPath, c.HealthInterval = "/healthz", s }, three()...)
		go f.proxy.CheckOrigins(t.Context())
		f.serves("before", 100, 5*s, 1)
		f.servers[0].kill()
		f.serves("meanwhile", 100, 100*s, 1)
		f.servers[0].start()
		f.serves("afterwards", 100, 2*s, 1)
		state(t, f.proxy, 0, balance.Starting)
	})
}

// A reload changes the health checks.
func TestHealthChecksOfTheFile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var checks atomic.Int64
		p := withRules(t, "mode: enforce", proxy.Config{Origins: []string{"http://a", "http://b"}, Transport: origin(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/live" {
				checks.Add(1)
			}
			return answer(200), nil
		})})
		go p.CheckOrigins(t.Context())
		time.Sleep(time.Minute)
		if n := checks.Load(); n > 0 {
			t.Errorf("%d checks without a path", n)
		}
		p.reload("mode: enforce\nhealth_path: /live\nhealth_interval: 1s")
		time.Sleep(time.Minute)
		if n := checks.Load(); n < 110 || n > 121 {
			t.Errorf("%d checks of two origins in a minute: want one each second", n)
		}
		p.reload("mode: enforce")
		checks.Store(0)
		time.Sleep(time.Minute)
		if n := checks.Load(); n > 1 {
			t.Errorf("%d checks without a path", n)
		}
	})
}

// What is wrong with the settings of health checks is told.
func TestWrongHealthChecks(t *testing.T) {
	for _, cfg := range []proxy.Config{{HealthPath: "healthz"}, {HealthPath: "http://a/"}, {HealthPath: "/#a"}, {HealthInterval: 1}} {
		cfg.Origins = []string{"http://a"}
		if _, err := proxy.New(cfg); err == nil {
			t.Errorf("%q, %v: no error", cfg.HealthPath, cfg.HealthInterval)
		}
	}
}
