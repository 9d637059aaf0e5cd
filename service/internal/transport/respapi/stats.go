package respapi

import "sync/atomic"

// A result is the outcome of a command.
type result uint8

const (
	resultOK result = iota
	resultDenied
	resultError
	results
	resultLater // the command is decided, and counted, later
)

var resultNames = [results]string{"ok", "denied", "error"}

// An ending is why the API has ended a connection.
type ending uint8

const (
	slowReader ending = iota
	slowCommand
	badProtocol
	endings
)

var endingNames = [endings]string{"slow_reader", "slow_command", "protocol"}

// maxCommands bounds the number of commands. All commands with unknown names are one.
const maxCommands = 32

type counts struct {
	commands [maxCommands][results]atomic.Uint64
	ended    [endings]atomic.Uint64
}

// A Count is the number of commands with a name and a result: ok, denied or error. The name
// is in lower case; unknown commands have the name unknown.
type Count struct {
	Command, Result string
	N               uint64
}

// Stats counts what an API has done.
type Stats struct {
	Commands []Count           // that are not zero
	Ended    map[string]uint64 // connections that the API has ended, by reason: slow_reader, slow_command, protocol
}

// Stats returns the counts.
func (a *API) Stats() Stats {
	st := Stats{Ended: map[string]uint64{}}
	for i := range a.counts.ended {
		st.Ended[endingNames[i]] = a.counts.ended[i].Load()
	}
	for i := range commands {
		for r := range results {
			if n := a.counts.commands[i][r].Load(); n > 0 {
				st.Commands = append(st.Commands, Count{commands[i].name, resultNames[r], n})
			}
		}
	}
	return st
}
