package client

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/waitq"
)

// maxBatch bounds the asks in one request.
const maxBatch = 1000

// An ask is a request for n tokens or units of a key, with the caller that waits for
// the answer. An ask without a wait is an element of a batch.
type ask struct {
	Key    string `json:"key"`
	N      int    `json:"n"`
	AtMost bool   `json:"at_most,omitempty"` // it takes as many of N as there are

	state atomic.Uint32 // the goroutine that changes it from asked decides what happens to the answer
	call  waitq.Call[result]
}

const (
	asked    = iota // the caller waits
	answered        // the result is sent
	left            // the caller has left; what is granted goes back
	kept            // the caller has left, and uses tokens that are granted
)

// A result is the answer to an ask, or an error.
type result struct {
	answer
	err error
}

func newAsk(key string, n int) *ask { return &ask{Key: key, N: n, call: waitq.NewCall[result]()} }

// waits reports whether the caller has not left.
func (a *ask) waits() bool { return a.state.Load() == asked }

// A batcher sends asks. If no request is in flight, it sends an ask at once. The
// asks that come meanwhile go together in the next request. So batches delay no
// ask, and grow with the load.
type batcher struct {
	parts chan struct{} // of capacity maxParts; has an element per request in flight

	mu      sync.Mutex // guards what follows
	queue   []*ask
	flying  bool // a goroutine sends
	refused map[string]refusal
}

// A refusal is the recent error of a key that the server does not accept. Calls with
// such a key fail at once, so that they do not fail the batches of others.
type refusal struct {
	err   error
	until time.Time // when to ask again
}

// The time for which refusals are kept, and their number. If there are too many, all
// are forgotten.
const (
	refusedFor = time.Second
	maxRefused = 1 << 12
)

// enqueue has an ask sent. The error says why it is not: the queue is full, or the
// server has just refused the key.
func (c *Client) enqueue(a *ask) error {
	b := &c.batcher
	b.mu.Lock()
	defer b.mu.Unlock()
	refused, known := b.refused[a.Key]
	switch {
	case known && time.Now().Before(refused.until):
		return refused.err
	case len(b.queue) >= c.cfg.Queue:
		return errLate
	case !b.flying && !c.work.start(c.fly):
		return errClosed
	}
	b.flying = true
	delete(b.refused, a.Key)
	b.queue = append(b.queue, a)
	return nil
}

// fly sends batches until the queue is empty.
func (c *Client) fly() {
	for asks := c.batcher.next(); len(asks) > 0; asks = c.batcher.next() {
		c.sendToOwners(slices.DeleteFunc(asks, func(a *ask) bool { return !a.waits() }))
	}
}

// next returns the asks of the next batch. If there are none, the goroutine that
// sends must end.
func (b *batcher) next() []*ask {
	b.mu.Lock()
	defer b.mu.Unlock()
	asks := b.queue[:min(len(b.queue), maxBatch)]
	b.queue = slices.Clone(b.queue[len(asks):]) // the asks of a batch do not stay in memory for the sake of others
	b.flying = len(asks) > 0
	return asks
}

// maxParts bounds the requests in flight after a batch was divided.
const maxParts = 64

// send sends asks in one request and distributes the answers.
func (c *Client) send(asks []*ask) {
	r, err := c.decide(asks)
	if refused, ok := err.(*StatusError); ok && refused.isPerKey() {
		c.divide(asks, refused)
		return
	}
	for i, a := range asks {
		if err != nil {
			c.answer(a, result{err: err})
		} else {
			c.answer(a, result{answer: r.Results[i]})
		}
	}
	if err == nil {
		c.study(asks)
	}
}

// decide sends asks, as soon as there is room for another request and unless all
// their callers have left by then.
func (c *Client) decide(asks []*ask) (reply, error) {
	c.batcher.parts <- struct{}{}
	defer leave(c.batcher.parts)
	if !slices.ContainsFunc(asks, (*ask).waits) {
		return reply{}, context.Canceled
	}
	body, err := encode(asks)
	if err != nil {
		return reply{}, err
	}
	ctx, cancel := context.WithTimeout(c.ctx, c.cfg.Timeout)
	defer cancel()
	return c.exchange(ctx, &call{
		method: http.MethodPost, key: asks[0].Key, path: target("rate"), body: body, most: int64(len(asks)) << 10,
		check: func(r *reply) bool { return len(r.Results) == len(asks) },
	})
}

