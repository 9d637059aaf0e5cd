package client

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/weir-go/weir"
)

// maxKey bounds keys, in bytes, as the server does.
const maxKey = 1024

// maxCost bounds the cost of an ask, as the server does.
const maxCost = math.MaxInt32

// clean returns the key as the server uses it, or an error if the key or n is not
// valid. The check is here because one invalid ask would fail its whole batch. It
// panics if n < 0.
func clean(key string, n int) (string, error) {
	if n < 0 {
		panic("client: negative cost")
	}
	k := strings.TrimSpace(key)
	switch {
	case k == "" || len(k) > maxKey:
		return "", fmt.Errorf("client: a key has 1 to %d bytes: this has %d", maxKey, len(k))
	case !utf8.ValidString(k) || strings.ContainsFunc(k, unicode.IsControl):
		return "", fmt.Errorf("client: key = %q: must be UTF-8 without control characters", k)
	case n > maxCost:
		return "", fmt.Errorf("client: n = %d: must be at most %d", n, maxCost)
	}
	return k, nil
}

// A reply is the body of an answer of the server, and the part of its header that
// the Client uses.
type reply struct {
	answer
	Results []answer `json:"results"`
	Error   string   `json:"error"`
	Key     string   `json:"key"`

	policy []string // the lines of RateLimit-Policy
}

// An answer is the server's result for one ask or one lease.
type answer struct {
	OK           bool   `json:"ok"`
	Remaining    int    `json:"remaining"`
	Granted      int    `json:"granted"` // to an ask with AtMost
	ID           string `json:"request_id"`
	Reason       string `json:"reason"`
	RetryAfterMS millis `json:"retry_after_ms"`
	WaitedMS     millis `json:"waited_ms"`

	LeaseID string `json:"lease_id"`
	Token   uint64 `json:"token"`
	TTLMS   millis `json:"ttl_ms"`
	Limit   int    `json:"limit"`
}

// isGrant reports whether a reply grants tokens.
func isGrant(r *reply) bool { return r.ID != "" }

// isLease reports whether a reply grants a lease.
func isLease(r *reply) bool { return r.LeaseID != "" && r.TTLMS > 0 }

func (a *answer) decision() weir.Decision {
	d := weir.Decision{OK: a.OK, Remaining: a.Remaining}
	if !a.OK {
		d.RetryAfter = a.retryAfter()
	}
	return d
}

// retryAfter returns the wait until a retry, weir.Never if no retry can succeed.
func (a *answer) retryAfter() time.Duration {
	if a.RetryAfterMS == 0 && a.Reason == weir.OverBurst.String() {
		return weir.Never
	}
	return a.RetryAfterMS.duration()
}

// rejection returns a denial as an error. A newer server may have reasons that this
// Client does not know; they become OverRate.
func (a *answer) rejection() *weir.Rejection {
	r := &weir.Rejection{Reason: weir.OverRate, RetryAfter: a.retryAfter()}
	for why := weir.OverRate; why <= weir.Recovering; why++ {
		if why.String() == a.Reason {
			r.Reason = why
		}
	}
	return r
}

// millis is a number of milliseconds; a negative one counts as zero.
type millis int64

func (m millis) duration() time.Duration {
	if m > math.MaxInt64/1_000_000 {
		return weir.Never
	}
	return time.Duration(max(m, 0)) * time.Millisecond
}
