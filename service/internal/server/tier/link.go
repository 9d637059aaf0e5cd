package tier

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/leaf"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// errUpstream is the error of calls that only the upstream can answer.
var errUpstream = errors.New("the upstream of the limits does not answer")

const (
	// maxUnanswered is the number of requests in a row without an answer, after which the upstream
	// is asked no more.
	maxUnanswered = 3
	// probeEvery is the time between two requests that try whether the upstream answers again.
	probeEvery = time.Second
)

// A link knows whether the upstream answers requests and exchanges.
type link struct {
	onAway func(error)

	asks, late atomic.Uint64
	unanswered atomic.Int64          // requests in a row
	closed     atomic.Bool           // requests are not sent, but for probes
	silent     atomic.Bool           // the last exchange had no answer
	blocked    atomic.Pointer[error] // why the upstream must not be used; nil if it may be

	mu     sync.Mutex // guards what follows, and changes of closed, silent and blocked
	probed time.Time  // when a probe was last sent
	reason error      // why it is away; nil if it is not
}

// away reports whether the upstream does not answer requests or exchanges, or must not be used.
func (l *link) away() bool { return l.closed.Load() || l.lost() }

// lost reports whether there are no exchanges with the upstream.
func (l *link) lost() bool { return l.silent.Load() || l.blocked.Load() != nil }

func (l *link) counts() (asks, late uint64) { return l.asks.Load(), l.late.Load() }

// mayAsk reports whether a request may be sent.
func (l *link) mayAsk() bool {
	if l.blocked.Load() != nil {
		return false
	}
	if !l.closed.Load() {
		return true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.probed) < probeEvery {
		return false
	}
	l.probed = time.Now()
	return true
}

// answered takes in whether a request had an answer.
func (l *link) answered(err error) {
	l.asks.Add(1)
	closes := false
	if err == nil {
		if l.unanswered.Load() > 0 {
			l.unanswered.Store(0)
		}
	} else {
		l.late.Add(1)
		closes = l.unanswered.Add(1) >= maxUnanswered
	}
	if closed := l.closed.Load(); closed == closes || closed && err != nil {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed.Store(closes)
	l.probed = time.Now()
	l.tellLocked(err)
}

// exchanged takes in whether an exchange had an answer.
func (l *link) exchanged(err error) {
	if l.silent.Load() == (err != nil) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.silent.Store(err != nil)
	l.tellLocked(err)
}

// block forbids the use of the upstream for a reason, or allows it again if that is nil.
func (l *link) block(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if reason == nil {
		l.blocked.Store(nil)
		if l.tellLocked(nil); l.reason != nil {
			l.reason = errUpstream // it does not answer either
		}
		return
	}
	l.blocked.Store(&reason)
	if l.tellLocked(reason); l.reason != nil {
		l.reason = reason
	}
}

// tellLocked calls onAway if the upstream is away now and was not, or the reverse.
func (l *link) tellLocked(err error) {
	if l.away() == (l.reason != nil) {
		return
	}
	if l.reason = err; l.onAway != nil {
		l.onAway(err)
	}
}

// why returns why the upstream is away; nil if it is not.
func (l *link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.reason
}

// ask asks the upstream. The error is errUpstream if it does not answer, that of ctx, or one of
// package decider.
func (t *Counts) ask(ctx context.Context, do func(context.Context) error) error {
	limited, stop := context.WithTimeout(ctx, t.cfg.Timeout)
	defer stop()
	return t.askUnlimited(ctx, limited, do)
}

// askWaiting is ask for a request that may wait at the upstream.
func (t *Counts) askWaiting(ctx context.Context, do func(context.Context) error) error {
	limited, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(t.dismissed, stop)()
	return t.askUnlimited(ctx, limited, do)
}

func (t *Counts) askUnlimited(ctx, limited context.Context, do func(context.Context) error) error {
	if !t.link.mayAsk() {
		return errUpstream
	}
	switch err := do(limited); {
	case err == nil, isAnswer(err):
		t.link.answered(nil)
		return err
	case ctx.Err() != nil: // the caller has left: no sign of the upstream
		return ctx.Err()
	case errors.Is(err, context.DeadlineExceeded) && sameDeadline(ctx, limited): // the upstream has seen it first
		return context.DeadlineExceeded
	case limited.Err() == context.Canceled: // the node has ended the wait
		return errUpstream
	default:
		t.link.answered(err)
		return errUpstream
	}
}

// sameDeadline reports whether contexts have a deadline, the same.
func sameDeadline(a, b context.Context) bool {
	at, ok := a.Deadline()
	other, too := b.Deadline()
	return ok && too && at.Equal(other)
}

// isAnswer reports whether an error is an answer of a Decider.
func isAnswer(err error) bool {
	for _, known := range []error{decider.ErrNoGrant, decider.ErrNoLease, decider.ErrNoLeasing, decider.ErrNoRate, decider.ErrOwnQuota, decider.ErrQuota} {
		if errors.Is(err, known) {
			return true
		}
	}
	_, rejected := errors.AsType[*weir.Rejection](err)
	return rejected
}

// exchange passes the exchanges of a Tier on.
type exchange struct{ tier *Counts }

// Exchange sends an exchange to the upstream.
func (e exchange) Exchange(ctx context.Context, x *leaf.Exchange) (leaf.Answer, error) {
	t := e.tier
	<-t.started
	if reason := t.link.blocked.Load(); reason != nil {
		return leaf.Answer{}, *reason
	}
	t.of.OnExchange()
	got, err := t.cfg.Assigner.Exchange(ctx, x)
	t.link.exchanged(err)
	if err == nil {
		t.countLeaves(&got)
	}
	return got, err
}

// A leafCount is the number of leaves by which limits are divided without the upstream. It
// rises at once, and falls after leafCountLife.
type leafCount struct {
	least int // it is never less

	now, before int // the most that was told in this period, and in the last one
	began       time.Time
}

// leafCountLife is how long a number of leaves counts.
const leafCountLife = 5 * time.Minute

// countLeaves takes in how many leaves share limits: any key's, or those of the keys of an answer,
// from an upstream that does not tell the former.
func (t *Counts) countLeaves(got *leaf.Answer) {
	c := &t.leaves
	if time.Since(c.began) > leafCountLife {
		c.began, c.before, c.now = time.Now(), c.now, 0
	}
	c.now = max(c.now, got.Leaves)
	for i := 0; i < len(got.Assignments) && got.Leaves == 0; i++ {
		c.now = max(c.now, got.Assignments[i].Leaves)
	}
	t.of.SetInstances(max(c.now, c.before, c.least))
}
