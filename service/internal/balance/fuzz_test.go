package balance

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// In any order of events: each Pick has an origin unless all are held, at most half of the
// origins are out by failures with a connection alone, and origins that work again are in.
func FuzzSet(f *testing.F) {
	f.Add(uint64(1), uint8(3), uint8(0))
	f.Add(uint64(2), uint8(1), uint8(1))
	f.Add(uint64(3), uint8(9), uint8(2))
	f.Fuzz(func(t *testing.T, seed uint64, n, kind uint8) {
		rng := rand.New(rand.NewPCG(seed, 0))
		c := &script{t, New(int(n%16) + 1), 0, rng}
		size, model := len(c.set.origins), make([]int, n%16+1)
		bad := make([]Result, size)
		var held []Ticket
		for range 3000 {
			c.now += time.Duration(rng.IntN(int(100 * ms)))
			switch i := rng.IntN(size); rng.IntN(60) {
			case 0:
				bad[i] = []Result{Failed, Failed, Unreachable}[min(int(kind%3), 2)]
				if kind%3 == 1 && rng.IntN(2) == 0 {
					bad[i] = Unreachable
				}
			case 1:
				bad[i] = Answered
			}
			if len(held) > 0 && rng.IntN(2) == 0 {
				i := rng.IntN(len(held))
				tk := held[i]
				held[i] = held[len(held)-1]
				held = held[:len(held)-1]
				r, after := bad[tk.Origin], time.Duration(0)
				if r == Failed && kind&4 != 0 {
					after = time.Duration(rng.IntN(int(time.Minute)))
				}
				if rng.IntN(20) == 0 {
					r, after = Unknown, 0
				}
				c.set.Judge(c.now, tk, r, after)
				c.set.Leave(tk)
				model[tk.Origin]--
				continue
			}
			tk, ok := c.set.Pick(c.now, rng.Uint64(), -1, nil)
			if ok {
				held, model[tk.Origin] = append(held, tk), model[tk.Origin]+1
			}
			c.check(ok, model)
		}
		for _, tk := range held {
			c.set.Leave(tk)
		}
		c.now += MaxHold
		for range 100 * size {
			c.now += max(maxEjection/time.Duration(size), s)
			if _, ok := c.request(Answered, 0); !ok {
				t.Fatal("no origin, although all work")
			}
		}
		for i := range size {
			c.state(i, In)
		}
	})
}

// check compares the state with the model of the requests in flight.
func (c *script) check(picked bool, model []int) {
	c.Helper()
	out, failing, states := 0, 0, ""
	allHeld := true
	for i, want := range model {
		o := c.set.Origin(c.now, i)
		if o.Inflight != want {
			c.Fatalf("origin %d has %d in flight: want %d", i, o.Inflight, want)
		}
		if c.set.origins[i].out != In {
			out++
		}
		if c.set.origins[i].cause == Failing {
			failing++
		}
		allHeld = allHeld && o.State == Held
		states += fmt.Sprint(o.State, " ")
	}
	switch {
	case out != c.set.out:
		c.Fatalf("%d origins are out, and the Set counts %d", out, c.set.out)
	case !picked && !allHeld:
		c.Fatalf("no origin, and not all are held: %s", states)
	case 2*failing > len(model):
		c.Fatalf("%d of %d origins are out by their load", failing, len(model))
	case allHeld && c.set.Wait(c.now) > MaxHold, !allHeld && c.set.Wait(c.now) > 0:
		c.Fatalf("wait %v: %s", c.set.Wait(c.now), states)
	}
}
