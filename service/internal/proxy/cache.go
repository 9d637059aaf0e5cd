package proxy

import (
	"fmt"
	"net/http"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httplimit"
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
		Key:   b.proxy.trust.resource,
		Bytes: int64(rule.Memory), MaxBody: int64(rule.MaxBody), DefaultTTL: rule.TTL, IgnoreCookies: rule.IgnoreCookies, Vary: vary,
		Refresh: cache.Refresh{Stale: rule.Stale, StaleIfError: rule.StaleIfError, StaleIfRejected: rule.StaleIfRejected},
	})
	if err != nil {
		return nil, err
	}
	fill := func(w http.ResponseWriter, r *http.Request) {
		v := visitOf(r)
		b.proxy.limited(w, r, v.class, v.route)
	}
	return &cached{identity, c, c.Handler(http.HandlerFunc(fill))}, nil
}

// serve answers from the cache. A request that the limit has rejected gets its tokens back,
// also if another request for the same resource was rejected in its place.
func (c *cached) serve(w http.ResponseWriter, r *http.Request) {
	c.handler.ServeHTTP(&reasonWriter{w, r}, r)
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
