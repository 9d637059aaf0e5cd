package httpclient

import (
	"container/list"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/outgoing"
)

// A Transport is an http.RoundTripper that sends no more requests than servers can
// take. It sends them with another RoundTripper:
//
//	t, err := httpclient.New(httpclient.Config{})
//	client := &http.Client{Transport: t}
//
// For each host it does four things, each of which can be turned off:
//
//   - It paces: requests wait, first come, first served, until the Retry-After
//     of a 429 or 503 is over, and until the quota that a RateLimit field reports
//     as used up has returned (draft-ietf-httpapi-ratelimit-headers, any version).
//   - It throttles: it refuses at random what a host that refuses most requests
//     would refuse anyway (package throttle).
//   - It limits the requests in flight, if there is a PerHost. A request is in
//     flight until the body of its response is at its end, is closed or fails, or
//     until its context ends.
//   - It retries requests that may be retried, within a budget.
//
// A request that the Transport refuses itself fails with a *weir.Rejection:
// OverRate or Throttled, with the wait that the server asked for; TooLate if the
// deadline of the context comes before that; QueueFull; or the rejection of the
// limiter of PerHost. These requests are not retried. If a retry is refused so,
// the earlier response is the result.
//
// # Pacing
//
// Each request that is sent uses one unit of every item of the last RateLimit field.
// If the units of an item are used up, requests wait until its reset time t, or until
// an answer to a later request reports new units. If RateLimit-Policy names q and w,
// and a unit returns in less than a second (w/q), one request is sent each w/q instead,
// because t is in whole seconds, until a 429 shows that this is too fast. Items without
// t, items in concurrent-requests, and items with a partition key that changes from
// answer to answer do not hold requests back; use Key to separate partitions.
//
// Retry-After takes precedence over a RateLimit field of the same answer. A 503 with
// Retry-After says that the host is not available: an answer that is no sign of
// overload, to a request that was in flight, ends the wait, because a host that sheds a
// few of many requests need not be left alone for seconds. A 503 with a Weir-Reason of a
// concurrency limit is about one route: it keeps no other request waiting. A 429 with
// Retry-After is about the quota of this client: only time ends it, and it does not count
// as a refusal for the throttle. If a server asks for more than MaxHold, one request per
// MaxHold asks again.
//
// Each wait is prolonged at random by up to a tenth of it and a second at most,
// because other clients were told the same. Then the waiting requests go one after
// the other, a gap apart. The gap begins at 100 ms, or at w/q if RateLimit-Policy names
// q and w and that is less. Each good answer halves the gap, and below 0.2 ms there is
// none: after nine good answers the host is as before. New requests queue behind the
// waiting ones.
//
// What a response to one path says applies to the whole host. If paths have
// separate quotas, use Key.
//
// The fields of earlier drafts count as RateLimit does: limit, remaining and reset in RateLimit
// (draft-07), and RateLimit-Limit, RateLimit-Remaining and RateLimit-Reset (until draft-06). A
// RateLimit-Reset of 10 years or more is a time since 1970. In RateLimit, a and w mean the same
// as r and t, which a later draft may call so. Retry-After may have a fraction of a second; of
// several, the longest counts.
//
// The Transport ignores rate limit fields of responses from
// a cache (Age > 0), fields that are malformed or longer than 4 kB, and
// X-RateLimit-Reset, which some servers send in seconds and others as a date.
//
// # Retries
//
// A request is retried only if its body can be sent again (there is none, or it
// has GetBody), and
//
//   - whatever its method, if the server did no work: after 429, after a 503 with a
//     Weir-Reason, and if the connection was refused;
//   - if it is idempotent (GET, HEAD, OPTIONS, TRACE, PUT, DELETE, or with an
//     Idempotency-Key), also after 502, 503, 504 and when the connection fails. A
//     503 with Retry-After is in this group: a proxy may send it for a request
//     that was processed.
//
// The retry waits for Retry-After and a random part of the backoff. The response is
// the result if that is more than MaxWait or reaches the deadline of the context, if
// the budget is spent, if weir itself answered that no retry can succeed, or if the
// Transport refuses the retry after the wait. The unread response is kept meanwhile,
// and no longer counts as in flight. Only a retry that is sent spends budget.
//
// Once a retry is sent, its result is the result of the request, even an error, and
// the earlier response is lost. The same is true if the context ends during the wait.
// The Transport reads at most 64 kB of a lost response in the background, for a second
// at most, so that its connection can be used again. Base must allow that a body is
// closed while it is read, as http.Transport does.
//
// # Bounds
//
// A Transport keeps the state of MaxHosts hosts. For a new host it looks at the eight
// least recently used ones, and drops the first that has no request in flight and no
// wait to heed. If there is none, the new host shares one state with all hosts for which
// there was no room. That state has a limiter of PerHost for "" and a budget, but no
// pacing and no throttle, so that these hosts do not delay each other.
//
// A Transport starts goroutines only to read the rest of responses that are
// retried. It need not be closed. It is safe for concurrent use, and must not be
// copied.
type Transport struct {
	cfg    Config
	epoch  time.Time
	pacing outgoing.Config
	chance func() float64 // returns values evenly distributed in [0, 1)
	shared func() *host   // returns the state of the hosts beyond MaxHosts
	counts counters

	mu    sync.Mutex // guards what follows
	hosts hosts
}

