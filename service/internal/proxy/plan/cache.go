package plan

import (
	"fmt"
	"net/http"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/service/internal/proxyrule"
)

// A classCache keeps the responses of a class, in front of its limit.
type classCache struct {
	identity string // equal for equal settings
	cache    *httpcache.Cache
	handler  http.Handler
}

// makeCache returns the cache of a class: that of the class before, if the settings are equal.
func (b *builder) makeCache(rule *proxyrule.Cache, before *Class) (*classCache, error) {
	vary := rule.Vary
	if vary == nil {
		vary = b.Rules.KeyHeaders()
	}
	identity := fmt.Sprintf("%+v %q", *rule, vary)
	if before != nil && before.Cache != nil && before.Cache.identity == identity {
		return before.Cache, nil
	}
	c, err := httpcache.New(httpcache.Config{
		Key:   b.cfg.CacheKey,
		Bytes: int64(rule.Memory), MaxBody: int64(rule.MaxBody), DefaultTTL: rule.TTL, IgnoreCookies: rule.IgnoreCookies, Vary: vary,
		Refresh: cache.Refresh{Stale: rule.Stale, StaleIfError: rule.StaleIfError, StaleIfRejected: rule.StaleIfRejected},
	})
	if err != nil {
		return nil, err
	}
	return &classCache{identity, c, c.Handler(b.cfg.Fill)}, nil
}

// Serve answers from the cache.
func (c *classCache) Serve(w http.ResponseWriter, r *http.Request) { c.handler.ServeHTTP(w, r) }

// Stats returns the counts of the cache.
func (c *classCache) Stats() httpcache.Stats { return c.cache.Stats() }
