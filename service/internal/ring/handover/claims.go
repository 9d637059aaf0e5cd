package handover

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/weir-go/weir/internal/slot"
)

// Claims are the claims of slots that a node has made and answered lately. Each has an epoch: of two claims of a slot, the
// one with the later epoch counts, and its owner gets what the other one has got. It is safe for concurrent use.
type Claims struct {
	node string
	keep time.Duration
	now  func() time.Duration

	mu    sync.Mutex // guards what follows
	epoch uint64     // the last one that is known
	all   []*Claim
}

// NewClaims returns the Claims of a node, each of which is kept for a time.
func NewClaims(node string, keep time.Duration, now func() time.Duration) *Claims {
	return &Claims{node: node, keep: keep, now: now}
}

// A Claim is a claim of slots.
type Claim struct {
	node  string
	slots slot.Set
	epoch uint64
	until time.Duration // it is forgotten then
	over  chan struct{} // of a claim under way: closed when that has ended, or has another epoch; else nil
}

// maxClaims bounds the claims that are not under way. With more, the oldest are forgotten. It is twice the members that
// serve.DefaultMaxConns allows: the last claims of each of them count, and each can have restarted.
const maxClaims = 512

// Begin begins a claim of this node.
func (c *Claims) Begin(slots *slot.Set) *Claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	cl := &Claim{node: c.node, slots: *slots, epoch: c.nextLocked(), over: make(chan struct{})}
	c.addLocked(cl)
	return cl
}

// End ends a claim of this node.
func (c *Claims) End(cl *Claim) {
	c.mu.Lock()
	defer c.mu.Unlock()
	close(cl.over)
	cl.over = nil
}

// Get returns the slots and the epoch of a claim.
func (c *Claims) Get(cl *Claim) (slots *slot.Set, epoch uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	copied := cl.slots
	return &copied, cl.epoch
}

// Note adds a claim of another node, if it has an epoch. It returns false if a later claim of some of the slots by a third one is
// known: then the claim does not count.
func (c *Claims) Note(node string, slots *slot.Set, epoch uint64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if epoch == 0 {
		return true
	}
	if c.laterLocked(node, slots, epoch) > 0 {
		return false
	}
	c.epoch = max(c.epoch, epoch)
	c.addLocked(&Claim{node: node, slots: *slots, epoch: epoch})
	return true
}

// addLocked adds a claim. Of the claims of a slot that a node has made, the last one counts.
func (c *Claims) addLocked(cl *Claim) {
	now := c.now()
	cl.until = now + c.keep
	c.all = append(slices.DeleteFunc(c.all, func(o *Claim) bool {
		if o.over != nil {
			return false
		}
		again := o.node == cl.node && o.epoch <= cl.epoch
		if again {
			o.slots.Remove(&cl.slots)
		}
		return o.until < now || again && o.slots.Len() == 0
	}), cl)
	for i := 0; i < len(c.all) && len(c.all) > maxClaims; {
		if c.all[i].over != nil {
			i++
			continue
		}
		c.all = slices.Delete(c.all, i, i+1)
	}
}

// nextLocked returns an epoch after all that are known. No two nodes have the same, but by chance.
func (c *Claims) nextLocked() uint64 {
	c.epoch = (c.epoch>>16+1)<<16 | uint64(slot.Of(c.node))
	return c.epoch
}

// laterLocked returns the last epoch of claims of some slots by other nodes than one, if that is after an epoch; else 0, and for an
// epoch of 0.
func (c *Claims) laterLocked(node string, slots *slot.Set, than uint64) (last uint64) {
	for _, cl := range c.all {
		if than > 0 && cl.epoch > max(than, last) && cl.node != node && Common(&cl.slots, slots).Len() > 0 {
			last = cl.epoch
		}
	}
	return last
}

// Lost returns the slots of a claim of this node that another one has claimed since.
func (c *Claims) Lost(cl *Claim) *slot.Set {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := new(slot.Set)
	for _, o := range c.all {
		if o.node != c.node && o.epoch > cl.epoch {
			all.Union(&o.slots)
		}
	}
	return Common(all, &cl.slots)
}

// Again makes a claim once more that a member has refused, because it knows a later epoch: of the slots that this node
// decides.
func (c *Claims) Again(cl *Claim, decides *slot.Set, later uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if cl.epoch >= later {
		return
	}
	c.epoch = max(c.epoch, later)
	cl.slots, cl.epoch = *Common(&cl.slots, decides), c.nextLocked()
	close(cl.over)
	cl.over = make(chan struct{})
}

// Await waits until claims of this node have ended that are of some of these slots, and before an epoch or, if that is 0, at any
// epoch. It returns the epoch of a later claim by another node than the one that asks, without a wait; 0 if there is none.
func (c *Claims) Await(ctx context.Context, node string, slots *slot.Set, epoch uint64) (later uint64, err error) {
	for {
		later, under := c.under(node, slots, epoch)
		if later > 0 || under == nil {
			return later, nil
		}
		select {
		case <-under:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// under returns a channel that is closed when a claim under way has changed; nil if there is none to wait for.
func (c *Claims) under(node string, slots *slot.Set, epoch uint64) (later uint64, _ chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := epoch
	if epoch == 0 {
		before = math.MaxUint64
	}
	for _, cl := range c.all {
		if cl.over != nil && cl.epoch < before && Common(&cl.slots, slots).Len() > 0 {
			return c.laterLocked(node, slots, epoch), cl.over
		}
	}
	return c.laterLocked(node, slots, epoch), nil
}

// AppendClaim appends a claim of slots. Without an epoch, it is 0.
func AppendClaim(b []byte, slots *slot.Set, epoch uint64) []byte {
	b = AppendSet(b, slots)
	if epoch > 0 {
		b = binary.LittleEndian.AppendUint64(b, epoch)
	}
	return b
}

// ReadClaim reads what AppendClaim writes.
func ReadClaim(b []byte) (slots *slot.Set, epoch uint64, ok bool) {
	if n := 8 * len(slots); len(b) == n+8 {
		b, epoch = b[:n], binary.LittleEndian.Uint64(b[n:])
	}
	slots, ok = ReadSet(b)
	return slots, epoch, ok
}

// AppendRefusal appends the answer to a claim that is late: the epoch of a later one.
func AppendRefusal(b []byte, later uint64) []byte { return binary.LittleEndian.AppendUint64(b, later) }

// ReadRefusal reads what AppendRefusal writes.
func ReadRefusal(b []byte) (later uint64, ok bool) {
	if len(b) != 8 {
		return 0, false
	}
	return binary.LittleEndian.Uint64(b), true
}
