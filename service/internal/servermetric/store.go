package servermetric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/server"
	"github.com/weir-go/weir/service/internal/server/waiting"
)

var (
	storeDecisions = metric.Counter("weir_store_decisions_total", "Decisions about shared limits by step: exact, or known, share and rule without the store.", "step")
	storeAway      = metric.Gauge("weir_store_away", "Whether the store of shared limits is considered away; of a Cluster, at least one master.")
	storeCalls     = metric.Counter("weir_store_pipelines_total", "Pipelines sent to the store.")
	storeFailures  = metric.Counter("weir_store_failures_total", "Pipelines without an answer in time, or with errors only.")
	storeLate      = metric.Counter("weir_store_late_total", "Calls without an answer within --store-timeout.")
	storeDropped   = metric.Counter("weir_store_dropped_total", "Costs that could not be reported to the store: their tokens return with time.")
	storeNodes     = metric.Gauge("weir_store_instances", "Instances that share the limits.")
	storeLeases    = metric.Gauge("weir_store_leases", "Leases in the store that this instance has granted.")
	storeTimeout   = metric.Gauge("weir_store_timeout_seconds", "The flag --store-timeout: how long a decision may take in the store.")
	storeLatency   = metric.Histogram("weir_store_pipeline_seconds", "Duration of pipelines that were answered.")
)

// NewStore returns a prometheus.Collector for the store of a Shared. It is safe for concurrent
// use.
func NewStore(s *server.Shared) prometheus.Collector {
	all := []*metric.Family{storeDecisions, storeAway, storeCalls, storeFailures, storeLate, storeDropped, storeNodes, storeLeases, storeTimeout, storeLatency}
	return metric.NewCollector(prometheus.Labels{"name": "serve"}, all, func(c metric.Scrape) {
		st := s.StoreStats()
		sendSteps(c, storeDecisions, &st.Decisions)
		c.Send(storeAway, flag(st.Away))
		c.Send(storeCalls, float64(st.Pipelines))
		c.Send(storeFailures, float64(st.Failures))
		c.Send(storeLate, float64(st.Late))
		c.Send(storeDropped, float64(st.Dropped))
		c.Send(storeNodes, float64(st.Instances))
		c.Send(storeTimeout, st.Timeout.Seconds())
		c.Send(storeLeases, float64(st.Leases))
		c.SendHistogram(storeLatency, waiting.Bounds[:], st.Latency.Counts[:], st.Latency.Sum)
	})
}
