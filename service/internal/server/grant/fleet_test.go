package grant

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/siphash"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A member is a Fleet with its clock.
type member struct {
	*Fleet
	t *testing.T
}

func newMember(t *testing.T, pages int) member {
	f := NewFleet(siphash.Key{K0: 7}, clock.New())
	f.maxPages = pages
	return member{f, t}
}

func (m member) grant() string {
	return string(m.AppendGrantID(nil, decider.Grant{N: 2, At: m.clock.Now(), Rules: 5}, "a"))
}

func (m member) settles(what, id string, want bool) {
	m.t.Helper()
	g, which, err := m.Redeem(id, "a", []uint64{4, 5}, m.clock.Now())
	if (err == nil) != want || want && (g.N != 2 || g.Rules != 5 || which != 1) {
		m.t.Errorf("%s: %+v, %v: want it to be settled: %t", what, g, err, want)
	}
}

// tell hands the settled grants over.
func (m member) tell(to member) {
	for p := range m.Pages() {
		if !p.Valid() {
			m.t.Error("an invalid page")
		}
		to.RestorePage(p)
	}
}

func TestFleetSettlesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMember(t, MaxPages)
		time.Sleep(3 * time.Hour)
		b := newMember(t, MaxPages)
		at := a.clock.Now()
		for i := range 200 {
			first, second := a.grant(), b.grant()
			time.Sleep(time.Duration(i) * time.Second)
			b.settles("of another member", first, true)
			b.settles("its own", second, true)
			b.tell(a)
			a.tell(b)
			a.settles("settled there", first, false)
			b.settles("again", second, false)
			if g, _, err := a.Redeem(a.grant(), "a", []uint64{5}, a.clock.Now()); err != nil || g.At < a.clock.Now()-time.Millisecond || g.At > a.clock.Now() {
				t.Fatalf("at %v of %v: %v", g.At, a.clock.Now(), err)
			}
		}
		if spent := a.clock.Now() - at; len(a.pages) > 2*70 || spent < decider.GrantLife {
			t.Errorf("%d pages after %v", len(a.pages), spent)
		}
		old := a.grant()
		time.Sleep(decider.GrantLife + time.Millisecond)
		a.settles("too old", old, false)
		a.settles("nonsense", old[1:], false)
		other := member{NewFleet(siphash.Key{K0: 8}, clock.New()), t}
		other.settles("of another fleet", a.grant(), false)
	})
}

// An instant before the member has started is told as such.
func TestFleetGrantsAreOlderThanTheMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMember(t, MaxPages)
		id := a.grant()
		time.Sleep(time.Minute)
		b := newMember(t, MaxPages)
		if g, _, err := b.Redeem(id, "a", []uint64{5}, b.clock.Now()); err != nil || g.At < -time.Minute || g.At > -time.Minute+time.Millisecond {
			t.Errorf("%v, %v", g.At, err)
		}
	})
}

// If there are more pages than there is room for, old grants cannot be settled any more, rather
// than twice.
func TestFleetForgetsTheOldest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newMember(t, 3)
		var all []string
		for range 10 {
			all = append(all, a.grant())
			a.settles("at first", all[len(all)-1], true)
			time.Sleep(2 * time.Minute)
		}
		for _, id := range all {
			a.settles("again", id, false)
		}
		if life := a.Life(0); len(a.pages) > 3 || life < 4*time.Minute || life > 8*time.Minute {
			t.Errorf("%d pages for %v", len(a.pages), life)
		}
		state := a.State()
		b := newMember(t, 100)
		b.Restore(state, true)
		a.tell(b)
		for _, id := range all {
			b.settles("after a restart", id, false)
		}
		fresh := newMember(t, 100)
		if life := fresh.Life(0); life != decider.GrantLife {
			t.Errorf("life: %v", life)
		}
		pages := slices.Collect(a.Pages())
		fresh.RestorePage(Page{At: 1, Settled: pages[0].Settled})
		fresh.RestorePage(pages[0])
		if len(fresh.pages) != 1 {
			t.Errorf("%d pages: want none that is too old", len(fresh.pages))
		}
	})
}
