package allocator_test

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/allocator"
)

const ttl = 10 * time.Second

// A share is an Allocator with named members.
type share struct {
	*allocator.Allocator
	t       testing.TB
	members map[string]*allocator.Member
}

// A report is one of a named leaf.
type report struct {
	leaf string
	allocator.Report
}

func newShare(t testing.TB, cfg allocator.Config) *share {
	return &share{allocator.New(&cfg), t, map[string]*allocator.Member{}}
}

func (s *share) member(name string) *allocator.Member {
	if s.members[name] == nil {
		s.members[name] = &allocator.Member{Owner: name}
	}
	return s.members[name]
}

func (s *share) report(now time.Duration, leaf string, wants, has float64) allocator.Assignment {
	s.t.Helper()
	return s.take(now, report{leaf, allocator.Report{Wants: wants, Has: has}})
}

func (s *share) take(now time.Duration, r report) allocator.Assignment {
	s.t.Helper()
	got, err := s.Report(now, s.member(r.leaf), r.Report)
	if err != nil {
		s.t.Fatal(err)
	}
	return got
}

// rounds lets leaves report a number of times, and returns what they have at the end.
func (s *share) rounds(n int, leaves []report) []float64 {
	s.t.Helper()
	has := make([]float64, len(leaves))
	for round := range n {
		for i, r := range leaves {
			r.Has = has[i]
			has[i] = s.take(time.Duration(round)*time.Second, r).Rate
		}
	}
	return has
}

// fair computes max-min fair shares by raising all shares together.
func fair(leaves []report, limit float64) []float64 {
	share, open := make([]float64, len(leaves)), map[int]bool{}
	for i := range leaves {
		open[i] = true
	}
	for limit > 1e-9 && len(open) > 0 {
		weights, step := 0.0, math.Inf(1)
		for i := range open {
			weights += leaves[i].Weight
			step = min(step, (leaves[i].Wants-share[i])/leaves[i].Weight)
		}
		step = min(step, limit/weights)
		for i := range open {
			share[i] += step * leaves[i].Weight
			limit -= step * leaves[i].Weight
			if leaves[i].Wants-share[i] < 1e-9 {
				delete(open, i)
			}
		}
	}
	return share
}

// fairly reports whether a leaf has its max-min fair share: all it wants with some headroom, or the
// share but for a hundredth, of which the headroom of others is made.
func fairly(has, share float64) bool {
	return has > share*0.989-1e-6 && has < share+1e-6+0.3*math.Sqrt(share)
}

func TestSharesAreMaxMinFair(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		var leaves []report
		wants := 0.0
		for i := range 2 + rnd.IntN(20) {
			leaves = append(leaves, report{fmt.Sprint(i), allocator.Report{Wants: float64(rnd.IntN(100)), Weight: float64(1 + rnd.IntN(3))}})
			wants += leaves[i].Wants
		}
		limit := 1 + wants*rnd.Float64()
		got := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: limit}, TTL: ttl}).rounds(4, leaves)
		for i, want := range fair(leaves, limit) {
			if limit <= wants && !fairly(got[i], want) {
				t.Fatalf("limit %v, leaf %d of %+v: %v, want %v", limit, i, leaves, got[i], want)
			}
		}
	}
}

func TestRestIsSharedWithAPartForANewcomer(t *testing.T) {
	a := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: 100, Burst: 10}, TTL: ttl})
	got := a.rounds(3, []report{wanting("a", 10), wanting("b", 30)})
	if want := []float64{20.2, 40.5}; math.Abs(got[0]-want[0])+math.Abs(got[1]-want[1]) > 0.1 {
		t.Errorf("shares %v, want %v", got, want)
	}
	c := a.report(3*time.Second, "c", 10, 0)
	if math.Abs(c.Rate-16.4) > 0.1 || math.Abs(c.Burst-2) > 0.1 || c.Until != 13*time.Second {
		t.Errorf("a newcomer has %+v, want a rate of 16.4 and a burst of 2 until 13 s", c)
	}
}

