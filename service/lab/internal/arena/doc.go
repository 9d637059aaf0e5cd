// Package arena lets every policy stand in front of the same services under the
// same load, in virtual time (package sim), and says how each did. docs/arena.md has the
// results.
//
// The matrix has a row for each scenario (Rows, Random) and a column for each policy
// (Policies). The n-th call of a client asks for the same work in every cell of a row, so
// that differences are the policies'.
//
// # The score
//
// A cell's score is in [0, 1], the mean over its seeds:
//
//	0.70 goodput    min(1, goodput / oracle), of sim.Result
//	0.10 latency    1 if the p99 of successes is at most half the deadline, and
//	                linearly less to 0 at the deadline
//	0.10 recovery   1 if the service has recovered within max(5 s, 10 × the
//	                service time) after the overload has ended or abated, and
//	                linearly less to 0 at four times that; 1 where nothing ends
//	0.05 reject     1 − median latency of calls without success / deadline
//	0.05 fairness   Jain's index of the tenants' shares of what is fair
//
// The service has recovered at the beginning of the first two seconds with a
// goodput of 0.95 of what was offered or, if that is less, of the capacity.
// A service that is down, or that fails for reasons that are not load, is
// relieved when that ends. Where no client has a time-out or a deadline, the
// deadline of the score is ten times what a call takes.
//
// # What the policies know
//
// A policy that does not find its limit is told a multiple of the knee that the service has
// at the beginning; each of several instances is told its part. A policy without a queue
// gets a plain one: a hundred requests, for a second at most, in order.
package arena
