//go:build !race

package server_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/internal/leafsession"
	"github.com/weir-go/weir/service/internal/config"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// A leafFleet is leaves of one server, in virtual time. Messages are late, and can be lost.
type leafFleet struct {
	*testing.T
	rnd         *rand.Rand
	rate, burst int
	loss        int // one message in loss is lost; 0 loses none
	epoch       time.Time
	now         time.Duration
	core        *server.Server
	away        bool
	leaves      []*leafProcess
	names       int

	spent, least, worst float64
}

// A leafProcess is a leafsession.Set, and a message on its way.
type leafProcess struct {
	name   string
	set    *leafsession.Set
	demand float64 // tokens a second
	policy leaf.Policy

	sent   *leaf.Exchange // until the server has it
	answer *leaf.Answer   // nil if it is lost
	flying bool
	at     time.Duration // when the next thing happens to the message
	due    time.Duration // when the leaf gets the answer
}

const fleetStep = 10 * time.Millisecond

func newLeafFleet(t *testing.T, seed uint64, rate, burst int) *leafFleet {
	f := &leafFleet{T: t, rnd: rand.New(rand.NewPCG(seed, 7)), rate: rate, burst: burst, loss: 20, epoch: time.Now()}
	f.serve()
	time.Sleep(time.Minute) // it has learnt
	f.now = time.Since(f.epoch)
	return f
}

// serve starts a server that has no state.
func (f *leafFleet) serve() {
	rules := &config.Rules{Rules: []config.Rule{{Name: "all", Glob: "*", Quota: config.Quota{Rate: config.Rate{Count: f.rate, Period: time.Second}, Burst: f.burst}}}}
	if err := rules.Complete(); err != nil {
		f.Fatal(err)
	}
	core, err := server.New(server.Config{Rules: rules, AssignmentTTL: 10 * time.Second})
	if err != nil {
		f.Fatal(err)
	}
	f.core = core
}

func (f *leafFleet) join() *leafProcess {
	f.names++
	name := fmt.Sprint("leaf", f.names)
	p := &leafProcess{name: name, set: leafsession.NewSet(leaf.Config{Name: name}), policy: leaf.Policy{First: leaf.DenyFirst, Away: leaf.ShareAway}}
	f.leaves = append(f.leaves, p)
	return p
}

// step is a step of time.
func (f *leafFleet) step() {
	time.Sleep(fleetStep)
	f.now += fleetStep
	for _, p := range f.leaves {
		f.carry(p)
		tries := poisson(f.rnd, p.demand*fleetStep.Seconds())
		for range tries {
			n := 1
			if d, step := p.set.Take(f.now, "k", n, &p.policy); d.OK {
				if step == leaf.Ask {
					f.Fatal("the step is Ask")
				}
				f.spent += float64(n)
			}
		}
	}
	above := f.spent - float64(f.rate)*f.now.Seconds()
	f.least = min(f.least, above)
	f.worst = max(f.worst, above-f.least)
}

// carry carries messages between a leaf and the server.
func (f *leafFleet) carry(p *leafProcess) {
	if p.flying && p.sent != nil && f.now >= p.at {
		p.answer = nil
		if !f.away && !f.loses() {
			x := decider.LeafExchange{Exchange: *p.sent}
			got := &decider.LeafAnswer{}
			if err := f.core.Exchange(f.Context(), &x, got); err == nil {
				got.Resync = got.NeedsResync(&x)
				p.answer = &got.Answer
			}
		}
		p.sent = nil
	}
	if p.flying && f.now >= p.due {
		p.flying = false
		if p.answer == nil || f.loses() {
			p.set.Failed(f.now)
		} else {
			p.set.Answered(f.now, p.answer)
		}
	}
	if !p.flying && f.now >= p.set.Due() {
		p.sent, p.flying = p.set.Exchange(f.now), true
		p.at = f.now + time.Duration(f.rnd.IntN(20))*fleetStep
		p.due = p.at + time.Duration(f.rnd.IntN(20))*fleetStep
	}
}

