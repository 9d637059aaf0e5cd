// Package load is an honest client: it offers load to a service and tells what
// came back.
//
// The open loop sends each request when it is due, whatever became of the
// earlier ones, and counts latency from that instant: a service that stalls
// cannot hide the requests that it kept from being sent (coordinated
// omission). The closed loop is a crowd of workers that each wait for an
// answer before the next request; it shows what such clients see, not what the
// service would do to others.
package load

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/weir-go/weir/service/internal/lab/pace"
	"github.com/weir-go/weir/service/internal/lab/trace"
)

// Bounds where Config leaves them open.
const (
	DefaultTimeout     = 10 * time.Second
	DefaultMaxInflight = 10_000
)

// Config says what to send, when, and for how long.
type Config struct {
	Target string      // URL
	Method string      // if empty, GET
	Header http.Header // of every request
	Body   string      // of every request

	Profile pace.Profile // offered rate over time
	Poisson bool         // arrivals are independent of each other instead of evenly spaced
	Seed    uint64       // of Poisson

	// Workers is the number of clients of a closed loop, which share the
	// Profile's pace; a moment at which all are busy is lost, not made up for.
	// Zero: open loop.
	Workers int
	// Timeout bounds the wait for a whole answer. If zero, DefaultTimeout.
	Timeout time.Duration
	// Duration ends the arrivals. Zero: when ctx ends.
	Duration time.Duration
	// MaxInflight bounds the requests in flight of an open loop. Those beyond
	// it are not sent, and recorded as trace.Unsent. If zero,
	// DefaultMaxInflight.
	MaxInflight int

	// Record, if not nil, is told of every request that has ended, one call at
	// a time.
	Record func(trace.Record)
	// Transport carries the requests. If nil, one with keep-alive connections
	// enough and no proxy. Redirects are not followed.
	Transport http.RoundTripper
}

// Validate says which field is wrong, or returns nil.
func (c Config) Validate() error {
	u, err := url.Parse(c.Target)
	switch {
	case err != nil:
		return fmt.Errorf("load: target = %q: %w", c.Target, err)
	case u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return fmt.Errorf("load: target = %q: must be an http or https URL", c.Target)
	case c.Workers < 0 || c.Workers > maxWorkers:
		return fmt.Errorf("load: workers = %d: must be in [0, %d]", c.Workers, maxWorkers)
	case c.Timeout < 0:
		return fmt.Errorf("load: timeout = %v: must be >= 0", c.Timeout)
	case c.Duration < 0:
		return fmt.Errorf("load: duration = %v: must be >= 0", c.Duration)
	case c.MaxInflight < 0:
		return fmt.Errorf("load: max_inflight = %d: must be >= 0", c.MaxInflight)
	}
	if _, err := http.NewRequest(c.Method, c.Target, nil); err != nil {
		return fmt.Errorf("load: %w", err)
	}
	return c.Profile.Validate()
}

const maxWorkers = 100_000

// Run offers the load, waits for the answers, and returns how long it offered.
// If ctx ends, so does the run: what is in flight is recorded as
// trace.Canceled, and that is no error.
func Run(ctx context.Context, cfg Config) (offered time.Duration, err error) {
	if err := cfg.Validate(); err != nil {
		return 0, err
	}
	r := newRunner(ctx, cfg)
	if cfg.Workers > 0 {
		r.closedLoop()
	} else {
		r.openLoop()
	}
	offered = r.now()
	if cfg.Duration > 0 {
		offered = min(offered, cfg.Duration)
	}
	r.requests.Wait()
	return offered, nil
}
