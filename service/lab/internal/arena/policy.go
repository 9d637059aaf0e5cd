package arena

import (
	"time"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/service/lab/internal/sim"
)

// A Policy guards a service.
type Policy struct {
	Name string
	// About says what it is, in a line.
	About string
	// Outside is a policy that is told the knee: it is shown, to see what that
	// is worth, and not compared with. Finding the knee is the task.
	Outside bool
	// Guard returns the guard of a service with a given knee; nil is none.
	Guard func(knee int) *sim.Guard
}

// The queue of the policies that have none, as a user would put in front of them.
const (
	plainQueue = 100
	plainWait  = time.Second
)

func plain(l sim.Limit) *sim.Guard {
	return &sim.Guard{Limit: l, Queue: plainQueue, MaxWait: plainWait}
}

// times is a fixed limit that was set to a share of the knee.
func times(share float64) func(int) *sim.Guard {
	return func(knee int) *sim.Guard {
		return plain(sim.Limit{Name: "fixed", N: max(int(share*float64(knee)+0.5), 1)})
	}
}

func self(l sim.Limit) func(int) *sim.Guard {
	return func(int) *sim.Guard { return plain(l) }
}

// bohde is github.com/bohde/codel: its constants, and its README's example.
func bohde(outstanding int) *sim.Guard {
	return &sim.Guard{
		Limit: sim.Limit{Name: "fixed", N: outstanding}, Queue: 100,
		Discipline: inflight.CoDel, Target: 5 * time.Millisecond, Interval: 10 * time.Millisecond,
	}
}

// Policies returns all there are, in the order in which they are shown.
func Policies() []Policy {
	return []Policy{
		{Name: "none", About: "admits every request", Guard: func(int) *sim.Guard { return nil }},
		{Name: "static-under", About: "half the knee", Guard: times(0.5)},
		{Name: "static-over", About: "four times the knee", Guard: times(4)},
		{Name: "static-knee", About: "the knee", Outside: true, Guard: times(1)},
		{Name: "aimd", About: "grows until work is dropped", Guard: self(sim.Limit{Name: "aimd"})},
		{Name: "vegas", About: "Netflix's, in its window", Guard: self(sim.Limit{Name: "vegas", Window: true})},
		{Name: "gradient2", About: "Netflix's, in its window", Guard: self(sim.Limit{Name: "gradient2", Window: true})},
		{Name: "codel", About: "bohde/codel as in its README: 10 outstanding, 100 pending, target 5 ms", Guard: func(int) *sim.Guard { return bohde(10) }},
		{Name: "codel-knee", About: "the same with the knee outstanding", Outside: true, Guard: bohde},
		{Name: "auto", About: "inflight.Config{}", Guard: func(int) *sim.Guard { return sim.Auto() }},
	}
}
