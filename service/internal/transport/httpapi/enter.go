package httpapi

import (
	"net/http"
	"runtime"

	"github.com/weir-go/weir/service/internal/connlimit"
	"github.com/weir-go/weir/service/internal/server/token"
)

// limits is the number of kinds of connlimit that an API bounds.
const limits = connlimit.Bodies + 1

// unlimited is the kind of requests that are always answered, such as health checks.
const unlimited connlimit.Kind = limits

// batchesAtOnce bounds the memory of batches, in the largest that there can be.
const batchesAtOnce = 16

// batchBytes returns the memory of the largest batch.
func batchBytes(cfg *Config) int {
	return cfg.MaxBody + min(maxBatch, cfg.MaxBody/leastRequest)*requestBytes
}

// debugsAtOnce bounds the answers with all keys that are made at once. One client makes
// two.
const debugsAtOnce = 4

func newLimits(cfg *Config) (all [limits]*connlimit.Limit) {
	for kind, places := range map[connlimit.Kind]int{
		connlimit.Waiting: cfg.MaxRequests / 2, connlimit.Deciding: cfg.MaxRequests / 4, connlimit.Settling: cfg.MaxRequests / 8,
		connlimit.Debugging: debugsAtOnce, connlimit.Bodies: batchesAtOnce * batchBytes(cfg),
	} {
		all[kind] = connlimit.NewLimit(kind, int64(places))
	}
	return all
}

// Limit returns the bound of what requests hold, by its kind, for other requests of the same callers.
func (a *API) Limit(kind connlimit.Kind) *connlimit.Limit { return a.limits[kind] }

// enter takes a place for the request. A request that may wait, but finds too many
// that do, is decided at once.
func (c *call) enter(e *endpoint) *fault {
	if e.kind == unlimited {
		return nil
	}
	c.client = connlimit.ClientOf(c.r.Context())
	if c.params.CanWait {
		if c.limit = c.api.limits[connlimit.Waiting]; c.limit.Enter(c.client, 1) {
			return nil
		}
		c.params.CanWait = false
	}
	limit := c.api.limits[e.kind]
	if !limit.Enter(c.client, 1) {
		c.limit = nil
		return busy
	}
	c.limit = limit
	return nil
}

// leave gives the place back.
//
// net/http ends an HTTP/2 answer after ServeHTTP has returned, and waits there for a
// client that does not take it. While many goroutines wait, the answer is sent here, so
// that its request keeps the place. A request without a place gets no answer then:
// leave reports true, and ServeHTTP must reset the stream.
func (c *call) leave() (reset bool) {
	crowded := c.api.crowded.Load()
	if crowded || c.turn%crowdEvery == 0 {
		if now := runtime.NumGoroutine() > goroutinesEach*c.api.cfg.MaxRequests; now != crowded {
			c.api.crowded.Store(now)
			crowded = now
		}
	}
	stalled := crowded && c.r.ProtoMajor == 2
	if c.limit == nil {
		return stalled
	}
	if stalled {
		_ = http.NewResponseController(c.w).Flush() // an error means that the client has left
	}
	c.limit.Leave(c.client, 1)
	return false
}

// crowdEvery is how many requests of a call read the number of goroutines once, unless there were many. The first does: there
// are many calls only while many requests are in progress.
const crowdEvery = 16

// goroutinesEach is how many goroutines a request in progress, or an idle connection, has
// at most.
const goroutinesEach = 2

// checkTaking refuses GET where that must not take tokens, and requests that a browser
// sends for a page of another origin.
func (c *call) checkTaking(e *endpoint) *fault {
	takes := e.method == http.MethodGet && e.action == token.Decide && c.cost() > 0
	if takes && !c.api.cfg.GetDecides {
		c.w.Header()["Allow"] = []string{http.MethodPost}
		return getDecides
	}
	if !c.traits().browser {
		return nil
	}
	r := *c.r
	if takes {
		r.Method = http.MethodPost // Check regards GET as harmless
	}
	if c.api.origins.Check(&r) != nil {
		return crossOrigin
	}
	return nil
}
