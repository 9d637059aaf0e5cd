// Package pressure sheds load while the processor is the bottleneck: it rejects a part of the
// requests, the least important first, while work waits for the processor for more than a given
// share of the time. The kernel of Linux measures that (pressure stall information), for the
// cgroup of the process or for the whole machine.
//
//	guard, err := pressure.New(pressure.Config{Max: 0.4})
//	...
//	m, err := httplimit.New(httplimit.Config{
//		Criticality: "X-Criticality",
//		PerClass:    func(class string) weir.Limiter { return guard.Limit(httplimit.Auto(class)) },
//	})
//
// It is a second signal beside a limit on the work in flight, and no replacement: it takes
// seconds, and cannot tell which work causes it. A limit of package inflight reacts at once,
// and to every bottleneck. Pressure also shows what that cannot see: neighbours, a quota of the
// cgroup, and work outside of requests.
//
// # What is rejected
//
// Every half second in which requests come, a reading tells the share of the time in which some
// work waited for the processor. Above Max, the rejected part of the requests rises: by a tenth
// of all requests after a second of full pressure, and by less if the pressure is closer to Max.
// Below Max, it falls alike. The requests of weir.Sheddable are rejected before those of
// weir.SheddablePlus, and both before weir.Critical, the priority of requests without one.
//
// Some requests always pass: one of twenty sheddable requests, half of the critical ones
// (MaxCritical), and all of weir.CriticalPlus. The pressure may also come from neighbours, and
// no rejection helps then. If five seconds of rejecting MaxCritical have not lowered it by a
// tenth, critical requests pass for half a minute, and after each further trial for twice as
// long, up to eight minutes. Sheddable work yields to neighbours.
//
// Several processes in one cgroup, or on one machine, read the same pressure. Each of them
// rejects the same part of its requests, so that they do not overreact together.
package pressure

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/shedder"
	"github.com/weir-go/weir/internal/wrapped"
)

const (
	// DefaultMaxCritical is Config.MaxCritical if that is zero.
	DefaultMaxCritical = 0.5
	// Interval is the time between readings.
	Interval = 500 * time.Millisecond
	// retryAfter is the RetryAfter of a rejection.
	retryAfter = time.Second
)

// Config configures a Guard.
type Config struct {
	// Max is the share of the time in which work may wait for the processor, above 0 and below
	// 1. A service that uses its processors well has 0.1 to 0.5.
	Max float64
	// MaxCritical is the largest part of critical requests that is rejected, up to 1. If zero,
	// DefaultMaxCritical; if negative, only sheddable requests are rejected.
	MaxCritical float64
	// Path is the file with the pressure, in the format of Linux. If empty, the cpu.pressure of
	// the process's cgroup or, if there is none, /proc/pressure/cpu of the machine.
	Path string
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	if err := checkMax(c.Max); err != nil {
		return err
	}
	if !(c.MaxCritical <= 1) {
		return fmt.Errorf("pressure: MaxCritical = %v: must be <= 1", c.MaxCritical)
	}
	return nil
}

func checkMax(share float64) error {
	if !(share > 0 && share < 1) {
		return fmt.Errorf("pressure: Max = %v: must be > 0 and < 1", share)
	}
	return nil
}

// A Guard rejects requests while the processor is under pressure. It is a weir.Limiter, for
// weir.Chain: its permits hold nothing. It is safe for concurrent use, and starts no goroutine:
// a request that comes when a reading is due takes it.
type Guard struct {
	path  string
	epoch time.Time
	due   atomic.Int64 // when to read next, since epoch
	busy  atomic.Bool  // the shedder has to see requests

	mu       sync.Mutex // guards what follows
	shedder  *shedder.Shedder
	rejected [shedder.CriticalPlus]uint64
	err      error // of the last reading
}

// New returns a Guard. The error names the first invalid field, or says that the pressure cannot
// be read: the kernel does not measure it, or the system is not Linux.
func New(cfg Config) (*Guard, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	most := max(cfg.MaxCritical, 0)
	if cfg.MaxCritical == 0 {
		most = DefaultMaxCritical
	}
	path, stalled, err := find(cfg.Path)
	if err != nil {
		return nil, err
	}
	g := &Guard{path: path, epoch: time.Now(), shedder: shedder.New(cfg.Max, most)}
	g.due.Store(int64(Interval))
	g.shedder.Read(0, stalled)
	return g, nil
}

