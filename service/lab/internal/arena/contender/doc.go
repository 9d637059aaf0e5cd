// Package contender compares failsafe-go's adaptive limiter with the policies of
// `weirlab arena`. That limiter reads the machine's clock and makes its callers
// wait in goroutines, so the simulator runs in a synctest bubble and sleeps from event to
// event. An inflight.Limiter runs in the same way, beside the pure core that `weirlab arena`
// runs: equal scores show that results of the core are true of the shell.
//
// synctest bubbles exist only in tests, so the package has nothing else:
//
//	go test -tags system                           a few rows
//	go test -tags system -full                     the classic rows, ten seeds, and a table: some minutes
//	go test -tags system -full -group all          the production rows, too
//	go test -tags system -only company/ -seeds 3   the rows with such names, and a table
package contender
