// Package httpapi is the HTTP API of weir serve, over HTTP/1.1 and HTTP/2: what
// GoCC answers (rates, and debug), and besides it batches, true costs, and
// leases. openapi.yaml, which it serves as /openapi.json, describes it.
//
//	api, err := httpapi.New(srv, httpapi.Config{})
//	...
//	http.Server{
//		Handler: api, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
//		DisableGeneralOptionsHandler: true,
//	}
//
// That http.Server must not have a ReadTimeout: it would end those who wait.
// Bodies have a time-out here (Config.BodyTimeout), but not those that http.Server
// reads by itself, for OPTIONS *. Its WriteTimeout bounds how long an answer may
// take to be taken; who waits has it anew afterwards (Config.AnswerTimeout).
//
// # Callers who leave
//
// Who leaves while waiting, by closing the connection or resetting the stream, is
// granted nothing; unless it has sent the beginning of another request of HTTP/1
// after the first, for then net/http does not see that it leaves. An answer that is
// lost on its way is another matter: the server cannot know, and its tokens are
// gone, its lease held until it runs out.
package httpapi

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// Bounds where Config leaves them open.
const (
	DefaultMaxKey      = 1 << 10
	DefaultMaxBatch    = 10_000
	DefaultMaxBody     = 4 << 20
	DefaultBodyTimeout = 10 * time.Second

	DefaultAnswerTimeout = 10 * time.Second
)

// An Action is what a caller wants to do with a key.
type Action string

const (
	Rate  Action = "rate"  // ask for tokens, and give them back
	Lease Action = "lease" // take, renew and return leases
	Debug Action = "debug" // see the state; of all keys, if the key is empty
)

// Config is what an API has beside its server.Server. The zero value lets
// everybody do everything, but no request choose its own limit.
type Config struct {
	// NoFields leaves out RateLimit and RateLimit-Policy
	// (draft-ietf-httpapi-ratelimit-headers-10).
	NoFields bool
	// MaxLimit and MaxQueue are the most that maxRequests and maxRequestsInQueue may
	// say: those of the server.Config. If zero, they may not be given.
	MaxLimit, MaxQueue int
	// MaxKey bounds a key, in bytes. If zero, DefaultMaxKey.
	MaxKey int
	// MaxBatch bounds the requests of a batch. If zero, DefaultMaxBatch.
	MaxBatch int
	// MaxBody bounds the body of a batch, in bytes. If zero, DefaultMaxBody. All
	// that are read at a time have sixteen times as much together.
	MaxBody int
	// BodyTimeout bounds how long a body may take to come. If zero,
	// DefaultBodyTimeout.
	BodyTimeout time.Duration
	// AnswerTimeout is the http.Server's WriteTimeout. If zero, DefaultAnswerTimeout.
	AnswerTimeout time.Duration
	// Authorize says whether a caller may do something with a key, before it is done.
	// An error that is ErrUnauthorized is answered with 401, any other with 403, and
	// its text. Of a batch all keys are asked for; one that may not be used is the end
	// of it. If nil, everybody may do everything. It is called by several goroutines
	// at once.
	Authorize func(r *http.Request, action Action, key string) error
}

// Validate returns an error that names the first field that makes no sense.
func (c Config) Validate() error {
	for _, f := range []struct {
		name  string
		value int
	}{
		{"MaxLimit", c.MaxLimit}, {"MaxQueue", c.MaxQueue}, {"MaxKey", c.MaxKey}, {"MaxBatch", c.MaxBatch}, {"MaxBody", c.MaxBody},
	} {
		if f.value < 0 {
			return fmt.Errorf("httpapi: %s = %d: must be >= 0", f.name, f.value)
		}
	}
	switch {
	case c.BodyTimeout < 0:
		return fmt.Errorf("httpapi: BodyTimeout = %v: must be >= 0", c.BodyTimeout)
	case c.AnswerTimeout < 0:
		return fmt.Errorf("httpapi: AnswerTimeout = %v: must be >= 0", c.AnswerTimeout)
	}
	return nil
}

