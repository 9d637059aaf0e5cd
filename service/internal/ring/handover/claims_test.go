package handover

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weir-go/weir/internal/slot"
)

func set(slots ...uint16) *slot.Set {
	s := new(slot.Set)
	for _, at := range slots {
		s.Add(at)
	}
	return s
}

// claimsOf returns the Claims of a node, and the instant that is now.
func claimsOf(node string) (*Claims, *time.Duration) {
	now := new(time.Duration)
	return NewClaims(node, time.Minute, func() time.Duration { return *now }), now
}

// Of two claims of a slot, the later one counts.
func TestLaterClaim(t *testing.T) {
	a, now := claimsOf("b")
	b, _ := claimsOf("a")
	first, second := a.Begin(set(1, 2)), b.Begin(set(2, 3))
	if first.epoch == second.epoch {
		t.Fatal("two nodes have the same epoch")
	}
	if first.epoch < second.epoch {
		t.Fatal("want names of which b is refused")
	}
	if a.Note("a", set(2, 3), second.epoch) || !a.Note("a", set(4), second.epoch) {
		t.Fatal("want a refusal for the slot with a later claim alone")
	}
	refused, err := a.Await(t.Context(), "a", set(2, 3), second.epoch)
	if refused != first.epoch || err != nil {
		t.Fatalf("refused with %d, %v: want %d", refused, err, first.epoch)
	}
	_, was := b.under("b", set(2), first.epoch)
	_, other := b.under("b", set(4), first.epoch)
	_, late := b.under("b", set(2), second.epoch)
	if was == nil || other != nil || late != nil {
		t.Error("want the earlier claim of the slot under way, and no other")
	}
	b.Again(second, set(2), refused)
	select {
	case <-was:
	default:
		t.Error("what waits for the claim does not learn of its epoch")
	}
	slots, epoch := b.Get(second)
	if epoch <= refused || *slots != *set(2) || !a.Note("a", slots, epoch) {
		t.Errorf("%d of %v, want a later epoch for the slot that is still owned", epoch, slots)
	}
	if *a.Lost(first) != *set(2) {
		t.Errorf("lost %v", a.Lost(first))
	}
	b.End(second)
	if later, err := b.Await(t.Context(), "b", set(2), epoch+1); later != 0 || err != nil {
		t.Errorf("%d, %v: a claim that has ended is under way", later, err)
	}
	*now = time.Hour
	a.Note("a", set(9), 1)
	if later, _ := a.under("a", set(2), 1); later != first.epoch {
		t.Error("want the claim under way alone: others are forgotten")
	}
}

// A claim is not refused because of a later one of the same node.
func TestClaimedAgain(t *testing.T) {
	c, _ := claimsOf("a")
	if !c.Note("b", set(1, 2), 9) || !c.Note("b", set(2), 5) || c.Note("c", set(2), 5) {
		t.Error("want a refusal because of the claim of another node alone")
	}
}

// A claim counts for as long as it is kept, however often a member claims, and however many members do.
func TestManyClaims(t *testing.T) {
	for name, node := range map[string]func(i int) string{
		"one member again and again": func(int) string { return "c" },
		"many members":               func(i int) string { return fmt.Sprint(i) },
	} {
		c, _ := claimsOf("a")
		c.Note("b", set(1), 9)
		for i := range maxClaims - 1 {
			c.Note(node(i), set(2, uint16(3+i%2)), uint64(10+i/4))
		}
		if c.Note("d", set(1), 5) {
			t.Errorf("%s: the later claim of the slot is forgotten", name)
		}
		if c.Note("d", set(2), 5) || c.Note("d", set(3), 5) || c.Note("d", set(4), 5) {
			t.Errorf("%s: want a refusal for each slot that is claimed", name)
		}
	}
	c, now := claimsOf("a")
	for i := range 2 * maxClaims {
		c.Note(fmt.Sprint(i), set(2), uint64(1+i))
	}
	if n := len(c.all); n != maxClaims {
		t.Errorf("%d claims, want the last %d", n, maxClaims)
	}
	*now = 2 * time.Minute
	if c.Note("b", set(9), 1); len(c.all) != 1 {
		t.Errorf("%d claims, want the last one: others are over", len(c.all))
	}
}

// An answer to a claim waits for earlier ones of this node, and not for longer than its caller.
func TestAwaitClaims(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, _ := claimsOf("a")
		own := c.Begin(set(1))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for _, epoch := range []uint64{0, own.epoch + 1} { // 0: of a version without epochs
			if _, err := c.Await(ctx, "b", set(1), epoch); err != context.DeadlineExceeded {
				t.Errorf("epoch %d: %v: want to wait", epoch, err)
			}
		}
		time.AfterFunc(time.Second, func() { c.End(own) })
		began := time.Now()
		if later, err := c.Await(t.Context(), "b", set(1), own.epoch+1); later != 0 || err != nil || time.Since(began) != time.Second {
			t.Errorf("%d, %v after %v", later, err, time.Since(began))
		}
	})
}

// Versions before epochs read and write claims without one.
func TestClaimOnTheWire(t *testing.T) {
	if old := AppendClaim(nil, set(1, 700), 0); !bytes.Equal(old, AppendSet(nil, set(1, 700))) {
		t.Error("without an epoch, want the set alone")
	}
	for _, epoch := range []uint64{0, 1, 1 << 63} {
		b := AppendClaim(nil, set(1, 700), epoch)
		if slots, got, ok := ReadClaim(b); !ok || got != epoch || *slots != *set(1, 700) {
			t.Errorf("%v, %d, %v: want %d", slots, got, ok, epoch)
		}
		if _, _, ok := ReadClaim(b[1:]); ok {
			t.Error("a claim that is cut off is read")
		}
	}
	if later, ok := ReadRefusal(AppendRefusal(nil, 77)); !ok || later != 77 {
		t.Errorf("%d, %v", later, ok)
	}
	if _, ok := ReadRefusal(AppendSet(nil, set(1))); ok {
		t.Error("a set is read as a refusal")
	}
}
