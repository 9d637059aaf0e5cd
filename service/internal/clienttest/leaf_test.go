package client_test

import (
	"testing"
	"time"

	"github.com/weir-go/weir/client"
)

// Leaves share a limit of the real server: they use it, do not exceed it, and ask the server
// about no request once they have assignments.
func TestLeavesShareALimit(t *testing.T) {
	const limit, burst = 1000, 200
	bubble(t, func(t *testing.T) {
		rule := every(limit, time.Second)
		rule.Burst = burst
		s := newSite(t, rule)
		time.Sleep(time.Minute) // it has learnt
		var leaves []*client.Client
		for range 4 {
			leaves = append(leaves, s.client(client.Config{Away: client.Local, Instances: 4, Leaf: &client.LeafConfig{}}))
		}
		demand := []int{20, 5, 2, 1} // tries in 10 ms
		allowed := make([]int, len(leaves))
		spend := func(d time.Duration) (total int) {
			clear(allowed)
			for range d / (10 * time.Millisecond) {
				for i, c := range leaves {
					for range demand[i] {
						d, err := c.Take(t.Context(), "a", 1)
						must(t, err)
						if d.OK {
							allowed[i]++
							total++
						}
					}
				}
				time.Sleep(10 * time.Millisecond)
			}
			return total
		}
		spend(5 * time.Second)
		asked := s.requests("POST /rate")
		if n := spend(10 * time.Second); n < 10*limit*98/100 || n > 10*limit+burst {
			t.Errorf("%d allowed in 10 s of %d a second", n, limit)
		}
		if n := s.requests("POST /rate") - asked; n > 0 {
			t.Errorf("%d requests for decisions", n)
		}
		for i, want := range []int{3500, 3500, 2000, 1000} {
			least := want * 97 / 100
			if i >= 2 { // it gets all it wants
				least = want * 98 / 100
			}
			if allowed[i] < least || allowed[i] > want*103/100 {
				t.Errorf("leaf %d: %d allowed, want %d", i, allowed[i], want)
			}
		}
		demand[3] = 15 // times 15
		spend(2 * time.Second)
		spend(time.Second)
		if allowed[3] < 230 {
			t.Errorf("after a jump of demand: %d allowed in a second, want a share of 266", allowed[3])
		}
		s.network.Refuse()
		s.answer(hang)
		if n := spend(time.Minute); n > 60*limit+burst || n < 60*limit/2 {
			t.Errorf("%d allowed in a minute without the server", n)
		}
		s.answer(nil)
		s.network.Repair()
		spend(10 * time.Second)
		if n := spend(10 * time.Second); n < 10*limit*98/100 || n > 10*limit+burst {
			t.Errorf("the server is back: %d allowed in 10 s of %d a second", n, limit)
		}
	})
}
