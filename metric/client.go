package metric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/internal/outgoing"
	"github.com/weir-go/weir/throttle"
)

func (c scrape) throttle(s throttle.Stats) {
	c.count(throttleDecisions, s.Sent, "admit")
	c.count(throttleDecisions, s.Throttled, "reject")
	c.send(throttleRatio, s.P, nil)
	c.gauge(throttleRequests, s.Requests)
	c.gauge(throttleAccepts, s.Accepts)
}

func (c scrape) budget(s throttle.RetryStats) {
	c.count(retries, s.Retried)
	c.count(retriesDenied, s.Exhausted)
	c.gauge(budgetRequests, s.Requests)
	c.gauge(budgetRetries, s.Retries)
	c.gauge(budgetAllowed, s.Allowed)
}

// client sends what a grpclimit.Client has done.
func (c scrape) client(s outgoing.Stats) {
	c.count(clientSent, s.Sent)
	c.count(clientWaited, s.Waited)
	c.gauge(clientWaiting, s.Waiting)
	c.refusals(s.Rejected, s.Throttled, s.Limited)
	c.count(clientRefused, s.Cancelled, "cancel")
	c.outcomes(s.Outcomes, "")
	if s.Throttle != nil {
		c.throttle(*s.Throttle)
	}
	if s.Budget != nil {
		c.budget(*s.Budget)
	}
	if s.Gate != nil {
		c.state(*s.Gate, "")
	}
}

// transport sends what an httpclient.Transport has done.
func (c scrape) transport(s httpclient.Stats) {
	c.count(clientRequests, s.Requests)
	c.count(clientSent, s.Sent)
	c.count(retries, s.Retried)
	c.count(retriesDenied, s.Exhausted)
	c.refusals(s.Rejected, s.Throttled, s.Limited)
	c.gauge(clientWaiting, s.Waiting)
	c.gauge(clientHosts, s.Hosts)
	c.count(clientEvicted, s.Evicted)
	c.count(clientShared, s.Shared)
	c.waits(&s.Waits)
}

// refusals sends who has kept back how many attempts.
func (c scrape) refusals(paced, throttled, limited uint64) {
	c.count(clientRefused, paced, "paced")
	c.count(clientRefused, throttled, "throttled")
	c.count(clientRefused, limited, "limited")
}

func (c scrape) waits(h *httpclient.WaitHistogram) {
	buckets, n := make(map[float64]uint64, len(httpclient.WaitBounds)), uint64(0)
	for i, bound := range httpclient.WaitBounds {
		n += h.Counts[i]
		buckets[bound.Seconds()] = n
	}
	n += h.Counts[len(httpclient.WaitBounds)]
	c.ch <- prometheus.MustNewConstHistogram(c.descs[clientWait], n, h.Sum.Seconds(), buckets)
}

func (c scrape) cache(s cache.Stats) {
	c.lookups(s.Hits, s.Stale, s.Filled, s.Coalesced, s.Failed)
	c.count(cacheFills, s.Fills)
	c.count(cacheRejected, s.Rejected)
	c.count(cacheErrors, s.Errors)
	c.count(cacheEvictions, s.Evicted)
	c.count(cacheTooLarge, s.TooLarge)
	c.gauge(cacheEntries, s.Entries)
	c.send(cacheBytes, float64(s.Bytes), nil)
}

func (c scrape) httpCache(s httpcache.Stats) {
	c.lookups(s.Hits, s.Stale, s.Filled, s.Coalesced, s.Failed)
	c.count(cacheLookups, s.Passed, "passed")
	c.count(cacheLookups, s.Rejected, "rejected")
	c.count(cacheEvictions, s.Evicted)
	c.gauge(cacheEntries, s.Entries)
	c.send(cacheBytes, float64(s.Bytes), nil)
}

func (c scrape) lookups(hits, stale, filled, coalesced, failed uint64) {
	c.count(cacheLookups, hits, "hit")
	c.count(cacheLookups, stale, "stale")
	c.count(cacheLookups, filled, "filled")
	c.count(cacheLookups, coalesced, "coalesced")
	c.count(cacheLookups, failed, "failed")
}
