package httpclient

import (
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/outgoing"
)

// A Transport is the client's side of a limit: an http.RoundTripper that sends
// no more than servers can take, around another that sends.
//
//	t, err := httpclient.New(httpclient.Config{})
//	client := &http.Client{Transport: t}
//
// What it does for each host, each part of which can be turned off:
//
//   - It paces: requests wait, first come, first served, until the Retry-After
//     of a 429 or 503 is over, and until the quota is back that a RateLimit field
//     says is used up (draft-ietf-httpapi-ratelimit-headers-10).
//   - It refuses at random what a host that refuses most would refuse anyway
//     (package throttle).
//   - It holds to a limit on requests in flight, if there is PerHost. A request is
//     in flight until its response's body is at its end or closed, or fails, or
//     until its context ends.
//   - It retries what may be retried, within a budget.
//
// A request that it refuses itself has the error *weir.Rejection: OverRate or
// Throttled, with the wait that the server asked for; TooLate if the context's
// deadline comes before that; QueueFull; or whatever the limiter of PerHost
// says. None of these is retried, and if a retry is refused so, the answer that
// came before stands.
//
// # Pacing
//
// Every request sent counts against r of all items of the last RateLimit; the
// answer to a later request replaces what is known from an earlier one. Where r
// is used up, requests wait for t, or for an answer that says more. Where
// RateLimit-Policy tells q and w, and a unit comes back in less than a second
// (w/q), they do not wait for t, which is in whole seconds: they go one each w/q,
// until a 429 says that it is too much. Items without t, of the unit
// concurrent-requests, or of a policy whose partition key changes from answer to
// answer, hold nobody; Key tells partitions apart. While units are left, nobody
// waits.
//
// Retry-After wins over the RateLimit of the same answer. The one of a 503 says
// that the host is not available: an answer that is no sign of overload, to a
// request that was in flight, shows that it is, and ends the wait. So a host
// that sheds a few of many requests is not left alone for seconds. The one of a
// 429 is of what this client may ask for, and ends in time; such an answer is no
// refusal to the throttle.
//
// A host is believed for MaxHold, one minute unless set otherwise: one that asks
// for more is asked again each minute, by one request.
//
// What a server asks for is prolonged, by chance, by up to a tenth of it and a
// second at most: other clients were told the same. Then waiters go one after
// the other, a gap apart: at first w/q if RateLimit-Policy says so, at most and
// else 100 ms. Each good answer halves the gap, and below 0.2 ms there is none:
// after ten of them all is as before. Who stands behind the waiters waits, too.
//
// What one path of a host asks for holds for all of them. If paths have quotas
// of their own, let Key tell them apart.
//
// Responses from a cache (Age > 0) and fields that are malformed or longer than
// 4 kB are ignored. So is X-RateLimit-Reset, which some send in seconds and
// others as a date.
//
// # Retries
//
// A request is retried only if its body can be had again (none, or GetBody), and
//
//   - whatever the method, if nothing was done: after 429, after a 503 of weir
//     (it has a Weir-Reason), and if the connection was refused;
//   - if it is idempotent (GET, HEAD, OPTIONS, TRACE, PUT, DELETE, or with an
//     Idempotency-Key), after 502, 503, 504 and when the connection fails. So is
//     a 503 with Retry-After: a proxy may say that of what was carried out.
//
// It waits for Retry-After, and a random part of the backoff besides. If that is
// more than MaxWait or reaches the context's deadline, if the budget is spent,
// or if weir itself answered that to wait is in vain, the answer stands. It
// stands, too, if the retry is refused here after the wait: it is kept, unread,
// but no longer counts as in flight. Only a retry that is sent costs budget.
//
// Once a retry is sent, what comes of it is the result: if it fails, its error,
// and the answer before it is lost. So it is if the context ends in the wait. Of
// an answer that is lost at most 64 kB are read, for a second at most, so that
// its connection can be used again, and nobody waits for that. Base has to bear
// that a body is closed while it is read, as http.Transport does.
//
// # Bounds
//
// A Transport remembers MaxHosts hosts. For another it forgets the one that has
// not been used for longest, if it has nothing in flight and nobody has to wait
// for it. It asks up to eight, and those that stay count as used. If it finds
// none, the new host shares one state with others in its place: with a limiter
// of PerHost for "" and a budget, but without pacing and throttle, so that none
// waits for another.
//
// Its goroutines read what is left of answers that are retried. It need not be
// closed.
//
// A Transport is safe for concurrent use. It must not be copied.
type Transport struct {
	cfg    Config
	epoch  time.Time
	pacing outgoing.Config
	chance func() float64 // evenly distributed in [0, 1)
	shared func() *host   // of the hosts for which there is no place
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
	t.hosts.init(t.cfg.MaxHosts)
	return t, nil
}

// CloseIdleConnections is passed on to Base.
func (t *Transport) CloseIdleConnections() {
	if c, ok := t.cfg.Base.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// RoundTrip sends a request, when and as often as the Transport's contract says.
// It does not change the request.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL == nil { // Base knows what to say to that
		return t.cfg.Base.RoundTrip(r)
	}
	h := t.enter(r)
	defer t.leave(h)
	t.makeLimit(h)
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

// A result is what came of an attempt: a response or an error.
type result struct {
	resp  *http.Response
	err   error
	local bool // it was not sent
}

// errNothing is the answer of a Base that breaks its contract.
var errNothing = errors.New("httpclient: Base returned neither a response nor an error")

// attempt sends r once: the original request of the caller, or what stands for
// it. If it is a retry, it is one after last.
func (t *Transport) attempt(h *host, original, r *http.Request, last *result) result {
	x := exchange{t: t, h: h, ctx: r.Context()}
	if err := x.admit(); err != nil {
		closeBody(r)
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

func closeBody(r *http.Request) {
	if r.Body != nil {
		_ = r.Body.Close()
	}
}
