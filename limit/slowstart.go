package limit

import (
	"cmp"
	"fmt"
	"math"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
)

// DefaultIdle is SlowStart.Idle if that is zero.
const DefaultIdle = time.Minute

const (
	// roundOf is the number of successes after which a round of a slow start ends, or half of
	// the limit if that is fewer. Then the limit doubles.
	roundOf = 8
	// An outage is a number of failures without a success, over a time at least.
	outageOf  = 8
	outageFor = time.Second
	// idleTrips is the idle time at least, in typical durations of the work: work that is in
	// flight and has not ended yet is not seen.
	idleTrips = 4
)

// SlowStart lets the first burst of work in gradually: caches, connections and compiled code of
// a service are cold after its start, after an idle time and after an outage, and then it
// bears less than a moment ago.
type SlowStart struct {
	// Idle is the time after which the limit falls to twice what was used of it. Of work that
	// takes longer than a quarter of that, four times its duration counts. If zero, DefaultIdle.
	Idle time.Duration
	// Initial is where the limit begins at first, after an outage, and after an idle time in
	// which nothing was used. If zero, a tenth of the limit of the other Algorithm, at least 1.
	Initial int
	// First, if not zero, is where the limit begins at first, instead of Initial: for a service
	// that is in use already.
	First int
}

// Validate returns an error that names the first invalid field.
func (c SlowStart) Validate() error {
	switch {
	case c.Idle < 0:
		return fmt.Errorf("limit: Idle = %v: must be >= 0", c.Idle)
	case c.Initial < 0:
		return fmt.Errorf("limit: Initial = %d: must be >= 0", c.Initial)
	case c.First < 0:
		return fmt.Errorf("limit: First = %d: must be >= 0", c.First)
	}
	return nil
}

// NewSlowStart returns an Algorithm with the limit of alg, which it owns from then on, and a
// slow start. The limit begins at Initial, and doubles in each round trip in which more than half
// of it is used and most work succeeds, until it reaches the limit of alg. It is halved in a round trip in
// which most work is dropped. A second without any success, and eight failures, are an outage.
//
//	alg, err := limit.NewSlowStart(limit.Fixed(200), limit.SlowStart{Idle: 5 * time.Minute})
//	...
//	lim, err := inflight.New(inflight.Config{Algorithm: alg})
//
// It costs requests of every burst that comes after an idle time: they wait in the queue, or are
// rejected. Use it if a service is known to start cold.
func NewSlowStart(alg Algorithm, cfg SlowStart) (Algorithm, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.Idle = cmp.Or(cfg.Idle, DefaultIdle)
	s := &slowStart{alg: alg, cfg: cfg}
	s.controller, _ = alg.(Controller)
	s.begin(0, cmp.Or(cfg.First, s.initial()), Kept)
	return s, nil
}

type slowStart struct {
	alg        Algorithm
	controller Controller // alg; nil if it is none
	cfg        SlowStart

	most      int           // the limit while it starts; 0 if it does not
	since     time.Duration // when that has changed: the round begins
	good, bad int           // work of the round that succeeded, and that was dropped
	typical   time.Duration // how long a success takes, smoothed

	began    time.Duration // the start of the present window
	peak     int           // the most units in flight in the present window
	last     int           // the most units in flight in the window before
	ticks    bool          // the present window ends at Tick
	failures int           // since the last success
	failing  time.Duration // the instant of the first of the failures
	own      bool          // the last change was one of the slow start
	evidence map[string]float64
}

func (l *slowStart) initial() int {
	if l.cfg.Initial > 0 {
		return l.cfg.Initial
	}
	return max(l.alg.Limit()/10, 1)
}

func (l *slowStart) Limit() int {
	if l.most > 0 {
		return min(l.most, l.alg.Limit())
	}
	return l.alg.Limit()
}

// begin begins a round with a limit.
func (l *slowStart) begin(now time.Duration, most int, why Cause) Cause {
	l.most, l.since, l.good, l.bad = most, now, 0, 0
	if l.most >= l.alg.Limit() {
		l.most = 0
	}
	return why
}

func (l *slowStart) Observe(s Sample) Cause {
	was := l.Limit()
	cause := l.alg.Observe(s)
	return l.changed(was, cause, l.learn(&s))
}