func TestFewerTokensForOneAreMoreForOthersOnceItSaysSo(t *testing.T) {
	a := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl})
	a.report(0, "a", 1000, 0)
	first := a.report(0, "a", 1000, 0).Rate
	if first != 100 {
		t.Fatalf("alone: %v, want 100", first)
	}
	if got := a.report(1, "b", 1000, 0).Rate; got != 0 {
		t.Errorf("while a has all: %v", got)
	}
	half := a.report(2, "a", 1000, first).Rate
	if half != 50 {
		t.Errorf("a's next share is %v, want 50", half)
	}
	if got := a.report(3, "b", 1000, 0).Rate; got != 0 {
		t.Errorf("b has %v while a may not have heard", got)
	}
	a.report(4, "a", 1000, half)
	if got := a.report(5, "b", 1000, 0).Rate; got != 50 {
		t.Errorf("b has %v once a has 50", got)
	}
}

func TestExpiredAndLeavingLeavesGiveBack(t *testing.T) {
	a := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl})
	a.report(0, "a", 1000, 0)
	if got := a.report(ttl-1, "b", 100, 0); got.Rate != 0 {
		t.Errorf("before a's end: %v", got)
	}
	if got := a.report(ttl, "b", 100, 0); got.Rate != 100 {
		t.Errorf("after a's end: %v", got)
	}
	a.member("b").Leave(ttl)
	a.member("unknown").Leave(ttl)
	if got := a.report(ttl, "c", 100, 0); got.Rate != 100 {
		t.Errorf("after b left: %v", got)
	}
	a.Expire(3 * ttl)
	if n := a.Members(); n != 0 {
		t.Errorf("at the end, %d leaves have an assignment", n)
	}
	if got := a.report(3*ttl, "d", 100, 0); got.Rate != 100 {
		t.Errorf("after the end: %v", got)
	}
}

func TestLearning(t *testing.T) {
	a := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl, Learn: ttl})
	for _, c := range []struct {
		leaf      string
		has, want float64
	}{{"new", 0, 0}, {"a", 60, 60}, {"b", 30, 30}, {"liar", 50, 10}} {
		if got := a.report(1, c.leaf, 100, c.has).Rate; math.Abs(got-c.want) > 1e-6 {
			t.Errorf("%s has %v, gets %v while the allocator learns, want %v", c.leaf, c.has, got, c.want)
		}
	}
}

func TestLimitChanges(t *testing.T) {
	a := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl})
	a.report(0, "a", 100, 0)
	a.SetLimit(allocator.Limit{Rate: 10})
	if got := a.report(1, "a", 100, 100).Rate; got != 10 {
		t.Errorf("a has %v of 10", got)
	}
	a.SetLimit(allocator.Limit{})
	if got := a.report(2, "a", 100, 10); got.Limit != (allocator.Limit{}) {
		t.Errorf("a has %v of nothing", got)
	}
}

func TestBadReports(t *testing.T) {
	a := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl})
	for _, r := range []allocator.Report{{Wants: -1}, {Wants: math.NaN()}, {Wants: math.Inf(1)}, {Has: -1}, {Weight: -1}, {Weight: math.NaN()}, {Keep: -1}, {Keep: 1}, {Keep: math.NaN()}} {
		if _, err := a.Report(0, a.member("a"), r); !errors.Is(err, allocator.ErrReport) {
			t.Errorf("%+v: %v", r, err)
		}
	}
	if a.member("a").Live() || a.Members() > 0 {
		t.Error("a bad report makes a leaf known")
	}
}

func TestSmallChangesAreKept(t *testing.T) {
	a := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl})
	has := a.rounds(4, []report{keeping("a", 200), keeping("b", 200)})
	for _, c := range []struct{ wants, want float64 }{{46, 50}, {43, 43.56}, {46, 43.56}, {50, 50}} {
		if got := a.take(3*time.Second, report{"a", allocator.Report{Wants: c.wants, Has: has[0], Keep: .1}}).Rate; math.Abs(got-c.want) > 0.2 {
			t.Errorf("a wants %v, has %v, gets %v; want %v", c.wants, has[0], got, c.want)
		} else {
			has[0] = got
		}
	}
}

func wanting(leaf string, wants float64) report { return report{leaf, allocator.Report{Wants: wants}} }

func keeping(leaf string, wants float64) report {
	return report{leaf, allocator.Report{Wants: wants, Keep: .1}}
}

// A client is a leaf with a bucket. Its answers can be late or lost.
type client struct {
	report
	session     allocator.Session
	has, tokens float64
	burst       float64
	until       time.Duration
	answers     []allocator.Assignment // on their way, by the instants of the calls
	due         []time.Duration
}

