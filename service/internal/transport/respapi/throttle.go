package respapi

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/service/internal/server/decider"
)

// Errors of CL.THROTTLE, in the words of redis-cell.
const (
	cellUsage   = "Cell error: Usage: cl.throttle <key> <max_burst> <count per period> <period> [<quantity>]"
	cellInteger = "Cell error: Couldn't parse as integer: "
	cellZero    = "Cell error: Zero rates are not supported"
	cellBurst   = "Cell error: max_burst must be >= 0"
	cellAmount  = "Cell error: quantity must be >= 0"
)

// throttles are CL.THROTTLE commands that a client has sent without waiting for replies. They
// are decided together, because that takes less time: when they are maxThrottles, another
// command follows, or no whole command is left.
type throttles struct {
	n        int
	requests [maxThrottles]decider.Request
	quotas   [maxThrottles]decider.Quota
	verdicts [maxThrottles]decider.Verdict
}

const maxThrottles = 16

// throttle is CL.THROTTLE key max_burst count period [quantity]: the command of redis-cell.
// decideThrottles decides it, and replies.
func (c *conn) throttle() result {
	if len(c.Args) != 5 && len(c.Args) != 6 {
		return c.fail(cellUsage)
	}
	numbers := [4]int64{3: 1}
	for i, arg := range c.Args[2:] {
		n, ok := integer(arg)
		if !ok {
			return c.fail(cellInteger + text(arg))
		}
		numbers[i] = n
	}
	burst, count, period, n := numbers[0], numbers[1], numbers[2], numbers[3]
	switch {
	case count == 0 || period == 0:
		return c.fail(cellZero)
	case burst < 0:
		return c.fail(cellBurst)
	case n < 0:
		return c.fail(cellAmount)
	case burst >= maxBurst || period > maxPeriod: // so that nothing overflows
		return c.fail("Cell error: " + decider.ErrQuota.Error())
	}
	if c.later == nil {
		c.later = c.api.later.Get().(*throttles)
	}
	t := c.later
	quota := &t.quotas[t.n]
	*quota = decider.Quota{Count: int(count), Period: time.Duration(period) * time.Second, Burst: int(burst) + 1}
	t.requests[t.n] = decider.Request{Key: c.request.Key, N: int(n), Quota: quota}
	if t.n++; t.n == maxThrottles {
		c.decideThrottles()
	}
	return resultLater
}

// decideThrottles decides the commands that have no reply yet, and replies.
func (c *conn) decideThrottles() {
	t := c.later
	if t == nil {
		return
	}
	c.later = nil
	requests, verdicts := t.requests[:t.n], t.verdicts[:t.n]
	together := false
	if len(requests) > 1 {
		_, err := c.api.decider.Batch(context.Background(), requests, false, verdicts)
		together = err == nil // else none is decided
	}
	for i := range requests {
		var err error
		if !together {
			err = c.api.decider.Decide(context.Background(), &requests[i], &verdicts[i])
		}
		c.count(throttleIndex, c.throttled(&requests[i], &verdicts[i], err))
	}
	clear(requests) // their keys are parts of the buffer
	t.n = 0
	c.api.later.Put(t)
}

// throttled replies to a CL.THROTTLE.
func (c *conn) throttled(r *decider.Request, v *decider.Verdict, err error) result {
	switch {
	case err == nil:
	case errors.Is(err, decider.ErrOwnQuota):
		return c.fail("ERR " + err.Error())
	case errors.Is(err, decider.ErrQuota):
		return c.fail("Cell error: " + err.Error())
	default:
		return c.fail(unavailable)
	}
	d := &v.Answers[0]
	limited := !v.OK && r.N > 0
	retry := int64(-1)
	if limited && d.RetryAfter != weir.Never {
		retry = seconds(d.RetryAfter)
	}
	c.array(5)
	if limited {
		c.b = append(c.b, ":1\r\n"...)
	} else {
		c.b = append(c.b, ":0\r\n"...)
	}
	c.integer(int64(r.Quota.Burst))
	c.integer(int64(d.Remaining))
	c.integer(retry)
	c.integer(seconds(d.ResetAfter))
	if limited {
		return resultDenied
	}
	return resultOK
}

// integer reads a number.
func integer(arg []byte) (n int64, ok bool) {
	if len(arg) == 0 || len(arg) > 18 {
		n, err := strconv.ParseInt(text(arg), 10, 64)
		return n, err == nil
	}
	for _, c := range arg {
		if c < '0' || c > '9' {
			n, err := strconv.ParseInt(text(arg), 10, 64)
			return n, err == nil
		}
		n = n*10 + int64(c-'0')
	}
	return n, true
}

// Bounds of numbers of CL.THROTTLE. The Decider has stricter ones.
const (
	maxBurst  = 1 << 62
	maxPeriod = int64(decider.MaxOwnRefill / time.Second)
)

// seconds rounds a duration up to seconds, from milliseconds that are rounded down, as
// redis-cell does.
func seconds(d time.Duration) int64 {
	return int64((d/time.Millisecond + 999) / 1000)
}