// changed returns why the limit has changed: of the causes of alg, and of the slow start.
func (l *slowStart) changed(was int, cause, own Cause) Cause {
	switch {
	case l.Limit() == was:
		return Kept
	case own != Kept:
		l.own = true
		return own
	}
	l.own = false
	return cause
}

func (l *slowStart) learn(s *Sample) Cause {
	why := l.roll(s.End)
	if !l.ticks {
		l.ticks, l.began = true, s.End
	}
	l.peak = max(l.peak, s.Inflight)
	switch outcome.Plain(s.Outcome) {
	case weir.Success:
		if took := s.End - s.Start; l.typical == 0 {
			l.typical = took
		} else {
			l.typical += (took - l.typical) / 8
		}
		l.failures = 0
	case weir.Dropped:
		if l.failures++; l.failures == 1 {
			l.failing = s.End
		}
		if l.failures >= outageOf && s.End-l.failing >= outageFor && l.Limit() > l.initial() {
			return l.judged(s.End, l.initial(), Dropped)
		}
	default:
		return why
	}
	if l.most == 0 || s.Start < l.since {
		return why
	}
	return l.round(s, why)
}

// round counts a piece of work that has begun in the round, and ends the round if that is
// enough.
func (l *slowStart) round(s *Sample, why Cause) Cause {
	need := min((l.most+1)/2, roundOf)
	if outcome.Plain(s.Outcome) == weir.Dropped {
		if l.bad++; l.bad >= need && l.bad > l.good {
			return l.judged(s.End, max(l.most/2, min(l.initial(), l.most)), Dropped)
		}
		return why
	}
	if s.Inflight <= l.most/2 {
		return why // it would have fitted in anyway
	}
	if l.good++; l.good >= need && l.good > l.bad {
		return l.judged(s.End, l.most+min(l.most, math.MaxInt-l.most), Grown)
	}
	return why
}

// judged begins a round because of the work of the last one.
func (l *slowStart) judged(now time.Duration, most int, why Cause) Cause {
	l.evidence = map[string]float64{"succeeded": float64(l.good), "dropped": float64(max(l.bad, l.failures))}
	return l.begin(now, most, why)
}

// length returns the length of a window.
func (l *slowStart) length() time.Duration {
	return max(l.cfg.Idle, min(l.typical, math.MaxInt64/2/idleTrips)*idleTrips)
}

// roll ends the windows that are over, and lowers the limit to twice what was used in the last
// two.
func (l *slowStart) roll(now time.Duration) Cause {
	length := l.length()
	if !l.ticks || now-l.began < length {
		return Kept
	}
	used := 0
	switch windows := (now - l.began) / length; windows {
	case 1:
		used, l.last = max(l.last, l.peak), l.peak
	case 2:
		used, l.last = l.peak, 0
	default:
		l.last = 0
	}
	l.began, l.peak, l.ticks = now, 0, used > 0
	if most := max(l.initial(), used+min(used, math.MaxInt-used)); most < l.Limit() {
		l.evidence = map[string]float64{"used": float64(used)}
		return l.begin(now, most, Idle)
	}
	return Kept
}

// Deadline returns the deadline of alg: a limit that alg changes for a moment is no slow start.
func (l *slowStart) Deadline() (time.Duration, bool) {
	if l.controller == nil {
		return 0, false
	}
	return l.controller.Deadline()
}

// Tick returns the end of the window; weir.Never if the clock does not reach it.
func (l *slowStart) Tick() (time.Duration, bool) {
	return l.began + min(l.length(), weir.Never-l.began), l.ticks
}

func (l *slowStart) Expire(now time.Duration) Cause {
	was, cause := l.Limit(), Kept
	if l.controller != nil {
		cause = l.controller.Expire(now)
	}
	return l.changed(was, cause, l.roll(now))
}

func (l *slowStart) SetEpoch(d time.Duration) {
	if l.controller != nil {
		l.controller.SetEpoch(d)
	}
}

// Evidence returns the evidence of alg. After a change of the slow start, it returns the units
// that were used in the idle time, or how the work of the round went.
func (l *slowStart) Evidence() map[string]float64 {
	if l.own {
		return l.evidence
	}
	if l.controller == nil {
		return nil
	}
	return l.controller.Evidence()
}

func (l *slowStart) Sparse() bool {
	_, ok := l.alg.(fixed)
	return ok || l.controller != nil && l.controller.Sparse()
}