// New returns a Transport, or an error that names the first field of cfg that makes
// no sense.
func New(cfg Config) (*Transport, error) {
	if err := cfg.validate(); err != nil {
		return nil, err
	}
	t := &Transport{cfg: cfg.withDefaults(), epoch: time.Now(), chance: rand.Float64}
	t.pacing = outgoing.Config{MaxWait: cfg.MaxWait, MaxHold: cfg.MaxHold, Queue: cfg.Queue}.WithDefaults()
	t.shared = sync.OnceValue(func() *host { return t.newHost(hostKey{}) })
	t.hosts = hosts{most: MaxHosts, byKey: map[hostKey]*list.Element{}}
	return t, nil
}

// CloseIdleConnections calls the method of Base, if it has one.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.cfg.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends a request as the comment on Transport describes. It does not
// change the request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL == nil { // Base returns the error
		return t.cfg.Base.RoundTrip(r)
	}
	h := t.enter(r)
	defer h.users.Add(-1)
	h.makeLimit()
	t.counts.requests.Add(1)
	if t.cfg.Retry.Attempts > 1 {
		h.budget.request()
	}
	last := t.attempt(h, r, r, nil)
	for retry := range t.cfg.Retry.Attempts - 1 {
		next, ok := t.again(h, r, &last, retry)
		if !ok {
			break
		}
		last = next
	}
	return last.resp, last.err
}

// A result is the response or the error of an attempt.
type result struct {
	resp  *http.Response
	err   error
	local bool // it was not sent
}

// errNothing is the error of a Base that breaks the contract of RoundTripper.
var errNothing = errors.New("httpclient: Base returned neither a response nor an error")

// attempt sends r once: the original request of the caller, or a copy of it. For a
// retry, last is the result before it.
func (t *Transport) attempt(h *host, original, r *http.Request, last *result) result {
	x := exchange{h: h, ctx: r.Context()}
	by, err := h.path.Admit(r.Context(), h.name, &x.Attempt)
	t.admitted(h, x.Waited, by, err)
	if err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return result{err: err, local: true}
	}
	defer x.abort()
	t.counts.sent.Add(1)
	if last != nil {
		t.counts.retried.Add(1)
		h.budget.settle(true)
		discard(last.resp)
	}
	sent := t.mark(r)
	resp, err := t.cfg.Base.RoundTrip(sent)
	if resp == nil && err == nil {
		err = errNothing
	}
	if err != nil {
		x.failed(err)
		return result{err: err}
	}
	if resp.Request == sent {
		resp.Request = original
	}
	x.answered(resp)
	return result{resp: resp}
}
