// Package redisscript decides inside Redis and Valkey: it has the scripts, writes their
// arguments and reads their replies. It knows no client.
//
// A decision is one call of one script, so it is one round trip, and no other client sees
// a state in between. Only the clock of the server counts, so the clocks of clients
// do not matter. Numbers in scripts are doubles; all of them here are whole and below 2^53, so the
// arithmetic is exact.
//
// The scripts are for EVALSHA, with EVAL if the server does not know them (NOSCRIPT). They
// are not a library for FUNCTION LOAD: that changes the state of every master, needs a
// permission beyond that of running scripts, and has to be done again for new masters. A
// script needs Redis 5 or newer, or any Valkey.
//
// All keys of a call must be in one hash slot if the server is a cluster.
package redisscript

import _ "embed"

// Buckets is the script of token buckets and windows, for Take.
//
//go:embed buckets.lua
var Buckets string