// receive takes the answers that have come, and refills the bucket from an instant.
func (c *client) receive(from, now time.Duration) {
	for len(c.due) > 0 && c.due[0] <= now {
		if got := c.answers[0]; got.Until >= c.until {
			c.has, c.burst, c.until = got.Rate, got.Burst, got.Until
			c.tokens = min(c.tokens, c.burst)
		}
		c.answers, c.due = c.answers[1:], c.due[1:]
	}
	if c.until <= now {
		c.has, c.tokens = 0, 0
	}
	c.tokens = min(c.tokens+c.has*(now-from).Seconds(), c.burst)
}

// Leaves come, go, are restarted, change their demands, and lose answers; the limit is
// never exceeded.
func TestLeavesNeverExceedTheLimit(t *testing.T) {
	const limit, burst, step = 1000, 50, 100 * time.Millisecond
	for seed := range uint64(20) {
		rnd := rand.New(rand.NewPCG(seed, 2))
		a := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: limit, Burst: burst}, TTL: ttl})
		clients := map[int]*client{}
		least := 0.0 // of spent - limit·t until now
		spent := 0.0
		for now := time.Duration(0); now < 2*time.Minute; now += step {
			has := 0.0
			for id := range 20 {
				c := clients[id]
				switch {
				case c == nil && rnd.IntN(50) == 0:
					c = &client{report: report{fmt.Sprint(id, now), allocator.Report{Weight: float64(1 + rnd.IntN(2))}}}
					if clients[id] = c; rnd.IntN(2) == 0 {
						a.member(c.leaf).Session = &c.session
					}
					continue
				case c == nil:
					continue
				case rnd.IntN(500) == 0:
					delete(clients, id) // without a word
					continue
				case rnd.IntN(20) == 0:
					c.Wants = rnd.Float64() * limit / 4
				}
				c.receive(now-step, now)
				if a.member(c.leaf).Session != nil && rnd.IntN(10) == 0 {
					if c.session.Renew(now + ttl); c.until > now && rnd.IntN(10) > 0 {
						c.until = now + ttl // an exchange without reports: its answer arrives
					}
				}
				use := min(c.tokens, c.Wants*step.Seconds())
				c.tokens -= use
				spent += use
				has += c.has
				if len(c.due) == 0 && rnd.IntN(10) == 0 {
					c.Has = c.has
					got := a.take(now, c.report)
					if rnd.IntN(10) > 0 {
						c.answers, c.due = append(c.answers, got), append(c.due, now+time.Duration(rnd.IntN(3))*step)
					}
				}
			}
			if has > limit+1e-6 {
				t.Fatalf("seed %d: at %v leaves have %v of %v", seed, now, has, limit)
			}
			above := spent - limit*now.Seconds()
			least = min(least, above)
			if above-least > burst+limit*step.Seconds()+1e-6 {
				t.Fatalf("seed %d: at %v leaves have spent %v more than the rate allows", seed, now, above-least)
			}
		}
	}
}

func TestTenThousandLeavesConverge(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 3))
	var leaves []report
	for i := range 10_000 {
		leaves = append(leaves, report{fmt.Sprint(i), allocator.Report{Wants: math.Exp(3 * rnd.NormFloat64()), Weight: 1}})
	}
	const limit = 100_000
	a := newShare(t, allocator.Config{Limit: allocator.Limit{Rate: limit}, TTL: ttl})
	got := a.rounds(4, leaves)
	by := make([]int, len(leaves))
	for i := range by {
		by[i] = i
	}
	slices.SortFunc(by, func(i, j int) int { return cmp.Compare(leaves[i].Wants, leaves[j].Wants) })
	rest, worst := float64(limit), 0.0
	for at, i := range by {
		want := min(leaves[i].Wants, rest/float64(len(by)-at))
		rest -= want
		if !fairly(got[i], want) {
			worst = max(worst, math.Abs(got[i]-want)/want)
		}
	}
	if rest > 1 || worst > 0 {
		t.Errorf("after four reports of each, a share is off by %.2f %%; %.1f of %d are not shared out", 100*worst, rest, limit)
	}
}

func BenchmarkReport(b *testing.B) {
	for _, n := range []int{10, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			a := allocator.New(&allocator.Config{Limit: allocator.Limit{Rate: 1000}, TTL: ttl})
			rnd := rand.New(rand.NewPCG(3, 3))
			members := make([]allocator.Member, n)
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				m := &members[i%n]
				if _, err := a.Report(0, m, allocator.Report{Wants: rnd.Float64(), Has: m.Rate()}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
