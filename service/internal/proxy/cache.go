package proxy

import (
	"context"
	"fmt"
	"net/http"

	"github.com/weir-go/weir"
	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httplimit"
	"github.com/weir-go/weir/service/internal/proxy/tally"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// A cached keeps the responses of a class, in front of its limit.
type cached struct {
	identity string // equal for equal settings
	cache    *httpcache.Cache
	handler  http.Handler
}

// cache returns the cache of a class: that of the class before, if the settings are equal.
func (b *builder) cache(rule *proxyrule.Cache, before *class) (*cached, error) {
	vary := rule.Vary
	if vary == nil {
		vary = b.rules.KeyHeaders()
	}
	identity := fmt.Sprintf("%+v %q", *rule, vary)
	if before != nil && before.cache != nil && before.cache.identity == identity {
		return before.cache, nil
	}
	c, err := httpcache.New(httpcache.Config{
		Key: func(r *http.Request) (key string, ok bool) {
			return visitOf(r).Client.Resource(r), true
		},
		Bytes: int64(rule.Memory), MaxBody: int64(rule.MaxBody), DefaultTTL: rule.TTL, IgnoreCookies: rule.IgnoreCookies, Vary: vary,
		Refresh: cache.Refresh{Stale: rule.Stale, StaleIfError: rule.StaleIfError, StaleIfRejected: rule.StaleIfRejected},
	})
	if err != nil {
		return nil, err
	}
	fill := func(w http.ResponseWriter, r *http.Request) {
		v := visitOf(r)
		b.proxy.limited(w, r, v.class, v.Request)
	}
	return &cached{identity, c, c.Handler(http.HandlerFunc(fill))}, nil
}

// A visit goes through a cache in the context of its request, because only that reaches the handler which fills the
// cache.
type visitKey struct{}

func visitOf(r *http.Request) *visit { return r.Context().Value(visitKey{}).(*visit) }

// serve answers from the cache. A request that the limit has rejected gets its tokens back,
// also if another request for the same resource was rejected in its place.
func (c *cached) serve(w http.ResponseWriter, r *http.Request, v *visit) {
	r = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	c.handler.ServeHTTP(v.Client.RestoreReason(w), r)
	if limitReasons[w.Header().Get(ReasonHeader)] {
		httplimit.Use(w, 0)
	}
}

// report returns the counts of a cache.
func (c *cached) report() *CacheReport {
	s := c.cache.Stats()
	return &CacheReport{
		Hits: s.Lookups[cache.Hit], Stale: s.Lookups[cache.Stale], Filled: s.Lookups[cache.Filled], Coalesced: s.Lookups[cache.Coalesced],
		Failed: s.Lookups[cache.Failed], Passed: s.Passed, Rejected: s.Rejected, Entries: s.Entries, Bytes: s.Bytes,
	}
}

// limitReasons are the reasons of answers to requests that a limit or the guard has rejected.
var limitReasons = map[string]bool{
	weir.OverLimit.String(): true, weir.QueueFull.String(): true, weir.Overdue.String(): true, weir.TooLate.String(): true,
	tally.Pressure: true,
}