// encode returns the body of a batch. The keys are clean.
func encode(asks []*ask) ([]byte, error) {
	return json.Marshal(struct {
		IDs      bool   `json:"ids"`
		Requests []*ask `json:"requests"`
	}{true, asks})
}

// divide handles a batch that the server has refused as a whole because of one key.
// The asks for that key get the error. The other asks are sent again, in two
// requests at once, so that one key does not fail the asks for others. That costs two
// more requests per such key if the server names it, as it does if the key is
// forbidden, and fewer than two per key of the batch otherwise.
func (c *Client) divide(asks []*ask, refused *StatusError) {
	key, known := blame(asks, refused)
	if known {
		c.batcher.refuse(key, refused)
	}
	others := slices.DeleteFunc(asks, func(a *ask) bool {
		blamed := known && a.Key == key
		if blamed {
			c.answer(a, result{err: refused})
		}
		return blamed
	})
	slices.SortFunc(others, func(a, b *ask) int { return strings.Compare(a.Key, b.Key) }) // equal ones stay together
	var parts sync.WaitGroup
	for part := range slices.Chunk(others, max((len(others)+1)/2, 1)) {
		parts.Go(func() { c.send(part) })
	}
	parts.Wait()
}

// refuse keeps the refusal of a key.
func (b *batcher) refuse(key string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.refused) >= maxRefused {
		clear(b.refused)
	}
	b.refused[key] = refusal{err, time.Now().Add(refusedFor)}
}

// blame returns the key that caused the refusal of a batch, and whether that is known: the server
// has named it, or the batch has no other key. The size of a batch of several asks is not the
// fault of its key: a part of them may be small enough.
func blame(asks []*ask, refused *StatusError) (key string, known bool) {
	if slices.ContainsFunc(asks, func(a *ask) bool { return a.Key == refused.key }) {
		return refused.key, true
	}
	key = asks[0].Key
	oneKey := !slices.ContainsFunc(asks, func(a *ask) bool { return a.Key != key })
	return key, len(asks) == 1 || oneKey && refused.Status != http.StatusRequestEntityTooLarge
}

// errLate is the error of a call that got no answer in time.
var errLate = errors.New("client: no answer in time")

// await waits for the answer to an ask, for at most timeout if that is not zero. If
// the server does not answer in time, the error is errLate.
func (c *Client) await(ctx context.Context, a *ask, timeout time.Duration) (answer, error) {
	r, err := a.call.Await(ctx, timeout, func(expired bool) bool {
		how := uint32(left)
		if expired && ctx.Err() == nil && c.cfg.Away != Deny {
			how = kept // the caller most likely goes on
		}
		return a.state.CompareAndSwap(asked, how)
	}, func(r result) { c.undo(a.Key, r) })
	switch {
	case err == waitq.ErrOverdue:
		c.counts.late.Add(1)
		return answer{}, errLate
	case err != nil:
		return answer{}, err
	}
	return r.answer, r.err
}

// answer gives a result to the caller of an ask. Tokens that the server has granted are
// taken from the Client's share, too. If the caller has left, what was granted goes back.
func (c *Client) answer(a *ask, r result) {
	if a.state.CompareAndSwap(asked, answered) {
		switch {
		case r.ID == "":
		case a.AtMost:
			c.limits.Charge(a.Key, min(r.Granted, a.N))
		default:
			c.limits.Charge(a.Key, a.N)
		}
		a.call.Answer(r)
	} else if a.state.Load() == left {
		c.undo(a.Key, r)
	}
}

// undo gives back what the server has granted for a key.
func (c *Client) undo(key string, r result) {
	if r.LeaseID != "" {
		c.giveBackLease(key, r.LeaseID, weir.Ignored)
	} else {
		c.settle(key, r.ID, 0)
	}
}
