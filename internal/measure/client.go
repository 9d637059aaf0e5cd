package measure

import (
	"slices"

	"github.com/weir-go/weir/cache"
	"github.com/weir-go/weir/httpcache"
	"github.com/weir-go/weir/httpclient"
	"github.com/weir-go/weir/throttle"
)

var (
	throttleDecisions = &Metric{"weir_throttle_decisions_total", "weir.throttle.decisions", Counter, "{request}", "Requests that the throttle has admitted or rejected.", []string{"decision"}}
	throttleRatio     = &Metric{"weir_throttle_refusal_ratio", "weir.throttle.refusal", Gauge, "1", "Probability that the next request is rejected.", nil}
	throttleRequests  = &Metric{"weir_throttle_window_requests", "weir.throttle.window_requests", Gauge, "{request}", "Requests in the window: accepted, dropped or rejected.", nil}
	throttleAccepts   = &Metric{"weir_throttle_window_accepts", "weir.throttle.window_accepts", Gauge, "{request}", "Requests in the window that the backend has accepted.", nil}

	retries        = &Metric{"weir_retries_total", "weir.retries", Counter, "{retry}", "Retries.", nil}
	retriesDenied  = &Metric{"weir_retries_exhausted_total", "weir.retries_exhausted", Counter, "{retry}", "Retries that the budget has denied.", nil}
	budgetRequests = &Metric{"weir_retry_window_requests", "weir.retry.window_requests", Gauge, "{request}", "First attempts in the window of the budget.", nil}
	budgetRetries  = &Metric{"weir_retry_window_retries", "weir.retry.window_retries", Gauge, "{retry}", "Retries in the window of the budget.", nil}
	budgetAllowed  = &Metric{"weir_retry_window_allowed", "weir.retry.window_allowed", Gauge, "{retry}", "Retries that the budget allows in its window.", nil}

	cacheLookups   = &Metric{"weir_cache_lookups_total", "weir.cache.lookups", Counter, "{lookup}", "Lookups, or requests, by the source of the answer.", []string{"status"}}
	cacheFills     = &Metric{"weir_cache_fills_total", "weir.cache.fills", Counter, "{fill}", "Fills, rejected ones included.", nil}
	cacheRejected  = &Metric{"weir_cache_fills_rejected_total", "weir.cache.fills_rejected", Counter, "{fill}", "Fills that a limiter rejected.", nil}
	cacheErrors    = &Metric{"weir_cache_fill_errors_total", "weir.cache.fill_errors", Counter, "{fill}", "Fills that failed.", nil}
	cacheEvictions = &Metric{"weir_cache_evictions_total", "weir.cache.evictions", Counter, "{entry}", "Entries removed to make room.", nil}
	cacheTooLarge  = &Metric{"weir_cache_too_large_total", "weir.cache.too_large", Counter, "{value}", "Values too large to be stored.", nil}
	cacheEntries   = &Metric{"weir_cache_entries", "weir.cache.entries", Gauge, "{entry}", "Stored entries.", nil}
	cacheBytes     = &Metric{"weir_cache_bytes", "weir.cache.size", Gauge, "By", "Size of the stored entries.", nil}

	clientRequests = &Metric{"weir_client_requests_total", "weir.client.requests", Counter, "{request}", "Requests of callers.", nil}
	clientSent     = &Metric{"weir_client_sent_total", "weir.client.sent", Counter, "{attempt}", "Attempts sent, retries included.", nil}
	clientRefused  = &Metric{"weir_client_refused_total", "weir.client.refused", Counter, "{attempt}", "Attempts not sent, by reason.", []string{"reason"}}
	clientWaited   = &Metric{"weir_client_waited_total", "weir.client.waited", Counter, "{attempt}", "Attempts that waited because the server asked for it.", nil}
	clientWaiting  = &Metric{"weir_client_waiting", "weir.client.waiting", Gauge, "{attempt}", "Attempts that wait because the server asked for it.", nil}
	clientWait     = &Metric{"weir_client_wait_seconds", "weir.client.wait", Histogram, "s", "Time that attempts waited because the server asked for it, unsent attempts included.", nil}
	clientHosts    = &Metric{"weir_client_hosts", "weir.client.hosts", Gauge, "{host}", "Hosts with remembered state.", nil}
	clientEvicted  = &Metric{"weir_client_hosts_evicted_total", "weir.client.hosts_evicted", Counter, "{host}", "Hosts forgotten to make room for others.", nil}
	clientShared   = &Metric{"weir_client_unplaced_total", "weir.client.unplaced", Counter, "{request}", "Requests to hosts without a state of their own.", nil}
)

