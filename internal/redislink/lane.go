package redislink

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/internal/circuit"
	"github.com/weir-go/weir/internal/waitq"
)

// A Lane sends the calls for some of the keys. It has one pipeline in flight. The calls that
// come meanwhile go together in the next one, so that pipelines delay no call, and grow with
// the load. If a pipeline takes longer than the timeout, the lane goes on with another.
type Lane struct {
	link     *Link
	Index    int // from 0; of a server that is not a Cluster, there is only one
	breaker  circuit.Breaker
	answered atomic.Int64 // when the server last answered, since epoch; 0 if never

	mu      sync.Mutex // guards what follows
	calls   []*Call
	sending bool // a goroutine sends pipelines
	stuck   int  // goroutines that still wait for an overdue pipeline
}

// Ask makes a call and waits for its answer. The error is ErrAway if the caller has to decide,
// ErrClosed, that of ctx, or says that a key in the server has a value of another type.
func (l *Lane) Ask(ctx context.Context, c *Call) ([]int64, error) {
	if err := l.Begin(ctx, c); err != nil {
		return nil, err
	}
	return l.Await(ctx, c)
}

// Begin has a call sent. If there is no error, Await must follow. A caller with several calls
// begins them all, so that they go together in one pipeline.
func (l *Lane) Begin(ctx context.Context, c *Call) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case l.link.ctx.Err() != nil:
		return ErrClosed
	case l.breaker.Open():
		if due, _ := l.breaker.Probe(time.Now()); due {
			l.link.Run(func() { l.probe(c) })
		}
		return ErrAway
	}
	c.wait = waitq.NewCall[Answer]()
	return l.enqueue(c)
}

// Await waits for the answer of a call that has begun.
func (l *Lane) Await(ctx context.Context, c *Call) ([]int64, error) {
	a, err := c.wait.Await(ctx, l.link.cfg.Timeout, func(bool) bool { return c.left.CompareAndSwap(asked, gone) }, func(a Answer) { c.takeBack(a) })
	switch {
	case err == waitq.ErrOverdue:
		l.link.count.late.Add(1)
		return nil, ErrAway
	case err != nil:
		return nil, err
	case a.Err == ErrAway && l.link.ctx.Err() != nil:
		return nil, ErrClosed
	}
	return a.Numbers, a.Err
}

// Send makes a call without a caller, as soon as the server answers. The answer goes to Then.
func (l *Lane) Send(c *Call) {
	if l.breaker.Open() || l.enqueue(c) != nil {
		c.Then(Answer{Err: ErrAway})
	}
}

// enqueue adds a call to the next pipeline, and starts the goroutine that sends pipelines unless it runs.
func (l *Lane) enqueue(c *Call) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) >= l.link.cfg.Queue {
		return ErrAway
	}
	if !l.sending && l.stuck < maxStuck {
		if !l.link.Run(l.sendPipelines) {
			return ErrClosed
		}
		l.sending = true
	}
	l.calls = append(l.calls, c)
	return nil
}

// sendPipelines sends pipelines until no calls are left, or until a pipeline takes too long and
// another goroutine has taken over.
func (l *Lane) sendPipelines() {
	for calls := l.next(); len(calls) > 0; calls = l.next() {
		taken := make(chan struct{})
		overdue := time.AfterFunc(l.link.cfg.Timeout, func() { l.takeOver(taken) })
		err := l.Exchange(calls)
		if !overdue.Stop() {
			if <-taken; !l.goOn() {
				return
			}
			continue
		}
		if l.note(err); err == nil {
			l.catchUp()
		}
	}
}

// next returns the calls of the next pipeline. If there are none, the goroutine must end.
func (l *Lane) next() []*Call {
	l.mu.Lock()
	defer l.mu.Unlock()
	for {
		calls := l.calls[:min(len(l.calls), MaxBatch)]
		l.calls = append([]*Call(nil), l.calls[len(calls):]...)
		waits := calls[:0]
		for _, c := range calls {
			if c.left.Load() != gone {
				waits = append(waits, c)
			}
		}
		if l.sending = len(calls) > 0; !l.sending || len(waits) > 0 {
			return waits
		}
	}
}

// takeOver continues with other calls while a pipeline takes too long. It closes taken when it has.
func (l *Lane) takeOver(taken chan<- struct{}) {
	l.mu.Lock()
	l.stuck++
	l.sending = len(l.calls) > 0 && l.stuck < maxStuck && l.link.Run(l.sendPipelines)
	l.mu.Unlock()
	close(taken)
	l.note(ErrAway)
}

