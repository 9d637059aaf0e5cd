// Package weir keeps the load of a service within its capacity. It defines
// what all limiters of this module have in common: [Limiter], [Permit],
// [Outcome], [Decision], [Rejection] and [Class].
//
//	go get github.com/weir-go/weir                               # the library; it requires no other module
//	go install -tags grpcnotrace github.com/weir-go/weir/service/cmd/weir@latest   # the server and the proxy
//
// A caller asks a limiter for a permit, works, and releases it:
//
//	permit, err := limiter.Acquire(ctx, 1)
//	if err != nil {
//		return err // a *Rejection, or the context's own error
//	}
//	defer permit.Release(weir.Ignored) // the first Release counts
//	err = work(ctx)
//	permit.Release(weir.OutcomeOf(err))
//
// [Do] and [DoValue] do all of this in one call.
//
// By Little's law, N = X·R, the work in flight is the throughput times the
// response time. A rate limit (package rate) bounds X, a concurrency limit
// (package inflight) bounds N, and the queue in front of it bounds R.
//
// # Packages
//
// Limiters:
//
//   - [github.com/weir-go/weir/rate]: a token bucket with reservations and waiting; the API of golang.org/x/time/rate
//   - [github.com/weir-go/weir/keyed]: a token bucket or a window for every user, tenant or address, in bounded memory
//   - [github.com/weir-go/weir/inflight]: a concurrency limit with a queue, priorities, fair tenants and deadlines
//   - [github.com/weir-go/weir/limit]: algorithms that find a concurrency limit: Auto, AIMD, Vegas, Gradient2; and Fixed
//   - [github.com/weir-go/weir/codel]: the API of github.com/bohde/codel
//   - [github.com/weir-go/weir/throttle]: client-side adaptive throttling, and retry budgets
//   - [github.com/weir-go/weir/shape]: io.Reader, io.Writer and net.Conn at a number of bytes a second
//   - [github.com/weir-go/weir/client]: the limits of weir serve, which a fleet shares
//   - [github.com/weir-go/weir/pressure]: rejects the least important requests while work waits for the processor
//   - [github.com/weir-go/weir/gcra]: the arithmetic of token buckets, as values
//
// Expensive work:
//
//   - [github.com/weir-go/weir/cache]: a bounded cache that serves stale values while it refreshes
//   - [github.com/weir-go/weir/flight]: one call for concurrent lookups of a key
//
// Measurement:
//
//   - [github.com/weir-go/weir/recording]: a record of 32 bytes for each request, for weirlab advise
//
// HTTP:
//
//   - [github.com/weir-go/weir/httplimit]: middleware for servers: rates per client, limits per route
//   - [github.com/weir-go/weir/httpclient]: a RoundTripper that waits, retries and throttles as servers ask
//   - [github.com/weir-go/weir/httpcache]: a cache of whole responses in front of a handler
//
// Modules of their own, because they require others:
//
//   - [github.com/weir-go/weir/grpclimit]: interceptors for gRPC
//   - [github.com/weir-go/weir/metric]: Prometheus collectors for all of the above
//   - [github.com/weir-go/weir/weirotel]: OpenTelemetry metrics and traces
//   - [github.com/weir-go/weir/redislimit]: limits shared in Redis or Valkey
package weir
