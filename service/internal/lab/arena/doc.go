// Package arena lets every policy stand in front of the same services under
// the same load, in virtual time (package sim), and says how each did.
//
// The matrix has a row for each scenario and a column for each policy. Each
// cell is run with several seeds. The n-th call of a client asks for the same
// work in every cell of a row, so that differences are the policies'.
//
// # The score
//
// A cell's score is in [0, 1]:
//
//	0.70 goodput    min(1, goodput / oracle)
//	0.10 latency    1 if the p99 of successes is at most half the deadline, and
//	                linearly less to 0 at the deadline
//	0.10 recovery   1 if the service has recovered within max(5 s, 10 × the
//	                service time) after the overload has ended or abated, and
//	                linearly less to 0 at four times that; 1 where nothing ends
//	0.05 reject     1 − median latency of calls without success / deadline
//	0.05 fairness   Jain's index of the tenants' shares of what is fair
//
// A service exists for its goodput, so that weighs most. A success that
// comes just in time is worth less than one that comes soon; a "no" is worth
// more if it comes while there is time to ask another service. A time-out is a
// "no" that took the whole deadline.
//
// The oracle is a fluid that knows the capacity at each instant and turns away
// what it could not serve in time (sim.Result.Oracle). It does not know how
// long each call will take, so that a policy can beat it by a little, which is
// not counted.
//
// The service has recovered at the beginning of the first two seconds with a
// goodput of 0.95 of what was offered or, if that is less, of the capacity.
//
// A service that is down, or that fails for reasons that are not load, is
// relieved when that ends. Where no client has a time-out or a deadline, the
// deadline of the score is ten times what a call takes.
//
// # The rows
//
// Rows returns them, in two groups. The classic rows have one guard, and one
// cause of overload each. The production rows are about what services meet in
// production: several instances of a guard before one service, faults that are
// not load, outages, streams, work of 200 µs and of 20 s. Random makes up
// scenarios, and Compare says how a policy does beside the best of the others.
//
// # What the policies know
//
// The guards do not see the callers' deadlines, as most servers do not, unless
// Config.Deadlines says so. They see the end of the work, as a proxy does.
//
// A policy that does not find its limit is told a multiple of the knee that the service has
// at the beginning; each of several instances is told its part. A policy without a queue
// gets a plain one: a hundred requests, for a second at most, in order.
package arena
