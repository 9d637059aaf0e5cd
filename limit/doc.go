// Package limit holds the algorithms that say how much work may be in flight. They are
// pure: a sample of finished work goes in, a limit comes out. Package inflight applies
// the limit.
//
//	NewAuto       finds the limit by itself: the default everywhere
//	Fixed         never moves
//	NewAIMD       grows until work is dropped
//	NewVegas      compares latency with the least ever seen
//	NewGradient2  compares latency with its long-term average
//
// The last three are comparators, kept for the laboratory: use Auto. AIMD needs drops,
// or a MaxHealthyLatency, to tell it when to stop. Vegas and Gradient2 are Netflix's, by
// their published formulas.
//
// # What Auto does
//
// A service can do some work at once: c, the knee. With N < c in flight, one more unit
// of work adds throughput X and delays no other work. Beyond c, more work only queues:
// X stays, and the response time R grows. Little's law, N = X·R, says that a change of
// N always becomes one or the other,
//
//	Δln N = Δln X + Δln R
//
// so the share of a change of N that becomes latency, the elasticity
// e = Δln R / Δln N, can be measured on the work itself: it is 0 below the knee and
// 1 above it. Auto changes the limit and measures e:
//
//   - A raise is kept if e < 0.7: at least 0.3 of it became throughput. Of a
//     large raise that was half good, the part that became throughput is kept:
//     L ← L'·R/R'. After a raise that was refused, Auto rests, twice as long each
//     time, up to 3 windows; and for longer, if work came too late because of it.
//   - A drain halves what is in flight for about three round trips. If e > 0.6,
//     work had waited: by Little's law N·R'/R of it was at work, and that, with
//     a headroom of 1/(2·√L), is the new limit, but not less than 1/√2 of it. As e
//     is an average over the drain, it is larger near the limit. If e < 0.6, the
//     limit returns to its value, and the drain has measured the baseline: how long
//     work takes that does not wait. A service that has become slower takes longer
//     in a drain, too. So Auto tells a queue from a slower service, which no average
//     does. A verdict has to exceed its error: e > 0.3 + 1.2 standard errors.
//
// It begins by doubling, until a raise is no gain, as TCP's slow start does.
//
// A window compares means, and is as long as it takes to tell the change from
// noise with two standard errors: 2·(2σ / 0.7·Δln N)² samples, where σ is the
// standard deviation of R over its mean, but not longer than 40 round trips. One
// piece of work counts for four times the typical duration at most: streams and
// rare slow requests say little about the others.
//
// # Many limiters on one resource
//
// Replicas of a service share a database, and routes share a process. Of n equal
// limiters, each makes 1/n of the work. If one raises its limit, 1/n of that becomes
// latency, for all: e is 1/n, every raise looks good, and all limits grow for ever.
// Limiters that optimise only for themselves overload the resource.
//
// So limiters experiment together. Without a message, they only have the clock in
// common. Each cuts the wall clock into slots of 2^k ns, a second or more and at
// least 8 round trips:
//
//   - In one of 32 slots all drain that use their limit.
//   - Every 8.6 s, or in every second slot if that is longer, those drain that suspect
//     a queue (work takes half as long again as the baseline), or have no proven
//     baseline. After a drain without a queue, a limiter leaves out every
//     second such slot, and then more of them. All limiters leave out the same ones, so
//     that drains stay common.
//   - In one of 4 slots all raise that use their limit, unless less than a slot ago a raise
//     was refused, failures have cut the limit, or such a cut was taken back.
//
// Then all N change together, and each limiter measures the elasticity of the whole:
// n cancels. After a drain that has met a queue, the limiter drains again in the next free
// slot, and does not raise before.
//
// A baseline is proven by a drain of all that meets no queue; or by any such drain, if
// the limiter is alone, that is, if one of its trials has met all of a queue.
// Until then a limiter raises once in a slot by itself, and begins with a trim: a limit
// lower by a fifth or less, which it keeps if e > 0.5, because then most of the queue is
// its own. If e > 0.7, all of it was: then it trims again, does not raise for
// 16 round trips, and takes part in one of four drains at most that are not of all.
//
// A limiter that is alone also trims after each raise that it has kept, if five round trips
// can tell what comes of it: so it finds a queue that is too short for a drain to meet.
// After a drain that met a queue, it has to show again that it is alone.
//
// Between these slots a limiter raises by itself only while work takes no longer
// than the baseline, within 15 %. Then there is no queue that it could make
// longer for others. A limit is raised by 1/(2·√L) or a tenth, the larger, and is cut in
// proportion: small limits gain on large ones, so that shares become equal (Chiu and
// Jain 1989). Limits above 25 mostly keep the shares that their starts gave them.
//
// Skews of the clocks that are short beside a slot do not matter. A limiter that
// does not keep to the clock, or is not one of these, is load like any other: its
// queue does not become shorter in a drain, and e is smaller by its share.
//
// # Failures
//
// Auto weighs each failure by the time it took, as a share of the time of a success. A
// refusal that takes 1 ms instead of 50 costs the resource almost nothing, whether one
// of eight pods refuses or all of them do, and the limit stays. So the limit is the
// same before and after an outage with quick failures.
//
// Failures that take their time (work that came too late, hung, or was refused after a
// while) lower the limit at once if more than a tenth beyond the background of a round
// trip's work fails, by four standard errors: by half of that share, once per round
// trip (as in DCTCP, RFC 8257). Work that came too late counts only if it lost its time
// in flight: if it took longer than healthy work does, and longer than it had waited in
// the queue. Each such cut is an experiment:
//
//   - If the log-odds of failure do not depend on what is in flight (elasticity
//     below 0.5, by regression, with 1.5 standard errors), load does not cause
//     them. Their share is remembered as background, and the limit returns.
//   - If work takes less time by more than 0.7 of the change, there was a queue:
//     the cut stays.
//   - Else, once failures end, the limit comes back, half of the way each round
//     trip, and stops where failures return.
//
// Quick refusals that do depend on what is in flight (elasticity above 1.5, less two
// standard errors), as of a service with a short queue, bring the limit
// down to just below where they begin.
//
// # Why it is stable
//
// Let X(N) be concave, which is all that "a knee" means. Then e grows with N, and there
// is one N* at which e = 0.7: below it raises are kept, above it they are refused and
// drains cut. So each trial that is judged rightly moves the limit towards N* or leaves
// it. A trial is judged wrongly with a chance of some per cent; the limit then is one
// step off, and the next trial starts from there. The baseline cannot drift: each drain
// measures it again. An average that is taken during overload includes the queue; a
// measurement during a drain does not.
//
// After a pause in which work failed, the quickest work ends first. Auto therefore
// discards its measurements then. Abandoned work took longer than its caller waited.
//
// Work counts while it is in flight, abandoned or not. A limit that is not
// used is left alone, but for one drain while its baseline is not proven.
//
// # When not to use it
//
// A resource may fail instead of slowing down when memory or connections run out. Give
// it a Fixed limit, or a Max. Work that takes minutes is in too few samples: slots then
// last for hours. If most work is served from a cache, limit what is behind the cache.
// If more than half of the load on a resource comes from others that are not limited,
// no limit on the rest helps much.
//
// Auto reacts slowly in two cases. A limit that is too high, without late answers, is
// lowered by the next drain, after half a minute on average (longer, if work takes
// longer than 130 ms). Many limiters that start one after the other while there is a
// queue do not know the baseline; it takes a minute or two until they do.
//
// # Sources
//
// Little 1961. Chiu and Jain 1989 (AIMD). Kleinrock 1979 ("Power and
// deterministic rules of thumb"): the knee. Brakmo and Peterson 1995 (TCP Vegas).
// Dong et al., NSDI 2015 (PCC): to change the rate and see what comes of it.
// Cardwell et al., ACM Queue 2016 (BBR): to drain, and that drains synchronise.
// RFC 8257 (DCTCP).
package limit
