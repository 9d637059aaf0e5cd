package metric

import (
	"slices"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/grpclimit"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/throttle"
)

var (
	throttleDecisions = Counter("weir_throttle_decisions_total", "Requests that the throttle has admitted or rejected.", "decision")
	throttleRatio     = Gauge("weir_throttle_refusal_ratio", "Probability that the next request is rejected.")
	throttleRequests  = Gauge("weir_throttle_window_requests", "Requests in the window: accepted, dropped or rejected.")
	throttleAccepts   = Gauge("weir_throttle_window_accepts", "Requests in the window that the backend has accepted.")

	retries        = Counter("weir_retries_total", "Retries.")
	retriesDenied  = Counter("weir_retries_exhausted_total", "Retries that the budget has denied.")
	budgetRequests = Gauge("weir_retry_window_requests", "First attempts in the window of the budget.")
	budgetRetries  = Gauge("weir_retry_window_retries", "Retries in the window of the budget.")
	budgetAllowed  = Gauge("weir_retry_window_allowed", "Retries that the budget allows in its window.")

	cacheLookups   = Counter("weir_cache_lookups_total", "Lookups, or requests, by the source of the answer.", "status")
	cacheFills     = Counter("weir_cache_fills_total", "Fills, rejected ones included.")
	cacheRejected  = Counter("weir_cache_fills_rejected_total", "Fills that a limiter rejected.")
	cacheErrors    = Counter("weir_cache_fill_errors_total", "Fills that failed.")
	cacheEvictions = Counter("weir_cache_evictions_total", "Entries removed to make room.")
	cacheTooLarge  = Counter("weir_cache_too_large_total", "Values too large to be stored.")
	cacheEntries   = Gauge("weir_cache_entries", "Stored entries.")
	cacheBytes     = Gauge("weir_cache_bytes", "Size of the stored entries.")

	clientRequests = Counter("weir_client_requests_total", "Requests of callers.")
	clientSent     = Counter("weir_client_sent_total", "Attempts sent, retries included.")
	clientRefused  = Counter("weir_client_refused_total", "Attempts not sent, by reason.", "reason")
	clientWaited   = Counter("weir_client_waited_total", "Attempts that waited because the server asked for it.")
	clientWaiting  = Gauge("weir_client_waiting", "Attempts that wait because the server asked for it.")
	clientWait     = Histogram("weir_client_wait_seconds", "Time that attempts waited because the server asked for it, unsent attempts included.")
	clientHosts    = Gauge("weir_client_hosts", "Hosts with remembered state.")
	clientEvicted  = Counter("weir_client_hosts_evicted_total", "Hosts forgotten to make room for others.")
	clientShared   = Counter("weir_client_unplaced_total", "Requests to hosts without a state of their own.")
)

var (
	throttleFamilies  = []*Family{throttleDecisions, throttleRatio, throttleRequests, throttleAccepts}
	retryFamilies     = []*Family{retries, retriesDenied, budgetRequests, budgetRetries, budgetAllowed}
	cacheFamilies     = []*Family{cacheLookups, cacheFills, cacheRejected, cacheErrors, cacheEvictions, cacheTooLarge, cacheEntries, cacheBytes}
	httpCacheFamilies = []*Family{cacheLookups, cacheEvictions, cacheEntries, cacheBytes}
	transportFamilies = []*Family{clientRequests, clientSent, clientRefused, clientWaiting, clientWait, clientHosts, clientEvicted,
		clientShared, retries, retriesDenied}
	grpcClientFamilies = slices.Concat([]*Family{clientSent, clientRefused, clientWaited, clientWaiting, outcomes},
		stateFamilies, throttleFamilies, retryFamilies)
)

func (s Scrape) throttle(st throttle.Stats) {
	s.count(throttleDecisions, st.Sent, "admit")
	s.count(throttleDecisions, st.Throttled, "reject")
	s.Send(throttleRatio, st.P)
	s.gauge(throttleRequests, st.Requests)
	s.gauge(throttleAccepts, st.Accepts)
}

func (s Scrape) retries(st throttle.RetryStats) {
	s.count(retries, st.Retried)
	s.count(retriesDenied, st.Exhausted)
	s.gauge(budgetRequests, st.Requests)
	s.gauge(budgetRetries, st.Retries)
	s.gauge(budgetAllowed, st.Allowed)
}

func (s Scrape) grpcClient(st grpclimit.ClientStats) {
	s.count(clientSent, st.Sent)
	s.count(clientWaited, st.Waited)
	s.gauge(clientWaiting, st.Waiting)
	s.count(clientRefused, st.Rejected, "paced")
	s.count(clientRefused, st.Throttled, "throttled")
	s.count(clientRefused, st.Limited, "limited")
	s.count(clientRefused, st.Cancelled, "cancel")
	sendEach(s, outcomes, st.Outcomes, "")
	if st.Throttle != nil {
		s.throttle(*st.Throttle)
	}
	if st.Budget != nil {
		s.retries(*st.Budget)
	}
	if st.Limiter != nil {
		s.state(*st.Limiter, "")
	}
}

func (s Scrape) transport(st httpclient.Stats) {
	s.count(clientRequests, st.Requests)
	s.count(clientSent, st.Sent)
	s.count(retries, st.Retried)
	s.count(retriesDenied, st.Exhausted)
	for why, n := range st.Refused {
		s.count(clientRefused, n, why)
	}
	s.gauge(clientWaiting, st.Waiting)
	s.gauge(clientHosts, st.Hosts)
	s.count(clientEvicted, st.Evicted)
	s.count(clientShared, st.Shared)
	s.SendHistogram(clientWait, httpclient.WaitBounds[:], st.Waits[:], st.Waited)
}

func (s Scrape) cache(st cache.Stats) {
	sendEach(s, cacheLookups, st.Lookups)
	s.count(cacheFills, st.Fills)
	s.count(cacheRejected, st.Rejected)
	s.count(cacheErrors, st.Errors)
	s.count(cacheTooLarge, st.TooLarge)
	s.contents(st.Evicted, st.Entries, st.Bytes)
}

func (s Scrape) httpCache(st httpcache.Stats) {
	sendEach(s, cacheLookups, st.Lookups)
	s.count(cacheLookups, st.Passed, "passed")
	s.count(cacheLookups, st.Rejected, "rejected")
	s.contents(st.Evicted, st.Entries, st.Bytes)
}

func (s Scrape) contents(evicted uint64, entries int, bytes int64) {
	s.count(cacheEvictions, evicted)
	s.gauge(cacheEntries, entries)
	s.Send(cacheBytes, float64(bytes))
}
