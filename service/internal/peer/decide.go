package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/peer/wire"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// ask makes a call and waits for its answer. onWait is called when the request begins to wait. If
// mine is true, the call is over, and the caller of ask frees it. If mine is false, ctx has ended
// before the answer came, and the call belongs to the link.
func (c *Client) ask(ctx context.Context, one *call, onWait func()) (err error, mine bool) {
	if err := ctx.Err(); err != nil {
		return err, true
	}
	l, err := c.pick()
	if err == nil {
		c.requests.Add(1)
		err = l.start(one)
	}
	if err != nil {
		c.failures.Add(1)
		return err, true
	}
	for {
		select {
		case e := <-one.events:
			if e == done {
				if one.err != nil && (errors.Is(one.err, wire.ErrUnavailable) || one.err == wire.ErrBusy) {
					c.failures.Add(1)
				}
				return one.err, true
			}
			if onWait != nil {
				onWait()
			}
		case <-ctx.Done():
			if l.abandon(one) {
				return ctx.Err(), false
			}
			ctx = context.Background() // it ends just now
		}
	}
}

// Decide decides at once: see decider.Decider.
func (c *Client) Decide(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	checkCost(req.N)
	one := c.pool.get(wire.KindDecide)
	one.req, one.verdict = req, v
	err, mine := c.ask(ctx, one, nil)
	if mine {
		one.free()
	}
	return err
}

func checkCost(n int) {
	if n < 0 {
		panic("peer: negative cost")
	}
}

// Wait waits for missing tokens: see decider.Decider.
func (c *Client) Wait(ctx context.Context, req *decider.Request, v *decider.Verdict) error {
	checkCost(req.N)
	one := c.pool.get(wire.KindWait)
	one.req, one.verdict, one.deadline = req, v, timeLeft(ctx)
	*v = decider.Verdict{Answers: v.Answers[:0]}
	var began time.Time
	err, mine := c.ask(ctx, one, func() {
		began = time.Now()
		if req.OnWait != nil {
			req.OnWait()
		}
	})
	if err != nil && !began.IsZero() {
		v.Waited = max(time.Since(began), 1)
	}
	if mine {
		one.free()
	}
	return err
}

// Batch decides many requests: see decider.Decider.
func (c *Client) Batch(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	return c.batch(ctx, wire.KindBatch, reqs, all, verdicts)
}

// Descriptors decides the descriptors of one request: see decider.Decider.
func (c *Client) Descriptors(ctx context.Context, reqs []decider.Request, all bool, verdicts []decider.Verdict) (bool, error) {
	return c.batch(ctx, wire.KindDescriptors, reqs, all, verdicts)
}

// batch makes a call of kind k with many requests.
func (c *Client) batch(ctx context.Context, k wire.Kind, reqs []decider.Request, all bool, verdicts []decider.Verdict) (ok bool, err error) {
	for i := range reqs {
		checkCost(reqs[i].N)
	}
	one := c.pool.get(k)
	one.reqs, one.all, one.verdicts, one.deadline = reqs, all, verdicts[:len(reqs)], timeLeft(ctx)
	err, mine := c.ask(ctx, one, nil)
	if mine {
		ok = one.ok
		one.free()
	}
	return ok, err
}

// AppendGrantID appends the id that came with the grant: see decider.Decider.
func (c *Client) AppendGrantID(b []byte, g decider.Grant, _ string) []byte { return append(b, g.ID...) }

// request makes a call with a payload, and returns that of the answer.
func (c *Client) request(ctx context.Context, k wire.Kind, payload []byte, onWait func()) (answer []byte, step decider.Step, err error) {
	one := c.pool.get(k)
	one.payload = payload
	err, mine := c.ask(ctx, one, onWait)
	if mine {
		answer, step = one.answer, one.step
		one.free()
	}
	return answer, step, err
}

// Settle reports the true cost of a grant: see decider.Decider.
func (c *Client) Settle(ctx context.Context, key, id string, n int) (decider.Settlement, error) {
	checkCost(n)
	b, _, err := c.request(ctx, wire.KindSettle, wire.AppendSettle(nil, key, id, n), nil)
	d := wire.Decoder{Rest: b}
	return decider.Settlement{Was: d.Count(), Charged: d.Count()}, d.Check(err)
}

// Acquire takes a lease: see decider.Decider.
func (c *Client) Acquire(ctx context.Context, req decider.LeaseRequest) (decider.Lease, error) {
	if req.N < 1 {
		panic("peer: a lease of less than one unit")
	}
	b, step, err := c.request(ctx, wire.KindAcquire, wire.AppendLeaseRequest(nil, &req, timeLeft(ctx)), req.OnWait)
	if err != nil {
		return decider.Lease{Step: step}, err
	}
	d := wire.Decoder{Rest: b}
	l := d.Lease()
	return l, d.Check(nil)
}

// Renew extends a lease: see decider.Decider.
func (c *Client) Renew(ctx context.Context, key, id string, ttl time.Duration) (decider.Lease, error) {
	b, _, err := c.request(ctx, wire.KindRenew, wire.AppendSpan(wire.AppendText(wire.AppendText(nil, key), id), ttl), nil)
	d := wire.Decoder{Rest: b}
	l := d.Lease()
	return l, d.Check(err)
}

// Return ends a lease: see decider.Decider.
func (c *Client) Return(ctx context.Context, key, id string, o weir.Outcome) error {
	_, _, err := c.request(ctx, wire.KindReturn, wire.AppendReturn(nil, key, id, o), nil)
	return err
}

// Explain reports what a request for the key would get: see decider.Decider.
func (c *Client) Explain(ctx context.Context, key string) (x decider.Explanation, err error) {
	b, _, err := c.request(ctx, wire.KindExplain, wire.AppendText(wire.AppendSpan(nil, timeLeft(ctx)), key), nil)
	if err != nil {
		return x, err
	}
	return wire.ReadExplanation(b)
}

// Top returns the keys with the most requests: see decider.Decider.
func (c *Client) Top(ctx context.Context, n int) ([]decider.Seen, error) {
	b, _, err := c.request(ctx, wire.KindTop, binary.AppendUvarint(wire.AppendSpan(nil, timeLeft(ctx)), uint64(max(n, 0))), nil)
	if err != nil {
		return nil, err
	}
	return wire.ReadSeen(b)
}

// Call makes a request of serve.Config.Calls. An error of the function there comes with its
// text.
func (c *Client) Call(ctx context.Context, name string, body []byte) ([]byte, error) {
	b, _, err := c.request(ctx, wire.KindCall, append(wire.AppendText(wire.AppendSpan(nil, timeLeft(ctx)), name), body...), nil)
	return b, err
}

// Exchange shares rates out among leaves: see decider.Decider.
func (c *Client) Exchange(ctx context.Context, x *decider.LeafExchange, got *decider.LeafAnswer) error {
	b, ok := wire.AppendExchange(nil, x, timeLeft(ctx))
	if !ok {
		return wire.ErrTooLarge
	}
	b, _, err := c.request(ctx, wire.KindExchange, b, nil)
	if err != nil {
		return err
	}
	d := wire.Decoder{Rest: b}
	d.LeafAnswer(x, got)
	return d.Check(nil)
}
