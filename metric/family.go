package metric

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"
)

// A family is the metrics of one name.
type family struct {
	name   string
	kind   prometheus.ValueType // 0: a histogram
	help   string
	labels []string // besides the name
}

func counter(name, help string, labels ...string) *family {
	return &family{"weir_" + name, prometheus.CounterValue, help, labels}
}

func gauge(name, help string, labels ...string) *family {
	return &family{"weir_" + name, prometheus.GaugeValue, help, labels}
}

func histogram(name, help string) *family { return &family{name: "weir_" + name, help: help} }

var (
	decisions = counter("decisions_total", "Requests by decision, and why.", "class", "decision", "reason")
	rules     = counter("rule_decisions_total", "Requests by what each rule has said.", "rule", "decision")
	longLived = gauge("long_lived", "Requests that go on after the header of their response without a unit of their limit.")
	shadowed  = counter("shadowed_total", "Admitted requests that the limit would have refused, but for Shadow.", "class", "reason")
	outcomes  = counter("outcomes_total", "Requests whose work has ended, by what they said about load.", "class", "outcome")

	limit     = gauge("limit", "Units that may be in flight.", "class")
	inflight  = gauge("inflight", "Units in flight, abandoned ones included.", "class")
	abandoned = gauge("abandoned", "Units in flight that nobody waits for.", "class")
	waiting   = gauge("waiting", "Requests in the queue.", "class")
	waited    = counter("waited_seconds_total", "How long admitted requests were in the queue, together.", "class")

	keyedDenied    = counter("keyed_denied_total", "Decisions against a key.")
	keyedForgotten = counter("keyed_forgotten_total", "Buckets forgotten in debt, because memory was full.")
	keyedWaiting   = gauge("keyed_waiting", "Calls that wait for tokens.")
	keyedMemory    = gauge("keyed_memory_bytes", "Memory in use for buckets.")
	keyedOwn       = gauge("keyed_own_keys", "Keys with waiters, or a quota of their own.")

	throttleDecisions = counter("throttle_decisions_total", "Requests that were sent, or kept back because the backend refuses too much.", "decision")
	throttleRatio     = gauge("throttle_refusal_ratio", "Chance that the next request is kept back.")
	throttleRequests  = gauge("throttle_window_requests", "Requests in the window: accepted, dropped, or kept back.")
	throttleAccepts   = gauge("throttle_window_accepts", "Requests that the backend has accepted in the window.")

	retries        = counter("retries_total", "Retries.")
	retriesDenied  = counter("retries_exhausted_total", "Retries that there was no budget for.")
	budgetRequests = gauge("retry_window_requests", "First attempts in the window of the budget.")
	budgetRetries  = gauge("retry_window_retries", "Retries in the window of the budget.")
	budgetAllowed  = gauge("retry_window_allowed", "Retries that the budget allows in its window.")

	cacheLookups   = counter("cache_lookups_total", "Lookups, or requests, by where the answer came from.", "status")
	cacheFills     = counter("cache_fills_total", "Fills that were begun, those that were refused included.")
	cacheRejected  = counter("cache_fills_rejected_total", "Fills that a limiter refused.")
	cacheErrors    = counter("cache_fill_errors_total", "Fills that failed.")
	cacheEvictions = counter("cache_evictions_total", "Entries that went to make room.")
	cacheTooLarge  = counter("cache_too_large_total", "Values that were too large to be kept.")
	cacheEntries   = gauge("cache_entries", "Entries that are kept.")
	cacheBytes     = gauge("cache_bytes", "What the entries take of the bytes that the cache may have.")

	clientRequests = counter("client_requests_total", "Requests of callers.")
	clientSent     = counter("client_sent_total", "Attempts that were sent, retries included.")
	clientRefused  = counter("client_refused_total", "Attempts that were kept back, by what kept them back.", "reason")
	clientWaited   = counter("client_waited_total", "Attempts that waited because the server wanted it.")
	clientWaiting  = gauge("client_waiting", "Attempts that wait because the server wants it.")
	clientWait     = histogram("client_wait_seconds", "How long attempts waited because the server wanted it, those that were kept back after all included.")
	clientHosts    = gauge("client_hosts", "Hosts of which something is remembered.")
	clientEvicted  = counter("client_hosts_evicted_total", "Hosts forgotten for others.")
	clientShared   = counter("client_unplaced_total", "Requests to hosts for which there was no place.")
)

// What there can be of each kind of source.
var (
	ofState     = []*family{limit, inflight, abandoned, waiting, waited}
	ofGate      = slices.Concat([]*family{decisions, outcomes}, ofState)
	ofDoor      = slices.Concat([]*family{rules, shadowed, longLived}, ofGate)
	ofKeyed     = []*family{keyedDenied, keyedForgotten, keyedWaiting, keyedMemory, keyedOwn}
	ofThrottle  = []*family{throttleDecisions, throttleRatio, throttleRequests, throttleAccepts}
	ofBudget    = []*family{retries, retriesDenied, budgetRequests, budgetRetries, budgetAllowed}
	ofCache     = []*family{cacheLookups, cacheFills, cacheRejected, cacheErrors, cacheEvictions, cacheTooLarge, cacheEntries, cacheBytes}
	ofHTTPCache = []*family{cacheLookups, cacheEvictions, cacheEntries, cacheBytes}
	ofTransport = []*family{clientRequests, clientSent, clientRefused, clientWaiting, clientWait, clientHosts, clientEvicted,
		clientShared, retries, retriesDenied}
	ofClient = slices.Concat([]*family{clientSent, clientRefused, clientWaited, clientWaiting, outcomes}, ofState, ofThrottle, ofBudget)
)
