package forward

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/tally"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// firing returns when the alarm fires.
func (x *exchange) firing() time.Duration {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.alarm.fires
}

// Exchanges that end in any order leave the list at once. The others ring once, after longlived.Least.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		p := &Forwarder{cfg: Config{Epoch: time.Now()}}
		l := &p.recent
		l.now = p.now
		type member struct {
			*exchange
			until time.Duration
		}
		var model []member // the oldest first
		for step := range 5000 {
			if n := r.IntN(4); n > 1 && len(model) > 0 {
				i := r.IntN(len(model))
				l.remove(model[i].exchange)
				l.remove(model[i].exchange) // has no effect
				model = slices.Delete(model, i, i+1)
			} else if n > 0 {
				x := &exchange{forwarder: p, ended: true}
				l.add(x, p.now())
				model = append(model, member{x, p.now() + longlived.Least})
			}
			if r.IntN(3) == 0 {
				time.Sleep(time.Duration(r.Int64N(int64(longlived.Least) * 2 / 3)))
				synctest.Wait()
			}
			l.mu.Lock()
			for len(model) > 0 && model[0].until <= p.now() {
				if model[0].firing() != never {
					t.Fatalf("step %d: an exchange has not rung", step)
				}
				model = model[1:]
			}
			var last *exchange
			x := l.first
			for _, m := range model {
				if x != m.exchange || x.links.prev != last || x.firing() != 0 {
					t.Fatalf("step %d: the list is not that of the model", step)
				}
				last, x = x, x.links.next
			}
			if x != nil || l.last != last {
				t.Fatalf("step %d: the list does not end as that of the model", step)
			}
			l.mu.Unlock()
		}
	})
}

// An exchange that has ended is not in the list any more.
func TestRecentAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := origins.New(origins.Config{URLs: []string{"http://origin.test"}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := limits.New("", limits.Settings{Limit: proxyrule.FixedLimit(1)}, limits.Fairness{}, nil, set, func(inflight.Event) {})
		if err != nil {
			t.Fatal(err)
		}
		c := &Class{Gate: limits.Gate{Limiter: l, Origins: set, Counts: tally.New(nil)}}
		p := New(Config{Origins: set, Epoch: time.Now()})
		var ps limits.Units
		if err := c.Acquire(t.Context(), "", -1, &ps); err != nil {
			t.Fatal(err)
		}
		x := &exchange{forwarder: p, Request: Request{Class: c}, ctx: t.Context(), permit: ps.Move()}
		p.work.begin(p.now())
		x.permit.CountHolder(1)
		x.watchOrigin(p.now())
		if p.recent.first != x {
			t.Error("the exchange is not in the list")
		}
		x.end(0)
		if p.recent.first != nil {
			t.Error("the exchange is in the list after its end")
		}
	})
}