// goOn is for the end of a pipeline that has taken too long. It reports whether its goroutine must send the
// calls that wait, because no other one does.
func (l *Lane) goOn() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stuck--
	if l.sending || len(l.calls) == 0 {
		return false
	}
	l.sending = true
	return true
}

// abandon answers the calls that were not sent before the end.
func (l *Lane) abandon() {
	l.mu.Lock()
	calls := l.calls
	l.calls = nil
	l.mu.Unlock()
	for _, c := range calls {
		c.deliver(Answer{Err: ErrAway})
	}
}

// note tells the breaker how a pipeline went.
func (l *Lane) note(err error) {
	l.link.count.pipelines.Add(1)
	if err == nil {
		l.answered.Store(int64(max(time.Since(l.link.epoch), 1)))
	} else {
		l.link.count.failures.Add(1)
		if l.link.cfg.Reload != nil {
			l.link.cfg.Reload(l.link.ctx)
		}
	}
	if l.breaker.Note(time.Now(), err) {
		l.link.Run(func() {
			l.link.telling.Lock()
			defer l.link.telling.Unlock()
			l.breaker.Tell(l.link.cfg.OnAway)
		})
	}
}

// Known reports whether the server has answered at most d ago.
func (l *Lane) Known(d time.Duration) bool {
	at := time.Duration(l.answered.Load())
	return at > 0 && time.Since(l.link.epoch)-at <= d
}

// probe asks whether the server is back. First come the calls of the backlog, without
// which the server does not know what was decided while it was away.
func (l *Lane) probe(c *Call) {
	began := time.Now()
	err := l.Exchange([]*Call{{Script: c.Script, Keys: c.Keys, Args: c.Look(), Then: func(Answer) {}}})
	if err == nil && time.Since(began) > l.link.cfg.Timeout {
		err = ErrAway
	}
	for err == nil && l.link.ctx.Err() == nil {
		calls := l.backlog()
		if len(calls) == 0 {
			break
		}
		err = l.Exchange(calls)
	}
	l.note(err)
	l.breaker.Probed(time.Now())
}

// catchUp makes the calls of the backlog while the server is not away.
func (l *Lane) catchUp() {
	for _, c := range l.backlog() {
		l.Send(c)
	}
}

func (l *Lane) backlog() []*Call {
	if l.link.cfg.Backlog == nil {
		return nil
	}
	return l.link.cfg.Backlog(l.Index)
}

// Away reports whether the lane considers the server away.
func (l *Lane) Away() bool { return l.breaker.Open() }

// RetryAfter returns the time until the next probe of a server that is away.
func (l *Lane) RetryAfter() time.Duration { return l.breaker.RetryAfter(time.Now()) }

// Exchange sends calls in a pipeline and hands out the answers. The error says that the
// server was away for all calls.
func (l *Lane) Exchange(calls []*Call) error {
	began := time.Now()
	answers := l.pipeline(calls, false)
	var unknown []int // calls with a script that the server does not know
	for i, a := range answers {
		if a.Err != nil && strings.HasPrefix(answerOf(a.Err), "NOSCRIPT ") {
			unknown = append(unknown, i)
		}
	}
	if len(unknown) > 0 {
		again := make([]*Call, len(unknown))
		for j, i := range unknown {
			again[j] = calls[i]
		}
		for j, a := range l.pipeline(again, true) {
			answers[unknown[j]] = a
		}
	}
	var away, refused error
	for i, c := range calls {
		a := answers[i]
		if a.Err != nil {
			refused = a.Err
			if !strings.HasPrefix(answerOf(a.Err), "WRONGTYPE ") {
				away = a.Err
				a.Err = ErrAway
			}
		}
		c.deliver(a)
	}
	l.link.tellRefused(refused)
	for _, a := range answers {
		if a.Err == nil {
			if l.link.cfg.OnPipeline != nil {
				l.link.cfg.OnPipeline(time.Since(began))
			}
			return nil
		}
	}
	return away
}

// pipeline runs the scripts of calls, by their sources or by their hashes.
func (l *Lane) pipeline(calls []*Call, source bool) []Answer {
	ctx, cancel := context.WithTimeout(l.link.sending, l.link.cfg.Timeout)
	defer cancel()
	return l.link.cfg.Send(ctx, calls, source)
}

// deliver gives an answer to the caller. If the caller has left, what the server has granted
// goes back.
func (c *Call) deliver(a Answer) {
	switch {
	case c.Then != nil:
		c.Then(a)
	case c.left.CompareAndSwap(asked, answered):
		c.wait.Answer(a)
	default:
		c.takeBack(a)
	}
}

func (c *Call) takeBack(a Answer) {
	if c.Undo != nil && a.Err == nil {
		c.Undo(a.Numbers)
	}
}
