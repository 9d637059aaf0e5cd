package server_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// The clock of the computer is set after a run has begun: before its snapshot, or between
// that and the next run. A decision in a run does not depend on that clock (internal/floors
// checks it). The next run refills buckets for the time that the clock says has passed: set
// back, for none. Windows end when their time has come. Grants can be settled for an hour of
// that clock, and once. Leases, which last as long as they had left, do not depend on it.
func TestClockIsSetBetweenRuns(t *testing.T) {
	const hour = time.Hour
	algorithms := []config.Algorithm{config.GCRA, config.Fixed, config.Sliding}
	for _, row := range []struct {
		set     time.Duration
		allowed [3]int // of 10 in 2 hours, after 10, by algorithm
		settles bool
	}{
		{-20 * 365 * 24 * hour, [3]int{0, 0, 0}, true},
		{-hour, [3]int{0, 0, 0}, true},
		{0, [3]int{0, 0, 0}, true},
		{hour / 2, [3]int{2, 0, 0}, true},
		{hour + time.Second, [3]int{5, 0, 0}, false},
		{2 * hour, [3]int{10, 10, 0}, false},
		{20 * 365 * 24 * hour, [3]int{10, 10, 10}, false},
	} {
		for i, a := range algorithms {
			for _, crashed := range []bool{false, true} {
				t.Run(fmt.Sprint(row.set, " ", a, " crashed ", crashed), func(t *testing.T) {
					const begin = 30 * 365 * 24 * hour // after that of all bubbles, which is 2000
					rules := underAll(one("rate", quota(10, 2*hour, a)), jobs(1))
					var kept []byte
					var held, unsaved, settled, grant string
					var token uint64
					bubble(t, func(t *testing.T) {
						time.Sleep(begin)
						last := newDesk(t, rules)
						last.allows("a", 8, 8)
						settled, grant = last.grant(1), last.grant(1)
						_, err := last.Settle("a", settled, 1)
						must(t, err)
						held = last.leases("a", 1, 1)[0]
						if crashed {
							kept = last.saves()
						}
						l := last.lease("b", 1)
						unsaved, token = l.ID, l.Token
						if !crashed {
							kept = last.snapshot()
						}
					})
					bubble(t, func(t *testing.T) {
						time.Sleep(begin + row.set)
						next := newDesk(t, rules)
						_, err := next.Restore(sourceOf(kept))
						must(t, err)
						next.allows("a", row.allowed[i], 11)
						_, err = next.Settle("a", settled, 0)
						check(t, "a grant that was settled", err, decider.ErrNoGrant)
						if _, err = next.Settle("a", grant, 1); (err == nil) != row.settles {
							t.Errorf("a grant: %v", err)
						}
						next.leases("a", 0, 1)
						next.leases("b", 0, 1)
						for what, lease := range map[string][2]string{"saved": {"a", held}, "granted": {"b", unsaved}} {
							if _, err := next.Renew(lease[0], lease[1], 0); err != nil {
								t.Errorf("the lease that was %s: %v", what, err)
							}
						}
						next.leases("a", 0, 1)
						waiter := next.line(t.Context(), "a", 1)
						time.Sleep(3 * time.Minute) // the longest time of a lease, and of a recovery
						synctest.Wait()
						if crashed { // nothing waits in a recovery
							next.leases("a", 1, 2)
						} else {
							check(t, "the waiter", <-waiter, "granted after 1m0s")
						}
						if l := next.lease("c", 1); l.Token <= token {
							t.Errorf("token %d after %d", l.Token, token)
						}
						time.Sleep(2 * hour) // set back, a window or an empty bucket lasts no longer
						if a == config.Sliding {
							time.Sleep(2 * hour)
						}
						next.allows("a", 10, 11)
					})
				})
			}
		}
	}
}

// The clock of a computer without a battery is decades behind when it starts, and is set
// then. However often that happens, the next run can read the state: no key gets tokens
// twice, a grant is settled once, and leases are held.
func TestDecadesPassBetweenRuns(t *testing.T) {
	const decades = 56 * 365 * 24 * time.Hour
	rules := underAll(one("rate", quota(10, 2*time.Hour, config.Fixed)), jobs(1))
	var kept []byte
	var grant, lease string
	for range 4 {
		for _, behind := range []bool{true, false} {
			bubble(t, func(t *testing.T) {
				if !behind {
					time.Sleep(decades)
				}
				d := newDesk(t, rules)
				if kept != nil {
					_, err := d.Restore(sourceOf(kept))
					must(t, err)
					must(t, d.Return("a", lease, weir.Success))
				}
				if behind && kept != nil { // no time has passed
					_, err := d.Settle("a", grant, 0)
					must(t, err)
					d.allows("a", 1, 2)
				} else {
					d.allows("a", 9, 9)
					grant = d.grant(1)
					d.allows("a", 0, 1)
				}
				lease = d.leases("a", 1, 2)[0]
				time.Sleep(30 * time.Second)
				kept = d.snapshot()
			})
		}
	}
}
