package client

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
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
// valid. The check is here because one invalid ask would fail its whole batch.
func clean(key string, n int) (string, error) {
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

// segment escapes a key as one segment of a path.
func segment(key string) string {
	if key == "." || key == ".." {
		return strings.ReplaceAll(key, ".", "%2E")
	}
	return url.PathEscape(key)
}

// appendBatch appends the body of a batch. The keys are clean.
func appendBatch(b []byte, asks []*ask) []byte {
	b = append(b, `{"ids":true,"requests":[`...)
	for i, a := range asks {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"key":"`...)
		for j := range len(a.key) {
			if c := a.key[j]; c == '"' || c == '\\' {
				b = append(b, '\\')
			}
			b = append(b, a.key[j])
		}
		b = append(b, `","n":`...)
		b = strconv.AppendInt(b, int64(a.n), 10)
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// An answer is the server's result for one ask.
type answer struct {
	OK           bool    `json:"ok"`
	Remaining    int     `json:"remaining"`
	ID           string  `json:"request_id"`
	Reason       string  `json:"reason"`
	RetryAfterMS *millis `json:"retry_after_ms"`
	WaitedMS     millis  `json:"waited_ms"`
}

func (a *answer) decision() weir.Decision {
	d := weir.Decision{OK: a.OK, Remaining: a.Remaining}
	if !a.OK {
		d.RetryAfter = a.retryAfter()
	}
	return d
}

// retryAfter returns the wait until a retry, weir.Never if no retry can succeed.
func (a *answer) retryAfter() time.Duration {
	switch {
	case a.RetryAfterMS != nil:
		return a.RetryAfterMS.duration()
	case a.Reason == weir.OverBurst.String():
		return weir.Never
	}
	return 0
}

// rejection returns a denial as an error. A newer server may have reasons that this
// Client does not know; they become OverRate.
func (a *answer) rejection() *weir.Rejection {
	r := &weir.Rejection{Reason: weir.OverRate, RetryAfter: a.retryAfter()}
	for why := weir.OverRate; why <= weir.Throttled; why++ {
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

// errGarbage is the error for an answer that does not come from weir serve.
var errGarbage = errors.New("client: not an answer of weir serve")

// decodeAny returns an error unless the answer is a JSON object.
func decodeAny(body []byte) error {
	if err := json.Unmarshal(body, new(struct{})); err != nil {
		return fmt.Errorf("%w: %w", errGarbage, err)
	}
	return nil
}

// decodeBatch decodes the answer to a batch of asks.
func decodeBatch(body []byte, asks int) ([]answer, error) {
	reply := struct {
		Results []answer `json:"results"`
	}{make([]answer, 0, asks)}
	if err := json.Unmarshal(body, &reply); err != nil {
		return nil, fmt.Errorf("%w: %w", errGarbage, err)
	}
	if len(reply.Results) != asks {
		return nil, fmt.Errorf("%w: %d results for %d requests", errGarbage, len(reply.Results), asks)
	}
	return reply.Results, nil
}

// decodeGrant decodes the answer to a request for tokens that waited.
func decodeGrant(body []byte) (a answer, err error) {
	if err := json.Unmarshal(body, &a); err != nil {
		return answer{}, fmt.Errorf("%w: %w", errGarbage, err)
	}
	if a.ID == "" {
		return answer{}, fmt.Errorf("%w: no request_id", errGarbage)
	}
	a.OK = true
	return a, nil
}

// A leased is the server's answer to a request for a lease.
type leased struct {
	ID       string `json:"lease_id"`
	Token    uint64 `json:"token"`
	TTLMS    millis `json:"ttl_ms"`
	Limit    int    `json:"limit"`
	WaitedMS millis `json:"waited_ms"`
}

func decodeLease(body []byte) (l leased, err error) {
	if err := json.Unmarshal(body, &l); err != nil {
		return leased{}, fmt.Errorf("%w: %w", errGarbage, err)
	}
	if l.ID == "" || l.TTLMS <= 0 {
		return leased{}, fmt.Errorf("%w: no lease_id or ttl_ms", errGarbage)
	}
	return l, nil
}

// A StatusError is the error for a request that the server could not decide: the
// request (400) or the token (401, 403) is not valid, or no rule with a concurrency
// matches the key (404).
type StatusError struct {
	Status  int
	Message string // the beginning of the server's message

	key string // the key that the server names, if any
}

func (e *StatusError) Error() string {
	return fmt.Sprintf("client: %d %s: %s", e.Status, http.StatusText(e.Status), e.Message)
}

// maxMessage bounds StatusError.Message, in bytes.
const maxMessage = 200

// refused returns the error for a status other than 200: a *weir.Rejection, a
// *StatusError, or errGarbage if the server does not work.
func refused(status int, body []byte) error {
	var problem struct {
		answer
		Error string `json:"error"`
		Key   string `json:"key"`
	}
	err := json.Unmarshal(body, &problem)
	switch {
	case status == http.StatusTooManyRequests && err == nil && problem.Reason != "",
		status == http.StatusServiceUnavailable && err == nil && problem.Reason == weir.Closed.String():
		return problem.rejection()
	case status < 300 || status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout:
		return fmt.Errorf("%w: status %d", errGarbage, status)
	}
	if err != nil || problem.Error == "" {
		problem.Error = string(body)
	}
	return &StatusError{status, strings.ToValidUTF8(problem.Error[:min(len(problem.Error), maxMessage)], ""), problem.Key}
}

// isPerKey reports whether a single ask may have caused the refusal of a batch.
func (e *StatusError) isPerKey() bool {
	switch e.Status {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusRequestEntityTooLarge:
		return true
	}
	return false
}
