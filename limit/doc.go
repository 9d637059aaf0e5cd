// Package limit holds the algorithms that say how much work may be in flight. They are
// pure: a sample of finished work goes in, a limit comes out. Package inflight applies
// the limit.
//
//	NewAuto       finds the limit by itself: the default everywhere
//	Fixed         never moves
//	NewAIMD       grows until work is dropped
//	NewVegas      compares latency with the least ever seen
//	NewGradient2  compares latency with its long-term average
//	NewSlowStart  lets work in gradually at first, under the limit of any of these
//
// AIMD, Vegas and Gradient2 are comparators, kept for the laboratory: use Auto. AIMD needs drops,
// or a MaxHealthyLatency, to tell it when to stop. Vegas and Gradient2 are Netflix's, by
// their published formulas.
//
// # What Auto does
//
// A service can do some work at once: c, the knee. With N < c in flight, one more unit
// of work adds throughput X and delays no other work. Beyond c, more work only queues:
// X stays, and the response time R grows. By Little's law, N = X·R, the share of a change
// of N that becomes latency, the elasticity e = Δln R / Δln N, is 0 below the knee and 1
// above it. Auto changes the limit, measures e on the work itself, and keeps a raise if
// e < 0.7. Now and then it halves what is in flight for a moment (a drain): if work then
// takes less time, it had waited, and the limit is lowered; if not, the drain has measured
// how long work takes without a queue. Limiters in front of one resource do this at the
// same time, by the wall clock, because one of them alone would see only its share of the
// effect. Failures lower the limit by the time that they took; a cut that does not help is
// taken back. docs/auto-proof.md has the derivation, the measurements and the sources.
//
// # When not to use it
//
// A resource may fail instead of slowing down when memory or connections run out. Give
// it a Fixed limit, or a Max. Work that takes minutes is in too few samples. If most work
// is served from a cache, limit what is behind the cache. If more than half of the load on
// a resource comes from others that are not limited, no limit on the rest helps much.
//
// Auto reacts slowly in two cases. A limit that is too high, without late answers, is
// lowered by the next drain, after half a minute on average (longer, if work takes
// longer than 130 ms). Many limiters that start one after the other while there is a
// queue do not know the baseline; it takes a minute or two until they do.
package limit
