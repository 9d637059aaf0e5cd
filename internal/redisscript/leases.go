package redisscript

import (
	_ "embed"
	"fmt"
	"time"
)

// Leases is the script of leases: of one key, with the arguments of a Lease.
//
//go:embed leases.lua
var Leases string

// What to do with a Lease.
const (
	TakeLease  = "take"  // grant it if the limit allows that
	KeepLease  = "keep"  // renew it, unless it has ended
	ForceLease = "force" // renew it, or count it again, even above the limit
	GiveLease  = "give"  // end it
)

// A Lease is units of a key that are held for a time.
type Lease struct {
	Limit int           // units of the key
	TTL   time.Duration // counts from the call, in whole microseconds
	ID    string        // unique, without a colon
	N     int           // units
}

// Args returns the arguments of the script.
func (l *Lease) Args(op string) []any {
	return []any{op, l.Limit, int64(l.TTL / time.Microsecond), l.ID, l.N}
}

// A LeaseReply is the answer of the script Leases.
type LeaseReply struct {
	Time    time.Duration // since 1970, by the server's clock
	Granted bool
	Held    int           // units, after the call; not of GiveLease
	Token   uint64        // the fencing token of TakeLease: higher than any before for the key
	Wait    time.Duration // if denied, until the first lease expires
}

// ReadLeaseReply reads the answer of the script Leases.
func ReadLeaseReply(reply []int64) (LeaseReply, error) {
	if len(reply) != 4 {
		return LeaseReply{}, fmt.Errorf("the script of leases has answered with %d numbers: want 4", len(reply))
	}
	r := LeaseReply{Time: time.Duration(reply[0]) * time.Microsecond, Granted: reply[1] == 1, Held: int(reply[2])}
	if r.Granted {
		r.Token = uint64(reply[3])
	} else {
		r.Wait = time.Duration(reply[3]) * time.Microsecond
	}
	return r, nil
}
