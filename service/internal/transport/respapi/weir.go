package respapi

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/internal/outcome"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// take is WEIR.TAKE key [n].
func (c *conn) take() result {
	n, ok := 1, true
	if len(c.Args) > 2 {
		if n, ok = count(c.Args[2], 0); !ok {
			return c.fail(wantCount)
		}
	}
	c.request = decider.Request{Key: c.request.Key, N: n, WantID: n > 0}
	if err := c.api.decider.Decide(context.Background(), &c.request, &c.verdict); err != nil {
		return c.undecided(err)
	}
	return c.verdictReply(false)
}

// wait is WEIR.WAIT key [n] [TIMEOUT seconds].
func (c *conn) wait() result {
	args, n, ok := c.Args[2:], 1, true
	if len(args)%2 == 1 {
		if n, ok = count(args[0], 0); !ok {
			return c.fail(wantCount)
		}
		args = args[1:]
	}
	opts, bad := options(args, "timeout")
	if bad != "" {
		return c.fail(bad)
	}
	timeout, limited, ok := opts.duration(0)
	if !ok {
		return c.fail(wantDuration)
	}
	ctx := c.waiting(timeout, limited)
	c.request = decider.Request{Key: c.key(), N: n, OnWait: c.onWait, WantID: n > 0}
	v := &c.verdict
	err := c.api.decider.Wait(ctx, &c.request, v)
	switch {
	case !c.resume():
		if err == nil && v.OK && n > 0 {
			id := c.api.decider.AppendGrantID(nil, v.Grant, c.request.Key)
			_, _ = c.api.decider.Settle(context.Background(), c.request.Key, string(id), 0) // an error cannot be handled
		}
		return resultError
	case errors.Is(err, context.DeadlineExceeded): // the estimate on arrival was earlier
		v.Deny(weir.TooLate, 0)
	case err != nil:
		return c.undecided(err)
	}
	return c.verdictReply(true)
}

// undecided replies with an error of a decision about tokens.
func (c *conn) undecided(err error) result {
	if errors.Is(err, decider.ErrNoRate) {
		return c.fail("ERR " + err.Error() + ": WEIR.LEASE")
	}
	return c.fail(unavailable)
}

// verdictReply replies with the verdict.
func (c *conn) verdictReply(waits bool) result {
	v := &c.verdict
	if !v.OK && v.Reason == weir.Closed {
		return c.fail("UNAVAILABLE " + v.Step.Closed())
	}
	l := c.begin()
	c.allowed(&l, v.OK)
	if n, ok := v.Remaining(); ok {
		c.number(&l, "remaining", int64(n))
	}
	if v.OK && c.request.N > 0 {
		c.id = c.api.decider.AppendGrantID(c.id[:0], v.Grant, c.request.Key)
		c.text(&l, "request_id", text(c.id))
	}
	if !v.OK {
		rule := ""
		if a := v.Denied(); a != nil {
			rule = a.Rule.Name
		}
		c.retry(&l, v.Reason, rule, v.RetryAfter)
	}
	if waits {
		c.millis(&l, "waited_ms", v.Waited)
		c.number(&l, "place", int64(v.Place))
	}
	c.step(&l, v.Step)
	c.end(l)
	if !v.OK {
		return resultDenied
	}
	return resultOK
}

// settle is WEIR.SETTLE key id n.
func (c *conn) settle() result {
	n, ok := count(c.Args[3], 0)
	if !ok {
		return c.fail(wantCount)
	}
	done, err := c.api.decider.Settle(context.Background(), c.key(), string(c.Args[2]), n)
	switch {
	case errors.Is(err, decider.ErrNoGrant):
		return c.fail("NOGRANT " + err.Error())
	case err != nil:
		return c.fail(unavailable)
	}
	c.fields(2)
	l := list{}
	c.number(&l, "was", int64(done.Was))
	c.number(&l, "charged", int64(done.Charged))
	return resultOK
}

