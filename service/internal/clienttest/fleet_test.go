package client_test

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/client"
	"github.com/weir-go/weir/internal/testrig"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/transport/httpapi"
)

// Two workers do ten a second together, one has it all when the other stops, and
// goes on with its share when weir serve stops.
func TestFleet(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNetwork(t)
		first, second := n.worker(), n.worker()
		time.Sleep(time.Second + 50*time.Millisecond) // the burst; then between two permits
		first.sent.Store(0)
		second.sent.Store(0)
		time.Sleep(10 * time.Second)
		a, b := first.sent.Swap(0), second.sent.Swap(0)
		if a+b != 100 || a < 45 || b < 45 {
			t.Errorf("two workers sent %d and %d in ten seconds", a, b)
		}
		second.stop()
		time.Sleep(10 * time.Second)
		if a := first.sent.Swap(0); a < 99 || a > 101 {
			t.Errorf("one worker sent %d in ten seconds", a)
		}
		n.stop()
		time.Sleep(2 * time.Second) // it learns that the server is away, and has a burst
		first.sent.Store(0)
		time.Sleep(10 * time.Second)
		if a := first.sent.Load(); a < 49 || a > 51 {
			t.Errorf("a worker on its own sent %d in ten seconds", a)
		}
		first.stop()
	})
}

// A network is weir serve behind pipes.
type network struct {
	*testrig.Network
	t   *testing.T
	srv *http.Server
}

func newNetwork(t *testing.T) *network {
	rules := &config.Rules{Rules: []config.Rule{{Key: "mail", Quota: config.Quota{Rate: config.Rate{Count: 10, Period: time.Second}}}}}
	if err := rules.Complete(); err != nil {
		t.Fatal(err)
	}
	core, err := server.New(server.Config{Rules: rules})
	if err != nil {
		t.Fatal(err)
	}
	api, err := httpapi.New(core, httpapi.Config{})
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: api}
	return &network{testrig.Serve(t, srv), t, srv}
}

func (n *network) stop() { _ = n.srv.Close() }

type worker struct {
	sent atomic.Int64
	stop func()
}

func (n *network) worker() *worker {
	c, err := client.New(client.Config{
		URL: "http://weir.test", Away: client.Local, Instances: 2, HTTP: n.Client(n.t, 2),
	})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	var working sync.WaitGroup
	w := new(worker)
	working.Go(func() {
		for ctx.Err() == nil {
			if p, err := c.For("mail").Acquire(ctx, 1); err == nil {
				w.sent.Add(1)
				p.Release(weir.Success)
			} else if errors.Is(err, weir.ErrRejected) {
				time.Sleep(100 * time.Millisecond)
			} else if ctx.Err() == nil {
				n.t.Error(err)
			}
		}
	})
	w.stop = func() {
		cancel()
		working.Wait()
		_ = c.Close()
	}
	return w
}
