// Package limits bounds the requests in flight. A Limiter is the limit of a class of routes, or of all; while it is adaptive
// and there are several origins, each of them has its own part. A Gate admits requests: it takes their units, and
// their place at an origin.
package limits

import (
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/inflight"
	"github.com/weir-go/weir/limit"
	"github.com/weir-go/weir/service/internal/proxy/origins"
	"github.com/weir-go/weir/service/internal/proxyrule"
	"github.com/weir-go/weir/service/internal/settings"
)

// A Limiter bounds the requests in flight of one class, or of several. While the limit is adaptive and there are several
// origins, it is a limit for each of them.
type Limiter struct {
	whole   *pool   // of all origins
	at      []*pool // of each origin; nil if there is only one
	Name    string
	fair    Fairness
	fixed   atomic.Bool // the limit is a number
	origins *origins.Set

	// The owner locks the fields below: the lock of the settings.
	given Settings // by the flags or the file of rules
	now   Settings // changed by an operator
}

// Settings are the settings of a limiter.
type Settings struct {
	Limit     proxyrule.Limit
	Auto      limit.Config      // of an adaptive limit
	SlowStart settings.Duration // idle time; 0: none
	Queue     int               // 0: none waits
	MaxWait   settings.Duration // 0: unbounded
}

// algorithm returns the algorithm that sets the limit. Its slow start begins at first, if
// that is not zero.
func (l *Settings) algorithm(first int) (limit.Algorithm, error) {
	alg, err := l.Limit.Algorithm(l.Auto)
	if err != nil || l.SlowStart == 0 {
		return alg, err
	}
	return limit.NewSlowStart(alg, limit.SlowStart{Idle: time.Duration(l.SlowStart), First: first})
}

// A Fairness says how tenants share a limit.
type Fairness struct {
	text    string // empty: tenants do not matter
	weights map[string]int
}

// NewFairness returns a fairness. Equal texts stand for equal weights; an empty one means that tenants do not matter.
func NewFairness(text string, weights map[string]int) Fairness { return Fairness{text, weights} }

// New returns a limiter for some origins. An adaptive limit begins where that of old is, if old is not
// nil and has the same algorithm.
func New(name string, l Settings, f Fairness, old *Limiter, to *origins.Set, trace func(inflight.Event)) (*Limiter, error) {
	now := l
	if old != nil && old.given == l {
		now = old.now
	}
	made := &Limiter{Name: name, fair: f, origins: to, given: l, now: now}
	made.fixed.Store(now.Limit.Fixed())
	var err error
	if made.whole, err = made.newPool(func(o *Limiter) *pool { return o.whole }, old, trace); err != nil || to.Count() == 1 {
		return made, err
	}
	for i := range to.Count() {
		p, err := made.newPool(func(o *Limiter) *pool { return o.at[i] }, old, trace)
		if err != nil {
			return nil, err
		}
		made.at = append(made.at, p)
	}
	return made, nil
}

// newPool returns a pool, which begins where that of old is.
func (l *Limiter) newPool(of func(*Limiter) *pool, old *Limiter, trace func(inflight.Event)) (*pool, error) {
	begin, first := l.given, 0
	if old != nil {
		if old.given == l.given {
			begin = old.now
		}
		was := of(old).State().Limit
		begin.Auto, first = old.beginAt(begin, was), was
	}
	algorithm, err := begin.algorithm(first)
	if err != nil {
		return nil, fmt.Errorf("the limit of %s: %w", l.Name, err)
	}
	p := &pool{fixed: &l.fixed}
	cfg := inflight.Config{
		Algorithm: algorithm, Queue: settings.OrNone(l.now.Queue), MaxWait: settings.OrNone(time.Duration(l.now.MaxWait)), Weights: l.fair.weights,
		Trace: func(e inflight.Event) {
			p.size.Store(int64(e.State.Limit))
			trace(e)
		},
	}
	if l.fair.text == "" {
		cfg.FairQueues = 1
	}
	if p.Limiter, err = inflight.New(cfg); err != nil {
		return nil, fmt.Errorf("the limit of %s: %w", l.Name, err)
	}
	p.size.Store(int64(p.State().Limit))
	return p, nil
}

// Settings returns the present settings. Their lock is held.
func (l *Limiter) Settings() Settings { return l.now }

// SharedBy reports whether tenants share the limit by a fairness.
func (l *Limiter) SharedBy(f Fairness) bool { return l.fair.text == f.text }

// Configure returns a function that puts the settings of the flags or of the file of rules into force. What an operator has
// changed stays if they are as before; then the function is nil.
func (l *Limiter) Configure(to Settings) (apply func(), err error) {
	if to == l.given {
		return nil, nil
	}
	change, err := l.Change(to, true)
	return func() { change(); l.given = to }, err
}

// beginAt returns the configuration of an adaptive limit that begins where the present one is,
// if that has the same algorithm.
func (l *Limiter) beginAt(to Settings, now int) limit.Config {
	cfg := to.Auto
	if to.Limit == l.now.Limit && !to.Limit.Fixed() {
		cfg.Initial = max(now, cfg.Min, 1)
		if cfg.Max > 0 {
			cfg.Initial = min(cfg.Initial, cfg.Max)
		}
	}
	return cfg
}

// Change returns a function that changes the settings. If the algorithm or its bounds
// differ, it starts again: at the present limit, if keep is set. Otherwise an operator has set the
// limit: it applies at once, without a slow start.
func (l *Limiter) Change(to Settings, keep bool) (apply func(), err error) {
	pools := append([]*pool{l.whole}, l.at...)
	algorithms := make([]limit.Algorithm, len(pools))
	if to.Limit != l.now.Limit || to.Auto != l.now.Auto || to.SlowStart != l.now.SlowStart || !keep {
		for i, p := range pools {
			begin, first := to, math.MaxInt
			if keep {
				now := p.State().Limit
				begin.Auto, first = l.beginAt(to, now), max(now, 1)
			}
			if algorithms[i], err = begin.algorithm(first); err != nil {
				return nil, fmt.Errorf("the limit of %s: %w", l.Name, err)
			}
		}
	}
	return func() {
		for i, p := range pools {
			if algorithms[i] != nil {
				p.SetAlgorithm(algorithms[i])
			}
			if to.Queue != l.now.Queue || to.MaxWait != l.now.MaxWait {
				p.SetQueue(settings.OrNone(to.Queue), settings.OrNone(time.Duration(to.MaxWait)))
			}
		}
		l.now = to
		l.fixed.Store(to.Limit.Fixed())
	}, nil
}
