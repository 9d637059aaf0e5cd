// Package keyedtable keeps a token bucket or a count of a window for every key,
// in bounded memory.
//
// Package keyed is its public face, and has the contracts. The packages of this
// module use keyedtable where they need more: calls by fingerprint, a limit of the
// caller's own, and the Quota under which a decision was made.
//
//	b, err := keyedtable.NewBuckets[string](gcra.Per(100, time.Minute, 20), keyedtable.Config{})
//	...
//	print := b.Fingerprint(user)
//	d := b.TakeAt(print, now, 1)
//
// All values are in one kind of table. A key is hashed to a fingerprint of 64
// bits. Its upper bits choose a shard, which has a lock, and a page in the
// directory of the shard; its lower bits choose the slots of that page in which
// the key may be. What a value means is the law of a table: of buckets, or of
// windows.
package keyedtable

import (
	"time"

	"github.com/weir-go/weir/internal/pagetable"
	"github.com/weir-go/weir/internal/waitq"
	"github.com/weir-go/weir/internal/window"
)

// Defaults and bounds of Config.
const (
	DefaultMemory = 64 << 20
	MinMemory     = 64 << 10
	MaxMemory     = 1 << 40
	DefaultQueue  = waitq.DefaultQueue
)

// Bounds of a Window.
const (
	MaxLimit  = pagetable.MaxLimit
	MinPeriod = pagetable.MinPeriod
)

// Window is keyed.Window.
type Window = window.Quota

// Config is keyed.Config.
type Config struct {
	Memory  int
	Queue   int
	MaxWait time.Duration
	MaxDebt int
}