func (f *leafFleet) loses() bool { return f.loss > 0 && f.rnd.IntN(f.loss) == 0 }

// live lets time pass, and returns the tokens spent meanwhile.
func (f *leafFleet) live(d time.Duration) float64 {
	before := f.spent
	for end := f.now + d; f.now < end; {
		f.step()
	}
	return f.spent - before
}

func poisson(rnd *rand.Rand, mean float64) (n int) {
	for at := rnd.ExpFloat64(); at < mean; at += rnd.ExpFloat64() {
		n++
	}
	return n
}

// Leaves come and go without a word, change their demands, and lose answers. The server is
// away for a minute, and comes back without its state. Together the leaves never spend more than burst +
// rate·t in any time t, but for one token of each leaf with a smaller part of the burst.
func TestLeavesKeepToTheLimit(t *testing.T) {
	for seed := range uint64(10) {
		synctest.Test(t, func(t *testing.T) { liveFourMinutes(t, seed) })
	}
}

func liveFourMinutes(t *testing.T, seed uint64) {
	rate, burst := 1000, []int{10, 100, 1000}[seed%3]
	f := newLeafFleet(t, seed, rate, burst)
	for range 10 {
		f.join()
	}
	killed := f.now + time.Minute + time.Duration(f.rnd.IntN(1000))*fleetStep
	f.least = f.spent - float64(f.rate)*f.now.Seconds()
	for end := f.now + 4*time.Minute; f.now < end; f.step() {
		switch down := f.now >= killed && f.now < killed+time.Minute; {
		case down != f.away:
			f.away = down
			if !down {
				f.serve()
			}
		case f.rnd.IntN(200) == 0:
			p := f.leaves[f.rnd.IntN(len(f.leaves))]
			p.demand = min(math.Exp(f.rnd.NormFloat64()*2)/20, 2) * float64(rate)
		case f.rnd.IntN(2000) == 0 && !f.away:
			i := f.rnd.IntN(len(f.leaves))
			f.leaves = append(f.leaves[:i], f.leaves[i+1:]...)
			f.join()
		}
	}
	bound := float64(burst + len(f.leaves))
	t.Logf("seed %d: at most %.1f more than the rate allows, of %.0f; %.0f spent of %.0f", seed, f.worst, bound, f.spent, float64(rate)*240)
	if f.worst > bound {
		t.Errorf("seed %d: leaves have spent %.1f more than the rate allows, want at most %.0f", seed, f.worst, bound)
	}
}

// One leaf has nearly all of the limit when the server goes away, and all leaves want it. They
// keep to the limit while each comes to its safe share, and while a server without state comes back.
func TestLeavesWithoutTheServerKeepToTheLimit(t *testing.T) {
	for seed := range uint64(5) {
		synctest.Test(t, func(t *testing.T) {
			const rate, burst = 1000, 20
			f := newLeafFleet(t, seed, rate, burst)
			f.loss = 0
			for range 10 {
				f.join().demand = 10
			}
			f.leaves[0].demand = 2 * rate
			f.live(20 * time.Second)
			f.least, f.worst = f.spent-rate*f.now.Seconds(), 0
			if n := f.live(10 * time.Second); n < 9*rate {
				t.Errorf("seed %d: %v spent in 10 s of %v a second", seed, n, rate)
			}
			f.live(time.Duration(f.rnd.IntN(100)) * fleetStep)
			f.away = true
			for _, p := range f.leaves {
				p.demand = 2 * rate
			}
			f.live(15 * time.Second)
			if n := f.live(45 * time.Second); n < 44*rate {
				t.Errorf("seed %d: %v spent in 45 s without the server", seed, n)
			}
			f.serve()
			f.away = false
			f.live(10 * time.Second)
			if n := f.live(30 * time.Second); n < 29*rate {
				t.Errorf("seed %d: %v spent in 30 s when the server is back", seed, n)
			}
			if bound := float64(burst + len(f.leaves)); f.worst > bound {
				t.Errorf("seed %d: leaves have spent %.1f more than the rate allows, want at most %.0f", seed, f.worst, bound)
			}
		})
	}
}