// lease is WEIR.LEASE key [N n] [TTL seconds] [WAIT seconds].
func (c *conn) lease() result {
	opts, bad := options(c.Args[2:], "n", "ttl", "wait")
	if bad != "" {
		return c.fail(bad)
	}
	req := decider.LeaseRequest{Key: c.key(), N: 1}
	var ok, given bool
	if opts[0] != nil {
		if req.N, ok = count(opts[0], 1); !ok {
			return c.fail(wantUnits)
		}
	}
	if req.TTL, given, ok = opts.duration(1); !ok || given && req.TTL < time.Millisecond {
		return c.fail(wantDuration)
	}
	timeout, waits, ok := opts.duration(2)
	if !ok {
		return c.fail(wantDuration)
	}
	req.Wait = waits
	ctx := c.waiting(timeout, waits)
	if waits {
		c.await()
	}
	l, err := c.api.decider.Acquire(ctx, req)
	if !c.resume() {
		if err == nil {
			_ = c.api.decider.Return(context.Background(), req.Key, l.ID, weir.Ignored) // an error cannot be handled
		}
		return resultError
	}
	return c.leaseReply(l, err)
}

// renew is WEIR.RENEW key id [TTL seconds].
func (c *conn) renew() result {
	opts, bad := options(c.Args[3:], "ttl")
	if bad != "" {
		return c.fail(bad)
	}
	ttl, given, ok := opts.duration(0)
	if !ok || given && ttl < time.Millisecond {
		return c.fail(wantDuration)
	}
	return c.leaseReply(c.api.decider.Renew(context.Background(), c.key(), string(c.Args[2]), ttl))
}

// release is WEIR.RELEASE key id [outcome].
func (c *conn) release() result {
	how := weir.Success
	if len(c.Args) > 3 {
		for how = 0; how < outcome.Count && !is(c.Args[3], how.String()); how++ {
		}
		if how == outcome.Count {
			return c.fail("ERR the outcome must be success, dropped, ignored, timed_out, left, late or gone")
		}
	}
	if err := c.api.decider.Return(context.Background(), c.key(), string(c.Args[2]), how); err != nil {
		return c.leaseReply(decider.Lease{}, err)
	}
	c.ok()
	return resultOK
}

// leaseReply replies with a lease, unless there is an error.
func (c *conn) leaseReply(lease decider.Lease, err error) result {
	rejection, rejected := errors.AsType[*weir.Rejection](err)
	switch {
	case errors.Is(err, decider.ErrNoLeasing):
		return c.fail("NOLEASING " + err.Error())
	case errors.Is(err, decider.ErrNoLease):
		return c.fail("NOLEASE " + err.Error())
	case rejected && rejection.Reason == weir.Closed:
		return c.fail("UNAVAILABLE " + lease.Step.Closed())
	case errors.Is(err, context.DeadlineExceeded) && !rejected:
		rejection, rejected = &weir.Rejection{Reason: weir.TooLate}, true
	case err != nil && !rejected:
		return c.fail(unavailable)
	}
	l := c.begin()
	c.allowed(&l, !rejected)
	if rejected {
		c.retry(&l, rejection.Reason, "", rejection.RetryAfter)
		c.step(&l, lease.Step)
		c.end(l)
		return resultDenied
	}
	c.text(&l, "lease_id", lease.ID)
	c.number(&l, "token", int64(lease.Token))
	c.number(&l, "ttl_ms", lease.TTL.Milliseconds())
	c.number(&l, "limit", int64(lease.Limit))
	c.number(&l, "inflight", int64(lease.Inflight))
	c.millis(&l, "waited_ms", lease.Waited)
	c.step(&l, lease.Step)
	c.end(l)
	return resultOK
}

// values are the values of options, in the order of their names; nil if one is not given.
type values [3][]byte

// options reads pairs of a name and a value. bad is the error if they are none.
func options(args [][]byte, names ...string) (v values, bad string) {
	if len(args)%2 == 1 {
		return v, wrongSyntax
	}
	for ; len(args) > 0; args = args[2:] {
		found := false
		for i, name := range names {
			if is(args[0], name) {
				if v[i] != nil {
					return v, "ERR " + strings.ToUpper(name) + " is given twice"
				}
				v[i], found = args[1][:len(args[1]):len(args[1])], true
			}
		}
		if !found {
			return v, wrongSyntax
		}
	}
	return v, ""
}

// duration returns the value of an option that is a time.
func (v *values) duration(i int) (d time.Duration, given, ok bool) {
	if v[i] == nil {
		return 0, false, true
	}
	d, ok = duration(v[i])
	return d, true, ok
}
