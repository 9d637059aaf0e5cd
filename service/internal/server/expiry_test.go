package server

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/service/internal/config"
)

// However many run out at once, others get the lock in between.
func TestManyRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Rules: &config.Rules{Rules: []config.Rule{
			{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 100}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		const many = 100_000
		for i := range many {
			if !s.leases.add(new(lease), s.now(), time.Second+time.Duration(i%1000)) {
				t.Fatal(i)
			}
		}
		s.leases.timer.Stop()
		time.Sleep(time.Minute)
		rounds := 0
		for left, more := many, true; more; rounds++ {
			var out []*lease
			out, more = s.leases.overdue()
			if left -= len(out); len(out) > expireAtOnce || s.leases.due.Len() != left || len(s.leases.of) != left {
				t.Fatalf("%d at once; %d and %d are left, want %d", len(out), s.leases.due.Len(), len(s.leases.of), left)
			}
		}
		if want := many/expireAtOnce + 1; rounds != want {
			t.Errorf("%d rounds, want %d", rounds, want)
		}
		for i := range 2*expireAtOnce + 1 {
			if _, err := s.Acquire(t.Context(), LeaseRequest{Key: fmt.Sprint(i), N: 1}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if n, _ := s.leases.count(); n > 0 {
			t.Errorf("%d have not run out", n)
		}
	})
}

// The one timer ends every lease at its time, in whatever order they are granted,
// renewed and returned.
func TestEachRunsOutAtItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Rules: &config.Rules{Rules: []config.Rule{
			{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 1}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		const many = 300
		ends := map[int]time.Duration{}
		start := time.Now()
		for i := range many {
			key := fmt.Sprint(i)
			ttl := time.Duration(i*7919%many+1) * time.Millisecond
			l, err := s.Acquire(t.Context(), LeaseRequest{Key: key, N: 1, TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			switch i % 3 {
			case 1:
				ttl = time.Duration(i*104729%many+1) * time.Millisecond
				if _, err := s.Renew(key, l.ID, ttl); err != nil {
					t.Fatal(err)
				}
			case 2:
				if err := s.Return(key, l.ID, 0); err != nil {
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
				key := fmt.Sprint(i)
				held := s.Explain(key).Rules[0].Lease.Inflight == 1
				if want := end > now; held != want {
					t.Fatalf("%v: lease %d until %v: held is %v", now, i, end, held)
				}
			}
		}
	})
}

// A lease has run out when its time is over, also if the timer is late.
func TestRunOutBeforeTheTimer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := New(Config{Rules: &config.Rules{Rules: []config.Rule{
			{Name: "jobs", Glob: "*", Concurrency: &config.Concurrency{Limit: 1}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		l, err := s.Acquire(t.Context(), LeaseRequest{Key: "a", N: 1, TTL: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Renew("a", l.ID, time.Second); err != nil { // which is sooner
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if n, _ := s.leases.count(); n > 0 {
			t.Error("it is held for as long as it was before it was renewed")
		}
		if l, err = s.Acquire(t.Context(), LeaseRequest{Key: "a", N: 1, TTL: time.Second}); err != nil {
			t.Fatal(err)
		}
		s.leases.timer.Stop()
		time.Sleep(time.Second)
		if _, err := s.Renew("a", l.ID, 0); err != ErrNoLease {
			t.Errorf("renewed: %v", err)
		}
		if err := s.Return("a", l.ID, 0); err != ErrNoLease {
			t.Errorf("returned: %v", err)
		}
		s.leases.expire()
		if st := s.Stats().Rules[0].Leases; st.Expired != 2 || st.Held != 0 {
			t.Errorf("%+v", st)
		}
	})
}