var (
	throttleMetrics  = []*Metric{throttleDecisions, throttleRatio, throttleRequests, throttleAccepts}
	retryMetrics     = []*Metric{retries, retriesDenied, budgetRequests, budgetRetries, budgetAllowed}
	cacheMetrics     = []*Metric{cacheLookups, cacheFills, cacheRejected, cacheErrors, cacheEvictions, cacheTooLarge, cacheEntries, cacheBytes}
	httpCacheMetrics = []*Metric{cacheLookups, cacheEvictions, cacheEntries, cacheBytes}
	transportMetrics = []*Metric{clientRequests, clientSent, clientRefused, clientWaiting, clientWait, clientHosts, clientEvicted,
		clientShared, retries, retriesDenied}
	grpcClientMetrics = slices.Concat([]*Metric{clientSent, clientRefused, clientWaited, clientWaiting, outcomes},
		stateMetrics, throttleMetrics, retryMetrics)
)

func (to sink) throttle(st throttle.Stats) {
	to.count(throttleDecisions, st.Sent, "admit")
	to.count(throttleDecisions, st.Throttled, "reject")
	to.Value(throttleRatio, st.P)
	to.gauge(throttleRequests, st.Requests)
	to.gauge(throttleAccepts, st.Accepts)
}

func (to sink) retries(st throttle.RetryStats) {
	to.count(retries, st.Retried)
	to.count(retriesDenied, st.Exhausted)
	to.gauge(budgetRequests, st.Requests)
	to.gauge(budgetRetries, st.Retries)
	to.gauge(budgetAllowed, st.Allowed)
}

func (to sink) grpcClient(st Client) {
	to.count(clientSent, st.Sent)
	to.count(clientWaited, st.Waited)
	to.gauge(clientWaiting, st.Waiting)
	to.count(clientRefused, st.Rejected, "paced")
	to.count(clientRefused, st.Throttled, "throttled")
	to.count(clientRefused, st.Limited, "limited")
	to.count(clientRefused, st.Cancelled, "cancel")
	each(to, outcomes, st.Outcomes, "")
	if st.Throttle != nil {
		to.throttle(*st.Throttle)
	}
	if st.Budget != nil {
		to.retries(*st.Budget)
	}
	if st.Limiter != nil {
		to.state(*st.Limiter, "")
	}
}

func (to sink) transport(st httpclient.Stats) {
	to.count(clientRequests, st.Requests)
	to.count(clientSent, st.Sent)
	to.count(retries, st.Retried)
	to.count(retriesDenied, st.Exhausted)
	for why, n := range st.Refused {
		to.count(clientRefused, n, why)
	}
	to.gauge(clientWaiting, st.Waiting)
	to.gauge(clientHosts, st.Hosts)
	to.count(clientEvicted, st.Evicted)
	to.count(clientShared, st.Shared)
	to.Histogram(clientWait, httpclient.WaitBounds[:], st.Waits[:], st.Waited)
}

func (to sink) cache(st cache.Stats) {
	each(to, cacheLookups, st.Lookups)
	to.count(cacheFills, st.Fills)
	to.count(cacheRejected, st.Rejected)
	to.count(cacheErrors, st.Errors)
	to.count(cacheTooLarge, st.TooLarge)
	to.contents(st.Evicted, st.Entries, st.Bytes)
}

func (to sink) httpCache(st httpcache.Stats) {
	each(to, cacheLookups, st.Lookups)
	to.count(cacheLookups, st.Passed, "passed")
	to.count(cacheLookups, st.Rejected, "rejected")
	to.contents(st.Evicted, st.Entries, st.Bytes)
}

func (to sink) contents(evicted uint64, entries int, bytes int64) {
	to.count(cacheEvictions, evicted)
	to.gauge(cacheEntries, entries)
	to.Value(cacheBytes, float64(bytes))
}
