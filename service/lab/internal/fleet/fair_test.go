package fleet

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// Shares up to the level use the limit, or all get what they want.
func TestLevel(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	for range 200 {
		wants, sum := make([]float64, 1+rnd.IntN(20)), 0.0
		for i := range wants {
			wants[i] = float64(rnd.IntN(100))
			sum += wants[i]
		}
		limit := sum * 1.2 * rnd.Float64()
		got, used := level(wants, limit), 0.0
		for _, want := range wants {
			used += min(want, got)
		}
		if enough := limit >= sum; enough != math.IsInf(got, 1) && limit != sum || !enough && math.Abs(used-limit) > 1e-6 {
			t.Fatalf("%v of %v: level %v uses %v", wants, limit, got, used)
		}
	}
}

// A source makes requests at the rates of its streams.
func TestSource(t *testing.T) {
	s := source{rng: rand.New(rand.NewPCG(1, 2))}
	s.set(0, []stream{{0, 300, false}, {1, 100, false}, {2, 50, true}})
	var counts [3]int
	before := time.Duration(0)
	for {
		at, key, ok := s.pop(100 * time.Second)
		if !ok {
			break
		}
		if at < before {
			t.Fatalf("%v after %v", at, before)
		}
		before = at
		counts[key]++
	}
	for key, want := range []float64{30_000, 10_000, 5000} {
		if deviation := math.Abs(float64(counts[key]) - want); deviation > 4*math.Sqrt(want) || key == 2 && deviation > 1 {
			t.Errorf("key %d: %d requests, want about %v", key, counts[key], want)
		}
	}
	s.set(0, nil)
	if _, _, ok := s.pop(never); ok {
		t.Error("a source without streams makes a request")
	}
}

func TestLoad(t *testing.T) {
	l := newLoad(Demand{
		Rate: 100, LeafSkew: 1, From: 10 * time.Second, Until: 50 * time.Second, On: 5 * time.Second, Off: 5 * time.Second,
		Group:   Group{First: 1, Every: 2},
		Changes: []Change{{At: 30 * time.Second, Factor: 3, Group: Group{First: 3, Leaves: 1}}},
	}, 4, 1, 5)
	for _, c := range []struct {
		at    time.Duration
		leaf  int
		key   int32
		wants float64
	}{
		{0, 1, 4, 0}, {10, 1, 4, 100 / 1.5}, {10, 3, 4, 50 / 1.5}, {10, 0, 4, 0}, {10, 1, 3, 0}, {16, 1, 4, 0}, {20, 1, 4, 100 / 1.5},
		{30, 3, 4, 150 / 1.5}, {30, 1, 4, 100 / 1.5}, {50, 3, 4, 0},
	} {
		l.change(c.at * time.Second)
		if got := l.rate(c.leaf, c.key); math.Abs(got-c.wants) > 1e-9 {
			t.Errorf("at %d s, leaf %d has %v, want %v", c.at, c.leaf, got, c.wants)
		}
	}
}

// A window exceeds what a limit allows in any: burst + refill.
func TestOver(t *testing.T) {
	l := limited{rate: 100, burst: 50}
	for _, c := range []struct {
		allowed int
		d       time.Duration
		want    float64
	}{{150, time.Second, 0}, {151, time.Second, 0.01}, {1050, 10 * time.Second, 0}, {1150, 10 * time.Second, 0.1}, {0, time.Second, 0}} {
		if got := over(c.allowed, l, c.d); math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%d in %v: %v, want %v", c.allowed, c.d, got, c.want)
		}
	}
}

// A jump counts as served when the share lasts, not while a full bucket serves it.
func TestJumpResult(t *testing.T) {
	counts := make([]uint32, 600)
	for i := range counts {
		switch {
		case i < 20: // the bucket
			counts[i] = 3
		case i >= 150: // the share: 100 a second
			counts[i] = 1
		}
	}
	j := jump{Jump: Jump{Share: 100}, counts: counts}
	if got := j.result().Served; got < 1400*time.Millisecond || got > 1500*time.Millisecond {
		t.Errorf("served after %v, want about 1.5 s", got)
	}
	j.Share = 200
	if got := j.result().Served; got != -1 {
		t.Errorf("served after %v, want never", got)
	}
}
