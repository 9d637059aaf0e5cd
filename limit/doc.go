// Package limit holds the algorithms that say how much work may be in flight.
// They are pure: a sample of finished work goes in, a limit comes out. Package
// gate applies the limit, package inflight adds the lock and the clock.
//
//	Auto       finds the limit by itself. The default everywhere
//	Fixed      is yours
//	AIMD       grows until work is dropped
//	Vegas      compares latency with the least ever seen
//	Gradient2  compares latency with its long-term average
//
// AIMD needs drops, or a bound on latency, to tell it when to stop. Vegas and
// Gradient2 are Netflix's, by their published formulas, to compare with.
//
// # What Auto does
//
// A service can do some work at once: c, the knee. With N < c in flight, one
// more is more throughput X, and takes nobody longer. Beyond c it only queues:
// X stays, and the response time R grows. Little's law, N = X·R, says that a
// change of N always becomes one or the other,
//
//	Δln N = Δln X + Δln R
//
// so the share of a change of N that becomes latency, e = Δln R / Δln N, can be
// measured on the work itself: it is 0 below the knee and 1 above it. Auto
// changes the limit a little and looks at e:
//
//   - A raise is kept if e < 0.7: at least 0.3 of it became throughput. If a
//     large raise was half good, the part that became throughput is kept:
//     L ← L'·R/R'. A raise that is good is followed by a larger one, up to
//     doubling; after one that is not, Auto rests, twice as long each time, up
//     to 3 windows; and for longer, if work came too late because of it, so that
//     raises for nothing spoil half a per cent of the work at most.
//   - A cut is tried when work takes longer than it once did, or to check, every
//     64 windows. It is kept if e > 0.7: less work was faster, so there was a
//     queue. If less work is not faster, the service itself has become slower,
//     and less of it would only be less throughput: the cut is taken back, and
//     the longer time becomes the baseline. Nothing else raises the baseline.
//   - If more than a tenth of a round trip's work is Dropped, the limit falls
//     by half of that share, once per round trip (as in DCTCP, RFC 8257). Work
//     that came too late counts as Dropped if it is in flight that it lost its
//     time: if it took longer than healthy work does, and longer than it had
//     waited in the queue. What a queue did is not mended by a lower limit,
//     which makes the queue longer.
//
// It begins by doubling, until a raise is no gain, as TCP's slow start does; if
// already the first is none, it halves, until a cut is a loss.
//
// A window compares means, and is as long as it takes to tell the change from
// noise with two standard errors: 2·(2σ / 0.7·Δln N)² samples, where σ is the
// standard deviation of R over its mean. Where R is steady that is a few round
// trips; where it is not, the change is made larger, up to a third, before the
// window becomes longer than 40 round trips.
//
// # Why it is stable
//
// Let X(N) be concave, which is all that "a knee" means. Then e grows with N,
// and there is one N* at which e = 0.7: below it raises are kept and cuts taken
// back, above it cuts are kept and raises taken back. So each trial that is
// judged rightly moves the limit towards N* or leaves it, and one that overshoots
// N* is taken back to where it passes. A trial is judged wrongly with a chance of
// some per cent; the limit then is one step off, and the next trial starts from
// there. So it stays around N*; the steadier R is, the closer. (In the tests, with
// exponential service times, which are the least steady that are common, it is 5
// to 30 % above the knee on average, and for moments farther off; with constant
// ones it is at the knee, or one step above it.)
// There is no gain to tune: the law has no time constant of its own, only
// windows that are counted in the service's own round trips.
//
// Neither does it drift under constant overload, as a controller does that
// compares with an average: an average of overload is overload. Nor does it
// shrink when the service slows down, as one does that compares with the best
// ever seen.
//
// Work counts as long as it is in flight, abandoned or not. A sample only
// counts if the limit was what held the work back: a limit that is not used is
// left alone. Only failures because of load count however little is in flight. So
// do not call a failure Dropped that a client can bring about.
//
// # When not to use it
//
// Auto sees its own work only. If others load the same resource, the queue that
// they make does not become shorter by Auto's doing with less, and looks like a
// slower service: put one limit in front of the resource, or set
// MaxHealthyLatency. The same holds if work is served from a cache most of the
// time: limit what is behind the cache. A resource that fails, rather than slows
// down, when there is too much of a thing (memory, connections) wants a Fixed
// limit, or a Max. And failures that have nothing to do with load are not to be
// released as Dropped: more than a tenth of them keep the limit low.
//
// # Sources
//
// Little 1961. Chiu and Jain 1989 (AIMD). Kleinrock 1979 ("Power and
// deterministic rules of thumb"): the knee. Brakmo and Peterson 1995 (TCP Vegas).
// Dong et al., NSDI 2015 (PCC): to change the rate and see what comes of it.
// Cardwell et al., ACM Queue 2016 (BBR). RFC 8257 (DCTCP).
package limit
