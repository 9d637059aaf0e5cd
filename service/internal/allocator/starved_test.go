package allocator_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir/service/internal/allocator"
)

// A leaf joins a large fleet, in which all demands change all the time. It has its share soon: it comes before
// leaves that have nearly all of their shares.
func TestNewcomerToALargeFleet(t *testing.T) {
	const n, rounds = 1000, 4
	for seed := range uint64(3) {
		rnd := rand.New(rand.NewPCG(seed, 7))
		f := newFleet(t, 100*n, n+1)
		change := func() {
			for i := range n {
				f.want(i, 200*float64(i)/n*(0.95+0.1*rnd.Float64())+50)
			}
		}
		for range 10 {
			change()
			f.exchange(rnd.Perm(n))
		}
		newcomer := f.leaves[n]
		for range rounds {
			f.want(n, 1000)
			change()
			f.exchange(rnd.Perm(n + 1))
		}
		share := f.leaves[n-1].has // it wants more than it gets, too
		if newcomer.has < 0.95*share {
			t.Errorf("seed %d: after %d exchanges the newcomer has %.1f of %.1f", seed, rounds, newcomer.has, share)
		}
	}
}

// A leaf that lacks a part of its share and then ends, or wants no more, holds nothing back from others.
func TestStarvedLeafThatEnds(t *testing.T) {
	for name, end := range map[string]func(*fleet){
		"leaves":        func(f *fleet) { f.leaves[1].Leave(f.now); f.leaves[1].has, f.leaves[1].due = 0, false },
		"wants nothing": func(f *fleet) { f.want(1, 0) },
	} {
		f := newFleet(t, 100, 3)
		f.want(0, 80)
		f.exchange([]int{0})
		f.want(1, 60)
		f.exchange([]int{1}) // leaf 0 still has what it needs
		if got := f.leaves[1].has; got > 20 {
			t.Fatalf("leaf 1 has %v", got)
		}
		end(f)
		for _, wants := range []float64{14, 14.5} {
			f.want(2, wants)
			for range 4 {
				f.leaves[0].due, f.leaves[2].due = true, true
				f.exchange([]int{0, 1, 2})
			}
		}
		if got := f.leaves[2].has; got < 14.5 {
			t.Errorf("%s: leaf 2 has %v, wants 14.5", name, got)
		}
	}
}

// A starved leaf that is lost holds nothing back from others but what is kept for it.
func TestStarvedLeafThatIsLost(t *testing.T) {
	a := allocator.New(&allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl, Reserve: 10 * ttl})
	var lost allocator.Session
	lost.Renew(ttl)
	big, starved, small := new(allocator.Member), &allocator.Member{Session: &lost}, new(allocator.Member)
	has := map[*allocator.Member]float64{}
	report := func(now time.Duration, m *allocator.Member, wants float64) {
		got, err := a.Report(now, m, allocator.Report{Wants: wants, Has: has[m]})
		if err != nil {
			t.Fatal(err)
		}
		has[m] = got.Rate
	}
	report(0, big, 80)
	report(0, starved, 60)
	report(ttl/2, big, 30)
	for _, wants := range []float64{14, 14, 14.5, 14.5} {
		report(ttl+ttl/4, big, 30)
		report(ttl+ttl/4, small, wants)
	}
	if a.Held() < has[big]+has[small]+1 {
		t.Error("want something to be kept")
	}
	if has[small] < 14.5 {
		t.Errorf("the small leaf has %v, wants 14.5", has[small])
	}
}

// Of leaves that join one after another, the first gets half of the limit before it is known that it wants a tenth. Until it gives that back,
// another leaf that wants hardly more than it has leaves enough to the last one.
func TestGrowthLeavesFreeWhatOthersWant(t *testing.T) {
	a := allocator.New(&allocator.Config{Limit: allocator.Limit{Rate: 100}, TTL: ttl})
	wants := []float64{10.3, 27.1, 14.9}
	leaves, has := make([]allocator.Member, len(wants)), make([]float64, len(wants))
	report := func(now time.Duration, i int, r allocator.Report) {
		got, err := a.Report(now, &leaves[i], r)
		if err != nil {
			t.Fatal(err)
		}
		has[i] = got.Rate
	}
	for i := range wants {
		report(0, i, allocator.Report{Wants: 1, Join: true})
	}
	for _, i := range []int{1, 0, 2} {
		report(5*time.Second, i, allocator.Report{Wants: wants[i], Has: has[i]})
	}
	for i, want := range wants {
		if has[i] < 1.1*want {
			t.Errorf("leaf %d wants %v, and has %.1f", i, want, has[i])
		}
	}
}
