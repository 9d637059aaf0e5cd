package metric

import "github.com/prometheus/client_golang/prometheus"

// A maker returns a collector of Stats made up by a test.
type maker[S any] func(name string, stats func() S) prometheus.Collector

func makes[S any](families []*Family, send func(Scrape, S)) maker[S] {
	return func(name string, stats func() S) prometheus.Collector {
		return newCollector(name, families, stats, send)
	}
}

var (
	HTTP       = makes(serverFamilies, Scrape.http)
	GRPC       = makes(serverFamilies, Scrape.grpc)
	Limiter    = makes(limiterFamilies, Scrape.limiter)
	Keyed      = makes(keyedFamilies, Scrape.keyed)
	Throttle   = makes(throttleFamilies, Scrape.throttle)
	Retries    = makes(retryFamilies, Scrape.retries)
	Cache      = makes(cacheFamilies, Scrape.cache)
	HTTPCache  = makes(httpCacheFamilies, Scrape.httpCache)
	Transport  = makes(transportFamilies, Scrape.transport)
	GRPCClient = makes(grpcClientFamilies, Scrape.grpcClient)
)
