// Package snapshot saves and restores the state of a node, hands it over to other members of a fleet,
// and knows which slots of keys the node owns.
package snapshot

import (
	"iter"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/slot"
	"github.com/weir-go/weir/service/internal/allocator"
	"github.com/weir-go/weir/service/internal/server/clock"
	"github.com/weir-go/weir/service/internal/server/lease"
	"github.com/weir-go/weir/service/internal/server/memory"
	"github.com/weir-go/weir/service/internal/server/rules"
	"github.com/weir-go/weir/service/internal/server/snapshot/handover"
	"github.com/weir-go/weir/service/internal/server/snapshot/state"
)

// Config configures a Keeper.
type Config struct {
	Clock  *clock.Clock
	Keys   *rules.Keys
	Set    func() *rules.Set // in force
	Memory *memory.Counts
	Leases *lease.Registry
	Grants memory.Ledger
	Leaves Leaves
	TTL    time.Duration // how long an assignment of a leaf is valid
	Owned  *Owned
	Chunks *handover.Sender // nil without a fleet
	Reload *sync.Mutex      // held while the rules change
}

// Leaves have assignments: see assign.Assigner.
type Leaves interface {
	// Saved returns what leaves have, for Restore.
	Saved() iter.Seq[state.LeafKeys]
	// Restore has leaves have what they had; from nil, what they have is learned.
	Restore(from *state.Reader) error
	// Learning returns how to share the limits of keys from an instant on, while their assignments are learned: for longer if their state is lost.
	Learning(now time.Duration, lost bool) *allocator.Config
	// Depart ends the assignments of keys in slots.
	Depart(slots *slot.Set, slotOf func(key string) uint16)
}

// A Keeper saves, restores and hands over. It is safe for concurrent use.
type Keeper struct {
	cfg      Config
	imported imported
	carried  carried // guarded by Config.Reload
}

// New returns a Keeper.
func New(cfg Config) *Keeper { return &Keeper{cfg: cfg} }