// Path returns the file that the Guard reads.
func (g *Guard) Path() string { return g.path }

// SetMax changes Config.Max. It returns an error, and changes nothing, if that is invalid.
func (g *Guard) SetMax(share float64) error {
	if err := checkMax(share); err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.shedder.SetMax(share)
	g.busy.Store(g.shedder.Active())
	return nil
}

// Acquire rejects the request with weir.OverLimit, or returns a Permit that holds nothing. Of
// ctx, only the priority matters (weir.ClassOf). n does not matter.
func (g *Guard) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if err := g.Check(weir.ClassOf(ctx).Priority); err != nil {
		return weir.Permit{}, err
	}
	return weir.Permit{}, nil
}

// Check decides about a request of a priority. The error is a *weir.Rejection.
func (g *Guard) Check(p weir.Priority) error {
	if now := time.Since(g.epoch); int64(now) >= g.due.Load() {
		g.read(now)
	}
	if !g.busy.Load() {
		return nil
	}
	level := shedder.Level(min(max(p, weir.Sheddable), weir.CriticalPlus) - weir.Sheddable)
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shedder.Admit(level) {
		return nil
	}
	g.rejected[level]++
	return weir.Reject(weir.OverLimit, retryAfter)
}

// read takes a reading, unless another goroutine does.
func (g *Guard) read(now time.Duration) {
	if !g.mu.TryLock() {
		return
	}
	defer g.mu.Unlock()
	if int64(now) < g.due.Load() {
		return // another goroutine has taken it
	}
	var stalled time.Duration
	if stalled, g.err = readFile(g.path); g.err != nil {
		g.shedder.Lost(now)
	} else {
		g.shedder.Read(now, stalled)
	}
	g.busy.Store(g.shedder.Active())
	g.due.Store(int64(now + Interval))
}

// Limit returns l behind the Guard: a request that the Guard rejects does not reach l. Packages httplimit, grpclimit
// and metric see l behind it, with its Stats, which do not count what the Guard rejects.
func (g *Guard) Limit(l weir.Limiter) weir.Limiter {
	if l == nil {
		return g
	}
	return guarded{g, l}
}

type guarded struct {
	guard *Guard
	weir.Limiter
}

func (g guarded) Acquire(ctx context.Context, n int) (weir.Permit, error) {
	if err := g.guard.Check(weir.ClassOf(ctx).Priority); err != nil {
		return weir.Permit{}, err
	}
	return g.Limiter.Acquire(ctx, n)
}

// Try and Unwrap implement wrapped.Wrapper.
func (g guarded) Try(ctx context.Context, n int) (weir.Permit, error) {
	if err := g.guard.Check(weir.ClassOf(ctx).Priority); err != nil {
		return weir.Permit{}, err
	}
	return wrapped.Try(ctx, g.Limiter, n)
}
func (g guarded) Unwrap() weir.Limiter { return g.Limiter }

// Stats holds the state of a Guard, and its counts since New.
type Stats struct {
	Pressure float64 // the share of the time in which work waited for the processor, before the last reading
	Shed     float64 // the part of all requests that is rejected now
	// Rejected counts rejected requests by priority: weir.Sheddable, weir.SheddablePlus and
	// weir.Critical. All three are present, and the map belongs to the caller.
	Rejected map[weir.Priority]uint64
	// Err is why the last reading failed; nil if it did not. Meanwhile the Guard does as if
	// there were no pressure.
	Err error
}

// Stats returns the state and the counts.
func (g *Guard) Stats() Stats {
	g.mu.Lock()
	defer g.mu.Unlock()
	st := Stats{Pressure: g.shedder.Pressure(), Shed: g.shedder.Shed(), Err: g.err, Rejected: make(map[weir.Priority]uint64)}
	for i, n := range g.rejected {
		st.Rejected[weir.Sheddable+weir.Priority(i)] = n
	}
	return st
}
