//go:build !race

package waitq_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/internal/waitq"
)

const start = 56 * 365 * 24 * time.Hour

// A crowd takes tokens of one bucket ahead of time, in all ways there are.
type crowd struct {
	q     gcra.Quota
	b     gcra.Bucket
	queue waitq.Tokens[int] // of n
	now   time.Duration

	waiters  []*waitq.Turn[int]
	promises []promise
	acts     []act
	said     []string
}

type promise struct {
	place waitq.Promise
	at    time.Duration
	n     int
}

// An act is an event that happened, and its tokens.
type act struct {
	at time.Duration
	n  int
}

func (c *crowd) say(format string, args ...any) {
	c.said = append(c.said, fmt.Sprintf("%v ", c.now-start)+fmt.Sprintf(format, args...))
}

func (c *crowd) serve() {
	for {
		n, ok := c.queue.Next(&c.q, c.now)
		if !ok {
			return
		}
		c.act(c.now, n)
	}
}

func (c *crowd) act(at time.Duration, n int) {
	c.acts = append(c.acts, act{at, n})
}

func (c *crowd) lower(down gcra.Bucket) {
	c.b -= min(down, c.b)
	c.serve()
}

// step does what chance wants.
func (c *crowd) step(chance *rand.Rand) {
	n := 1 + chance.IntN(c.q.Burst())
	switch chance.IntN(7) {
	case 0:
		if b, ok := c.q.Allow(c.b, c.now, n); ok {
			c.say("allow %d", n)
			c.b = b
			c.act(c.now, n)
		}
	case 1, 2:
		b, wait, _ := c.q.Reserve(c.b, c.now, n, weir.Never)
		c.say("reserve %d for %v", n, c.now+wait-start)
		c.b = b
		if wait == 0 {
			c.act(c.now, n)
		} else {
			c.promises = append(c.promises, promise{c.queue.Promise(&c.q, c.now, b, n, c.now+wait), c.now + wait, n})
		}
	case 3:
		b, wait, _ := c.q.Reserve(c.b, c.now, n, weir.Never)
		c.b = b
		if wait == 0 {
			c.act(c.now, n)
		} else {
			c.say("wait for %d, until %v", n, c.now+wait-start)
			c.waiters = append(c.waiters, c.queue.Join(&c.q, b, n, n))
		}
	case 4:
		if len(c.waiters) == 0 {
			return
		}
		i := chance.IntN(len(c.waiters))
		if down, ok := c.queue.Cancel(&c.q, c.now, c.waiters[i], c.b); ok {
			c.say("leave %d of %d: down by %v", i, c.waiters[i].Value, float64(down)/2e9)
			c.lower(down)
		}
		c.waiters = append(c.waiters[:i:i], c.waiters[i+1:]...)
	case 5:
		if len(c.promises) == 0 {
			return
		}
		i := chance.IntN(len(c.promises))
		p := c.promises[i]
		down := c.queue.Withdraw(&c.q, c.now, p.place, p.n, c.b)
		c.say("withdraw %d for %v: down by %v", p.n, p.at-start, float64(down)/2e9)
		c.promises = append(c.promises[:i:i], c.promises[i+1:]...)
		c.lower(down)
	case 6:
		c.sleep(time.Duration(1+chance.IntN(3)) * time.Second / 2)
	}
}

// sleep lets time pass, and calls act at their times.
func (c *crowd) sleep(d time.Duration) {
	for end := c.now + d; c.now < end; {
		c.now += time.Second / 4
		c.serve()
		kept := c.promises[:0:0]
		for _, p := range c.promises {
			if p.at < c.now {
				c.act(p.at, p.n)
			} else {
				kept = append(kept, p)
			}
		}
		c.promises = kept
	}
}

// tooMuch returns the first act that came too early.
func (c *crowd) tooMuch() string {
	var b gcra.Bucket
	sorted := append([]act(nil), c.acts...)
	for i := range sorted {
		for j := i; j > 0 && sorted[j].at < sorted[j-1].at; j-- {
			sorted[j], sorted[j-1] = sorted[j-1], sorted[j]
		}
	}
	for _, a := range sorted {
		next, ok := c.q.Allow(b, a.at, a.n)
		if !ok {
			return fmt.Sprintf("%d at %v, with %v tokens", a.n, a.at-start, c.q.Tokens(b, a.at))
		}
		b = next
	}
	return ""
}

// Whatever is given back, in any window of time no more happens than the
// burst and what comes in.
func FuzzQueue(f *testing.F) {
	for seed := range uint64(3000) {
		f.Add(seed, uint8(3+seed%90))
	}
	f.Fuzz(func(t *testing.T, seed uint64, steps uint8) {
		chance := rand.New(rand.NewPCG(seed, 3))
		c := crowd{q: gcra.Per(1, time.Second, 1+chance.IntN(4)), now: start}
		for range steps {
			c.step(chance)
		}
		c.sleep(1000 * time.Second)
		if what := c.tooMuch(); what != "" {
			t.Errorf("%v: %s", c.q, what)
			for _, s := range c.said {
				t.Log(s)
			}
		}
		if len(c.promises) > 0 || c.queue.Len() > 0 || c.queue.Taken(&c.q, c.now) > 0 {
			t.Errorf("%d promises, %d wait: somebody is forgotten", len(c.promises), c.queue.Len())
		}
	})
}

// However many promises are open, all are kept, and what is given back is
// counted.
func TestManyPromises(t *testing.T) {
	const n = 5000
	c := crowd{q: gcra.Per(1, time.Second, 1), now: start}
	c.b, _ = c.q.Allow(c.b, c.now, 1)
	var ps []promise
	for range n {
		b, wait, _ := c.q.Reserve(c.b, c.now, 1, weir.Never)
		ps = append(ps, promise{c.queue.Promise(&c.q, c.now, b, 1, c.now+wait), c.now + wait, 1})
		c.b = b
	}
	if left := c.queue.Taken(&c.q, c.now); left != n {
		t.Errorf("%d are promised: want %d", left, n)
	}
	for i := range ps {
		down := c.queue.Withdraw(&c.q, c.now, ps[i].place, 1, c.b)
		c.lower(down)
		if left := c.queue.Taken(&c.q, c.now); left != n-1-i {
			t.Fatalf("%d are promised after %d were withdrawn: want %d", left, i+1, n-1-i)
		}
	}
	if tokens := c.q.Tokens(c.b, c.now); tokens != 0 {
		t.Errorf("%v tokens, though all is given back: want 0", tokens)
	}
}
