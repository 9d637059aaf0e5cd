package servermetric

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/weir-go/weir/metric"
	"github.com/weir-go/weir/service/internal/peer/serve"
)

var (
	linkConns    = metric.Gauge("weir_link_connections", "Connections of peers, or of leaves, to this instance.", "from")
	linkWaiting  = metric.Gauge("weir_link_waiting_requests", "Requests that wait, of peers or leaves.", "from")
	linkRequests = metric.Counter("weir_link_requests_total", "Requests of peers or leaves, of all kinds.", "from")
	linkBusy     = metric.Counter("weir_link_busy_total", "Of these, requests that were refused because too many wait or are in progress.", "from")
	linkRefused  = metric.Counter("weir_link_refused_total", "Connections that were refused because of the secret, the token or the version.", "from")
	linkSlow     = metric.Counter("weir_link_slow_total", "Connections that were closed because the peer or leaf read too slowly, or was silent.", "from")
)

// NewLinks returns a prometheus.Collector for the Handlers of connections to this instance, by
// the label from. It is safe for concurrent use.
func NewLinks(handlers map[string]*serve.Handler) prometheus.Collector {
	all := []*metric.Family{linkConns, linkWaiting, linkRequests, linkBusy, linkRefused, linkSlow}
	return metric.NewCollector(prometheus.Labels{"name": "serve"}, all, func(c metric.Scrape) {
		for from, h := range handlers {
			st := h.Stats()
			c.Send(linkConns, float64(st.Conns), from)
			c.Send(linkWaiting, float64(st.Waiting), from)
			c.Send(linkRequests, float64(st.Requests), from)
			c.Send(linkBusy, float64(st.Busy), from)
			c.Send(linkRefused, float64(st.Refused), from)
			c.Send(linkSlow, float64(st.Slow), from)
		}
	})
}
