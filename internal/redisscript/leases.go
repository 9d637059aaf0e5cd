package redisscript

import (
	_ "embed"
	"fmt"
	"time"
)

// Leases is the script of leases: of some keys, with the arguments of a Lease.
//
//go:embed leases.lua
var Leases string

// What to do with a Lease.
const (
	TakeLease  = "take"  // grant it if the limits allow that
	KeepLease  = "keep"  // renew it, unless it has ended
	ForceLease = "force" // renew it, or count it again, even above a limit
	GiveLease  = "give"  // end it, or the wait for it
	LookLease  = "look"  // change nothing
)

// NoLimit is a limit of a Lease that counts its units, and never denies it.
const NoLimit = -1

// A Lease is units of some keys that are held for a time: of all keys, or of none. The keys
// must differ.
//
// A caller that is denied can wait: it asks again, with the same Lease, and is granted it in
// the order of arrival. A caller with units that fit beside those of all earlier ones need not
// wait for these. The caller waits for the keys that denied it, and comes later for other keys
// only than callers that asked before it. It must ask again within Patience, or it loses its
// place, and must end its wait with GiveLease.
type Lease struct {
	Limits []int         // units of each key, or NoLimit
	TTL    time.Duration // counts from the call, in whole microseconds
	ID     string        // unique, without a colon
	N      int           // units

	Patience   time.Duration // 0: the caller does not wait
	Arrived    time.Duration // LeaseReply.Time of the first call, and 0 in that
	MaxWaiting int           // callers for each key
}

// Args returns the arguments of the script.
func (l *Lease) Args(op string) []any {
	args := make([]any, 0, 7+len(l.Limits))
	args = append(args, op, int64(l.TTL/time.Microsecond), l.ID, l.N, int64(l.Patience/time.Microsecond), int64(l.Arrived/time.Microsecond), l.MaxWaiting)
	for _, limit := range l.Limits {
		args = append(args, limit)
	}
	return args
}

// A LeaseReply is the answer of the script Leases.
type LeaseReply struct {
	Time      time.Duration // since 1970, by the server's clock
	Granted   bool
	QueueFull bool          // denied, and MaxWaiting callers wait already
	Token     uint64        // the fencing token of TakeLease: higher than any before for the keys
	Wait      time.Duration // if denied, until each key that denies has a lease that expires
	Place     int           // callers that wait and came earlier, at the key that has most of them
	Held      []int64       // units of each key, after the call; of GiveLease, the ended ones
}

// ReadLeaseReply reads the answer of the script Leases for a number of keys.
func ReadLeaseReply(reply []int64, keys int) (LeaseReply, error) {
	if len(reply) != 4+keys {
		return LeaseReply{}, fmt.Errorf("the script of leases for %d keys has answered with %d numbers: want %d", keys, len(reply), 4+keys)
	}
	r := LeaseReply{Time: time.Duration(reply[0]) * time.Microsecond, Granted: reply[1] == 1, QueueFull: reply[1] < 0, Place: int(reply[3]), Held: reply[4:]}
	if r.Granted {
		r.Token = uint64(reply[2])
	} else {
		r.Wait = time.Duration(reply[2]) * time.Microsecond
	}
	return r, nil
}
