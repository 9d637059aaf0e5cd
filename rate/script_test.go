package rate_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/gcra"
	"github.com/weir-go/weir/rate"
)

// tick is the time of one token at ten a second.
const tick = 100 * time.Millisecond

var start = time.Date(2026, time.March, 1, 12, 0, 0, 0, time.UTC)

// at is the instant i ticks after the start.
func at(i float64) time.Time { return start.Add(ticks(i)) }

func ticks(i float64) time.Duration { return time.Duration(i * float64(tick)) }

// A script is a list of events for a Limiter, told in ticks. A step returns an
// error text, if something is wrong.
type script []step

type step func(*player) string

type player struct {
	l        *rate.Limiter
	reserved map[string]*rate.Reservation
}

func play(t *testing.T, l *rate.Limiter, s script) {
	t.Helper()
	p := &player{l, map[string]*rate.Reservation{}}
	for i, step := range s {
		if wrong := step(p); wrong != "" {
			t.Errorf("step %d: %s", i, wrong)
		}
	}
}

func wrong[T comparable](what string, got, want T) string {
	if got == want {
		return ""
	}
	return fmt.Sprintf("%s: %v: want %v", what, got, want)
}

func allow(when float64, n int) step { return allowed(when, n, true) }
func deny(when float64, n int) step  { return allowed(when, n, false) }

func allowed(when float64, n int, want bool) step {
	return func(p *player) string {
		return wrong(fmt.Sprintf("AllowN(%v, %d)", when, n), p.l.AllowN(at(when), n), want)
	}
}

func holds(when, tokens float64) step {
	return func(p *player) string {
		return wrong(fmt.Sprintf("TokensAt(%v)", when), p.l.TokensAt(at(when)), tokens)
	}
}

// reserve expects a Reservation to act at an instant.
func reserve(name string, when float64, n int, act float64) step {
	return func(p *player) string {
		r := p.l.ReserveN(at(when), n)
		p.reserved[name] = r
		if !r.OK() {
			return name + ": not OK"
		}
		return wrong(name+": delay", r.DelayFrom(at(when)), ticks(act-when))
	}
}

func refuse(when float64, n int) step {
	return func(p *player) string {
		r := p.l.ReserveN(at(when), n)
		if r.OK() || r.DelayFrom(at(when)) != rate.InfDuration {
			return fmt.Sprintf("%d: reserved for %v: want it refused", n, r.DelayFrom(at(when)))
		}
		r.CancelAt(at(when)) // does nothing
		return ""
	}
}

func cancel(name string, when float64) step {
	return func(p *player) string {
		p.reserved[name].CancelAt(at(when))
		return ""
	}
}

func setLimit(when float64, r rate.Limit) step {
	return func(p *player) string {
		p.l.SetLimitAt(at(when), r)
		return wrong("Limit", p.l.Limit(), r)
	}
}

func setBurst(when float64, b int) step {
	return func(p *player) string {
		p.l.SetBurstAt(at(when), b)
		return wrong("Burst", p.l.Burst(), b)
	}
}

// A line notes how the calls that wait end, and when, in a bubble.
type line struct {
	t     *testing.T
	l     *rate.Limiter
	began time.Time
	mu    sync.Mutex
	said  []said
}

type said struct {
	at   time.Duration
	what string
}

func newLine(t *testing.T, l *rate.Limiter) *line {
	return &line{t: t, l: l, began: time.Now()}
}

// join starts a call that waits behind all others, until leave.
func (q *line) join(who string, n int) (leave func()) {
	ctx, cancel := context.WithCancel(q.t.Context())
	q.joinUntil(ctx, who, n)
	return func() {
		cancel()
		synctest.Wait()
	}
}

func (q *line) joinWithin(d time.Duration, who string, n int) {
	ctx, leave := context.WithTimeout(q.t.Context(), d)
	q.t.Cleanup(leave)
	q.joinUntil(ctx, who, n)
}

func (q *line) joinUntil(ctx context.Context, who string, n int) {
	go func() {
		err := q.l.WaitN(ctx, n)
		q.mu.Lock()
		defer q.mu.Unlock()
		q.said = append(q.said, said{time.Since(q.began), who + " " + what(err)})
	}()
	synctest.Wait()
}

// expect compares what has been said until now. Calls that have their
// answers at the same instant run in any order: they are in order of
// their names.
func (q *line) expect(want ...string) {
	q.t.Helper()
	if got := q.answers(); !slices.Equal(got, want) {
		q.t.Errorf("%q: want %q", got, want)
	}
}

func (q *line) answers() []string {
	synctest.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	return inOrder(q.said)
}

func inOrder(told []said) (all []string) {
	slices.SortFunc(told, func(a, b said) int {
		return cmp.Or(cmp.Compare(a.at, b.at), cmp.Compare(a.what, b.what))
	})
	for _, s := range told {
		all = append(all, fmt.Sprint(s.what, " ", s.at))
	}
	return all
}

// what names what became of a request.
func what(err error) string {
	if r, ok := errors.AsType[*weir.Rejection](err); ok {
		return r.Reason.String()
	}
	switch err {
	case nil:
		return "go"
	case context.Canceled:
		return "cancel"
	case context.DeadlineExceeded:
		return "deadline"
	}
	return err.Error()
}

// tokens compares what the Limiter holds now.
func tokens(t *testing.T, l *rate.Limiter, want float64) {
	t.Helper()
	if got := l.Tokens(); got != want {
		t.Errorf("%v tokens: want %v", got, want)
	}
}

// bubble is a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

func quota(l *rate.Limiter) gcra.Quota {
	return gcra.PerSecond(float64(l.Limit()), l.Burst())
}
