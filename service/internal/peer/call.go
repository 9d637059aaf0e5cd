package peer

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/peer/wire"
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
	kind   wire.Kind
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

	key string // of a request that may wait: an abandoned call gives its grant back
}

// A callPool keeps calls for the next requests. Those of one Client have a pool, because a channel
// must not leave the bubble of a test.
type callPool struct{ calls sync.Pool }

func (p *callPool) get(k wire.Kind) *call {
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
	case wire.KindDecide:
		return wire.AppendRequest(b, c.req, 0), nil
	case wire.KindWait:
		flags := uint64(wire.WantsID) // for an abandoned call
		if c.req.OnWait != nil {
			flags |= wire.WantsWaits
		}
		return wire.AppendRequest(wire.AppendSpan(b, c.deadline), c.req, flags), nil
	case wire.KindBatch, wire.KindDescriptors:
		return wire.AppendBatch(b, c.reqs, c.all, c.deadline)
	}
	return append(b, c.payload...), nil
}

// read reads the answer, which came at the instant now.
func (c *call) read(d *wire.Decoder, now time.Duration, rules wire.KnownRules) {
	switch c.kind {
	case wire.KindDecide, wire.KindWait:
		d.Verdict(c.verdict, now, rules)
	case wire.KindBatch, wire.KindDescriptors:
		c.ok = d.Octet()&1 != 0
		n := d.Uvarint()
		if n != uint64(len(c.reqs)) {
			d.Fail()
			return
		}
		for i := range c.reqs {
			e := d.Element()
			if e.Verdict(&c.verdicts[i], now, rules) {
				c.reqs[i].Quota = nil
			}
			d.Failed = d.Failed || e.Failed
		}
	default:
		c.answer = append([]byte(nil), d.Rest...)
	}
}
