package forward

import (
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/testrig"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/internal/longlived"
	"github.com/weir-go/weir/service/internal/proxy/limits"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxy/tally"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// firing returns when the alarm fires.
func (f *forward) firing() time.Duration {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.alarm.fires
}

// Forwards that end in any order leave the list at once. The others ring once, after longlived.Least.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(1, 2))
		p := &Forwarder{cfg: Config{Epoch: time.Now()}}
		l := &p.recent
		l.now = p.now
		type member struct {
			*forward
			until time.Duration
		}
		var model []member // the oldest first
		for step := range 5000 {
			if n := r.IntN(4); n > 1 && len(model) > 0 {
				i := r.IntN(len(model))
				l.remove(model[i].forward)
				l.remove(model[i].forward) // has no effect
				model = slices.Delete(model, i, i+1)
			} else if n > 0 {
				f := &forward{forwarder: p, unit: unitReleased}
				l.add(f, p.now())
				model = append(model, member{f, p.now() + longlived.Least})
			}
			if r.IntN(3) == 0 {
				time.Sleep(time.Duration(r.Int64N(int64(longlived.Least) * 2 / 3)))
				synctest.Wait()
			}
			l.mu.Lock()
			for len(model) > 0 && model[0].until <= p.now() {
				if model[0].firing() != weir.Never {
					t.Fatalf("step %d: a forward has not rung", step)
				}
				model = model[1:]
			}
			var last *forward
			f := l.first
			for _, m := range model {
				if f != m.forward || f.links.prev != last || f.firing() != 0 {
					t.Fatalf("step %d: the list is not that of the model", step)
				}
				last, f = f, f.links.next
			}
			if f != nil || l.last != last {
				t.Fatalf("step %d: the list does not end as that of the model", step)
			}
			l.mu.Unlock()
		}
	})
}

// A forward that has ended is not in the list any more.
func TestRecentAfterEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		set, err := origins.New(origins.Config{URLs: []string{"http://origin.test"}})
		testrig.Must(t, err)
		l, err := limits.New("", limits.Settings{Limit: proxyrule.FixedLimit(1)}, limits.Fairness{}, nil, set, func(inflight.Event) {})
		testrig.Must(t, err)
		c := &Class{Gate: limits.Gate{Limiter: l, Origins: set, Counts: tally.New(nil)}}
		p := New(Config{Origins: set, Epoch: time.Now()})
		var ps limits.Units
		testrig.Must(t, c.Acquire(t.Context(), "", -1, &ps))
		f := &forward{forwarder: p, Request: Request{Class: c}, ctx: t.Context(), units: ps.Move()}
		p.work.countBegin(p.now())
		f.units.CountHolder(1)
		f.startAlarm(p.now())
		if p.recent.first != f {
			t.Error("the forward is not in the list")
		}
		f.release(0)
		if p.recent.first != nil {
			t.Error("the forward is in the list after its end")
		}
	})
}
