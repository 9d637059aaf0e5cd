package allocator_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/allocator"
)

func TestSessionExtendsAssignmentsEverywhere(t *testing.T) {
	var session allocator.Session
	ended := 0
	cfg := allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl, Ended: func(*allocator.Member) { ended++ }}
	one, two := allocator.New(&cfg), allocator.New(&cfg)
	a, b := &allocator.Member{Session: &session}, &allocator.Member{Session: &session}
	report := func(now time.Duration, in *allocator.Allocator, m *allocator.Member) float64 {
		t.Helper()
		got, err := in.Report(now, m, allocator.Report{Wants: 1000, Has: m.Rate()})
		if err != nil {
			t.Fatal(err)
		}
		return got.Rate
	}
	session.Renew(ttl)
	report(0, one, a)
	report(0, two, b)
	for now := time.Duration(0); now <= 3*ttl; now += ttl / 2 {
		session.Renew(now + ttl)
		one.Expire(now)
		if !a.Live() {
			t.Fatalf("at %v the assignment has ended, but the session has not", now)
		}
	}
	if got := report(3*ttl+1, one, new(allocator.Member)); got != 0 {
		t.Errorf("another leaf gets %v", got)
	}
	if one.Expire(4*ttl - 1); !a.Live() {
		t.Error("without a report for almost four times to live")
	}
	session.Renew(10 * ttl)
	if one.Expire(4 * ttl); a.Live() {
		t.Error("without a report for four times to live, the assignment has not ended")
	}
	if got := report(4*ttl, one, a); got != 50 {
		t.Errorf("the leaf joins again, beside the other, and gets %v", got)
	}
	session.End()
	two.Expire(4 * ttl)
	if one.Expire(5 * ttl); a.Live() || b.Live() || ended != 4 {
		t.Errorf("after the end of the session: %v, %v, %d have ended", a.Live(), b.Live(), ended)
	}
}

func TestSessionThatIsNotRenewedEnds(t *testing.T) {
	var session allocator.Session
	a := allocator.New(&allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl})
	m := &allocator.Member{Session: &session}
	session.Renew(ttl)
	if _, err := a.Report(0, m, allocator.Report{Wants: 1}); err != nil {
		t.Fatal(err)
	}
	session.Renew(ttl * 3 / 2)
	if a.Expire(ttl*3/2 - 1); !m.Live() {
		t.Error("it ends before the session")
	}
	if a.Expire(ttl * 3 / 2); m.Live() {
		t.Error("it does not end with the session")
	}
}

// A quietLeaf reports only if it must: its wants have changed, it is watched, or it has to
// acknowledge a smaller assignment.
type quietLeaf struct {
	allocator.Member
	wants, has float64
	due        bool
}

// fleet has leaves of one Allocator.
type fleet struct {
	*allocator.Allocator
	t       *testing.T
	session allocator.Session // of all
	now     time.Duration
	leaves  []*quietLeaf
	reports int
}

func newFleet(t *testing.T, limit float64, n int) *fleet {
	f := &fleet{t: t}
	f.Allocator = allocator.New(&allocator.Config{
		Limit: allocator.Limit{Rate: limit}, TTL: 30 * time.Second, Silence: time.Hour, Watch: func(m *allocator.Member) { m.Owner.(*quietLeaf).due = true },
	})
	f.session.Renew(time.Hour)
	for range n {
		l := &quietLeaf{}
		l.Session = &f.session
		l.Owner = l
		f.leaves = append(f.leaves, l)
	}
	return f
}

// want changes what a leaf wants.
func (f *fleet) want(i int, wants float64) {
	f.leaves[i].wants, f.leaves[i].due = wants, true
}

// exchange lets all leaves that are due report, in an order.
func (f *fleet) exchange(order []int) {
	for _, i := range order {
		l := f.leaves[i]
		if !l.due {
			continue
		}
		f.reports++
		got, err := f.Report(f.now, &l.Member, allocator.Report{Wants: l.wants, Has: l.has})
		if err != nil {
			f.t.Fatal(err)
		}
		l.due = got.Contended && got.Rate < l.has*0.98 || got.Short
		l.has = got.Rate
		sum := 0.0
		if len(f.leaves) <= 100 {
			for _, l := range f.leaves {
				sum += l.has
			}
			if sum > f.Limit().Rate {
				f.t.Fatalf("at %v leaves have %v of %v", f.now, sum, f.Limit().Rate)
			}
		}
	}
	f.now += time.Second
}