func orDefault[T int | time.Duration](n, otherwise T) T {
	if n == 0 {
		return otherwise
	}
	return n
}

// An API answers for a server.Server. It is safe for concurrent use.
type API struct {
	cfg      Config
	decider  decider.Decider
	calls    sync.Pool // of *call
	batches  sync.Pool // of *batch
	bodies   atomic.Int64
	policies atomic.Pointer[policies]
	debug    chan struct{} // of capacity 1: who sends may look at all keys
	counts   counts
}

// New returns an API, or what is wrong with the Config.
func New(d decider.Decider, cfg Config) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.MaxKey = orDefault(cfg.MaxKey, DefaultMaxKey)
	cfg.MaxBatch = orDefault(cfg.MaxBatch, DefaultMaxBatch)
	cfg.MaxBody = orDefault(cfg.MaxBody, DefaultMaxBody)
	cfg.BodyTimeout = orDefault(cfg.BodyTimeout, DefaultBodyTimeout)
	cfg.AnswerTimeout = orDefault(cfg.AnswerTimeout, DefaultAnswerTimeout)
	a := &API{cfg: cfg, decider: d, debug: make(chan struct{}, 1)}
	a.policies.Store(new(policies))
	a.counts.answers = make([][len(statuses)]atomic.Uint64, len(endpoints)+1)
	a.calls.New = func() any {
		c := &call{api: a}
		c.suspend = c.suspendDeadline
		return c
	}
	a.batches.New = func() any { return new(batch) }
	return a, nil
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := a.calls.Get().(*call)
	c.w, c.r, c.status = w, r, http.StatusOK
	if r.ContentLength != 0 {
		c.hurry()
	}
	a.counts.add(c.serve(), c.status)
	c.forget()
	a.calls.Put(c)
}

// A call is one request on its way. It is used again.
type call struct {
	api     *API
	w       http.ResponseWriter
	r       *http.Request
	suspend func() // suspendDeadline, made once

	target
	params  params
	request decider.Request
	verdict decider.Verdict
	buf     []byte // of the answer
	status  int    // of the answer
}

// maxKept bounds the buffers that are kept for the next call, in bytes.
const maxKept = 64 << 10

// forget lets go of all that belongs to the request.
func (c *call) forget() {
	c.w, c.r, c.target, c.params, c.request = nil, nil, target{}, params{}, decider.Request{}
	c.verdict.Answers = c.verdict.Answers[:0]
	if cap(c.buf) > maxKept {
		c.buf = nil
	}
}

// serve answers, and returns the number of the endpoint; of none, if there is
// no such.
func (c *call) serve() int {
	c.target = locate(c.r.URL)
	i := c.find(c.r.Method)
	if i == len(endpoints) {
		c.misled()
		return i
	}
	e := &endpoints[i]
	if f := c.prepare(e); f != nil {
		c.fail(f)
	} else {
		e.run(c)
	}
	return i
}

// prepare does what all endpoints begin with.
func (c *call) prepare(e *endpoint) *fault {
	if e.parts > 1 {
		key, f := c.api.cleanKey(c.key)
		if c.key = key; f != nil {
			return f
		}
	}
	if e.action != "" {
		if f := c.authorize(e.action, c.key); f != nil {
			return f
		}
	}
	if f := c.params.parse(c.r.URL.RawQuery, e.params); f != nil {
		return f
	}
	if e.parts > 1 {
		return c.drain()
	}
	return nil
}

// authorize asks whether the caller may use a key.
func (c *call) authorize(action Action, key string) *fault {
	if c.api.cfg.Authorize == nil {
		return nil
	}
	if err := c.api.cfg.Authorize(c.r, action, key); err != nil {
		return unauthorized(err)
	}
	return nil
}
