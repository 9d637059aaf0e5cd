package fleet

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/lab/dist"
)

func env(name string, v float64) float64 {
	if s := os.Getenv(name); s != "" {
		v, _ = strconv.ParseFloat(s, 64)
	}
	return v
}

func TestDebug(t *testing.T) {
	n := int(env("N", 100))
	sc := Scenario{
		Duration: time.Duration(env("D", 60)) * time.Second, Warmup: 20 * time.Second, Seed: 1,
		Fleet:   Fleet{Leaves: n, Policy: os.Getenv("P")},
		Keys:    []Key{{Name: "api", Rate: int(env("RATE", 10000)), Burst: int(env("BURST", 1000))}},
		Demand:  []Demand{{Rate: env("DEMAND", 20000), LeafSkew: env("SKEW", 1), Arrivals: os.Getenv("ARR")}},
		Network: Network{Delay: dist.ServiceTime{Mean: 2 * time.Millisecond}},
	}
	if os.Getenv("LOG") != "" { debugLog = func(now time.Duration, f *flight) {
		x := f.message.(*leaf.Exchange)
		a, _ := f.answer.(*leaf.Answer)
		if fmt.Sprint(f.leaf) == os.Getenv("LOG") || os.Getenv("LOG") == "all" {
		fmt.Printf("%v %s held %d %+v -> %+v\n", now, x.Leaf, x.Held, x.Reports, a)
		}
	} }
	begin := time.Now()
	s, err := New(sc)
	if err != nil {
		t.Fatal(err)
	}
	for s.now < sc.Duration && context.Background().Err() == nil {
		s.tick()
	}
	r := s.Result()
	fmt.Printf("%v steady %+v\nfair %+v over1 %.4f over10 %.4f\n", time.Since(begin), r.Steady, r.Fair, r.Total.Over1, r.Total.Over10)
	sum := 0.0
	for i := range s.leaves {
		if nd, ok := s.leaves[i].node.(*leafNode); ok { sum += nd.first }
	}
	fmt.Println("assigned sum", sum)
	shares := s.shares(0)
	T := float64(s.meter.spans[1].slots) * slot.Seconds()
	for i := range s.leaves {
		if i < 5 || i%(n/15+1) == 0 {
			u := s.meter.byLeaf[i*len(s.keys)]
			fmt.Printf("leaf %d offered %.1f allowed %.1f share %.1f assigned %.1f\n", i, float64(u.offered)/T, float64(u.allowed)/T, shares[i], s.leaves[i].node.rate())
		}
	}
}

func TestSteps(t *testing.T) {
	n := int(env("N", 10))
	sc := Scenario{
		Duration: 16 * time.Second, Step: 250*time.Millisecond, Seed: 1,
		Fleet:   Fleet{Leaves: n, Policy: os.Getenv("P")},
		Keys:    []Key{{Name: "api", Rate: int(env("RATE", 10000)), Burst: int(env("BURST", 1000))}},
		Demand:  []Demand{{Rate: env("DEMAND", 20000), LeafSkew: env("SKEW", 1), Arrivals: os.Getenv("ARR")}},
		Network: Network{Delay: dist.ServiceTime{Mean: 2 * time.Millisecond}},
	}
	r, _ := Run(t.Context(), sc, nil)
	for _, st := range r.Series {
		fmt.Printf("%v off %.0f allowed %.0f short %.4f long %.4f asks %.0f ex %.0f rep %.0f %v\n", st.At, st.Offered, st.Allowed, st.Short, st.Long, st.Asks, st.Exchanges, st.Reports, st.Decisions)
	}
}

func TestJump(t *testing.T) {
	n := int(env("N", 100))
	sc := Scenario{
		Duration: 50 * time.Second, Warmup: 20*time.Second, Step: 250*time.Millisecond, Seed: uint64(env("SEED", 1)),
		Fleet:   Fleet{Leaves: n, Policy: os.Getenv("P"), Watch: []int{50%n}},
		Keys:    []Key{{Name: "api", Rate: int(env("RATE", 10000)), Burst: int(env("BURST", 10000))}},
		Demand:  []Demand{{Rate: env("DEMAND", 20000), LeafSkew: env("SKEW", 1), Arrivals: os.Getenv("ARR"), Changes: []Change{{At: 30*time.Second, Factor: 15, Group: Group{First: 50%n, Leaves: 1}}}}},
		Network: Network{Delay: dist.ServiceTime{Mean: 2 * time.Millisecond}},
	}
	r, _ := Run(t.Context(), sc, nil)
	for _, st := range r.Series {
		if st.At > 29*time.Second && st.At < 40*time.Second {
		w := st.Watch[0]
		fmt.Printf("%v off %.0f allowed %.0f short %.4f long %.4f ex %.0f rep %.0f | leaf off %.0f allowed %.0f share %.1f fair %.1f\n", st.At, st.Offered, st.Allowed, st.Short, st.Long, st.Exchanges, st.Reports, w.Offered, w.Allowed, *w.Share, w.Fair)
		}
	}
	fmt.Printf("%+v\n%+v\n", r.Jumps, r.Steady)
}