// check compares with max-min fair shares: a leaf gets its share within 2 % or, while nothing
// is contended, what it wants.
func (f *fleet) check(what string) {
	f.t.Helper()
	byWants := slices.Clone(f.leaves)
	slices.SortFunc(byWants, func(l, m *quietLeaf) int { return cmp.Compare(l.wants, m.wants) })
	used, most, rest := 0.0, 0.0, f.Limit().Rate
	for i, l := range byWants {
		share := min(l.wants, rest/float64(len(byWants)-i))
		rest -= share
		used, most = used+min(l.has, l.wants), most+share
		if l.has < share*0.98-1e-9 || l.wants > share+1e-9 && l.has > share*1.02+0.3*math.Sqrt(share) {
			f.t.Fatalf("%s: leaf %d of %d by wants: wants %v, has %v, want %v", what, i, len(f.leaves), l.wants, l.has, share)
		}
	}
	if used < most*0.98 {
		f.t.Fatalf("%s: %v of %v can be used", what, used, most)
	}
}

// Leaves that report only if they must get fair shares, whatever the order of the reports.
func TestQuietLeavesGetFairShares(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		f := newFleet(t, 1000, 2+rnd.IntN(60))
		for round := range 20 {
			for i := range f.leaves {
				if round == 0 || rnd.IntN(4) == 0 {
					f.want(i, math.Exp(3*rnd.NormFloat64())*1000/float64(len(f.leaves)))
				}
			}
			for range 8 {
				f.exchange(rnd.Perm(len(f.leaves)))
			}
			f.check(fmt.Sprint("seed ", seed, ", round ", round))
		}
	}
}

// The demand of a leaf grows 15 times. It has its new share once each other leaf has exchanged and
// has acknowledged its smaller assignment.
func TestJumpIsServedAfterOneAcknowledgedExchange(t *testing.T) {
	f := newFleet(t, 1000, 20)
	order := rand.New(rand.NewPCG(1, 1)).Perm(20)
	for i := range f.leaves {
		f.want(i, 40)
	}
	for range 5 {
		f.exchange(order)
	}
	f.check("before")
	f.want(7, 600)
	f.exchange([]int{7})
	f.exchange(order) // the others hear of it
	f.exchange(order) // they acknowledge
	f.exchange([]int{7})
	f.check("after")
}

// Ten thousand leaves in contention report seldom while their demands change little.
func TestManyQuietLeaves(t *testing.T) {
	const n = 10_000
	f := newFleet(t, 100_000, n)
	rnd := rand.New(rand.NewPCG(9, 9))
	order := rnd.Perm(n)
	for i := range f.leaves {
		f.want(i, math.Exp(3*rnd.NormFloat64()))
	}
	for range 8 {
		f.exchange(order)
	}
	f.check("at first")
	f.reports = 0
	for range 10 {
		for range n / 100 {
			l := f.leaves[rnd.IntN(n)]
			l.wants, l.due = l.wants*(0.8+0.4*rnd.Float64()), true
		}
		f.exchange(order)
	}
	if f.reports > 5*n {
		t.Errorf("%d reports of %d changes of demand", f.reports, n/10)
	}
	for range 4 {
		f.exchange(order)
	}
	f.check("at last")
}

// Contention has hysteresis.
func TestContended(t *testing.T) {
	a := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl})
	for _, c := range []struct {
		wants float64
		want  bool
	}{{50, false}, {99, false}, {101, true}, {95, true}, {90, true}, {89, false}, {99, false}, {100.5, true}} {
		has := a.member("a").Rate()
		if got := a.report(0, "a", c.wants, has).Contended; got != c.want {
			t.Errorf("wants %v of 100: contended: %v", c.wants, got)
		}
	}
}

// A leaf that lacks what another still has makes the limit contended, and hears when that has
// given it back.
func TestShortLeaf(t *testing.T) {
	f := newFleet(t, 100, 2)
	f.want(0, 90)
	f.exchange([]int{0})
	f.want(0, 20)
	f.leaves[0].due = false // it does not say so yet
	f.want(1, 50)
	got, err := f.Report(f.now, &f.leaves[1].Member, allocator.Report{Wants: 10.5})
	if err != nil || !got.Short || !got.Contended || got.Rate >= 10.5 {
		t.Errorf("a second leaf gets %+v, %v", got, err)
	}
	if !f.leaves[0].due {
		t.Error("the leaf that has more than its share does not hear of it")
	}
	f.leaves[1].due = false
	f.exchange([]int{0})
	f.exchange([]int{0})
	if !f.leaves[1].due {
		t.Error("the short leaf does not hear of what has been given back")
	}
}
