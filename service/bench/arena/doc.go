// Package arena lets failsafe-go's adaptive limiter into weir's arena
// (lab/arena). That limiter reads the clock of its machine and makes its
// callers wait in goroutines, so it cannot be put into a
// simulator's loop. Instead the loop is put into a synctest bubble, and sleeps
// from event to event: services, clients and score are the same as in `weir arena`,
// and the limiter is the shipped one, with its own clock, queue and timers.
//
// A whole inflight.Limiter is played in the same way, beside the pure core
// that `weir arena` plays. That the two agree says that the bubble is a fair
// place, and that what the arena says of the core is true of the shell.
//
// Bubbles are for tests, so all of it is one:
//
//	go test                                        a few rows
//	go test -full                                  the classic rows, ten seeds, and a table: some minutes
//	go test -full -group all                       the production rows, too
//	go test -only company/ -seeds 3                the rows with such names, and a table
//
// A row with several instances has a limiter for each.
package arena
