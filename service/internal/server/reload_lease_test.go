package server_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
)

// A reload that does not concern a request that waits for several leases leaves it where
// it is.
func TestReloadKeepsPlacesForLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules := []config.Rule{single("first", "*1*"), single("second", "*2*")}
		d := newDesk(t, underAll(rules...))
		l := d.lease("2", 1)
		both := d.line(t.Context(), "12", 1) // holds a unit of the first
		later := d.line(t.Context(), "2", 1)
		d.rules(append(rules, single("third", "*3*"))...)
		must(t, d.Return("2", l.ID, weir.Success))
		check(t, "who came first", ended(both), "granted after 0s")
		check(t, "who came later", ended(later), still)
	})
}

// Rules that are inserted reach the requests that wait for leases. These stay before
// the requests that have the rule already, and before newcomers.
func TestReloadReachesThoseWhoWaitForLeases(t *testing.T) {
	jobs := single("jobs", "*")
	bubble(t, func(t *testing.T) {
		d := newDesk(t, server.Config{}, jobs)
		d.lease("x", 1)
		a, b := d.line(t.Context(), "a", 1), d.line(t.Context(), "b", 1)
		d.reload(config.First, single("inserted", "a"), jobs)
		check(t, "under the inserted rule", ended(a), "granted after 0s")
		check(t, "under the same rule", ended(b), still)
	})
	bubble(t, func(t *testing.T) {
		d := newDesk(t, underAll(jobs))
		l := d.lease("x", 1)
		a, b := d.line(t.Context(), "a", 1), d.line(t.Context(), "b", 1)
		d.rules(jobs, single("inserted", "a"))
		newcomer := d.line(t.Context(), "c", 1)
		check(t, "it holds a unit of the inserted rule", d.lease("a", 1).ID, "")
		must(t, d.Return("x", l.ID, weir.Success))
		check(t, "the first", ended(a), "granted after 0s")
		check(t, "the second", ended(b), still)
		check(t, "the newcomer", ended(newcomer), still)
	})
}

// The bound on a wait for a lease counts from its beginning, whatever the rules are
// meanwhile.
func TestReloadKeepsTheBoundOfWaitsForLeases(t *testing.T) {
	bubble(t, func(t *testing.T) {
		jobs := single("jobs", "*")
		jobs.Concurrency.MaxWait = 10 * time.Second
		first, more := single("first", "a"), single("more", "a")
		d := newDesk(t, underAll(first, jobs))
		d.lease("x", 1)
		wait := d.line(t.Context(), "a", 1)
		for _, rules := range [][]config.Rule{{first, jobs, more}, {jobs}, {first, jobs}} {
			time.Sleep(3 * time.Second)
			d.rules(rules...)
			check(t, "the wait", ended(wait), still)
		}
		time.Sleep(time.Second)
		check(t, "the wait", ended(wait), "rejected: overdue after 10s")
		check(t, "overdue", d.Stats().Rules[1].Leases.Refused[weir.Overdue], 1)
		check(t, "waiting", d.Waiting(), 0)
	})
}
