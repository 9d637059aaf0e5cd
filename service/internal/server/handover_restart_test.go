package server_test

import (
	"strings"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A member continues from its own snapshot, and hands over what it had in it. A Server of
// another fleet, or of none, has no use for the counts and the grants.
func TestSnapshotOfAMember(t *testing.T) {
	bubble(t, func(t *testing.T) {
		tokens, leases := one("tokens", quota(10, time.Hour, config.GCRA)), leased("leases", config.Concurrency{Limit: 3, TTL: time.Hour})
		tokens.Glob, leases.Glob = "k*", "l*"
		rules := &config.Rules{Rules: []config.Rule{tokens, leases}}
		f := newFleet(t, 2, *rules)
		a := f.members[0]
		v := a.ask("k", 3)
		settled, open := a.AppendGrantID(nil, v.Grant, "k"), a.AppendGrantID(nil, v.Grant, "k")
		_, err := a.Settle("k", string(settled), 2)
		must(t, err)
		l := a.mustAcquire("l", 2)
		file := a.snapshot()

		time.Sleep(time.Second)
		again, done := a.next(server.Config{Fleet: "secret", Rules: rules}, file)
		check(t, "rules that go on", done.Rules, 1)
		check(t, "skipped", strings.Join(done.Skipped, "; "), "")
		f.members[0] = again
		f.move(slot.All(), 1)
		b := f.members[1]
		b.allows("k", 8, 9)
		_, err = b.Settle("k", string(settled), 2)
		check(t, "settled before", err, decider.ErrNoGrant)
		_, err = b.Settle("k", string(open), 2)
		must(t, err)
		check(t, "units in flight", b.mustAcquire("l", 1).Inflight, 3)
		must(t, b.Return("l", l.ID, weir.Success))

		for _, cfg := range []server.Config{{Rules: rules}, {Fleet: "another", Rules: rules}} {
			other, done := a.next(cfg, file)
			if all := strings.Join(done.Skipped, "\n"); done.Rules != 0 || !strings.Contains(all, `counts of rule "tokens"`) {
				t.Errorf("%+v", done)
			}
			twin, _ := a.next(server.Config{Rules: rules}, file)
			ours, theirs := other.AppendGrantID(nil, other.ask("k", 1).Grant, "k"), twin.AppendGrantID(nil, twin.ask("k", 1).Grant, "k")
			_, err := other.Settle("k", string(theirs), 1)
			check(t, "a grant of another process with the snapshot", err, decider.ErrNoGrant)
			_, err = other.Settle("k", string(ours), 1)
			must(t, err)
			other.allows("k", 9, 10)
			_, err = other.Settle("k", string(open), 1)
			check(t, "a grant of another fleet", err, decider.ErrNoGrant)
			check(t, "units in flight", other.mustAcquire("l", 1).Inflight, 3)
			must(t, other.Return("l", l.ID, weir.Success))
		}
	})
}

// A Server that was alone can join a fleet. Its leases are held, and other members can adopt
// its next leases.
func TestSnapshotFromBeforeTheFleet(t *testing.T) {
	bubble(t, func(t *testing.T) {
		rules := &config.Rules{Rules: []config.Rule{leased("all", config.Concurrency{Limit: 3, TTL: time.Hour})}}
		alone := newDesk(t, server.Config{Rules: rules})
		l := alone.mustAcquire("k", 1)
		f := newFleet(t, 2, *rules)
		f.members[0], _ = alone.next(server.Config{Fleet: "secret", Rules: rules}, alone.snapshot())
		next := f.members[0].mustAcquire("k", 2)
		check(t, "units in flight", next.Inflight, 3)
		must(t, f.members[0].Return("k", l.ID, weir.Success))
		f.members[1].Expect(slot.All(), 0)
		_, err := f.members[1].Renew("k", next.ID, 0)
		must(t, err)
	})
}
