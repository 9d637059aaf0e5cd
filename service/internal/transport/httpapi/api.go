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
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server/decider"
	"github.com/weir-go/weir/service/internal/server/token"
	"github.com/weir-go/weir/service/internal/transport/httpapi/query"
	"github.com/weir-go/weir/service/internal/transport/httpapi/ratefield"
)

// Defaults of Config.
const (
	DefaultMaxKey        = 1 << 10
	DefaultMaxBody       = 4 << 20
	DefaultMaxRequests   = 10_000
	DefaultBodyTimeout   = 10 * time.Second
	DefaultAnswerTimeout = 10 * time.Second
)

// Fields selects header fields of answers.
type Fields string

// The Fields.
const (
	FieldsDraft Fields = "draft"      // after draft-ietf-httpapi-ratelimit-headers-11
	FieldsNext  Fields = "draft_next" // with a and w for r and t, as proposed for a later draft
	FieldsNone  Fields = "none"
)

// Config configures an API. The zero value authorizes every request, and ignores
// limits that requests set for themselves.
type Config struct {
	// Fields selects the header fields RateLimit and RateLimit-Policy. If empty, FieldsDraft.
	Fields Fields
	// MaxLimit and MaxQueue bound maxRequests and maxRequestsInQueue. They must be
	// those of the server.Config. If zero, these parameters are rejected.
	MaxLimit, MaxQueue int
	// MaxKey bounds a key, in bytes. If zero, DefaultMaxKey.
	MaxKey int
	// MaxBody bounds the body of a batch, in bytes. If zero, DefaultMaxBody. Batches that
	// are not answered yet share the memory of sixteen of the largest.
	MaxBody int
	// MaxRequests bounds the requests in progress: half as many may wait for their
	// turn, a quarter decide without waiting, and an eighth settle grants, renew leases
	// or give them back, so that these never queue behind others. The clients share
	// each part, and the bytes of bodies, fairly: see connlimit.Limit. If zero,
	// DefaultMaxRequests.
	MaxRequests int
	// GetDecides lets GET /rate/{key} take tokens, as in GoCC. Without it, GET is
	// answered with 405 unless n is 0, so that no crawler, prefetch or link takes
	// tokens.
	GetDecides bool
	// BodyTimeout bounds the time for reading a body. If zero, DefaultBodyTimeout.
	BodyTimeout time.Duration
	// AnswerTimeout is the http.Server's WriteTimeout. If zero, DefaultAnswerTimeout.
	AnswerTimeout time.Duration
	// Authorize is called before each access to a key, or to all keys if the key is
	// empty. An error that is token.ErrUnknown is answered with 401, any other with
	// 403, and with its text. One forbidden key rejects a whole batch, but only its own report
	// of an exchange. If nil, every access is allowed. It must be safe for concurrent use.
	Authorize func(r *http.Request, action token.Action, key string) error
	// Client, if not nil, names the client of a request that Authorize has allowed. Leaves of
	// different clients are different leaves, also if they have the same name. It must be safe
	// for concurrent use.
	Client func(r *http.Request) string
	// Answered, if not nil, is called after each answer, with its status, when the request came, and the time that Stats.Took
	// counts, or 0. It must be safe for concurrent use.
	Answered func(r *http.Request, status int, came time.Time, took time.Duration)
}

// Validate returns an error that names the first invalid field.
func (c Config) Validate() error {
	for _, f := range []struct {
		name     string
		value    any
		negative bool
	}{
		{"MaxLimit", c.MaxLimit, c.MaxLimit < 0},
		{"MaxQueue", c.MaxQueue, c.MaxQueue < 0},
		{"MaxKey", c.MaxKey, c.MaxKey < 0},
		{"MaxBody", c.MaxBody, c.MaxBody < 0},
		{"MaxRequests", c.MaxRequests, c.MaxRequests < 0},
		{"BodyTimeout", c.BodyTimeout, c.BodyTimeout < 0},
		{"AnswerTimeout", c.AnswerTimeout, c.AnswerTimeout < 0},
	} {
		if f.negative {
			return fmt.Errorf("httpapi: %s = %v: must be >= 0", f.name, f.value)
		}
	}
	return nil
}

// An API is the http.Handler of a Decider. It is safe for concurrent use.
type API struct {
	cfg       Config
	decider   decider.Decider
	epoch     time.Time
	calls     sync.Pool // of *call
	batches   sync.Pool // of *batch
	exchanges sync.Pool // of *exchange
	checks    sync.Pool // of *check
	limits    [limits]*connlimit.Limit
	origins   http.CrossOriginProtection
	policies  ratefield.Policies
	answers   [][len(statuses)]atomic.Uint64 // by endpoint; the last are requests to none
	batched   atomic.Uint64                  // requests in batches
	took      latency
	crowded   atomic.Bool // many goroutines wait, as was seen last
}

