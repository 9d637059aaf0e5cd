package redisscript

import (
	"fmt"
	"time"

	"github.com/weir-go/weir"
)

// A Reply is the answer of the script Buckets. Its methods take the index of a key, and the
// Quota and the Take of that key.
type Reply struct {
	Time    time.Duration // since 1970, by the server's clock
	Granted bool
	buckets []int64 // of each key: the units owed or the events counted, and the tokens taken
	windows []int64 // of each key, if there are windows: the start or the end, and the events of the window before
}

// ReadReply reads the answer of the script for keys with these quotas.
func ReadReply(reply []int64, quotas ...*Quota) (Reply, error) {
	end := 2 + 2*len(quotas)
	want := end
	for _, q := range quotas {
		if q.kind != 0 {
			want = 2 + 4*len(quotas)
		}
	}
	if len(reply) != want {
		return Reply{}, fmt.Errorf("the script for %d keys has answered with %d numbers: want %d", len(quotas), len(reply), want)
	}
	return Reply{Time: time.Duration(reply[0]) * time.Microsecond, Granted: reply[1] == 1, buckets: reply[2:end], windows: reply[end:]}, nil
}

// none stands for the tokens that a Soft Take has not got.
const none = -1 << 52

// Taken returns how many tokens of the key with index i were taken: less than zero if they
// were given back.
func (r *Reply) Taken(i int) int {
	if !r.Granted {
		return 0
	}
	if n := r.buckets[2*i+1]; n != none {
		return int(n)
	}
	return 0
}

// Denied reports whether the key with index i has too few tokens. The call is granted if there
// is no such key, apart from keys with a Soft Take.
func (r *Reply) Denied(i int, _ *Quota, t *Take) bool {
	return r.buckets[2*i+1] < int64(min(t.N, t.Least))
}

// Decision returns the decision of the key with index i alone: OK unless it is Denied, even if
// other keys have denied the call. RetryAfter is weir.Never if Least exceeds the limit.
func (r *Reply) Decision(i int, q *Quota, t *Take) weir.Decision {
	if q.kind != 0 {
		return r.windowDecision(i, q, t)
	}
	owed := r.buckets[2*i]
	d := weir.Decision{OK: !r.Denied(i, q, t), Remaining: int(max(q.limit*q.token-owed, 0) / q.token), ResetAfter: q.refill(owed)}
	switch {
	case d.OK:
	case int64(t.Least) > q.limit:
		d.RetryAfter = weir.Never
	default:
		d.RetryAfter = r.Until(i, q, t)
	}
	return d
}

// Until returns the time after which a Take would be granted, were its N within the limit.
func (r *Reply) Until(i int, q *Quota, t *Take) time.Duration {
	if q.kind != 0 {
		return r.windowUntil(i, q, t)
	}
	return q.refill(r.buckets[2*i] + q.cost(max(t.Least, 0)) - q.most(t))
}

// Wait returns how long it takes until the key with index i is out of debt, or within the limit of the call
// if that is smaller, which is the wait of a Take with Ahead.
func (r *Reply) Wait(i int, q *Quota) time.Duration {
	if q.kind != 0 {
		return r.windowUntil(i, q, &Take{})
	}
	return q.refill(r.buckets[2*i] - q.limit*q.token)
}

// Used returns how many tokens are missing from the full bucket with index i: more than there
// are if it is in debt. Of a window, it returns the events that count.
func (r *Reply) Used(i int, q *Quota) int {
	if q.kind != 0 {
		return r.windowUsed(i, q)
	}
	return int((r.buckets[2*i] + q.token - 1) / q.token)
}
