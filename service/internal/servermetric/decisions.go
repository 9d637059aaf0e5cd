package servermetric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/decisionlog"
)

var (
	decisionsRecorded = metric.Counter("weir_decisions_recorded_total", "Decisions for --record-decisions, lost ones included. Absent without it, as all of weir_decisions.")
	decisionsLost     = metric.Counter("weir_decisions_lost_total", "Of these, decisions that were lost: the disk was full, or too slow.")
	decisionsSize     = metric.Gauge("weir_decisions_size_bytes", "Size of the files of decisions.")
	decisionsFailures = metric.Counter("weir_decisions_write_failures_total", "Attempts to write decisions that failed.")
)

// NewDecisions returns a prometheus.Collector for the recording of decisions. It is safe for concurrent use.
func NewDecisions(r *decisionlog.Recording) prometheus.Collector {
	all := []*metric.Family{decisionsRecorded, decisionsLost, decisionsSize, decisionsFailures}
	return metric.NewCollector(nil, all, func(c metric.Scrape) {
		c.Send(decisionsRecorded, float64(r.Recorded()))
		c.Send(decisionsLost, float64(r.Counters().Lost))
		c.Send(decisionsSize, float64(r.Bytes()))
		c.Send(decisionsFailures, float64(r.Failures()))
	})
}