// New returns an API, or an error about the Config.
func New(d decider.Decider, cfg Config) (*API, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg.MaxKey = cmp.Or(cfg.MaxKey, DefaultMaxKey)
	cfg.MaxBody = cmp.Or(cfg.MaxBody, DefaultMaxBody)
	cfg.MaxRequests = cmp.Or(cfg.MaxRequests, DefaultMaxRequests)
	cfg.BodyTimeout = cmp.Or(cfg.BodyTimeout, DefaultBodyTimeout)
	cfg.AnswerTimeout = cmp.Or(cfg.AnswerTimeout, DefaultAnswerTimeout)
	a := &API{cfg: cfg, decider: d, epoch: time.Now(), limits: newLimits(&cfg)}
	a.answers = make([][len(statuses)]atomic.Uint64, len(endpoints)+1)
	a.calls.New = func() any {
		c := &call{api: a}
		c.suspend = c.suspendDeadline
		return c
	}
	a.batches.New = func() any { return new(batch) }
	a.exchanges.New = func() any { return new(exchange) }
	a.checks.New = func() any { return new(check) }
	return a, nil
}

// ServeHTTP answers a request.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := a.calls.Get().(*call)
	c.w, c.r, c.status, c.waits = w, r, http.StatusOK, false
	c.came = a.epoch.Add(time.Since(a.epoch)) // half as long as time.Now
	if c.unread = r.ContentLength != 0; c.unread {
		c.limitBody()
	}
	c.target = locate(r.URL)
	i := c.find(r.Method)
	panics := true
	defer func() {
		if panics && c.limit != nil {
			c.limit.Leave(c.client, 1)
		}
	}()
	if f := c.run(i); f != nil {
		c.fail(f)
	}
	panics = false
	reset := c.leave()
	a.count(i, c.status)
	var took time.Duration
	if c.turn++; c.turn%tookEvery == 1 && (c.parts > 1 || c.root == checkRoot) && !c.waits {
		took = time.Since(c.came)
		a.took.add(took)
	}
	if a.cfg.Answered != nil && !reset {
		a.cfg.Answered(r, c.status, c.came, took)
	}
	c.forget()
	a.calls.Put(c)
	if reset {
		panic(http.ErrAbortHandler)
	}
}

// Immediate reports whether a request is decided without waiting, if the Decider does not wait for others. That
// is so for requests about one key, or of a gateway, that do not ask for a wait, as far as
// that can be told at a glance.
func (a *API) Immediate(r *http.Request) bool {
	path, query := r.URL.Path, r.URL.RawQuery
	return a.Single(r) && len(path)+len(query) <= maxImmediate && (query == "" || !strings.Contains(query, "canWait") && !strings.Contains(query, "%"))
}

// Single reports whether a request is for the API and has a single answer, perhaps after a wait: one about a key, or of a gateway.
func (a *API) Single(r *http.Request) bool {
	path := r.URL.Path
	return strings.HasPrefix(path, "/rate/") || strings.HasPrefix(path, "/lease/") || strings.HasPrefix(path, "/check")
}

// maxImmediate bounds the path and the query of an Immediate request, in bytes. Long keys are not remembered,
// so that their rules are looked up each time.
const maxImmediate = 512

// A call is a request that is being answered. It is reused.
type call struct {
	api      *API
	w        http.ResponseWriter
	r        *http.Request
	suspend  func() // suspendDeadline, made once
	turn     uint   // counts requests
	came     time.Time
	waits    bool // or may wait
	unstored bool // forbidStore was called

	target
	params  query.Params
	request decider.Request
	verdict decider.Verdict
	denial  fault
	buf     []byte // of the answer
	fields  ratefield.Writer
	status  int               // of the answer
	unread  bool              // there is a body, which is not read
	limit   *connlimit.Limit  // that counts the request; nil if it was refused before
	client  *connlimit.Client // nil if the connection came through no connlimit.Listener

	last traits // of a request
}

// maxKept bounds the buffers that are kept for the next call, in bytes.
const maxKept = 64 << 10

// forget clears all that belongs to the request.
func (c *call) forget() {
	c.w, c.r, c.unstored, c.target, c.params, c.request = nil, nil, false, target{}, query.Params{}, decider.Request{}
	c.verdict.Answers, c.limit, c.client = c.verdict.Answers[:0], nil, nil
	if cap(c.buf) > maxKept {
		c.buf = nil
	}
}

// run runs the endpoint with an index: it answers, or returns a fault.
func (c *call) run(i int) (f *fault) {
	if i == len(endpoints) {
		return c.misled()
	}
	e := &endpoints[i]
	if e.root == checkRoot {
		return c.check(e)
	}
	if e.parts > 1 {
		var err error
		if c.key, err = decider.ParseKey(c.key, c.api.cfg.MaxKey); err != nil {
			return bad("%v", err)
		}
	}
	if f = c.authorize(e.action, c.key); f != nil {
		return f
	}
	if err := c.params.Parse(c.r.URL.RawQuery, e.params); err != nil {
		return bad("%v", err)
	}
	if f = c.checkTaking(e); f != nil {
		return f
	}
	if f = c.enter(e); f != nil {
		return f
	}
	if e.parts > 1 {
		if f = c.drain(); f != nil {
			return f
		}
	}
	return e.run(c)
}

// authorize checks whether the client may use a key. Every client may do what is not
// an action.
func (c *call) authorize(action token.Action, key string) *fault {
	if action == "" || c.api.cfg.Authorize == nil {
		return nil
	}
	switch err := c.api.cfg.Authorize(c.r, action, key); {
	case err == nil:
		return nil
	case errors.Is(err, token.ErrUnknown):
		return &fault{status: http.StatusUnauthorized, text: "unauthorized: " + err.Error()}
	default:
		return &fault{status: http.StatusForbidden, text: err.Error()}
	}
}
