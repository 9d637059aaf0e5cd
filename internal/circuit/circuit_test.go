package circuit_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/weir-go/weir/internal/circuit"
)

var errBroken = errors.New("broken")

// Three failures in a row open a Breaker. One probe at a time is due, each later
// than the one before, until an answer closes it.
func TestBreaker(t *testing.T) {
	var b circuit.Breaker
	now := time.Unix(0, 0)
	for _, err := range []error{errBroken, errBroken, nil, errBroken, errBroken} {
		if b.Note(now, err); b.Open() {
			t.Fatal("open after two failures")
		}
	}
	if !b.Note(now, errBroken) || !b.Open() {
		t.Fatal("not open after three failures, or nobody is to be told")
	}
	if due, _ := b.Probe(now); due {
		t.Error("a probe is due at once")
	}
	for i := range 10 {
		wait := b.RetryAfter(now)
		if least := min(100*time.Millisecond<<i, 5*time.Second) / 2; wait < least || wait >= 2*least {
			t.Errorf("probe %d after %v: want from %v to twice that", i, wait, least)
		}
		now = now.Add(wait)
		if due, first := b.Probe(now); !due || first != (i == 0) {
			t.Errorf("probe %d: due %v, the first %v", i, due, first)
		}
		if due, _ := b.Probe(now.Add(time.Hour)); due {
			t.Error("two probes at a time")
		}
		b.Note(now, errBroken)
		b.Probed(now)
	}
	if b.Note(now, nil); b.Open() {
		t.Error("open after an answer")
	}
	if due, _ := b.Probe(now.Add(time.Hour)); due {
		t.Error("a probe of a server that answers")
	}
}

// Tell reports the state until it is known, and Note has it called once.
func TestTell(t *testing.T) {
	var b circuit.Breaker
	now := time.Unix(0, 0)
	trip := func() (tell bool) {
		for range 3 {
			tell = b.Note(now, errBroken)
		}
		return tell
	}
	if !trip() {
		t.Fatal("nobody is to be told")
	}
	var told []string
	b.Tell(func(err error) {
		told = append(told, fmt.Sprint(err))
		if err != nil && (b.Note(now, nil) || trip() || b.Note(now, nil)) {
			t.Error("told twice at once")
		}
	})
	if got := fmt.Sprint(told); got != "[broken <nil>]" {
		t.Errorf("told %s", got)
	}
	if !trip() {
		t.Error("the next absence is not told")
	}
}
