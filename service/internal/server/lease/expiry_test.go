package lease

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

// A rig has a Registry, and one rule.
type rig struct {
	*Registry
	limits *Limits
	terms  config.Concurrency
}

func newRig(limit, most int) *rig {
	r := &rig{Registry: NewRegistry(clock.New(), waiting.NewRoom(10), most, nil), terms: config.Concurrency{Limit: config.Limit(limit)}}
	r.limits = r.newLimits("jobs", "", &r.terms)
	return r
}

func (r *rig) acquire(t *testing.T, key string, ttl time.Duration) decider.Lease {
	t.Helper()
	terms := rules.LeaseTerms{TTL: config.DefaultTTL, MaxTTL: 10 * config.DefaultTTL}
	l, err := r.Registry.acquire(context.Background(), &decider.LeaseRequest{Key: key, N: 1, TTL: ttl}, newPlan(0, terms, []Under{{Limits: r.limits, Bucket: key}}), new(Wait))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// TestManyExpire: however many leases expire at once, the lock is released in
// between.
func TestManyExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 100_000
		r := newRig(100, many)
		for i := range many {
			if err := r.add(&holding{SavedLease: SavedLease{N: 1}}, 0, r.clock.Now(), time.Second+time.Duration(i%1000)); err != nil {
				t.Fatal(i)
			}
		}
		r.timer.Stop()
		time.Sleep(time.Minute)
		rounds := 0
		for left, more := many, true; more; rounds++ {
			var out []*holding
			out, more = r.takeExpired()
			if left -= len(out); len(out) > expireAtOnce || r.due.Len() != left || len(r.held) != left {
				t.Fatalf("%d at once; %d and %d are left, want %d", len(out), r.due.Len(), len(r.held), left)
			}
		}
		if want := many/expireAtOnce + 1; rounds != want {
			t.Errorf("%d rounds, want %d", rounds, want)
		}
		for i := range 2*expireAtOnce + 1 {
			r.acquire(t, fmt.Sprint(i), 0)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n, _ := r.Count(); n > 0 {
			t.Errorf("%d have not expired", n)
		}
	})
}

// TestEachExpiresAtItsTime: the one timer ends every lease at its time, in whatever
// order they are granted, renewed and returned.
func TestEachExpiresAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const many = 300
		r := newRig(1, many)
		ends := map[int]time.Duration{}
		start := time.Now()
		for i := range many {
			key := fmt.Sprint(i)
			ttl := time.Duration(i*7919%many+1) * time.Millisecond
			l := r.acquire(t, key, ttl)
			switch i % 3 {
			case 1:
				ttl = time.Duration(i*104729%many+1) * time.Millisecond
				if _, err := r.renew(key, l.ID, ttl); err != nil {
					t.Fatal(err)
				}
			case 2:
				if err := r.giveBack(key, l.ID, 0); err != nil {
					t.Fatal(err)
				}
				continue
			}
			ends[i] = ttl
		}
		for range many {
			time.Sleep(time.Millisecond)
			synctest.Wait()
			now := time.Since(start)
			for i, end := range ends {
				held := r.limits.state(fmt.Sprint(i), 0, &r.terms).Inflight == 1
				if want := end > now; held != want {
					t.Fatalf("%v: lease %d until %v: held is %v", now, i, end, held)
				}
			}
		}
	})
}

// TestExpiredBeforeTheTimer: a lease has expired when its time is over, also if the
// timer is late.
func TestExpiredBeforeTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(1, 10)
		l := r.acquire(t, "a", time.Minute)
		if _, err := r.renew("a", l.ID, time.Second); err != nil { // which is sooner
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n, _ := r.Count(); n > 0 {
			t.Error("it is held for as long as before it was renewed")
		}
		l = r.acquire(t, "a", time.Second)
		r.timer.Stop()
		time.Sleep(time.Second)
		if _, err := r.renew("a", l.ID, 0); err != decider.ErrNoLease {
			t.Errorf("renewed: %v", err)
		}
		if err := r.giveBack("a", l.ID, 0); err != decider.ErrNoLease {
			t.Errorf("returned: %v", err)
		}
		r.expire()
		if st := r.limits.Stats(); st.Expired != 2 || st.Held != 0 {
			t.Errorf("%+v", st)
		}
	})
}
