package client

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/waitq"
)

// maxBatch bounds the asks in one request.
const maxBatch = 1000

// An ask is a request that does not wait for tokens.
type ask struct {
	key   string
	n     int
	state atomic.Uint32 // the goroutine that changes it from asked decides what happens to the answer
	call  waitq.Call[reply]
}

const (
	asked    = iota // the caller waits
	answered        // the reply is sent
	left            // the caller has left; tokens that are granted go back
	kept            // the caller has left, and uses tokens that are granted
)

// A reply is the answer to an ask, or an error.
type reply struct {
	answer
	err error
}

// waits reports whether the caller has not left.
func (a *ask) waits() bool { return a.state.Load() == asked }

// leave reports whether the caller has left before the reply.
func (a *ask) leave(how uint32) bool { return a.state.CompareAndSwap(asked, how) }

// A batcher sends asks. If no request is in flight, it sends an ask at once. The
// asks that come meanwhile go together in the next request. So batches delay no
// ask, and grow with the load.
type batcher struct {
	parts chan struct{} // of capacity maxParts; has an element per request in flight

	mu      sync.Mutex // guards what follows
	queue   []*ask
	flying  bool // a goroutine sends
	refused refusals
}

func (b *batcher) init() {
	b.parts = make(chan struct{}, maxParts)
	b.refused = refusals{}
}

// enqueue has an ask sent. The error says why it is not: the queue is full, or the
// server has just refused the key.
func (c *Client) enqueue(a *ask) error {
	b := &c.batcher
	b.mu.Lock()
	if err := b.refused.find(a.key); err != nil {
		b.mu.Unlock()
		return err
	}
	if len(b.queue) >= c.cfg.Queue {
		b.mu.Unlock()
		return errLate
	}
	b.queue = append(b.queue, a)
	first := !b.flying
	b.flying = true
	b.mu.Unlock()
	if first && !c.start(c.fly) {
		c.fly() // closed: no request is sent
	}
	return nil
}

// fly sends batches until the queue is empty.
func (c *Client) fly() {
	var buf []*ask
	for {
		if buf = c.batcher.next(buf[:0]); len(buf) == 0 {
			return
		}
		c.send(buf)
		clear(buf)
	}
}

// next appends the asks of the next batch. If there are none, the goroutine that
// sends must end.
func (b *batcher) next(batch []*ask) []*ask {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := 0
	for ; i < len(b.queue) && len(batch) < maxBatch; i++ {
		if a := b.queue[i]; a.waits() {
			batch = append(batch, a)
		}
	}
	n := copy(b.queue, b.queue[i:])
	clear(b.queue[n:])
	b.queue = b.queue[:n]
	b.flying = len(batch) > 0
	return batch
}

// maxParts bounds the requests in flight after a batch was divided.
const maxParts = 64

// send sends asks in one request and distributes the answers.
func (c *Client) send(asks []*ask) {
	answers, err := c.decide(asks)
	if refused, ok := err.(*StatusError); ok && refused.isPerKey() {
		c.divide(asks, refused)
		return
	}
	for i, a := range asks {
		if err != nil {
			c.answer(a, reply{err: err})
		} else {
			c.answer(a, reply{answer: answers[i]})
		}
	}
	if err == nil {
		c.study(asks)
	}
}

// decide sends asks, as soon as there is room for another request and unless all
// their callers have left by then.
func (c *Client) decide(asks []*ask) (answers []answer, err error) {
	c.batcher.parts <- struct{}{}
	defer func() { <-c.batcher.parts }()
	if !slices.ContainsFunc(asks, (*ask).waits) {
		return nil, errLeft
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Timeout)
	defer cancel()
	err = c.exchange(ctx, &call{
		method: http.MethodPost, path: []string{"rate"}, body: appendBatch(nil, asks), most: int64(len(asks)) << 10,
		read: func(body []byte) (err error) {
			answers, err = decodeBatch(body, len(asks))
			return err
		},
	})
	return answers, err
}

// answer gives a reply to the caller of an ask, unless it has left.
func (c *Client) answer(a *ask, r reply) {
	if a.state.CompareAndSwap(asked, answered) {
		a.call.Answer(r)
		return
	}
	if a.state.Load() == left && r.OK {
		c.settle(a.key, r.ID, 0)
	}
}

// errLate is the error of a call that got no answer in time.
var errLate = errors.New("client: no answer in time")

// ask asks for tokens without a wait. If the server does not answer in time, the
// error is one for which away is true.
func (c *Client) ask(ctx context.Context, key string, n int) (answer, error) {
	if err := ctx.Err(); err != nil {
		return answer{}, err
	}
	c.counts.asked.Add(1)
	if err := c.near(key); err != nil {
		return answer{}, err
	}
	a := &ask{key: key, n: n, call: waitq.NewCall[reply]()}
	if err := c.enqueue(a); err != nil {
		return answer{}, err
	}
	r, err := a.call.Await(ctx, c.cfg.Timeout, func(expired bool) bool {
		how := uint32(left)
		if expired && ctx.Err() == nil && c.cfg.Away != Deny {
			how = kept // the caller most likely goes on
		}
		return a.leave(how)
	}, func(r reply) {
		if r.OK {
			c.settle(key, r.ID, 0)
		}
	})
	switch {
	case err == waitq.ErrOverdue:
		c.counts.late.Add(1)
		return answer{}, errLate
	case err != nil:
		return answer{}, err
	}
	return r.answer, r.err
}

// Take takes n tokens of a key if they are available, without a wait. With n = 0 it
// takes none, and reports whether one is available.
//
// If the server does not answer in time, Config.Away decides. The error is the error
// of ctx if that ended first, a *StatusError if the server does not accept the
// request, or a *weir.Rejection, weir.Closed, if the Client is closed or the server
// is shutting down. An invalid key, or n above math.MaxInt32, is also an error. The
// Decision's ResetAfter is not known, and zero. Take panics if n < 0.
func (c *Client) Take(ctx context.Context, key string, n int) (weir.Decision, error) {
	check(n)
	key, err := clean(key, n)
	if err != nil {
		return weir.Decision{}, err
	}
	a, err := c.ask(ctx, key, n)
	switch {
	case away(err):
		return c.local(key).Take(n), nil
	case err != nil:
		return weir.Decision{}, err
	}
	return a.decision(), nil
}

func check(n int) {
	if n < 0 {
		panic("client: negative cost")
	}
}
