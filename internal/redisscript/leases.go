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
	GiveLease  = "give"  // end it
	LookLease  = "look"  // change nothing
)

// NoLimit is a limit of a Lease that counts its units, and never denies it.
const NoLimit = -1

// A Lease is units of some keys that are held for a time: of all keys, or of none. The keys
// must differ.
type Lease struct {
	Limits []int         // units of each key, or NoLimit
	TTL    time.Duration // counts from the call, in whole microseconds
	ID     string        // unique, without a colon
	N      int           // units
}

// Args returns the arguments of the script.
func (l *Lease) Args(op string) []any {
	args := append(make([]any, 0, 4+len(l.Limits)), op, int64(l.TTL/time.Microsecond), l.ID, l.N)
	for _, limit := range l.Limits {
		args = append(args, limit)
	}
	return args
}

// A LeaseReply is the answer of the script Leases.
type LeaseReply struct {
	Time    time.Duration // since 1970, by the server's clock
	Granted bool
	Token   uint64        // the fencing token of TakeLease: higher than any before for the keys
	Wait    time.Duration // if denied, until each key that denies has a lease that expires
	Held    []int64       // units of each key, after the call; of GiveLease, the ended ones
}

// ReadLeaseReply reads the answer of the script Leases for a number of keys.
func ReadLeaseReply(reply []int64, keys int) (LeaseReply, error) {
	if len(reply) != 3+keys {
		return LeaseReply{}, fmt.Errorf("the script of leases for %d keys has answered with %d numbers: want %d", keys, len(reply), 3+keys)
	}
	r := LeaseReply{Time: time.Duration(reply[0]) * time.Microsecond, Granted: reply[1] == 1, Held: reply[3:]}
	if r.Granted {
		r.Token = uint64(reply[2])
	} else {
		r.Wait = time.Duration(reply[2]) * time.Microsecond
	}
	return r, nil
}
