package redisscript

import (
	_ "embed"
	"fmt"
	"math"
	"time"
)

// Leaves is the script that shares one limit out among leaves, in one key, with the arguments of
// a LeafReport. A call takes time in proportion to the number of leaves.
//
//go:embed leaves.lua
var Leaves string

// A LeafReport tells what a leaf wants of a limit.
type LeafReport struct {
	Leaf  string        // identifies the leaf, without a colon or a semicolon
	TTL   time.Duration // for how long its share is valid, in whole microseconds
	Leave bool          // the leaf gives its share back
	// Wants and Has are parts of the limit, >= 0: what the leaf would use if there were no
	// limit, and what it may use now. More than all of the limit counts as all of it.
	Wants, Has float64
}

// wholeLimit is the number of parts that the script divides a limit into.
const wholeLimit = 1 << 40

// Args returns the arguments of the script.
func (r *LeafReport) Args() []any {
	leave := 0
	if r.Leave {
		leave = 1
	}
	return []any{r.Leaf, int64(r.TTL / time.Microsecond), leave, parts(r.Wants), parts(r.Has)}
}

func parts(x float64) int64 {
	return int64(math.Ceil(min(x, 1) * wholeLimit))
}

// A LeafReply is the answer of the script Leaves.
type LeafReply struct {
	Share     float64 // the part of the limit that the leaf may use from now on
	Leaves    int     // that share the limit, this one included
	Contended bool    // they want more than there is
}

// ReadLeafReply reads the answer of the script Leaves.
func ReadLeafReply(reply []int64) (LeafReply, error) {
	if len(reply) != 3 {
		return LeafReply{}, fmt.Errorf("the script of leaves has answered with %d numbers: want 3", len(reply))
	}
	return LeafReply{Share: float64(reply[0]) / wholeLimit, Leaves: int(reply[1]), Contended: reply[2] == 1}, nil
}
