package peer

import (
	"context"
	"encoding/binary"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// States of a call. Only the goroutine that moves it from pending may touch the verdicts of the
// caller.
const (
	pending   uint32 = iota
	answered         // the reader has, or is about to have, the answer
	abandoned        // the caller has left, or there is none
)

// An event of a call.
type event bool

const (
	waits event = false // the request has begun to wait
	done  event = true  // the call has ended
)

// A call is a request without an answer.
type call struct {
	pool   *callPool
	kind   kind
	state  atomic.Uint32
	events chan event // with room for both events
	id     uint64     // on its link, until it ends
	size   int        // of the frame

	// The request.
	req      *decider.Request
	reqs     []decider.Request
	all      bool
	deadline time.Duration // time left for the caller; 0 without a bound
	payload  []byte        // of other kinds

	// The answer.
	verdict  *decider.Verdict
	verdicts []decider.Verdict
	ok       bool
	err      error
	step     decider.Step
	answer   []byte // of other kinds

	key string // of a request that may wait, whose grant an abandoned call gives back
}

// A callPool keeps calls for the next requests. Those of one Client have a pool, because a channel
// must not leave the bubble of a test.
type callPool struct{ calls sync.Pool }

func (p *callPool) get(k kind) *call {
	c, _ := p.calls.Get().(*call)
	if c == nil {
		c = &call{events: make(chan event, 2), pool: p}
	}
	c.kind = k
	c.state.Store(pending)
	return c
}

// free lets the call be used again, by its last user.
func (c *call) free() {
	for len(c.events) > 0 {
		<-c.events
	}
	c.req, c.reqs, c.payload, c.verdict, c.verdicts, c.err, c.answer, c.key = nil, nil, nil, nil, nil, nil, nil, ""
	c.all, c.ok, c.step, c.deadline, c.size = false, false, 0, 0, 0
	c.pool.calls.Put(c)
}

// timeLeft returns the time until the deadline of ctx, at least 1; 0 without one.
func timeLeft(ctx context.Context) time.Duration {
	if at, ok := ctx.Deadline(); ok {
		return max(time.Until(at), 1)
	}
	return 0
}

// append appends the payload of the request.
func (c *call) append(b []byte) ([]byte, error) {
	switch c.kind {
	case kindDecide:
		return appendRequest(b, c.req, 0), nil
	case kindWait:
		flags := uint64(wantsID) // for an abandoned call
		if c.req.OnWait != nil {
			flags |= wantsWaits
		}
		return appendRequest(appendSpan(b, c.deadline), c.req, flags), nil
	case kindBatch, kindDescriptors:
		return c.appendBatch(b)
	}
	return append(b, c.payload...), nil
}

func (c *call) appendBatch(b []byte) ([]byte, error) {
	if len(c.reqs) > maxBatch {
		return b, ErrTooLarge
	}
	all := byte(0)
	if c.all {
		all = 1
	}
	b = append(appendSpan(b, c.deadline), all)
	b = binary.AppendUvarint(b, uint64(len(c.reqs)))
	for i := range c.reqs {
		at, ok := len(b), false
		b, ok = endElement(appendRequest(beginElement(b), &c.reqs[i], 0), at)
		if !ok || len(b) > 2*MaxFrame {
			return b, ErrTooLarge
		}
	}
	return b, nil
}

// read reads the answer, which came at the instant now.
func (c *call) read(d *decoder, now time.Duration, rules knownRules) {
	switch c.kind {
	case kindDecide, kindWait:
		d.verdict(c.verdict, now, rules)
	case kindBatch, kindDescriptors:
		c.ok = d.octet()&1 != 0
		n := d.uvarint()
		if n != uint64(len(c.reqs)) {
			d.fail()
			return
		}
		for i := range c.reqs {
			e := d.element()
			if e.verdict(&c.verdicts[i], now, rules) {
				c.reqs[i].Quota = nil
			}
			d.failed = d.failed || e.failed
		}
	default:
		c.answer = append([]byte(nil), d.b...)
	}
}
