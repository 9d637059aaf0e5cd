// Package httpapi is the HTTP API of weir serve, over HTTP/1.1 and HTTP/2: the API of
// GoCC (rates and debug), and batches, true costs and leases. openapi.yaml describes
// it; the API serves that as /openapi.json.
//
//	api, err := httpapi.New(srv, httpapi.Config{})
//	...
//	http.Server{
//		Handler: api, ReadHeaderTimeout: 10 * time.Second, WriteTimeout: 10 * time.Second, IdleTimeout: time.Minute,
//		DisableGeneralOptionsHandler: true,
//	}
//
// The http.Server must not have a ReadTimeout, because that would end waits. The API
// bounds the time for a body (Config.BodyTimeout). WriteTimeout bounds the time for
// writing an answer; after a wait it starts again (Config.AnswerTimeout).
// DisableGeneralOptionsHandler is needed because http.Server reads the body of
// OPTIONS * without a time-out.
//
// # Clients that disconnect
//
// A request is not granted if its client closes the connection or resets the stream
// while the request waits. The exception is an HTTP/1 client that has already sent a
// part of its next request: net/http does not detect that it disconnects. If an
// answer is lost on the network, the server cannot know: the tokens are spent, and
// the lease is held until it expires.
package httpapi

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/server/decider"
)

// Defaults of Config.
const (
	DefaultMaxKey      = 1 << 10
	DefaultMaxBatch    = 10_000
	DefaultMaxBody     = 4 << 20
	DefaultBodyTimeout = 10 * time.Second

	DefaultAnswerTimeout = 10 * time.Second
)

// An Action is a kind of access to a key.
type Action string

const (
	Rate  Action = "rate"  // take tokens, and settle grants
	Lease Action = "lease" // take, renew and return leases
	Debug Action = "debug" // read the state of a key, or of all keys if the key is empty
)

// Config configures an API. The zero value authorizes every request, and ignores
// limits that requests set for themselves.
type Config struct {
	// NoFields leaves out RateLimit and RateLimit-Policy
	// (draft-ietf-httpapi-ratelimit-headers-10).
	NoFields bool
	// MaxLimit and MaxQueue bound maxRequests and maxRequestsInQueue. They must be
	// those of the server.Config. If zero, these parameters are rejected.
	MaxLimit, MaxQueue int
	// MaxKey bounds a key, in bytes. If zero, DefaultMaxKey.
	MaxKey int
	// MaxBatch bounds the requests of a batch. If zero, DefaultMaxBatch.
	MaxBatch int
	// MaxBody bounds the body of a batch, in bytes. If zero, DefaultMaxBody. All
	// bodies that are read at a time share sixteen times as much.
	MaxBody int
	// BodyTimeout bounds the time for reading a body. If zero,
	// DefaultBodyTimeout.
	BodyTimeout time.Duration
	// AnswerTimeout is the http.Server's WriteTimeout. If zero, DefaultAnswerTimeout.
	AnswerTimeout time.Duration
	// Authorize is called before each access to a key. An error that is
	// ErrUnauthorized is answered with 401, any other with 403, and with its text. One
	// forbidden key rejects a whole batch. If nil, every access is allowed. It must be
	// safe for concurrent use.
	Authorize func(r *http.Request, action Action, key string) error
}

// Validate returns an error that names the first invalid field.
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

// An API is the http.Handler of a Decider. It is safe for concurrent use.
type API struct {
	cfg      Config
	decider  decider.Decider
	calls    sync.Pool // of *call
	batches  sync.Pool // of *batch
	bodies   atomic.Int64
	policies atomic.Pointer[policies]
	debug    chan struct{} // of capacity 1: a semaphore for reading all keys
	counts   counts
}

// New returns an API, or an error about the Config.
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
		c.limitBody()
	}
	a.counts.add(c.serve(), c.status)
	c.forget()
	a.calls.Put(c)
}

// A call is a request that is being answered. It is reused.
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

// forget clears all that belongs to the request.
func (c *call) forget() {
	c.w, c.r, c.target, c.params, c.request = nil, nil, target{}, params{}, decider.Request{}
	c.verdict.Answers = c.verdict.Answers[:0]
	if cap(c.buf) > maxKept {
		c.buf = nil
	}
}

// serve answers, and returns the index of the endpoint, or len(endpoints).
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

// prepare does the common first steps of all endpoints.
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

// authorize checks whether the client may use a key.
func (c *call) authorize(action Action, key string) *fault {
	if c.api.cfg.Authorize == nil {
		return nil
	}
	if err := c.api.cfg.Authorize(c.r, action, key); err != nil {
		return unauthorized(err)
	}
	return nil
}
