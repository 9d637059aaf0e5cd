//go:build system

package adminapi_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/adminapi"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A rig is a server under a little load, and its API.
type rig struct {
	*server.Server
	URL string
	// reload is the outcome of a reload, and loaded that of the last.
	reload, loaded atomic.Pointer[error]
	succeeded      atomic.Pointer[time.Time]
	away           func() // ends the API
}

// fail makes reloads fail, or succeed if err is nil.
func (r *rig) fail(err error) { r.reload.Store(&err) }

func newRig(t testing.TB, rules *config.Rules) *rig {
	t.Helper()
	s, err := server.New(server.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{Server: s}
	now := time.Now()
	r.succeeded.Store(&now)
	r.fail(nil)
	r.loaded.Store(new(error))
	api := adminapi.New(adminapi.Config{
		Server: s, Local: true, Pprof: true,
		Reload: func() (string, error) {
			err := *r.reload.Load()
			r.loaded.Store(&err)
			if err != nil {
				return "", err
			}
			now := time.Now()
			r.succeeded.Store(&now)
			return "1 rule has changed: login", s.Reload(rules)
		},
		ConfigStatus: func() adminapi.ConfigStatus {
			st := adminapi.ConfigStatus{Path: "/etc/weir/rules.yaml", Hash: "3f2a90c1d5e7", Success: *r.succeeded.Load()}
			if err := *r.loaded.Load(); err != nil {
				st.Failure, st.Error = time.Now(), err
			}
			return st
		},
	})
	t.Cleanup(api.Close)
	srv := httptest.NewServer(api)
	t.Cleanup(srv.Close)
	r.URL, r.away = srv.URL, func() { srv.CloseClientConnections(); srv.Close() }
	return r
}

// every calls ask from time to time until the test ends.
func (r *rig) every(t testing.TB, d time.Duration, ask func(n int)) {
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	t.Cleanup(func() { cancel(); asking.Wait() })
	asking.Go(func() {
		tick := time.NewTicker(d)
		defer tick.Stop()
		for n := 0; ; n++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
				ask(n)
			}
		}
	})
}

// load asks until the test ends: some keys for more than they may have.
func (r *rig) load(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	var asking sync.WaitGroup
	t.Cleanup(func() { cancel(); asking.Wait() })
	every := func(d time.Duration, ask func(n int)) { r.every(t, d, ask) }
	decide := func(key string) {
		var v decider.Verdict
		_ = r.Decide(context.Background(), &decider.Request{Key: key, N: 1}, &v)
	}
	wait := func(key string) {
		var v decider.Verdict
		ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
		defer cancel()
		_ = r.Wait(ctx, &decider.Request{Key: key, N: 1}, &v)
	}
	every(20*time.Millisecond, func(n int) { decide("login:" + []string{"mallory", "mallory", "mallory", "alice"}[n%4]) })
	_ = r.Decide(ctx, &decider.Request{Key: hostile, N: 60}, new(decider.Verdict)) // all that it has
	every(170*time.Millisecond, func(int) { decide(hostile) })
	every(10*time.Millisecond, func(n int) { decide(fmt.Sprintf("user:%d", n*n%7)) })
	every(25*time.Millisecond, func(int) { decide("user:42") })
	every(30*time.Millisecond, func(n int) { asking.Go(func() { wait("search:all") }) })
	every(80*time.Millisecond, func(n int) { asking.Go(func() { wait(fmt.Sprintf("mail:%d", n%2*7)) }) })
	every(90*time.Millisecond, func(int) { decide("batch:nightly") })
	every(40*time.Millisecond, func(n int) { decide(fmt.Sprintf("GET /orders/%d", n%40)) })
	every(400*time.Millisecond, func(n int) {
		key := fmt.Sprintf("export:%d", n%2)
		lease, err := r.Acquire(ctx, decider.LeaseRequest{Key: key, N: 1})
		if err == nil {
			time.AfterFunc(3*time.Second, func() { _ = r.Return(context.Background(), key, lease.ID, weir.Success) })
		}
	})
}
